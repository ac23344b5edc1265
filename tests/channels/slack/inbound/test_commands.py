"""The slash command: its question is posted and answered in the channel, or its author reads why it is not."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from agent_core.errors import Unavailable
from agent_core.testing import FakeClock
from channels.slack.outbox import QUESTION, mark
from channels.slack.receive import ABSENT, MAYBE, NOT_POSTED, UNSURE
from channels.slack.settings import Slack
from channels.slack.testing import InjectedFault
from tests.channels.slack.answers import ticking
from tests.channels.slack.rig import Rig, rigged


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    async with rigged(make_core) as made:
        yield made


async def test_a_command_posts_its_question_and_the_answer(rig: Rig):
    """The question of a slash command is posted with its author, pings no one, and is answered in its thread."""
    await rig.team.command("UANN", "CGENERAL", "/parley", "what do <!channel> think of <@UBEN|ben>?")
    posted = rig.stand_in.called("chat.postMessage")[0]
    assert posted.arguments["text"].startswith("<@UANN>: what do ")
    assert "<!channel>" not in posted.arguments["text"]
    assert "<@UBEN" not in posted.arguments["text"]
    assert posted.answer is not None
    root = posted.answer["ts"]
    assert await rig.said("CGENERAL", root) == ["what do @channel think of @Ben Okoro?"]
    assert rig.shows.threads[0].title == "what do @channel think of @Ben Okoro?"
    await rig.team.says("UBEN", "CGENERAL", "I am fine", root)
    assert len(await rig.said("CGENERAL", root)) == 2


async def test_a_command_that_cannot_be_answered_says_so_to_its_author(rig: Rig):
    """Where the app is not in the channel the author alone reads what to do."""
    absent = await rig.team.command("UANN", "CQUIET", "/parley", "hello?")
    assert absent.deliveries[0].answer["text"] == ABSENT
    assert (await rig.core.sessions()).items == ()


@pytest.mark.parametrize("text", ["help", " HELP ", "?", "  "])
async def test_help_is_for_its_author_alone(rig: Rig, text: str):
    """`/parley help` is no question: nothing is posted, and the asker reads who answers here and how to ask."""
    asked = await rig.team.command("UANN", "CGENERAL", "/parley", text)
    answer = asked.deliveries[0].answer
    assert answer["response_type"] == "ephemeral"
    assert answer["text"].startswith("In <#CGENERAL> the agent `assistant` answers.")
    assert "`/parley your question`" in answer["text"]
    assert "need no mention" in answer["text"]
    assert [each.to for each in rig.team.workspace.channels["CGENERAL"].ephemeral] == ["UANN"]
    assert rig.stand_in.called("chat.postMessage") == []
    assert (await rig.core.sessions()).items == ()


async def test_help_says_where_no_agent_answers(make_core):
    """Where no agent answers the help says so, and what its operator can do."""
    async with rigged(make_core, slack=Slack()) as rig:
        asked = await rig.team.command("UANN", "CGENERAL", "/parley", "help")
        assert asked.deliveries[0].answer["text"].startswith("No agent answers here.")
        asked = await rig.team.command("UANN", "CGENERAL", "/parley", "help me with this")
        assert asked.deliveries[0].answer["text"].startswith("No agent answers here.")


@pytest.mark.parametrize(
    ("kind", "on", "answers"),
    [
        ("answer_lost", "chat.postMessage", 1),
        ("server_error", "chat.postMessage", 0),
        ("request_lost", "chat.postMessage", 0),
    ],
)
async def test_a_command_that_may_or_may_not_have_been_posted(make_core, kind, on, answers):
    """Its post is looked for: if it is there it is answered, else the asker alone reads that it is not."""
    clock = FakeClock()
    async with rigged(make_core, clock=clock) as rig:
        rig.stand_in.fault(InjectedFault(kind, on=on))
        dispatched = await rig.team.command("UANN", "CGENERAL", "/parley", "how many?")
        assert dispatched.deliveries[0].answer["text"] == UNSURE
        notices = partial(rig.stand_in.called, "chat.postEphemeral")
        async with ticking(clock):
            await asyncio.wait(rig.receiver._beside)
        assert len(rig.stand_in.called("chat.postMessage")) == 1
        assert [call.arguments["text"] for call in notices()] == [NOT_POSTED] * (1 - answers)
        assert len(rig.shows.threads) == answers
        for thread in rig.shows.threads:
            assert await rig.said("CGENERAL", thread.root) == ["how many?"]


async def test_a_command_that_cannot_be_looked_for_says_so_to_its_author(make_core):
    """Where the channel may not be read the asker reads what to do in either case."""
    clock = FakeClock()
    async with rigged(make_core, clock=clock) as rig:
        rig.stand_in.fault(InjectedFault("answer_lost", on="chat.postMessage"))
        rig.stand_in.fault(InjectedFault("refused", on="conversations.history", code="missing_scope", times=None))
        await rig.team.command("UANN", "CGENERAL", "/parley", "how many?")
        async with ticking(clock):
            await asyncio.wait(rig.receiver._beside)
        assert rig.stand_in.called("chat.postEphemeral")[0].arguments["text"] == MAYBE


async def test_a_command_that_the_database_does_not_take_is_taken_later(make_core, monkeypatch):
    """A question that was posted while the database was unavailable is answered later."""
    clock = FakeClock()
    async with rigged(make_core, clock=clock) as rig:
        opened, away = rig.core.open_session, [Unavailable("The database is away.")]

        async def open_session(**given):
            if away:
                raise away.pop()
            return await opened(**given)

        monkeypatch.setattr(rig.core, "open_session", open_session)
        dispatched = await rig.team.command("UANN", "CGENERAL", "/parley", "how many?")
        assert dispatched.deliveries[0].answer["text"] == UNSURE
        async with ticking(clock):
            await asyncio.wait(rig.receiver._beside)
        assert len(rig.shows.threads) == 1
        assert len(rig.stand_in.called("chat.postMessage")) == 1


async def test_a_question_left_by_a_killed_process_is_context_of_the_next_mention(rig: Rig):
    """A command's post that was never received is a question, not an answer, in the context of the next mention."""
    api = (await rig.workspaces.space("T0001")).api
    root = await api.post("CGENERAL", "<@UANN>: how many?", metadata=mark(f"{QUESTION}1"))
    await api.post("CGENERAL", "an answer of ours", thread_ts=root)
    await rig.team.mentions("UANN", "CGENERAL", "well?", root)
    await rig.ended("CGENERAL", root)
    (notices,) = [text for text in rig.seen() if "how many?" in text]
    assert "Ann" in notices
    assert not any("an answer of ours" in text for text in rig.seen())

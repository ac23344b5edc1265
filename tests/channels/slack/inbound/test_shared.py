"""Channels that are shared with another organisation: `external` is judged by who reads there, not only by who asks."""

from collections.abc import AsyncIterator

import pytest

from channels.slack.context import SHARED, UNSURE_PLACE
from channels.slack.people import MAX_CHANNEL_AGE
from channels.slack.settings import Slack
from channels.slack.testing import InjectedFault
from tests.channels.slack.rig import Rig, rigged


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    async with rigged(make_core) as made:
        yield made


async def test_a_colleague_is_not_answered_where_other_organisations_read(rig: Rig):
    """In a shared channel a colleague's mention gets one notice for them alone, and no answer, nor do replies."""
    root = (await rig.team.mentions("UANN", "CSHARED", "what do we earn?")).ts
    await rig.team.mentions("UANN", "CSHARED", "well?", root)
    await rig.team.says("UBEN", "CSHARED", "I ask too", root)
    await rig.stand_in.until(lambda: rig.stand_in.called("chat.postEphemeral"))
    notices = rig.stand_in.called("chat.postEphemeral")
    assert [(each.arguments["user"], each.arguments["text"]) for each in notices] == [("UANN", SHARED)]
    assert (await rig.core.sessions()).items == ()
    assert rig.model.calls == 0


async def test_an_agent_may_answer_in_shared_channels(make_core):
    """With `external: answer` colleagues and people of the other organisation are answered there."""
    async with rigged(make_core, slack=Slack(default=True, external="answer")) as rig:
        roots = [(await rig.team.mentions(user, "CSHARED", "hello")).ts for user in ("UANN", "USAM")]
        assert [await rig.said("CSHARED", root) for root in roots] == [["hello"], ["hello"]]
        posted = await rig.team.command("UANN", "CSHARED", "/parley", "and me?")
        assert posted.acked
        assert rig.stand_in.called("conversations.info") == []
        assert len((await rig.core.sessions()).items) == 3


async def test_commands_and_shortcuts_in_a_shared_channel_are_refused(rig: Rig):
    """Neither says where it is from: Slack is asked once, and nothing is posted."""
    message = await rig.team.says("UBEN", "CSHARED", "our figures")
    for _ in range(2):
        asked = await rig.team.command("UANN", "CSHARED", "/parley", "what do we earn?")
        assert asked.deliveries[0].answer["text"] == SHARED
    await rig.team.shortcut("UANN", "ask_message", "CSHARED", message.ts)
    assert SHARED in [each.text for each in rig.team.top("CSHARED", user="UANN")]
    assert len(rig.stand_in.called("conversations.info")) == 1
    assert rig.stand_in.called("chat.postMessage") == []
    assert (await rig.core.sessions()).items == ()


async def test_a_channel_that_becomes_shared_is_refused_soon(rig: Rig):
    """What is known of a channel is asked again after a while, and at once when an event says otherwise."""
    await rig.team.command("UANN", "CGENERAL", "/parley", "one?")
    rig.team.workspace.channels["CGENERAL"].shared = True
    rig.clock.advance(MAX_CHANNEL_AGE / 1000)
    asked = await rig.team.command("UANN", "CGENERAL", "/parley", "two?")
    assert asked.deliveries[0].answer["text"] == SHARED
    await rig.team.command("UANN", "CDATA", "/parley", "one?")
    rig.team.workspace.channels["CDATA"].shared = True
    await rig.team.mentions("UANN", "CDATA", "two?")
    asked = await rig.team.command("UANN", "CDATA", "/parley", "three?")
    assert asked.deliveries[0].answer["text"] == SHARED


async def test_where_slack_does_not_say_who_reads_a_command_is_refused(rig: Rig):
    """Without the scope the command's author reads to mention the app, which is answered; else to try again."""
    held = rig.team.workspace.scopes
    rig.team.workspace.scopes = held - {"channels:read", "groups:read", "mpim:read", "im:read"}
    asked = await rig.team.command("UANN", "CGENERAL", "/parley", "hello?")
    assert asked.deliveries[0].answer["text"] == UNSURE_PLACE
    root = (await rig.team.mentions("UANN", "CGENERAL", "hello")).ts
    assert await rig.said("CGENERAL", root) == ["hello"]
    rig.team.workspace.scopes = held
    rig.stand_in.fault(InjectedFault("server_error", on="conversations.info"))
    asked = await rig.team.command("UANN", "CDATA", "/parley", "hello?")
    assert "Try again" in asked.deliveries[0].answer["text"]

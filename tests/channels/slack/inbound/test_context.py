"""The context of a thread: what others said before the agent was called, and between two calls."""

from collections.abc import AsyncIterator

import pytest

from channels.slack.context import MAX_MESSAGES, ONE, Watermark
from channels.slack.settings import Slack
from channels.slack.testing import InjectedFault
from tests.channels.slack.rig import Rig, rigged


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    """An agent that has to be called each time."""
    async with rigged(make_core, slack=Slack(default=True, follow_up=False)) as made:
        yield made


async def called(rig: Rig, root: str, text: str) -> str:
    """Call the agent into the thread *root*, and return what the model was given."""
    await rig.team.mentions("UANN", "CGENERAL", text, root)
    await rig.ended("CGENERAL", root)
    return "\n".join(rig.seen())


async def test_an_agent_that_is_called_into_a_thread_reads_what_was_said(rig: Rig):
    """The agent sees the root and all replies in order, bots' too, as quotes with their authors' names."""
    root = (await rig.team.says("UBEN", "CGENERAL", "Sales are down in <#CDATA|data>")).ts
    await rig.team.says("UBUILD", "CGENERAL", "Report 5 is ready", root)
    await rig.team.says("UCLEO", "CGENERAL", "<@UBEN> by <10%>", root)
    given = await called(rig, root, "why?")
    lines = [line for line in given.splitlines() if line.startswith("| ")]
    assert lines == [
        "| Ben Okoro: Sales are down in #data",
        "| Build bot: Report 5 is ready",
        "| Cleo Marsh: @Ben Okoro by <10%>",
    ]
    assert given.endswith("why?")


async def test_later_calls_bring_what_is_new(rig: Rig):
    """Each later call brings only what came since, after all that was there; the agent's own answers are not quoted."""
    root = (await rig.team.says("UBEN", "CGENERAL", "one")).ts
    before = await called(rig, root, "first?")
    space = await rig.workspaces.space("T0001")
    await space.api.post("CGENERAL", "Done.", thread_ts=root)
    await rig.team.says("UBEN", "CGENERAL", "two", root)
    after = await called(rig, root, "second?")
    assert after.startswith(before)
    assert (after.count("| Ben Okoro: one"), after.count("| Ben Okoro: two")) == (1, 1)
    assert "| assistant" not in after
    assert "Parley: Done" not in after
    last = await called(rig, root, "third?")
    assert last.count("| ") == after.count("| ")


async def test_an_edited_message_is_quoted_again(rig: Rig):
    """A message that was quoted and then edited comes again with the next call, once, after all that was there."""
    dispatched = await rig.team.says("UBEN", "CGENERAL", "Sales are down")
    root = dispatched.ts
    reply = await rig.team.says("UCLEO", "CGENERAL", "by 10%", root)
    before = await called(rig, root, "why?")
    rig.stand_in.fault(InjectedFault("duplicate", on="message"))
    await rig.team.edits("UCLEO", "CGENERAL", reply.ts, "by 12%, sorry")
    await rig.team.unfurls("CGENERAL", root)
    later = await rig.team.says("UCLEO", "CGENERAL", "tomorw", root)
    await rig.team.edits("UCLEO", "CGENERAL", later.ts, "tomorrow")
    after = await called(rig, root, "and now?")
    assert after.startswith(before)
    quoted = [line for line in after[len(before) :].splitlines() if line.startswith("| ")]
    assert quoted == ["| Cleo Marsh: by 12%, sorry", "| Cleo Marsh: tomorrow"]
    assert after.index("was edited") < after.index("by 12%")
    assert (await called(rig, root, "well?")).count("12%") == 1


async def test_what_slack_does_not_answer_in_time_comes_with_the_next_call(rig: Rig):
    """The message is received without its context; the next call adds what was missed and repeats nothing."""
    root = (await rig.team.says("UBEN", "CGENERAL", "one")).ts
    rig.stand_in.fault(InjectedFault("server_error", on="conversations.replies"))
    given = await called(rig, root, "first?")
    assert "| " not in given
    given = await called(rig, root, "second?")
    assert given.count("| Ben Okoro: one") == 1
    assert given.count("first?") == 1


async def test_a_message_does_not_wait_long_for_its_context(make_core):
    """A message is received even while calls to Slack must wait; its context comes with the next message after that."""
    async with rigged(make_core, slack=Slack(default=True, external="answer"), timeout=0.2) as rig:
        root = (await rig.team.says("UBEN", "CGENERAL", "one")).ts
        pacer = (await rig.workspaces.space("T0001")).pacer
        for method in ("conversations.replies", "users.info"):
            pacer.penalty(method, "T0001", 60)
        given = await called(rig, root, "first?")
        assert given.endswith("first?")
        assert "| " not in given
        rig.clock.advance(61)
        rig.receiver._mentions._timeout = 30.0
        assert (await called(rig, root, "second?")).count("| Ben Okoro: one") == 1


async def test_a_missing_scope_costs_the_context_and_not_the_answer(rig: Rig):
    """Without the right to read a thread the question is answered all the same."""
    root = (await rig.team.says("UBEN", "CGENERAL", "one")).ts
    rig.stand_in.fault(InjectedFault("refused", on="conversations.replies", code="missing_scope", times=None))
    assert (await called(rig, root, "why?")).endswith("why?")


async def test_a_long_thread_is_quoted_by_its_root_and_its_end(rig: Rig):
    """Of many messages the newest are quoted, of long ones the beginning, with the number of those left out."""
    root = (await rig.team.says("UBEN", "CGENERAL", "the beginning")).ts
    place = rig.team.workspace.channels["CGENERAL"]
    before = rig.stand_in.app
    rig.stand_in.deliver_to(None)
    for n in range(MAX_MESSAGES + 30):
        await rig.team.says("UBEN", "CGENERAL", f"reply {n}" if n % 10 else "x" * (ONE + 1), root)
    assert len(place.messages) == MAX_MESSAGES + 31
    rig.stand_in.app = before
    given = await called(rig, root, "well?")
    lines = [line for line in given.splitlines() if line.startswith("| Ben Okoro")]
    assert lines[0] == "| Ben Okoro: the beginning"
    assert lines[-1] == f"| Ben Okoro: reply {MAX_MESSAGES + 29}"
    left_out = MAX_MESSAGES + 31 - len(lines)
    assert f"{left_out} more messages of this thread are left out here." in given
    assert max(map(len, lines)) < ONE + 30


async def test_direct_messages_are_not_read_again(make_core):
    """In a direct message everything is said to the agent: Slack is asked for nothing."""
    async with rigged(make_core) as rig:
        root = (await rig.team.says("UANN", "UANN", "hello")).ts
        await rig.team.says("UANN", "UANN", "more", root)
        assert rig.stand_in.called("conversations.replies") == []


def test_a_watermark_never_goes_back():
    """Late messages never move the mark back; messages received out of order are kept until it reaches them."""
    mark = Watermark().moved("10.000200")
    assert mark.moved("9.000900") == mark.passed("10.000100") == mark
    ahead = mark.passed("11.000000").passed("13.000000")
    assert ahead.newest == (13, 0)
    assert ahead.moved("12.000000") == Watermark("12.000000", ("13.000000",))
    assert Watermark.of(ahead.metadata) == ahead

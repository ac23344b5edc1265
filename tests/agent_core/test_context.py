"""Context: what the model gets beside a message, as quotation, in an order that keeps what it has read."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.agent.frames import CLOSING, OPENING, context_facts
from agent_core.channels import Context, Inbound
from agent_core.errors import IdempotencyMismatch, NotFound, SessionClosed
from agent_core.events import ContextAdded, RunStarted, StepStarted, ToolStarted
from agent_core.messages import Text
from agent_core.testing import call, pause, say
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, is_a, set_stage, texts
from tests.agent_core.test_core import transactions
from tests.agent_core.test_corrections import WaitingTool, checked, said
from tests.conftest import MakeCore

THREAD = (Context(text="It is down.", author="Bob"), Context(text="Since when?\nToday?", author="Eve\n| System"))
SHOWN = f"[thread] {OPENING}\n| Bob: It is down.\n| Eve | System: Since when?\n|   Today?\n{CLOSING}"


async def ask(stage: Stage, text: str, **options) -> str:
    return (await stage.core.receive(stage.session, Inbound(parts=(Text(text),), actor=ANN, **options))).run


pieces = [*"|[]: a\n\r\v\f\x1c\x85\u2028", CLOSING, OPENING]
lines = st.lists(st.sampled_from(pieces), max_size=12).map("".join)


@settings(deadline=None)
@given(st.lists(st.builds(Context, text=lines, author=st.none() | lines), min_size=1, max_size=4))
def test_nothing_quoted_ends_the_quotation(said):
    """Whatever people write and are called, each of their lines is marked, and only the last line closes the frame."""
    (fact,) = context_facts(said)
    first, *quoted, last = fact.text.splitlines()
    assert (first, last) == (OPENING, CLOSING)
    assert [line for line in quoted if not line.startswith("| ")] == []
    assert len(quoted) >= len(said)
    words = {word for each in said for line in each.text.splitlines() for word in line.split()}
    assert [word for word in words if word not in fact.text] == []


async def test_context_and_message_are_one_append(make_core: MakeCore):
    """What was said before comes with the message, in front of it, and the first step takes both."""
    never = asyncio.Event()
    stage = await set_stage(make_core, [(say("Since"), pause(never))])
    run = await ask(stage, "Help", context=THREAD)
    await stage.asked(1)
    kinds = ["context.added", "message.received", "run.queued", "run.started", "step.started"]
    assert await stage.types(run) == kinds
    assert said(stage, 1) == [SHOWN, "Help"]
    assert (await stage.said(StepStarted))[0].takes == (3, 4)
    found = await stage.core.run(run)
    assert found.started_by == ANN
    (message,) = [m for m in (await stage.core.messages(stage.session)).items if m.role == "user"]
    assert message.seq == 4


@pytest.mark.sqlite
async def test_context_costs_no_second_commit(make_core: MakeCore):
    """A message with context and metadata is committed at once, up to its first step."""
    never = asyncio.Event()
    stage = await set_stage(make_core, [(say("Since"), pause(never))])
    seen = transactions(stage.core)
    await ask(stage, "Help", context=THREAD, metadata={"seen": "1.5"})
    assert (seen["BEGIN IMMEDIATE"], seen["COMMIT"]) == (1, 1)


async def test_each_call_adds_what_is_new_after_what_was_read(make_core: MakeCore):
    """Over several calls with context in between each request begins with the one before, byte by byte."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),))
    for n in range(3):
        await stage.done(await ask(stage, f"call {n}", context=(Context(text=f"news {n}", author="Bob"),)))
    prefixes = stage.provider.prefixes
    assert [(before, after) for before, after in pairwise(prefixes) if not after.startswith(before)] == []
    assert [text.count("news") or text for text in said(stage, 3)] == [1, "call 0", 1, "call 1", 1, "call 2"]
    await checked(stage)


async def test_added_context_waits_for_the_next_run(make_core: MakeCore):
    """Context that comes alone starts nothing and disturbs no run; the next one tells of it before its message."""
    gate = WaitingTool()
    stage = await set_stage(make_core, [(call("wait"),), (say("One."),), (say("Two."),)], tools=[gate.tool])
    early = await stage.core.add_context(stage.session, THREAD)
    run = await ask(stage, "one")
    await stage.until(is_a(ToolStarted))
    late = await stage.core.add_context(stage.session, [Context(text="Bob left.", source="note")])
    gate.opened.set()
    await stage.done(run)
    assert said(stage, 2) == [SHOWN, "one"]
    await stage.play("two")
    assert said(stage, 3) == [SHOWN, "one", "[note] Bob left.", "two"]
    assert [body.notes for body in await stage.said(RunStarted)] == [(early,), (late,)]
    await checked(stage)


async def test_context_is_added_once(make_core: MakeCore):
    """The same key adds once; a key of something else is refused, and so are sessions that are not there or closed."""
    stage = await set_stage(make_core, [])
    seq = await stage.core.add_context(stage.session, THREAD, key="c1")
    assert await stage.core.add_context(stage.session, THREAD, key="c1") == seq
    assert len(await stage.said(ContextAdded)) == 1
    with pytest.raises(IdempotencyMismatch):
        await stage.core.retract(stage.session, "k", by=ANN, key="c1")
    with pytest.raises(NotFound):
        await stage.core.add_context("ses_unknown", THREAD)
    await stage.core.close_session(stage.session)
    with pytest.raises(SessionClosed):
        await stage.core.add_context(stage.session, THREAD)


async def test_context_of_a_stopped_call_is_not_lost(make_core: MakeCore):
    """When a queued call is stopped, the next run still tells what came with it, and not what was asked."""
    gate = WaitingTool()
    stage = await set_stage(make_core, [(call("wait"),), (say("One."),), (say("Three."),)], tools=[gate.tool])
    await ask(stage, "one")
    await stage.until(is_a(ToolStarted))
    second = await ask(stage, "two", context=THREAD)
    await stage.core.cancel(second, by=ANN)
    third = await ask(stage, "three")
    gate.opened.set()
    await stage.done(third)
    assert said(stage, 3) == ["one", SHOWN, "three"]
    await checked(stage)


async def test_context_joins_a_run_with_its_message(make_core: MakeCore):
    """A steered message brings its context into the step that takes it."""
    gate = WaitingTool()
    stage = await set_stage(make_core, [(call("wait"),), (say("Both."),)], tools=[gate.tool])
    await ask(stage, "one")
    await stage.until(is_a(ToolStarted))
    run = await ask(stage, "two", overlap="steer", context=THREAD)
    gate.opened.set()
    await stage.done(run)
    assert texts(stage.provider.requests[1])[-2:] == [("user", SHOWN), ("user", "two")]
    check_log(await stage.log())


async def test_a_fork_keeps_pending_context(make_core: MakeCore):
    """A copy of a session tells in its next run what the original would have."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),))
    await stage.play("one")
    await stage.core.add_context(stage.session, THREAD)
    copy = Stage(stage.core, stage.provider, (await stage.core.fork_session(stage.session)).id)
    await copy.play("two")
    assert said(stage, 2) == ["one", SHOWN, "two"]


async def test_a_session_remembers_for_its_channel(make_core: MakeCore):
    """Metadata goes in with the message: laid over what is there, None takes away, a repeated key changes nothing."""
    stage = await set_stage(make_core, lambda _: (say("Yes."),))
    opened = await stage.core.open_session(agent="assistant", actor=ANN, metadata={"team": "T1"}, address="x:1")
    stage = Stage(stage.core, stage.provider, opened.id)
    await ask(stage, "one", key="k1", metadata={"seen": "1.5"})
    assert (await stage.core.session(opened.id)).metadata == {"team": "T1", "seen": "1.5"}
    await stage.done(await ask(stage, "two", metadata={"seen": "2.5", "team": None}))
    await ask(stage, "one", key="k1", metadata={"seen": "1.5"})
    assert (await stage.core.session(opened.id)).metadata == {"seen": "2.5"}


async def test_a_session_is_found_at_its_address(make_core: MakeCore):
    """A session is found by its address; an unknown address has none."""
    stage = await set_stage(make_core, [])
    opened = await stage.core.open_session(agent="assistant", actor=ANN, address="x:T1:C1:1.5")
    assert await stage.core.find_session("x:T1:C1:1.5") == opened
    assert await stage.core.find_session("x:T1:C1:1.6") is None

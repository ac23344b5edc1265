"""Receiving a message: one transaction from the message to its first step, with history, instructions and controls."""

import asyncio
from collections import Counter
from functools import partial

import pytest
from sqlalchemy import event

from agent_core.agents import Controls
from agent_core.core import Core
from agent_core.engine.local import LocalEngine
from agent_core.errors import InvalidInput, NotFound, SessionClosed
from agent_core.events import MessageReceived, RunQueued, SnapshotFrozen, StepStarted
from agent_core.messages import Message, Text, text_of
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import (
    ANN,
    BOB,
    SAFETY,
    engine_of,
    idle,
    local,
    log_of,
    only,
    open_session,
    say_and_wait,
    send,
    types,
)
from tests.conftest import MakeCore
from tests.polling import until

HISTORY = (
    Message("user", (Text("What is 1 + 1?"),)),
    Message("assistant", (Text("2"),)),
    Message("user", (Text("And 2 + 2?"),)),
    Message("assistant", (Text("4"),)),
)


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


def echo(request: Request) -> Answer:
    """Answer with the instructions and the newest question."""
    asked = [text_of(entry.message.parts) for entry in request.messages if entry.message.role == "user"]
    return (say(f"{request.snapshot.instructions} {asked[-1]}"),)


def transactions(core: Core) -> Counter[str]:
    """Count what a core's database does from now on: `BEGIN IMMEDIATE` per write, `BEGIN` per read."""
    seen: Counter[str] = Counter()

    def note(_connection, _cursor, statement, *_rest) -> None:
        seen[statement] += 1

    event.listen(engine_of(core), "before_cursor_execute", note)
    return seen


async def answers(core: Core, session: str) -> list[str]:
    return [text_of(m.parts) for m in (await core.messages(session)).items if m.role == "assistant"]


@pytest.mark.sqlite
async def test_a_message_is_one_transaction_up_to_its_first_step(make_core: MakeCore):
    """A message to an idle session is received, queued, started and asked in one commit, without a read."""
    hold = asyncio.Event()
    clock = FakeClock()
    core = await make_core(ScriptedProvider(lambda _: [say("Hi."), pause(hold)]), clock=clock)
    await clock.slept(2)
    session = await open_session(core)
    seen = transactions(core)
    receipt = await send(core, session, "Hello")
    assert (seen["BEGIN IMMEDIATE"], seen["COMMIT"], seen["BEGIN"]) == (1, 1, 0)
    facts = (await log_of(core, session))[2:]
    assert types(facts) == ["message.received", "run.queued", "run.started", "step.started"]
    assert {fact.run for fact in facts} == {receipt.run}
    assert only(facts, StepStarted)[0].takes == (3,)
    assert (receipt.session, receipt.seq, receipt.repeated) == (session, 3, False)
    assert receipt.message == only(facts, MessageReceived)[0].message
    hold.set()
    await idle(core, session)
    await until(lambda: not local(core).pool.driven)
    seen.clear()
    hold.clear()
    await send(core, session, "And again")
    assert (seen["BEGIN IMMEDIATE"], seen["COMMIT"], seen["BEGIN"]) == (1, 1, 0)
    assert types(await log_of(core, session))[-1] == "step.started"


async def test_the_run_of_a_message_streams_its_events(make_core: MakeCore):
    """A run's object says who asked, what came of it, and when."""
    clock = FakeClock()
    provider = ScriptedProvider([[call("look", what="x")], [say("Done.")]])
    core = await make_core(provider, tools=(look,), clock=clock)
    session = await open_session(core)
    before = clock.now()
    receipt = await say_and_wait(core, session, "Look", actor=BOB)
    run = await core.run(receipt.run)
    agent = (await core.agents.list()).items[0]
    assert (run.session, run.agent, run.agent_version, run.parent_run) == (session, agent.id, 1, None)
    assert (run.root_run, run.status, run.stop_reason, run.error) == (run.id, "completed", "end_turn", None)
    assert (run.text, run.steps, run.pending, run.started_by) == ("Done.", 2, (), BOB)
    assert [run.created_at, run.started_at, run.last_activity_at, run.completed_at] == [before] * 4
    assert await core.tree(run.id) == (run,)
    assert (await core.runs(session=session)).items == (run,)


async def test_imported_messages_come_before_the_question(make_core: MakeCore):
    """Messages of a history enter the window in their order, named by the step that takes them, then the question."""
    provider = ScriptedProvider(echo)
    core = await make_core(provider)
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "And 3 + 3?", history=HISTORY)
    facts = await log_of(core, session)
    check_log(facts)
    assert types(facts)[2:9] == [*["message.completed"] * 4, "message.received", "run.queued", "run.started"]
    assert receipt.seq == 7
    assert only(facts, StepStarted)[0].takes == (3, 4, 5, 6, 7)
    asked = provider.requests[0].messages
    assert [entry.message for entry in asked] == [*HISTORY, Message("user", (Text("And 3 + 3?"),))]
    listed = (await core.messages(session)).items
    assert [m.role for m in listed] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    await say_and_wait(core, session, "Thanks")
    assert [entry.message for entry in provider.requests[1].messages][:5] == [entry.message for entry in asked]


async def test_imported_answers_are_not_the_runs_own(make_core: MakeCore):
    """The output of a run is what its own model said: an answer of an imported history is none of it."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: [pause(hold)]))
    session = await open_session(core)
    receipt = await send(core, session, "And 3 + 3?", history=HISTORY)
    running = await core.run(receipt.run)
    assert (running.text, running.parts) == ("", ())
    await core.cancel(receipt.run, by=ANN)
    await idle(core, session)
    assert (await core.run(receipt.run)).text == ""


async def test_own_instructions_last_for_one_run(make_core: MakeCore):
    """A run may bring instructions: the prefix is frozen again for it, and again for the next."""
    provider = ScriptedProvider(echo)
    core = await make_core(provider)
    session = await open_session(core)
    for text, options in (("a", {}), ("b", {"instructions": "Be rude."}), ("c", {"instructions": "Be rude."})):
        await say_and_wait(core, session, text, **options)
    for text in ("d", "e"):
        await say_and_wait(core, session, text)
    assert await answers(core, session) == ["Be brief. a", "Be rude. b", "Be rude. c", "Be brief. d", "Be brief. e"]
    facts = await log_of(core, session)
    check_log(facts)
    frozen = [fact for fact in facts if fact.type == "snapshot.frozen"]
    assert [body.reason for body in only(frozen, SnapshotFrozen)] == ["opened", "run", "run"]
    own, other, back = (body.hash for body in only(frozen, SnapshotFrozen))
    assert own == back != other
    runs = [fact.run for fact in facts if fact.type == "run.queued"]
    assert [fact.run for fact in frozen] == [None, runs[1], runs[3]]
    steps = only(facts, StepStarted)
    assert [step.snapshot for step in steps] == [own, other, other, own, own]
    received = [fact.seq for fact in facts if fact.type == "message.received"]
    assert [step.takes for step in steps] == [(seq,) for seq in received]


async def test_own_instructions_wait_with_their_run(make_core: MakeCore):
    """A queued run keeps its instructions and freezes them when it starts, not when it was asked."""
    hold = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda request: [pause(hold), *echo(request)]))
    session = await open_session(core)
    await send(core, session, "a")
    await send(core, session, "b", instructions="Be rude.")
    await send(core, session, "c")
    assert types(await log_of(core, session)).count("snapshot.frozen") == 1
    hold.set()
    facts = await idle(core, session)
    assert await answers(core, session) == ["Be brief. a", "Be rude. b", "Be brief. c"]
    shape = [kind for kind in types(facts) if kind in ("run.completed", "run.started", "snapshot.frozen")]
    assert shape[1:] == [
        *("run.started", "run.completed"),
        *("run.started", "snapshot.frozen", "run.completed"),
        *("run.started", "snapshot.frozen", "run.completed"),
    ]


async def test_own_controls_last_for_one_run(make_core: MakeCore):
    """Controls of a message hold for its run alone, and the first step names them."""
    core = await make_core(ScriptedProvider(lambda _: [say("Fine.")]), tools=(look,))
    session = await open_session(core)
    await say_and_wait(core, session, "one", controls=Controls(max_steps=1))
    await say_and_wait(core, session, "two")
    steps = only(await log_of(core, session), StepStarted)
    assert [step.controls and step.controls["max_steps"] for step in steps] == [1, 25]
    assert [step.controls and step.controls["tool_choice"] for step in steps] == ["none", "auto"]


async def test_a_runs_own_model_answers_it(make_core: MakeCore):
    """A message may name another model for its run; the session goes on with its own."""
    core = await make_core(ScriptedProvider(lambda request: [say(f"I am {request.model}.")]))
    session = await open_session(core)
    for model in (None, "scripted:big", None):
        await say_and_wait(core, session, "Who?", controls=Controls(model=model))
    assert await answers(core, session) == ["I am .", "I am big.", "I am ."]
    with pytest.raises(InvalidInput, match="no provider `other`"):
        await send(core, session, "Who?", controls=Controls(model="other:big"))
    assert len((await core.runs()).items) == 3


@pytest.mark.parametrize("controls", [Controls(max_steps=0), Controls(max_steps=201), Controls(model="unknown")])
async def test_controls_that_cannot_be_followed_leave_no_trace(make_core: MakeCore, controls: Controls):
    """Impossible controls are refused before anything is written."""
    core = await make_core()
    session = await open_session(core)
    with pytest.raises(InvalidInput, match="controls"):
        await send(core, session, "Hello", controls=controls)
    assert types(await log_of(core, session)) == ["session.opened", "snapshot.frozen"]


async def test_without_room_a_message_waits_in_the_queue(make_core: MakeCore):
    """A worker that is full queues the message; the sweep starts its run when there is room."""
    hold, clock = asyncio.Event(), FakeClock()
    core = await make_core(
        ScriptedProvider(lambda _: [pause(hold), say("Hi.")]), clock=clock, engine=partial(LocalEngine, max_runs=1)
    )
    full, other = await open_session(core), await open_session(core)
    first = await send(core, full, "Hello")
    second = await send(core, other, "Hello")
    assert types(await log_of(core, other))[2:] == ["message.received", "run.queued"]
    assert only(await log_of(core, other), RunQueued) == [RunQueued()]
    clock.advance(5)
    await clock.slept(2)
    assert (await core.run(second.run)).status == "queued"
    hold.set()
    await idle(core, full)
    assert (await core.run(first.run)).status == "completed"
    async with asyncio.timeout(SAFETY):
        while (await core.run(second.run)).status == "queued":
            await clock.advance_to_next()
    assert types(await idle(core, other))[4:6] == ["run.started", "step.started"]
    assert await answers(core, other) == ["Hi."]


async def test_the_first_message_names_the_session(make_core: MakeCore):
    """A session's title is the beginning of its first message, and stays."""
    core = await make_core(ScriptedProvider(lambda _: [say("Hi.")]))
    session = await open_session(core)
    assert (await core.session(session)).title is None
    await say_and_wait(core, session, "😀" * 200)
    await say_and_wait(core, session, "another")
    assert (await core.session(session)).title == "😀" * 80


async def test_unknown_and_closed_sessions_take_nothing(make_core: MakeCore):
    """A message to a session that is not there, or closed, is refused and leaves no trace."""
    core = await make_core()
    with pytest.raises(NotFound, match="session"):
        await send(core, "ses_unknown", "Hello")
    session = await open_session(core)
    await core.close_session(session)
    for overlap in ("queue", "steer", "interrupt", "reject"):
        with pytest.raises(SessionClosed, match=session):
            await send(core, session, "Hello", overlap=overlap)
    assert types(await log_of(core, session)) == ["session.opened", "snapshot.frozen"]
    with pytest.raises(NotFound, match="run"):
        await core.run("run_unknown")
    with pytest.raises(NotFound, match="run"):
        await core.cancel("run_unknown", by=ANN)

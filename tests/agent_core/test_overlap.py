"""A message during a run: queued, steered, interrupting or refused; none is lost, and their order is kept."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core.agent.frames import STOPPED_NOTE
from agent_core.agents import Controls
from agent_core.core import Core
from agent_core.errors import SessionBusy
from agent_core.events import (
    Fact,
    MessageCompleted,
    MessageReceived,
    RunCancelled,
    RunCancelling,
    RunQueued,
    SnapshotFrozen,
    StepStarted,
)
from agent_core.messages import text_of
from agent_core.providers.base import Request
from agent_core.providers.demo import SPEAKER
from agent_core.store import runs
from agent_core.testing import Answer, FakeClock, ScriptedProvider, call, pause, say
from agent_core.tools.functions import tool
from tests.agent_core.asking import AskClient
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, BOB, idle, log_of, only, open_session, say_and_wait, send, types
from tests.agent_core.stage import unmarked
from tests.conftest import MakeCore
from tests.polling import until


def asked(request: Request) -> list[str]:
    """Return the texts of the user messages after the last answer."""
    texts: list[str] = []
    for entry in request.messages:
        if entry.message.role == "user":
            texts.append(SPEAKER.sub("", unmarked(text_of(entry.message.parts))))
            texts = [text for text in texts if text != STOPPED_NOTE]
        elif entry.message.role == "assistant":
            texts = []
    return texts


class GatedSession:
    """A session whose model answers what it was asked, each time once *go* is set."""

    def __init__(self) -> None:
        self.go, self.clock = asyncio.Event(), FakeClock()
        self.provider = ScriptedProvider(self._script)
        self.core: Core
        self.session = ""

    def _script(self, request: Request) -> Answer:
        return [say("To "), pause(self.go), say("+".join(asked(request)))]

    async def send(self, text: str, overlap: str = "queue", **options: object) -> str:
        return (await send(self.core, self.session, text, overlap=overlap, **options)).run

    async def facts(self) -> list[Fact]:
        return await log_of(self.core, self.session)

    async def finish(self) -> list[Fact]:
        """Let the model speak, and return the whole log once all is answered."""
        self.go.set()
        reading = asyncio.create_task(idle(self.core, self.session))
        await until(lambda: reading.done() or self._tick())
        facts = await reading
        check_log(facts)
        return facts

    def _tick(self) -> bool:
        """Let the sweep look again, once it sleeps."""
        if self.clock.sleepers >= 2:
            self.clock.advance(1)
        return False

    async def answers(self) -> list[str]:
        items = (await self.core.messages(self.session)).items
        return [text_of(message.parts) for message in items if message.role == "assistant"]

    async def status(self, run: str) -> str:
        return (await self.core.run(run)).status


@pytest.fixture
async def stage(make_core: MakeCore) -> AsyncIterator[GatedSession]:
    stage = GatedSession()
    stage.core = await make_core(stage.provider, clock=stage.clock)
    stage.session = await open_session(stage.core)
    yield stage
    stage.go.set()


def takes(facts: list[Fact]) -> list[list[str]]:
    """Return the texts that each step took."""
    texts = {f.seq: text_of(f.body.parts) for f in facts if isinstance(f.body, MessageReceived)}
    return [[texts[seq] for seq in step.takes if seq in texts] for step in only(facts, StepStarted)]


async def test_queued_messages_are_answered_in_order(stage: GatedSession):
    """By default a message during a run waits for its own run; many are answered one by one, in their order."""
    texts = [f"m{n}" for n in range(12)]
    runs = [await stage.send(text) for text in texts]
    assert len(set(runs)) == 12
    assert [await stage.status(run) for run in runs] == ["running", *["queued"] * 11]
    facts = await stage.finish()
    assert await stage.answers() == [f"To {text}" for text in texts]
    assert [fact.run for fact in facts if fact.type == "run.started"] == runs
    assert takes(facts) == [[text] for text in texts]


async def test_messages_sent_at_once_keep_the_order_of_the_log(stage: GatedSession):
    """Messages that arrive at the same moment are answered in the order in which the log has them."""
    await asyncio.gather(*(stage.send(f"m{n}") for n in range(20)))
    facts = await stage.finish()
    received = [text_of(body.parts) for body in only(facts, MessageReceived)]
    assert len(set(received)) == 20
    assert await stage.answers() == [f"To {text}" for text in received]


async def test_a_queued_run_that_is_cancelled_is_passed_over(stage: GatedSession):
    """Cancelling a queued run ends it at once, and the others keep their order."""
    runs = [await stage.send(text) for text in ("a", "b", "c")]
    assert (await stage.core.cancel(runs[1], by=BOB, reason="never mind")).status == "cancelled"
    facts = await stage.finish()
    assert [await stage.status(run) for run in runs] == ["completed", "cancelled", "completed"]
    assert await stage.answers() == ["To a", "To c"]
    assert [f.type for f in facts if f.run == runs[1]] == [
        *("message.received", "run.queued", "run.cancelling", "run.cancelled")
    ]
    assert only(facts, RunCancelled) == [RunCancelled(by=BOB, reason="never mind")]


async def test_a_steered_message_joins_the_run_at_its_next_step(make_core: MakeCore):
    """A steered message is taken by the run that works, when it next asks the model; the post returns that run."""
    reached, go = asyncio.Event(), asyncio.Event()

    @tool
    async def look() -> str:
        """Look."""
        reached.set()
        await go.wait()
        return "seen"

    def script(request: Request) -> Answer:
        if not any(entry.message.role == "tool" for entry in request.messages):
            return [call("look")]
        return [say("Answer to ", "+".join(asked(request)))]

    core = await make_core(ScriptedProvider(script), tools=(look,))
    session = await open_session(core)
    first = await send(core, session, "one")
    await reached.wait()
    second = await send(core, session, "two", overlap="steer", actor=BOB)
    third = await send(core, session, "three", overlap="steer")
    assert first.run == second.run == third.run
    assert second.seq < third.seq
    go.set()
    facts = await idle(core, session)
    check_log(facts)
    assert takes(facts) == [["one"], ["two", "three"]]
    assert (await core.run(first.run)).text.endswith("+two+three")
    assert len((await core.runs()).items) == 1
    users = [m for m in (await core.messages(session)).items if m.role == "user"]
    assert [(m.run, m.actor) for m in users] == [(first.run, ANN), (first.run, BOB), (first.run, ANN)]


async def test_a_message_steered_into_the_last_answer_makes_one_more_step(stage: GatedSession):
    """A message that comes while the run's last answer is written is answered by a further step of the same run."""
    run = await stage.send("one")
    assert await stage.send("two", "steer") == run
    facts = await stage.finish()
    assert await stage.answers() == ["To one", "To two"]
    assert takes(facts) == [["one"], ["two"]]
    assert types(facts).count("run.completed") == 1


async def test_steering_an_idle_session_opens_a_run(stage: GatedSession):
    """With nothing to join, a steered message is an ordinary one."""
    run = await stage.send("one", "steer")
    await stage.finish()
    assert await stage.answers() == ["To one"]
    assert await stage.send("two", "steer") != run


async def test_a_steered_message_that_no_step_took_opens_the_next_run(stage: GatedSession):
    """When the run ends without taking it, a steered message is answered by a new run, before what was queued."""
    first = await stage.send("one")
    steered = [await stage.send(text, "steer") for text in ("two", "three")]
    queued = await stage.send("four")
    assert steered == [first, first]
    await stage.core.cancel(first, by=ANN)
    facts = await stage.finish()
    assert await stage.status(first) == "cancelled"
    adopting = next(fact for fact in facts if isinstance(fact.body, RunQueued) and fact.body.inputs)
    texts = {text_of(f.body.parts): f.seq for f in facts if isinstance(f.body, MessageReceived)}
    assert adopting.body == RunQueued(inputs=(texts["two"], texts["three"]))
    assert adopting.run not in (first, queued)
    order = [fact.run for fact in facts if fact.type == "run.started"]
    assert order == [first, adopting.run, queued]
    assert takes(facts) == [["one"], ["two", "three"], ["four"]]
    assert (await stage.answers())[-2:] == ["To two+three", "To four"]
    listed = {text_of(m.parts): m.run for m in (await stage.core.messages(stage.session)).items if m.role == "user"}
    assert listed == {"one": first, "two": adopting.run, "three": adopting.run, "four": queued}
    assert (await stage.core.run(str(adopting.run))).started_by == ANN


async def test_a_left_message_is_answered_by_the_session_itself(stage: GatedSession):
    """What a run brought along, instructions and controls, is not handed on to the run that takes its left message."""
    first = await stage.send("one", instructions="Be rude.", controls=Controls(max_steps=1))
    await stage.send("two", "steer")
    await stage.core.cancel(first, by=ANN)
    facts = await stage.finish()
    assert [request.snapshot.instructions for request in stage.provider.requests][-1] == "Be brief."
    own, other, back = (body.hash for body in only(facts, SnapshotFrozen))
    assert own == back != other
    controls = only(facts, StepStarted)[-1].controls
    assert controls is not None
    assert controls["max_steps"] == 25


async def test_an_adopted_message_is_found_after_a_restart(stage: GatedSession, make_core: MakeCore):
    """A steered message that its run left is answered by the next process too, from the log alone."""
    first = await stage.send("one")
    await stage.send("two", "steer")
    request = RunCancelling(by=ANN, reason=None)
    await stage.core._store.commit(None, runs.cancel_named, first, request, finish=lambda _: [], owner=None, now=0)
    await stage.core.stop()
    provider = ScriptedProvider(lambda request: [say("To ", "+".join(asked(request)))])
    core = await make_core(provider, clock=FakeClock())
    facts = await idle(core, stage.session)
    check_log(facts)
    assert (await core.run(first)).status == "cancelled"
    assert [text_of(entry.message.parts) for entry in provider.requests[-1].messages][-1] == "two"
    assert takes(facts)[-1] == ["two"]


async def test_an_interrupt_cancels_and_is_answered(stage: GatedSession):
    """An interrupting message stops the run, keeps its partial answer, and is answered by its own run."""
    first = await stage.send("one")
    await until(lambda: bool(stage.core._store.hub.open_messages(stage.session)))
    second = await stage.send("two", "interrupt", actor=BOB)
    assert second != first
    facts = await stage.finish()
    assert [await stage.status(run) for run in (first, second)] == ["cancelled", "completed"]
    assert only(facts, RunCancelling) == [RunCancelling(by=BOB, reason="interrupted")]
    partial, whole = only(facts, MessageCompleted)
    assert (text_of(partial.parts), partial.partial, partial.stop) == ("To ", True, "cancelled")
    assert text_of(whole.parts).endswith("+two")
    order = [(fact.run, fact.type) for fact in facts if fact.type in ("run.cancelled", "run.started")]
    assert order == [(first, "run.started"), (first, "run.cancelled"), (second, "run.started")]


async def test_an_interrupt_queues_after_earlier_messages(stage: GatedSession):
    """An interrupt stops the run that works; messages that were queued before it are answered before it."""
    first = await stage.send("one")
    queued = await stage.send("two")
    last = await stage.send("three", "interrupt")
    facts = await stage.finish()
    assert [fact.run for fact in facts if fact.type == "run.started"] == [first, queued, last]
    assert (await stage.answers())[-2:] == ["To two", "To three"]


async def test_an_interrupt_of_an_idle_session_is_an_ordinary_message(stage: GatedSession):
    """With nothing to stop, an interrupting message simply runs."""
    await stage.send("one", "interrupt")
    facts = await stage.finish()
    assert await stage.answers() == ["To one"]
    assert only(facts, RunCancelling) == []


async def test_a_busy_session_rejects_on_request(stage: GatedSession):
    """With `reject` a message to a busy session is refused and leaves no trace; an idle one takes it."""
    run = await stage.send("one")
    before = len(await stage.facts())
    with pytest.raises(SessionBusy, match=stage.session):
        await stage.send("two", "reject")
    assert len(await stage.facts()) == before
    await stage.finish()
    assert await stage.status(run) == "completed"
    stage.go.clear()
    assert await stage.status(await stage.send("two", "reject")) == "running"


@pytest.fixture
async def waiting(make_core: MakeCore) -> GatedSession:
    """A session whose first run waits for its client; what comes later is answered at once."""
    stage = GatedSession()
    stage.go.set()

    def script(request: Request) -> Answer:
        return [call("ask")] if asked(request)[-1:] == ["ask"] else [say("To ", "+".join(asked(request)))]

    stage.core = await make_core(ScriptedProvider(script), tools=(AskClient(),), clock=stage.clock)
    stage.session = await open_session(stage.core)
    await say_and_wait(stage.core, stage.session, "ask")
    return stage


async def test_a_message_to_a_waiting_run_is_queued(waiting: GatedSession):
    """While a run waits its session is taken: a message queues, and runs when the wait has ended."""
    first = (await waiting.core.runs()).items[0].id
    assert await waiting.status(first) == "requires_action"
    queued = await waiting.send("two")
    assert await waiting.status(queued) == "queued"
    with pytest.raises(SessionBusy):
        await waiting.send("three", "reject")
    await waiting.core.cancel(first, by=ANN)
    await waiting.finish()
    assert [await waiting.status(run) for run in (first, queued)] == ["cancelled", "completed"]
    assert (await waiting.answers())[-1] == "To two"


async def test_an_interrupt_ends_a_waiting_run_in_its_own_transaction(waiting: GatedSession):
    """An interrupt of a waiting run ends it at once and starts in the same commit."""
    first = (await waiting.core.runs()).items[0].id
    before = (await waiting.facts())[-1].seq
    second = await waiting.send("two", "interrupt")
    facts = await log_of(waiting.core, waiting.session, after=before)
    assert types(facts)[:6] == [
        *("run.cancelling", "tool.completed", "run.cancelled"),
        *("message.received", "run.queued", "run.started"),
    ]
    await waiting.finish()
    assert [await waiting.status(run) for run in (first, second)] == ["cancelled", "completed"]


async def test_an_interrupt_comes_after_a_message_that_a_waiting_run_left(waiting: GatedSession):
    """A message steered into a waiting run is answered before the one that interrupts it: it came first."""
    first = (await waiting.core.runs()).items[0].id
    assert await waiting.send("two", "steer") == first
    await waiting.send("three", "interrupt")
    facts = await waiting.finish()
    assert takes(facts)[1:] == [["two"], ["three"]]

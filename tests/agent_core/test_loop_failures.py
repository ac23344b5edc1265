"""The loop when the model fails: what is tried again, after which pause, and how it ends."""

import asyncio
import functools
from collections.abc import Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from agent_core.agent.frames import STOPPED_NOTE
from agent_core.agent.strategy import MAX_RESUMES, MAX_RETRIES, backoff
from agent_core.events import Heartbeat, MessageCompleted, RunFailed, RunResumed, StepFailed, StepStarted, TextDelta
from agent_core.messages import Reasoning, Text, explanation, text_of
from agent_core.objects import RunObject
from agent_core.providers.base import Request
from agent_core.testing import FakeClock, bug, call, cut, fail, pause, raw_call, refuse, say, think
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from channels.view import EMPTY, view
from tests.agent_core.laws import check_log
from tests.agent_core.stage import PATIENCE, Stage, asleep, is_a, set_stage, texts
from tests.conftest import MakeCore
from tests.polling import until

IDLE = 2
"""Sleepers of an idle core: its sweep and its heartbeat."""


async def paused(stage: Stage, clock: FakeClock, run: str, failures: int = 1) -> None:
    """Move time by the pause after so many *failures* and see that the run continues exactly then."""
    await asleep(clock, IDLE + 1)
    failed = (await stage.said(StepFailed))[-1]
    seconds = backoff(run, failures, longer=failed.code == "overloaded")
    clock.advance(seconds - 0.001)
    await asleep(clock, IDLE + 1)
    asked = stage.provider.calls
    clock.advance(0.001)
    await stage.asked(asked + 1)


async def test_a_transient_failure_is_tried_again_with_growing_pauses(make_core: MakeCore):
    """A model that is overloaded three times is asked again after growing pauses, and its answer counts."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(),), (fail(),), (fail(),), (say("At last."),)], clock=clock)
    run = await stage.send()
    for failures in (1, 2, 3):
        await paused(stage, clock, run, failures)
    done = await stage.done(run)
    assert (done.status, done.text, done.steps) == ("completed", "At last.", 1)
    assert [(step.n, step.attempt) for step in await stage.said(StepStarted)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert len({step.message for step in await stage.said(StepStarted)}) == 1
    assert len(set(stage.provider.prefixes)) == 1
    check_log(await stage.log())


async def test_a_provider_names_the_pause(make_core: MakeCore):
    """A failure with a `retry-after` is tried again after exactly that long."""
    clock = FakeClock()
    script = [(fail("rate_limited", retry_after=42.0),), (say("Fine."),)]
    stage = await set_stage(make_core, script, clock=clock)
    run = await stage.send()
    await asleep(clock, IDLE + 1)
    for _ in range(41):
        clock.advance(1)
        await asleep(clock, IDLE + 1)
    assert stage.provider.calls == 1
    clock.advance(1)
    assert (await stage.done(run)).text == "Fine."


async def test_a_model_that_keeps_failing_fails_the_run(make_core: MakeCore):
    """After three failed retries the run fails as `provider_error`, and a later message may succeed."""
    clock = FakeClock()
    stage = await set_stage(make_core, [*[(fail(message="Busy."),)] * 4, (say("Here I am."),)], clock=clock)
    run = await stage.send()
    for failures in (1, 2, 3):
        await paused(stage, clock, run, failures)
    done = await stage.done(run)
    assert (done.status, stage.provider.calls) == ("failed", 1 + MAX_RETRIES)
    assert done.error
    assert (done.error.code, done.error.message, done.error.retryable) == (
        "provider_error",
        explanation("overloaded"),
        True,
    )
    assert done.error.detail == "Busy."
    (end,) = await stage.said(MessageCompleted)
    assert (end.stop, end.parts) == ("error", ())
    check_log(await stage.log())
    assert (await stage.play("Hello?")).text == "Here I am."


@pytest.mark.parametrize("kind", ["invalid", "auth", "quota"])
async def test_a_lasting_failure_fails_the_run_at_once(make_core: MakeCore, kind):
    """A failure that a retry cannot fix fails the run without another attempt, and says what it was."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(kind, retryable=False, message="No such model."),)], clock=clock)
    run = await stage.play()
    assert (run.status, stage.provider.calls) == ("failed", 1)
    assert run.error
    assert (run.error.code, run.error.message, run.error.retryable) == ("provider_error", explanation(kind), False)
    assert run.error.detail == "No such model."
    (failed,) = await stage.said(StepFailed)
    assert failed.code == kind


async def test_a_context_overflow_has_its_own_code(make_core: MakeCore):
    """A request that is too long for the model fails the run as `context_overflow`."""
    stage = await set_stage(make_core, [(fail("context_overflow", retryable=False),)])
    run = await stage.play()
    assert run.error
    assert run.error.code == "context_overflow"


@pytest.mark.parametrize(
    "end", [fail(message="Gone."), cut()], ids=["a failure after some text", "a stream that breaks off"]
)
async def test_broken_answer_is_restarted(make_core: MakeCore, end):
    """An answer that breaks off is restarted as the next attempt, and readers see only the new one."""
    clock, may_end = FakeClock(), asyncio.Event()
    script = [(think("Hm."), say("Half a mess"), end), (say("A whole "), pause(may_end), say("message."))]
    stage = await set_stage(make_core, script, clock=clock)
    async with stage.reader() as reader:
        run = await stage.send()
        await reader.until(is_a(TextDelta, attempt=1, text="Half a mess"))
        await paused(stage, clock, run)
        fresh = await reader.until(is_a(TextDelta, attempt=2))
    assert isinstance(fresh.body, TextDelta)
    assert (fresh.body.text, fresh.body.offset, fresh.body.part) == ("A whole ", 0, 0)
    joining = await stage.until(lambda event: event.live)
    assert joining.body == fresh.body
    may_end.set()
    done = await stage.done(run)
    assert (done.text, done.steps) == ("A whole message.", 1)
    assert [step.attempt for step in await stage.said(StepStarted)] == [1, 2]
    (message,) = await stage.said(MessageCompleted)
    assert "Half" not in str(message.parts)


async def test_a_reader_who_joins_in_the_pause_sees_no_half_message(make_core: MakeCore):
    """Once an answer broke off, a reader who joins before the next one begins sees none of it."""
    clock, script = FakeClock(), [(say("Half a mess"), cut()), (say("Whole."),)]
    stage = await set_stage(make_core, script, clock=clock)
    run = await stage.send()
    await asleep(clock, IDLE + 1)
    assert stage.core._store.hub.open_messages(stage.session) == []
    clock.advance(0.5)
    await stage.done(run)


async def test_a_lasting_failure_in_an_answer_fails_the_run(make_core: MakeCore):
    """An answer that breaks off for good fails the run; what people have read stays, and the model sees it later."""
    script = [(think("Hm."), say("Half a mess"), fail("invalid", retryable=False)), (say("Yes."),)]
    stage = await set_stage(make_core, script)
    run = await stage.play()
    assert (run.status, run.text, run.parts) == ("failed", "Half a mess", (Reasoning("Hm."), Text("Half a mess")))
    (message,) = await stage.said(MessageCompleted)
    assert (message.partial, message.stop) == (True, "error")
    assert (await stage.types(run.id))[-3:] == ["step.failed", "message.completed", "run.failed"]
    check_log(await stage.log())
    await stage.play("Go on")
    seen = texts(stage.provider.requests[1])
    assert seen == [("user", "Go"), ("assistant", "Half a mess"), ("user", STOPPED_NOTE), ("user", "Go on")]


def attempts(*first: Answer) -> Callable[[Request], Answer]:
    """Return a script that plays *first*, then fails before it says a word."""
    left = iter(first)
    return lambda _: next(left, (fail(),))


@pytest.mark.parametrize(
    ("first", "kept"),
    [
        ([(say("Half"), cut())], "Half"),
        ([(say("Half"), cut()), (say("A newer half"), cut())], "A newer half"),
        ([(say("Half"), cut()), (think("Hm."), cut())], ""),
        ([(say(" "), cut())], ""),
    ],
    ids=["of the first attempt", "of the newest that showed something", "its text was cleared", "nothing was shown"],
)
async def test_what_people_read_last_stays_when_every_attempt_fails(make_core: MakeCore, first, kept):
    """When the last attempt has failed, what a reader sees is what the message keeps."""
    clock = FakeClock()
    stage = await set_stage(make_core, attempts(*first), clock=clock)
    async with stage.reader() as reader:
        run = await stage.send()
        for failures in (1, 2, 3):
            await paused(stage, clock, run, failures)
        await stage.done(run)
        end = await reader.until(is_a(MessageCompleted))
    assert isinstance(end.body, MessageCompleted)
    assert (text_of(end.body.parts), end.body.partial, end.body.stop) == (kept, True, "error")
    shown = functools.reduce(view, reader.events[:-1], EMPTY).recent[-1]
    assert shown.text.strip() == kept
    check_log(await stage.log())


async def test_a_stop_in_the_pause_keeps_what_people_have_read(make_core: MakeCore):
    """A run that is stopped while it waits to try again keeps the text of the attempt that broke off."""
    stage = await set_stage(make_core, attempts((say("Half"), cut())), clock=FakeClock())
    run = await stage.send()
    await stage.until(is_a(StepFailed))
    done = await stage.stop(run)
    assert (done.status, done.text) == ("cancelled", "Half")
    (message,) = await stage.said(MessageCompleted)
    assert (message.partial, message.stop) == (True, "cancelled")


async def test_a_refusal_leaves_nothing_of_an_earlier_attempt(make_core: MakeCore):
    """What an attempt said before it broke off is withdrawn when the next one refuses."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(say("Half"), cut()), (say("Well, "), refuse())], clock=clock)
    run = await stage.send()
    await paused(stage, clock, run)
    done = await stage.done(run)
    assert (done.stop_reason, done.text, done.parts) == ("refused", "", ())


async def test_an_answer_that_always_breaks_off_fails_the_run(make_core: MakeCore):
    """Answers that break off are tried again as often as failures before the first token, no more."""
    clock = FakeClock()
    stage = await set_stage(make_core, lambda _: (say("Half"), cut()), clock=clock)
    run = await stage.send()
    for failures in (1, 2, 3):
        await paused(stage, clock, run, failures)
    done = await stage.done(run)
    assert done.error
    assert done.error.code == "provider_error"
    assert stage.provider.calls == 4


async def test_calls_of_a_broken_answer_never_run(make_core: MakeCore):
    """Calls that a broken answer had asked for are not requested; those of the whole answer are."""
    clock, ran = FakeClock(), []

    @tool
    async def look(what: str) -> str:
        """Look."""
        ran.append(what)
        return "fine"

    half = (call("look", what="half"), raw_call("look", '{"what": "ha'), fail())
    stage = await set_stage(
        make_core, [half, (call("look", what="whole"),), (say("Fine."),)], tools=[look], clock=clock
    )
    run = await stage.send()
    await paused(stage, clock, run)
    assert (await stage.done(run)).text == "Fine."
    assert ran == ["whole"]


async def test_each_step_has_its_own_retries(make_core: MakeCore):
    """Failures of one step do not reduce the retries of the next."""
    clock = FakeClock()

    @tool
    async def look() -> str:
        """Look."""
        return "fine"

    busy = (fail(),)
    script = [busy, busy, busy, (call("look"),), busy, busy, busy, (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=[look], clock=clock)
    run = await stage.send()
    for failures in (1, 2, 3) * 2:
        await paused(stage, clock, run, failures)
    assert (await stage.done(run)).text == "Fine."


async def test_a_message_in_the_pause_is_answered_too(make_core: MakeCore):
    """A message that joins while the run pauses is taken: no later than by the step after."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(fail(),), (say("One."),), (say("Two."),)], clock=clock)
    run = await stage.send("one")
    await asleep(clock, IDLE + 1)
    await stage.send("two", overlap="steer")
    clock.advance(backoff(run, 1, longer=True))
    assert (await stage.done(run)).text == "Two."
    assert ("user", "two") in texts(stage.provider.requests[-1])


async def test_a_heartbeat_shows_every_ten_seconds_that_a_run_works(make_core: MakeCore):
    """While a run works its readers see a heartbeat every 10 s; when it has ended there is none."""
    clock, may_end = FakeClock(), asyncio.Event()
    stage = await set_stage(make_core, [(pause(may_end), say("Done."))], clock=clock)
    async with stage.reader() as reader:
        run = await stage.send()
        await stage.asked(1)
        for beats in (1, 2, 3):
            await asleep(clock, IDLE)
            clock.advance(9.999)
            await asleep(clock, IDLE)
            clock.advance(0.001)
            await reader.until(lambda _, beats=beats: count(reader) == beats)
        may_end.set()
        await stage.done(run)
        await asleep(clock, IDLE)
        clock.advance(30)
        await asleep(clock, IDLE)
        assert count(reader) == 3
    assert [event for event in reader.events if isinstance(event.body, Heartbeat) if event.run != run] == []


def count(reader) -> int:
    return sum(isinstance(event.body, Heartbeat) for event in reader.events)


async def swept(stage: Stage, clock: FakeClock, run: str) -> RunObject:
    """Let the sweep look once a second, for up to two minutes, until the run has ended."""
    for _ in range(120):
        await asleep(clock, IDLE)
        found = await stage.core.run(run)
        if found.status != "running":
            return found
        clock.advance(1)
    raise AssertionError("the run was never ended")


@pytest.mark.crashes
async def test_a_bug_in_a_provider_ends_as_lost(make_core: MakeCore):
    """A provider that breaks is tried again by the sweep, with growing pauses, and the run ends as `lost`."""
    clock = FakeClock()
    stage = await set_stage(make_core, lambda _: (say("Half"), bug(ValueError("oops"))), clock=clock)
    run = await stage.send()
    with capture_logs() as logs:
        done = await swept(stage, clock, run)
        await until(lambda: any(each["event"] == "run.failed" for each in logs))
    assert done.error
    assert done.error.code == "lost"
    logged = {(each["event"], each["run"]) for each in logs if each["log_level"] != "debug"}
    assert logged == {("run.crashed", run), ("run.failed", run)}
    resumed = [fact for fact in await stage.log() if isinstance(fact.body, RunResumed)]
    assert len(resumed) == MAX_RESUMES
    pauses = [(b.time - a.time) / 1000 for a, b in pairwise(resumed)]
    assert [(least, pause) for least, pause in zip((0, 1, 5, 30), pauses, strict=True) if pause < least] == [], pauses
    assert stage.provider.calls == MAX_RESUMES
    (end,) = await stage.said(RunFailed)
    assert "interrupted again and again" in end.message
    check_log(await stage.log())
    assert (await stage.core.session(stage.session)).status == "idle"


@pytest.mark.crashes
async def test_a_bug_in_a_provider_harms_no_other_run(make_core: MakeCore):
    """While one run's provider breaks, the runs of other sessions go on."""
    stage = await set_stage(make_core, lambda request: (bug(),) if "break" in str(texts(request)) else (say("Hi."),))
    broken = await stage.send("break")
    other = await stage.core.open_session(agent="assistant", actor=(await stage.core.session(stage.session)).actor)
    async with asyncio.timeout(PATIENCE):
        done = await Stage(stage.core, stage.provider, other.id).play("hello")
    assert done.text == "Hi."
    await stage.stop(broken)


@pytest.mark.crashes
async def test_a_run_survives_a_bug_that_passes(make_core: MakeCore):
    """A provider that breaks once costs one attempt: the sweep takes the run again and it completes."""
    clock = FakeClock()
    stage = await set_stage(make_core, [(say("Half"), bug()), (say("Whole."),)], clock=clock)
    run = await stage.send()
    done = await swept(stage, clock, run)
    assert (done.status, done.text) == ("completed", "Whole.")
    assert [(resumed.epoch, resumed.cause) for resumed in await stage.said(RunResumed)] == [(2, "crashed")]

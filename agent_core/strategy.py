"""Strategies: pure functions from what has happened to what comes next."""

from typing import Literal

import msgspec

from agent_core import events as e
from agent_core.agents import Agent, Controls, controls
from agent_core.messages import UNKNOWN_USAGE, Actor
from agent_core.state import TOOLS_WITHHELD, Call, RunState

MAX_RETRIES = 3
MAX_CONTINUATIONS = 3
MAX_RESUMES = 5
MAX_REPEATS = 3
LONGEST_PAUSE = 120.0
CONTINUE_NOTE = (
    "Your answer was cut at the output limit. Continue exactly where it stops, without repeating anything; "
    "a tool call that was cut has not run."
)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the model: step *n*, try *attempt*, after a pause of *delay* seconds; *note* is told to the model first."""

    n: int
    attempt: int
    message: str
    takes: tuple[int, ...]
    controls: Controls
    snapshot: str
    delay: float = 0.0
    note: str | None = None


class CallTools(msgspec.Struct, frozen=True):
    """Run these calls; more than one only when all may run side by side."""

    calls: tuple[Call, ...]


class Wait(msgspec.Struct, frozen=True):
    """End the segment: somebody else finishes a call."""

    on: tuple[e.WaitingOn, ...]


class Compact(msgspec.Struct, frozen=True):
    """Cut the window to at most *keep* messages where a border allows it; *whole*: a question follows, all may go."""

    keep: int
    whole: bool


class Finish(msgspec.Struct, frozen=True):
    """End the run."""

    end: e.Terminal


Move = Ask | CallTools | Wait | Compact | Finish
SYSTEM = Actor("parley", "service")


def react(state: RunState, agent: Agent) -> Move:
    """Think, act, observe: ask the model, run what it calls, and again, until it answers."""
    if ending := _forced_end(state):
        return ending
    if state.calls and not state.is_open and (move := _open_calls(state, agent)):
        return move
    if state.is_open:
        return _again(state, agent)
    return _next(state, agent)


def message_id(run: str, n: int) -> str:
    """Return the id of the message of step *n*: all tries of a step share it, a repeat after a crash too."""
    return f"msg_{run.partition('_')[2]}.{n}"


def _forced_end(state: RunState) -> Finish | None:
    if state.cancelling:
        return Finish(e.RunCancelled(by=state.cancelling.by, reason=state.cancelling.reason))
    if state.vain >= MAX_RESUMES:
        return _fail("lost", "The run was interrupted again and again without getting anywhere.")
    doomed = next((c for c in state.calls if c.repeat >= MAX_REPEATS and c.status == "requested"), None)
    if doomed:
        return _fail("doom_loop", f"The model asked for the same call of `{doomed.name}` {MAX_REPEATS} times in a row.")
    return None


def _open_calls(state: RunState, agent: Agent) -> CallTools | Wait | None:
    """Return the calls that are due: interrupted ones first, then in order, safe neighbours together."""
    interrupted = tuple(c for c in state.calls if c.status == "started" and c.epoch < state.epoch)
    if interrupted:
        return CallTools(interrupted)
    requested = tuple(c for c in state.calls if c.status == "requested")
    if requested:
        safe = 0
        while safe < len(requested) and _is_safe(requested[safe], agent):
            safe += 1
        return CallTools(requested[: max(safe, 1)])
    waiting: set[e.WaitingOn] = {c.on for c in state.calls if c.status == "pending" and c.on}
    return Wait(tuple(sorted(waiting))) if waiting else None


def _is_safe(call: Call, agent: Agent) -> bool:
    spec = agent.tools.get(call.name)
    return spec is not None and spec.concurrency_safe


def _again(state: RunState, agent: Agent) -> Move:
    """Try the open step again: it failed, was refused its calls, or the worker died over it."""
    failure = state.failure
    if failure and failure.code == "context_overflow":
        return _fail("context_overflow", failure.message)
    if failure and not (failure.retryable and state.failures <= MAX_RETRIES):
        return _fail("provider_error", failure.message, retryable=failure.retryable)
    pause = 0.0
    if failure and failure.code != TOOLS_WITHHELD:
        pause = failure.retry_after if failure.retry_after is not None else 0.5 * 2.0 ** (state.failures - 1)
        if pause > LONGEST_PAUSE:
            return _fail("provider_error", failure.message, retryable=True)
    return _ask(state, agent, n=state.step, attempt=state.attempt + 1, delay=pause)


def _next(state: RunState, agent: Agent) -> Move:
    """Decide after a whole step, or before the first one."""
    n = state.step + 1
    wants_more = state.step == 0 or bool(state.untaken) or state.stop in ("tools", "continue")
    cut = state.stop == "length" and state.continuations <= MAX_CONTINUATIONS
    if (wants_more or cut) and n <= agent.max_steps:
        if compact := _compact(state, agent, more=len(state.untaken) + cut):
            return compact
        return _ask(state, agent, n=n, attempt=1, note=CONTINUE_NOTE if cut else None)
    return Finish(
        e.RunCompleted(stop_reason=_stop_reason(state, agent), usage=state.usage or UNKNOWN_USAGE, cost=state.cost)
    )


def _compact(state: RunState, agent: Agent, *, more: int) -> Compact | None:
    """Return the cut that makes room for *more* messages, to half the limit, when the limit would be passed."""
    limit = agent.definition.limits.max_context_messages
    if limit is None or state.size + more <= limit:
        return None
    asked = any(seq in state.questions for seq in state.untaken)
    if not (state.size if asked else state.border):
        return None
    return Compact(keep=max(limit // 2 - more, 0), whole=asked)


def _takes(state: RunState, agent: Agent) -> tuple[int, ...]:
    """Return what the step takes: all that is untaken, of a history longer than the limit the newest half a limit."""
    limit = agent.definition.limits.max_context_messages
    if limit is None or len(state.untaken) <= limit:
        return state.untaken
    borders = [place for place, seq in enumerate(state.untaken) if seq in state.questions]
    first = len(state.untaken) - limit // 2
    return state.untaken[next((place for place in borders if place >= first), borders[-1] if borders else first) :]


def _stop_reason(state: RunState, agent: Agent) -> Literal["end_turn", "max_steps", "refused"]:
    if state.stop == "refused":
        return "refused"
    withheld = bool(agent.tools) and agent.max_steps > 1 and state.step >= agent.max_steps
    return "max_steps" if withheld else "end_turn"


def _ask(state: RunState, agent: Agent, *, n: int, attempt: int, delay: float = 0.0, note: str | None = None) -> Ask:
    return Ask(
        n=n,
        attempt=attempt,
        message=message_id(state.run, n),
        takes=_takes(state, agent),
        controls=controls(n, agent),
        snapshot=agent.snapshot.hash,
        delay=delay,
        note=note,
    )


def _fail(
    code: Literal["doom_loop", "lost", "provider_error", "context_overflow"], message: str, *, retryable: bool = False
) -> Finish:
    return Finish(e.RunFailed(code=code, message=message, retryable=retryable))

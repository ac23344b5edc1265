"""Strategies: pure functions from what has happened to what comes next."""

import zlib
from typing import Any, Literal

import msgspec

from agent_core import events as e
from agent_core.agents import Agent, Controls, controls
from agent_core.failures import told
from agent_core.messages import UNKNOWN_USAGE, Actor
from agent_core.state import TOOLS_WITHHELD, Call, RunState

MAX_RETRIES = 3
MAX_CONTINUATIONS = 3
MAX_RESUMES = 5
MAX_REPEATS = 3
MAX_NUDGES = 1
LONGEST_PAUSE = 120.0
LONGEST_PATIENCE = 5.0
"""Seconds that a model with a stand-in is waited for, once, before the stand-in answers."""
STAYS = frozenset({"invalid", "stale_reasoning", TOOLS_WITHHELD})
"""Failures that another model would share; one that is full may be followed by one with a larger window."""
EMPTY_NOTE = "Your answer was empty. Answer now with what you have, in words."
CONTINUE_NOTE = (
    "Your answer was cut at the output limit. Continue exactly where it stops, without repeating anything; "
    "a tool call that was cut has not run."
)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the model: step *n*, try *attempt*, after a pause of *delay* seconds; *note* is told to the model first.

    With *repair* earlier thinking is left out from now on, because the model refused it.
    """

    n: int
    attempt: int
    message: str
    takes: tuple[int, ...]
    controls: Controls
    snapshot: str
    delay: float = 0.0
    note: str | None = None
    repair: bool = False


class Rule(msgspec.Struct, frozen=True):
    """Ask the hooks: whether these *calls* may run, or with none whether the run may start."""

    calls: tuple[Call, ...] = ()


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


Move = Ask | Rule | CallTools | Wait | Compact | Finish
SYSTEM = Actor("parley", "service")


def react(state: RunState, agent: Agent) -> Move:
    """Think, act, observe: ask the model, run what it calls, and again, until it answers."""
    if ending := _forced_end(state):
        return ending
    if not state.step and any(hook.name not in state.ruled for hook in agent.hooks("OnRunStart")):
        return Rule()
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
    if state.blocked and not state.is_open:
        return _completed(state, "blocked")
    if state.expired:
        return _fail("approval_expired", "Nobody decided in time, and without that this cannot go on.")
    if state.vain >= MAX_RESUMES:
        return _fail("lost", "The run was interrupted again and again without getting anywhere.")
    doomed = next((c for c in state.calls if c.repeat >= MAX_REPEATS and c.status == "requested"), None)
    if doomed:
        return _fail("doom_loop", f"The model asked for the same call of `{doomed.name}` {MAX_REPEATS} times in a row.")
    return None


def _open_calls(state: RunState, agent: Agent) -> Rule | CallTools | Wait | Finish | None:
    """Return the calls that are due: interrupted ones first, then in order, safe neighbours together.

    The hooks are asked of all before the first one runs. A call that nobody executes is the run's answer.
    """
    interrupted = tuple(c for c in state.calls if c.status == "started" and c.epoch < state.epoch)
    if interrupted:
        return CallTools(interrupted)
    requested = tuple(c for c in state.calls if c.status == "requested")
    if unruled := tuple(c for c in requested if _is_unruled(c, agent)):
        return Rule(unruled)
    if requested:
        safe = 0
        while safe < len(requested) and _is_safe(requested[safe], agent):
            safe += 1
        return CallTools(requested[: max(safe, 1)])
    waiting: set[e.WaitingOn] = {c.on for c in state.calls if c.status == "pending" and c.on}
    if waiting:
        return Wait(tuple(sorted(waiting)))
    answer = next((c for c in state.calls if c.outcome == "done" and _kind(c, agent) == "none"), None)
    return _completed(state, "no_executor", structured=answer.arguments) if answer else None


def _kind(call: Call, agent: Agent) -> str | None:
    spec = agent.tools.get(call.name)
    return spec.kind if spec else None


def _is_unruled(call: Call, agent: Agent) -> bool:
    """Tell whether a hook has yet to say something of *call*; what cannot run anyway is nobody's question."""
    if call.denied is not None or call.raw is not None or call.name not in agent.tools:
        return False
    known = {*call.ruled, *call.approved}
    return any(hook.name not in known for hook in agent.hooks("PreToolUse", call.name))


def _is_safe(call: Call, agent: Agent) -> bool:
    spec = agent.tools.get(call.name)
    if call.denied is not None:
        return True
    return spec is not None and spec.concurrency_safe


def _again(state: RunState, agent: Agent) -> Move:
    """Try the open step again: it failed, was refused its calls, or the worker died over it."""
    failure, model = state.failure, state.model
    pause, repair = 0.0, False
    if failure and failure.code == "stale_reasoning" and not state.repaired:
        repair = True
    elif failure and failure.code != TOOLS_WITHHELD:
        pause = _pause(state, failure)
        if stand_in := _stand_in(state, agent, failure, pause):
            model, pause = stand_in, 0.0
        elif not failure.retryable or state.failures > MAX_RETRIES or pause > LONGEST_PAUSE:
            return _given_up(failure)
    return _ask(state, agent, n=state.step, attempt=state.attempt + 1, delay=pause, model=model, repair=repair)


def _pause(state: RunState, failure: e.StepFailed) -> float:
    """Return the seconds to wait before the next try: what the provider asks, or growing ones, spread by run.

    A provider that asks for no pause at all is taken at its word once.
    """
    growing = backoff(state.run, state.failures, longer=failure.code == "overloaded")
    if failure.retry_after is None:
        return growing
    return failure.retry_after if state.failures <= 1 else max(failure.retry_after, growing)


def backoff(run: str, failures: int, *, longer: bool = False) -> float:
    """Return the seconds before the next try after so many *failures*: about 0.5, 1, 2; four times that if *longer*.

    They are up to a quarter shorter, by the run's id, so that runs which failed together do not return together.
    """
    spread = zlib.crc32(f"{run}.{failures}".encode()) / 2**32
    return 0.5 * 2.0 ** (failures - 1) * (4 if longer else 1) * (1 - 0.25 * spread)


def _stand_in(state: RunState, agent: Agent, failure: e.StepFailed, pause: float) -> str | None:
    """Return the fallback model that takes over, if it is time for one: never once something of an answer was shown."""
    waits = failure.retryable and state.failures <= 1 and pause <= LONGEST_PATIENCE
    if state.shown or failure.code in STAYS or waits:
        return None
    models = (agent.snapshot.model, *agent.definition.fallback_models)
    place = models.index(state.model) if state.model in models else 0
    return models[place + 1] if place + 1 < len(models) else None


def _given_up(failure: e.StepFailed) -> Finish:
    code = "context_overflow" if failure.code == "context_overflow" else "provider_error"
    return _fail(code, told(failure.code), retryable=failure.retryable, detail=failure.message)


def _next(state: RunState, agent: Agent) -> Move:
    """Decide after a whole step, or before the first one."""
    n = state.step + 1
    wants_more = state.step == 0 or state.asks or state.stop in ("tools", "continue")
    cut = state.stop == "length" and state.continuations <= MAX_CONTINUATIONS
    mute = state.empty and state.nudges <= MAX_NUDGES
    if (wants_more or cut or mute) and n <= agent.max_steps:
        # A paused answer is continued as it is: without its own items the model would have nothing to go on from.
        if state.stop != "continue" and (compact := _compact(state, agent, more=len(state.untaken) + cut + mute)):
            return compact
        note = CONTINUE_NOTE if cut else EMPTY_NOTE if mute and not state.asks else None
        return _ask(state, agent, n=n, attempt=1, note=note, model=state.model)
    return _completed(state, _stop_reason(state, agent))


def _completed(state: RunState, reason: e.StopReason, *, structured: Any = None) -> Finish:
    cost, usage = state.cost if state.usage else None, state.usage or UNKNOWN_USAGE
    return Finish(e.RunCompleted(stop_reason=reason, usage=usage, cost=cost, structured=structured))


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


def _ask(
    state: RunState,
    agent: Agent,
    *,
    n: int,
    attempt: int,
    delay: float = 0.0,
    note: str | None = None,
    model: str | None = None,
    repair: bool = False,
) -> Ask:
    return Ask(
        n=n,
        attempt=attempt,
        message=message_id(state.run, n),
        takes=_takes(state, agent),
        controls=controls(n, agent, model),
        snapshot=agent.snapshot.hash,
        delay=delay,
        note=note,
        repair=repair,
    )


def _fail(
    code: e.FailureCode,
    message: str,
    *,
    retryable: bool = False,
    detail: str | None = None,
) -> Finish:
    return Finish(e.RunFailed(code=code, message=message, retryable=retryable, detail=detail))

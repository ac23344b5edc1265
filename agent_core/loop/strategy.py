"""Strategies: pure functions from what has happened to what comes next."""

import zlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.agents import Agent, controls
from agent_core.domain.controls import UNABLE, Abilities, Controls, is_spent, news, read, sent
from agent_core.domain.failures import told
from agent_core.domain.messages import UNKNOWN_USAGE, Actor
from agent_core.domain.structured import read_answer
from agent_core.loop.state import CHOICE_IGNORED, CONTROLS_REFUSED, TOOLS_WITHHELD, Call, RunState

MAX_RETRIES = 3
MAX_CONTINUATIONS = 3
MAX_RESUMES = 5
MAX_REPEATS = 3
MAX_NUDGES = 1
LONGEST_PAUSE = 120.0
LONGEST_PATIENCE = 5.0
"""Seconds that a model with a stand-in is waited for, once, before the stand-in answers."""
STAYS = frozenset({"invalid", "stale_reasoning", TOOLS_WITHHELD, CHOICE_IGNORED, CONTROLS_REFUSED})
"""Failures that another model would share; one that is full may be followed by one with a larger window."""
EMPTY_NOTE = "Your answer was empty. Answer now with what you have, in words."
ONCE_MORE = "Answer once more, with the whole JSON value that fits the schema, and nothing else."
RESUME_NOTE = "Your answer was interrupted. Go on where it stops, without repeating anything."
CONTINUE_NOTE = (
    "Your answer was cut at the output limit. Continue exactly where it stops, without repeating anything; "
    "a tool call that was cut has not run."
)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the model: step *n*, try *attempt*, after a pause of *delay* seconds; *note* is told to the model first.

    *sends* is what of the *controls* its API is asked for; None: all. With *repair* earlier thinking is left out from
    now on, because the model refused it.
    """

    n: int
    attempt: int
    message: str
    takes: tuple[int, ...]
    controls: Controls
    snapshot: str
    sends: Controls | None = None
    delay: float = 0.0
    note: str | None = None
    repair: bool = False


class Rule(msgspec.Struct, frozen=True):
    """Ask the hooks: whether these *calls* may run, or with none whether the run may start."""

    calls: tuple[Call, ...] = ()


class Recall(msgspec.Struct, frozen=True):
    """Ask the context sources, before the first step."""


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


Move = Ask | Rule | Recall | CallTools | Wait | Compact | Finish
SYSTEM = Actor("parley", "service")


def react(state: RunState, agent: Agent) -> Move:
    """Think, act, observe: ask the model, run what it calls, and again, until it answers."""
    if ending := _forced_end(state):
        return ending
    if not state.step and any(hook.name not in state.ruled for hook in agent.hooks("OnRunStart")):
        return Rule()
    if not state.step and agent.has_sources and state.recalled is None:
        return Recall()
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
    elif failure and failure.code not in (TOOLS_WITHHELD, CHOICE_IGNORED) and not _may_be_told(state, agent):
        pause = _pause(state, failure)
        if stand_in := _stand_in(state, agent, failure, pause):
            model, pause = stand_in, 0.0
        elif not failure.retryable or state.failures > MAX_RETRIES or pause > LONGEST_PAUSE:
            return _given_up(failure)
    chosen = replace(read(state.controls), model=model) if state.controls else controls(state.step, agent, model)
    paused = state.paused and not repair and chosen.model == state.model
    note = RESUME_NOTE if state.paused and not paused else None
    ask = _ask(state, agent, chosen, attempt=state.attempt + 1, delay=pause, note=note, repair=repair)
    return replace(ask, takes=()) if paused else ask


def _may_be_told(state: RunState, agent: Agent) -> bool:
    """Tell whether the model's API refused for the first time what the model can be told in words."""
    if not (state.failure and state.failure.code == CONTROLS_REFUSED and state.controls):
        return False
    chosen = read(state.controls)
    chosen = chosen if agent.tools else replace(chosen, tool_choice=None)
    asked = sent(chosen, agent.able(state.model or "")) != sent(chosen, UNABLE)
    return asked and state.mended.count(CONTROLS_REFUSED) == 1


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
    chosen = controls(n, agent, state.model, override=state.override, defaults=state.defaults)
    most, budget = chosen.max_steps or 1, chosen.budget
    if _is_stopped(state):
        return _completed(state, "stop_condition")
    wants_more = state.step == 0 or state.asks or state.stop in ("tools", "continue")
    note = _mending(state)
    if not (wants_more or note) or n > most:
        return _completed(state, _stop_reason(state, agent, most))
    if budget and is_spent(budget, state.usage, state.cost):
        return _completed(state, "budget")
    ask = _ask(state, agent, chosen, n=n, note=note)
    if state.stop == "continue" and state.controls:
        return _resumed(ask, state, agent)
    return _compact(state, agent, more=len(state.untaken) + bool(ask.note)) or ask


def _resumed(ask: Ask, state: RunState, agent: Agent) -> Ask:
    """Return *ask* as it continues a paused answer: by the model that began it, and with no word behind it.

    Messages wait for the step that follows, and so do controls of which the model must be told in words.
    """
    if ask.note or ask.controls.model != state.model:
        ask = _ask(state, agent, read(state.controls or {}), n=ask.n)
    return replace(ask, takes=(), note=None)


def _mending(state: RunState) -> str | None:
    """Return what the model is told of an answer that cannot stay as it is."""
    if state.stop == "length" and state.continuations <= MAX_CONTINUATIONS:
        return CONTINUE_NOTE
    if state.asks:
        return None
    if state.empty and state.nudges <= MAX_NUDGES:
        return EMPTY_NOTE
    _, faults = _structured(state)
    if faults and state.stop == "done" and state.answers == 1:
        return f"Your answer is not what was asked for: {'; '.join(faults)}. {ONCE_MORE}"
    return None


def _structured(state: RunState) -> tuple[Any, Sequence[str]]:
    """Return the last answer as a value, and how it misses the schema that it has to fit; unset without a schema."""
    schema = (state.controls or {}).get("output_schema")
    if schema is None:
        return msgspec.UNSET, ()
    value, faults = read_answer(schema, state.answer)
    return None if faults else value, faults


def _is_stopped(state: RunState) -> bool:
    """Tell whether the step that ended carried out a call behind which the run is to stop."""
    if state.stop != "tools" or not state.controls:
        return False
    names = {condition["tool"] for condition in state.controls.get("stop_conditions", ())}
    return any(call.name in names and call.outcome != "denied" for call in state.calls)


def _completed(state: RunState, reason: e.StopReason, *, structured: Any = msgspec.UNSET) -> Finish:
    cost, usage = state.cost if state.usage else None, state.usage or UNKNOWN_USAGE
    if structured is msgspec.UNSET:
        value, _ = _structured(state)
        structured = None if value is not msgspec.UNSET and state.stop != "done" else value
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


def _stop_reason(state: RunState, agent: Agent, most: int) -> Literal["end_turn", "max_steps", "refused"]:
    if state.stop == "refused":
        return "refused"
    withheld = bool(agent.tools) and most > 1 and state.step >= most
    return "max_steps" if withheld else "end_turn"


def _ask(
    state: RunState,
    agent: Agent,
    chosen: Controls,
    *,
    n: int | None = None,
    attempt: int = 1,
    delay: float = 0.0,
    note: str | None = None,
    repair: bool = False,
) -> Ask:
    """Return the model call with the *chosen* controls: step *n*, or another try of the open one."""
    before = read(state.controls) if state.controls else None
    now = _able(state, agent, chosen.model)
    then = _able(
        state, agent, state.model, refused=state.failure is not None and state.failure.code == CONTROLS_REFUSED
    )
    told = news(before, chosen, (then, now), agent.tools)
    return Ask(
        n=n or state.step,
        attempt=attempt,
        message=message_id(state.run, n or state.step),
        takes=_takes(state, agent),
        controls=chosen,
        sends=sent(chosen, now, firm=n is None and TOOLS_WITHHELD in state.mended),
        snapshot=agent.snapshot.hash,
        delay=delay,
        note=" ".join(filter(None, (note, told))) or None,
        repair=repair,
    )


def _able(state: RunState, agent: Agent, model: str | None, *, refused: bool = False) -> Abilities:
    """Return what the API of *model* sees to by itself; what it *refused* in the last try it was still asked for."""
    return UNABLE if state.plain == model and not refused else agent.able(model or "")


def _fail(
    code: e.FailureCode,
    message: str,
    *,
    retryable: bool = False,
    detail: str | None = None,
) -> Finish:
    return Finish(e.RunFailed(code=code, message=message, retryable=retryable, detail=detail))

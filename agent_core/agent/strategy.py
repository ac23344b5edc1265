"""Moves: what a strategy decides comes next in a run. Pure."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.state import (
    ASKED_AGAIN,
    CONTROLS_REFUSED,
    MAX_FAILURES,
    OVERFLOW,
    REPAIR,
    TOOLS_WITHHELD,
    CallState,
    Compact,
    RunState,
    StepState,
    of_messages,
    on_overflow,
    rests,
    when_due,
)
from agent_core.agents import Agent, Compaction, ToolSpec, as_prompted, controls, forced_by_name
from agent_core.channels import INTERRUPTED
from agent_core.controls import (
    UNABLE,
    Abilities,
    CacheChange,
    Caching,
    Controls,
    PromptCall,
    changes,
    is_spent,
    news,
    read,
    recorded,
    sent,
)
from agent_core.events import FactBody
from agent_core.messages import (
    CONTENT_REFUSED,
    FILE_REFUSED,
    UNKNOWN_USAGE,
    Actor,
    CallOutcome,
    Part,
    Text,
    ToolCall,
    explanation,
)
from agent_core.schemas import read_answer


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Call the model: step *n*, attempt *attempt*, after a pause of *delay* seconds; *note* is shown to it first.

    *sends* is the part of *controls* that is sent to its API, None for all. With *repair* earlier reasoning is left out
    from now on, because the model refused it.
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


class AskHooks(msgspec.Struct, frozen=True):
    """Ask the hooks: whether these *calls* may run, or with none whether the run may start."""

    calls: tuple[CallState, ...] = ()


class Recall(msgspec.Struct, frozen=True):
    """Ask the context sources, before the first step."""


class UseTools(msgspec.Struct, frozen=True):
    """Request the calls that a person's message makes, before the model sees the message."""

    calls: tuple[ToolCall, ...]


class CallTools(msgspec.Struct, frozen=True):
    """Run these calls; more than one only when all may run side by side."""

    calls: tuple[CallState, ...]


class Wait(msgspec.Struct, frozen=True):
    """End the segment: a call is finished by a person, a client or another run."""

    on: tuple[e.WaitingOn, ...]


class Finish(msgspec.Struct, frozen=True):
    """End the run."""

    end: e.Terminal


Move = Ask | AskHooks | Recall | UseTools | CallTools | Wait | Compact | Finish


def pause_before(state: RunState, failure: e.StepFailed) -> float:
    """Return the seconds before the next attempt: what the provider asks for, or a backoff, spread by run.

    A provider that asks for no pause at all gets none, once.
    """
    growing = backoff(state.run, state.step.failures, longer=failure.code == "overloaded")
    if failure.retry_after is None:
        return growing
    return failure.retry_after if state.step.failures <= 1 else max(failure.retry_after, growing)


def backoff(run: str, failures: int, *, longer: bool = False) -> float:
    """Return the seconds before the next attempt after *failures*: about 0.5, 1, 2; four times that if *longer*.

    They are up to a quarter shorter, by the run's id, so that runs which failed together do not retry together.
    """
    spread = zlib.crc32(f"{run}.{failures}".encode()) / 2**32
    return 0.5 * 2.0 ** (failures - 1) * (4 if longer else 1) * (1 - 0.25 * spread)


AFTER_UNTRUSTED = "parley:after_untrusted"
"""The name in the log of the rule that an agent's `after_untrusted` is; no hook can have it."""


def needs_ruling(call: CallState, state: RunState, agent: Agent) -> bool:
    """Return whether the rule has yet to rule on *call*.

    It is about calls that write, of steps whose model has read an untrusted result; not about those that people
    approved already, for whatever reason.
    """
    if state.untrusted_since is None or call.step <= state.untrusted_since:
        return False
    if agent.definition.after_untrusted == "allow" or call.approved_for or AFTER_UNTRUSTED in call.allowed_by:
        return False
    spec = agent.tools.get(call.name)
    return spec is not None and spec.kind != "none" and spec.effect == "write"


MAX_RETRIES = 3
MAX_CONTINUATIONS = 3
MAX_RESUMES = 5
MAX_ENDS = 2
"""Processes that may end while a call runs, before it is not made again."""
MAX_REPEATS = 3
MAX_REMINDERS = 1
MAX_LEFT_OUT = 3
"""Times that a step is asked again without something that its provider refused."""
MAX_PAUSE = 120.0
MAX_WAIT_BEFORE_FALLBACK = 5.0
"""Seconds to wait for a model, once, before its fallback model answers instead."""
NO_FALLBACK = ASKED_AGAIN | {"invalid", "stale_reasoning", CONTENT_REFUSED, FILE_REFUSED, CONTROLS_REFUSED}
"""Failures that another model would share; a full context is not one of them: the fallback's may be larger."""
EMPTY_NOTE = "Your answer was empty. Answer now with what you have, in words."
ONCE_MORE = "Answer once more, with the whole JSON value that fits the schema, and nothing else."
RESUME_NOTE = "Your answer was interrupted. Go on where it stops, without repeating anything."
CONTINUE_NOTE = (
    "Your answer was cut at the output limit. Continue exactly where it stops, without repeating anything; "
    "a tool call that was cut has not run."
)


SYSTEM = Actor("parley", "service")


def react(state: RunState, agent: Agent) -> Move:
    """Think, act, observe: ask the model, run what it calls, and again, until it answers."""
    if ending := _forced_end(state):
        return ending
    if not state.step.n and any(hook.name not in state.waiting.start_hooks for hook in agent.hooks("OnRunStart")):
        return AskHooks()
    if state.waiting.wanted:
        return UseTools(state.waiting.wanted)
    if not state.step.n and agent.has_sources and state.inbox.recalled is None:
        return Recall()
    if state.waiting.calls and not state.step.is_open and (move := _open_calls(state, agent)):
        return move
    if state.step.is_open:
        return _retry(state, agent)
    return _next(state, agent)


def message_id(run: str, n: int) -> str:
    """Return the id of the message of step *n*: all attempts of a step share it, also after a crash."""
    return f"msg_{run.partition('_')[2]}.{n}"


def _forced_end(state: RunState) -> Finish | None:
    if state.cancelling:
        return Finish(e.RunCancelled(by=state.cancelling.by, reason=state.cancelling.reason))
    if state.waiting.blocked and not state.step.is_open:
        return _completed(state, "blocked")
    if state.waiting.expired:
        return _fail("approval_expired", "No decision was made in time, and without one this cannot go on.")
    if state.failed_resumes >= MAX_RESUMES:
        return _fail("lost", "The run was interrupted again and again without getting anywhere.")
    if fatal := [f"`{c.name}`" for c in state.waiting.calls if c.status == "started" and c.ends >= MAX_ENDS]:
        names = " and ".join(dict.fromkeys(fatal))
        return _fail("lost", f"The process ended {MAX_ENDS} times while {names} ran; it is not called again.")
    doomed = next((c for c in state.waiting.calls if c.repeat >= MAX_REPEATS and c.status == "requested"), None)
    if doomed:
        return _fail("doom_loop", f"The model asked for the same call of `{doomed.name}` {MAX_REPEATS} times in a row.")
    return None


def _open_calls(state: RunState, agent: Agent) -> AskHooks | CallTools | Wait | Finish | None:
    """Return the calls that are due: interrupted ones first, then in order, concurrency-safe neighbours together.

    The hooks are asked about all calls before the first one runs. A call of a tool without executor is the answer.
    """
    interrupted = tuple(c for c in state.waiting.calls if c.status == "started" and c.epoch < state.epoch)
    if interrupted:
        return CallTools(interrupted)
    requested = tuple(c for c in state.waiting.calls if c.status == "requested")
    if unruled := tuple(c for c in requested if _needs_ruling(c, state, agent)):
        return AskHooks(unruled)
    if requested:
        safe = 0
        while safe < len(requested) and _is_safe(requested[safe], agent):
            safe += 1
        return CallTools(requested[: max(safe, 1)])
    waiting: set[e.WaitingOn] = {c.on for c in state.waiting.calls if c.status == "pending" and c.on}
    if waiting:
        return Wait(tuple(sorted(waiting)))
    answer = next((c for c in state.waiting.calls if c.outcome == "done" and _kind(c, agent) == "none"), None)
    return _completed(state, "no_executor", structured=answer.arguments) if answer else None


def _kind(call: CallState, agent: Agent) -> str | None:
    spec = agent.tools.get(call.name)
    return spec.kind if spec else None


def _needs_ruling(call: CallState, state: RunState, agent: Agent) -> bool:
    """Return whether a hook or rule has yet to rule on *call*; none is asked about a call that cannot run anyway."""
    if call.denial is not None or call.raw is not None or call.name not in agent.tools:
        return False
    allowed = {*call.allowed_by, *call.approved_for}
    unasked = any(hook.name not in allowed for hook in agent.hooks("PreToolUse", call.name))
    return unasked or needs_ruling(call, state, agent)


def _is_safe(call: CallState, agent: Agent) -> bool:
    spec = agent.tools.get(call.name)
    if call.denial is not None:
        return True
    return spec is not None and spec.concurrency_safe


def _retry(state: RunState, agent: Agent) -> Move:
    """Return another attempt of the open step: it failed, its calls were refused, or its worker crashed."""
    step = state.step
    failure, model = step.failure, step.model
    pause, repair = 0.0, False
    overflowed = failure is not None and failure.code == OVERFLOW
    if overflowed and not state.compaction.answers and (compact := _make_room(state, agent)):
        return compact
    if failure and failure.code == "stale_reasoning" and not step.reasoning_dropped:
        repair = True
    elif state.compaction.answers and (overflowed or state.compaction.made <= MAX_LEFT_OUT):
        pass  # the same model once more, with a shorter prompt
    elif failure and failure.code not in ASKED_AGAIN and not _fits_in_note(step, agent):
        pause = pause_before(state, failure)
        if fallback := _fallback_model(step, agent, failure, pause):
            model, pause = fallback, 0.0
        elif not failure.retryable or step.failures > MAX_RETRIES or pause > MAX_PAUSE:
            return _gave_up(failure)
    chosen = replace(read(step.controls), model=model) if step.controls else controls(step.n, agent, model)
    paused = step.paused and not repair and not state.compaction.made and chosen.model == step.model
    note = RESUME_NOTE if step.paused and not paused else None
    ask = _ask(state, agent, chosen, attempt=step.attempt + 1, delay=pause, note=note, repair=repair)
    return replace(ask, takes=()) if paused else ask


def _fits_in_note(step: StepState, agent: Agent) -> bool:
    """Return whether the model's API refused controls, for the first time, that a note can ask for instead."""
    if not (step.failure and step.failure.code == CONTROLS_REFUSED and step.controls):
        return False
    chosen = read(step.controls)
    chosen = chosen if agent.tools else replace(chosen, tool_choice=None)
    was_asked = sent(chosen, agent.able(step.model or "")) != sent(chosen, UNABLE)
    return was_asked and step.remedied.count(CONTROLS_REFUSED) == 1


def _fallback_model(step: StepState, agent: Agent, failure: e.StepFailed, pause: float) -> str | None:
    """Return the model that takes over, if it is time for one: never after some of an answer was shown."""
    waits = failure.retryable and step.failures <= 1 and pause <= MAX_WAIT_BEFORE_FALLBACK
    if step.displayed or failure.code in NO_FALLBACK or waits:
        return None
    models = (agent.snapshot.model, *agent.definition.fallback_models)
    place = models.index(step.model) if step.model in models else 0
    return models[place + 1] if place + 1 < len(models) else None


def _gave_up(failure: e.StepFailed) -> Finish:
    code = "context_overflow" if failure.code == "context_overflow" else "provider_error"
    return _fail(code, explanation(failure.code), retryable=failure.retryable, detail=failure.message)


def _next(state: RunState, agent: Agent) -> Move:
    """Decide after a whole step, or before the first one."""
    step = state.step
    n = step.n + 1
    chosen = controls(n, agent, step.model, override=step.next_override, defaults=step.defaults)
    limit, budget = chosen.max_steps or 1, chosen.budget
    if _is_stopped(state):
        return _completed(state, "stop_condition")
    wants_more = step.n == 0 or state.inbox.needs_step or state.answer.stop in ("tools", "continue")
    note = _remedy(state, agent)
    if not (wants_more or note) or n > limit:
        return _completed(state, _stop_reason(state, agent, limit))
    if budget and is_spent(budget, state.spent):
        return _completed(state, "budget")
    ask = _ask(state, agent, chosen, n=n, note=note)
    if state.answer.stop == "continue" and step.controls:
        return _resumed(ask, state, agent)
    return _compact(state, agent, ask) or ask


def _resumed(ask: Ask, state: RunState, agent: Agent) -> Ask:
    """Return *ask* as it continues a paused answer: by the model that began it, and with nothing after it.

    Messages wait for the step that follows, and so do controls that the model reads in a note.
    """
    if ask.note or ask.controls.model != state.step.model:
        ask = _ask(state, agent, read(state.step.controls or {}), n=ask.n)
    return replace(ask, takes=(), note=None)


def _remedy(state: RunState, agent: Agent) -> str | None:
    """Return the note to the model about an answer that is cut, empty or does not fit its schema.

    A cut answer that hooks have ruled on ends there: if it were continued, none of them would see the whole.
    """
    is_ruled = bool(state.answer.text and agent.hooks("PreResponse"))
    if state.answer.stop == "length" and state.answer.continuations <= MAX_CONTINUATIONS and not is_ruled:
        return CONTINUE_NOTE
    if state.inbox.needs_step:
        return None
    if state.answer.is_empty and state.answer.reminders <= MAX_REMINDERS:
        return EMPTY_NOTE
    _, faults = _structured(state)
    if faults and state.answer.stop == "done" and state.answer.completed == 1:
        return f"Your answer is not what was asked for: {'; '.join(faults)}. {ONCE_MORE}"
    return None


def _structured(state: RunState) -> tuple[Any, Sequence[str]]:
    """Return the last answer as a value, and how it fails the schema that it has to fit; unset without a schema."""
    schema = (state.step.controls or {}).get("output_schema")
    if schema is None:
        return msgspec.UNSET, ()
    value, faults = read_answer(schema, state.answer.text)
    return None if faults else value, faults


def _is_stopped(state: RunState) -> bool:
    """Return whether the step that ended executed a call after which the run is to stop."""
    if state.answer.stop != "tools" or not state.step.controls:
        return False
    names = {condition["tool"] for condition in state.step.controls.get("stop_conditions", ())}
    return any(not names.isdisjoint({call.name, call.via}) and call.outcome != "denied" for call in state.waiting.calls)


def _completed(state: RunState, reason: e.StopReason, *, structured: Any = msgspec.UNSET) -> Finish:
    cost, usage = state.cost if state.usage else None, state.usage or UNKNOWN_USAGE
    if structured is msgspec.UNSET:
        value, _ = _structured(state)
        structured = None if value is not msgspec.UNSET and state.answer.stop != "done" else value
    return Finish(e.RunCompleted(stop_reason=reason, usage=usage, cost=cost, structured=structured))


def _make_room(state: RunState, agent: Agent) -> Compact | None:
    """Return the compaction after which a prompt may fit that did not; None if the run has none left.

    It comes before a fallback model with a larger context: that one would be billed for all of the prompt, and so would
    each next message of the session, which is as long; the fallback is for what no compaction makes shorter. Where
    no summary can be made the older part is cut, once in a step: else no later message would fit either.
    """
    tried, step = state.compaction, state.step
    policy = agent.definition.compaction
    if tried.is_off and (policy.kind != "summary" or tried.failures > MAX_FAILURES):
        return None
    policy = Compaction(kind="cut") if tried.is_off else policy
    move = on_overflow(state.fill, state.window_size, policy)
    if move is None:
        return None
    chosen = read(step.controls or {})
    pause = backoff(state.run, tried.failures) if tried.failed_at == step.n else 0.0
    sends = as_prompted(sent(chosen, _able(step, agent, chosen.model)), agent)
    return replace(move, controls=sends, delay=pause)


def _compact(state: RunState, agent: Agent, ask: Ask) -> Compact | None:
    """Return the compaction that is due before *ask*: of messages beyond their limit, to half of it, or of tokens.

    After a try that failed the step is asked as it is; the next step tries again. After three in a row the session's
    later runs try again only where the prompt would not fit.
    """
    policy, tried, size = agent.definition.compaction, state.compaction, state.window_size
    if tried.is_off or tried.failed_at == state.step.n:
        return None
    whole = not set(state.inbox.user_messages).isdisjoint(state.inbox.unconsumed)
    limit, more = agent.definition.limits.max_context_messages, len(state.inbox.unconsumed) + bool(ask.note)
    older = size - (state.fill.head if state.fill else 0) if whole else state.window_border
    move = (
        of_messages(limit, size, more, kind=policy.kind, whole=whole)
        if older and not rests(state.fill, policy)
        else None
    )
    move = move or when_due(state.fill, size, policy, whole=whole)
    return replace(move, controls=ask.sends or ask.controls) if move else None


def _takes(state: RunState, agent: Agent) -> tuple[int, ...]:
    """Return what the step consumes: all that is unconsumed, but of a history beyond the limit only its newest half."""
    limit, unconsumed = agent.definition.limits.max_context_messages, state.inbox.unconsumed
    if limit is None or len(unconsumed) <= limit:
        return unconsumed
    by_user = set(state.inbox.user_messages)
    borders = [index for index, seq in enumerate(unconsumed) if seq in by_user]
    first = len(unconsumed) - limit // 2
    return unconsumed[next((index for index in borders if index >= first), borders[-1] if borders else first) :]


def _stop_reason(state: RunState, agent: Agent, limit: int) -> e.StopReason:
    """Return why a run ends with its last answer: `max_steps` exactly if tools were withheld and *limit* is above 1."""
    if state.answer.stop == "refused":
        return "refused"
    if agent.tools and limit > 1 and state.step.n >= limit:
        return "max_steps"
    return "max_tokens" if state.answer.stop == "length" else "end_turn"


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
    """Return the model call with the *chosen* controls: step *n*, or another attempt of the open one."""
    step = state.step
    before = read(step.controls) if step.controls else None
    now = _able(step, agent, chosen.model)
    then = _able(step, agent, step.model, refused=step.failure is not None and step.failure.code == CONTROLS_REFUSED)
    changes = news(before, chosen, (then, now), agent.tools)
    forced = forced_by_name(before, chosen, agent)
    return Ask(
        n=n or step.n,
        attempt=attempt,
        message=message_id(state.run, n or step.n),
        takes=_takes(state, agent),
        controls=chosen,
        sends=as_prompted(sent(chosen, now, firm=n is None and TOOLS_WITHHELD in step.remedied), agent),
        snapshot=agent.snapshot.hash,
        delay=delay,
        note=" ".join(filter(None, (note, changes, forced))) or None,
        repair=repair,
    )


def _able(step: StepState, agent: Agent, model: str | None, *, refused: bool = False) -> Abilities:
    """Return what the API of *model* enforces by itself; *refused*: before it refused that in the last attempt."""
    return UNABLE if step.refusing_model == model and not refused else agent.able(model or "")


def _fail(
    code: e.FailureCode,
    message: str,
    *,
    retryable: bool = False,
    detail: str | None = None,
) -> Finish:
    return Finish(e.RunFailed(code=code, message=message, retryable=retryable, detail=detail))


NOT_RUN = "Not run: the run ended before this call was started."
NOT_DECIDED = (
    "Not run: nothing was decided about this call, for the person wrote something else first. "
    "Ask for it again if it is still wanted."
)
STOPPED = "Stopped before it ended."
WITHDRAWN = "The question was withdrawn: another message came before anything was decided."
UNKNOWN = "It is not known whether this call took effect: it was interrupted. Check before you repeat it."
_LOSSES = {
    "all": "nothing of the prompt is read from the cache, all of it is {}",
    "snapshot": "tools, system text and messages are {} from the first difference on",
    "messages": "the messages are {}, tools and system are read",
}


def announce(move: Move, state: RunState, agent: Agent, displayed: tuple[Part, ...] = ()) -> Sequence[FactBody]:
    """Return the facts to append before *move* is acted on; `takes` of a step may be relative, see `StepStarted`.

    *displayed* is what people have read of the open message.
    """
    match move:
        case Ask():
            return _announce_ask(move, state, agent)
        case CallTools():
            return [e.ToolStarted(call=c.call) for c in move.calls if _starts(c, agent.tools)]
        case UseTools():
            return [
                e.ToolRequested(
                    call=used.call,
                    name=used.name,
                    arguments=used.arguments,
                    index=index,
                    step=state.step.n,
                    title=spec.title if (spec := agent.tools.get(used.name)) else None,
                    title_done=spec.title_done if spec else None,
                )
                for index, used in enumerate(move.calls)
            ]
        case Wait():
            return [e.RunWaiting(on=move.on)]
        case Compact() | AskHooks() | Recall():
            return []
        case Finish():
            return finish(move.end, state, agent.tools, displayed)


def finish(
    end: e.Terminal, state: RunState, tools: Mapping[str, ToolSpec], displayed: tuple[Part, ...] = ()
) -> Sequence[FactBody]:
    """Return the facts that end a run, the end of its open message, approvals and calls among them.

    What people have read of that message, *displayed*, stays, as a part of an answer.
    """
    facts: list[FactBody] = []
    if state.step.is_open:
        stop = "cancelled" if isinstance(end, e.RunCancelled) else "error"
        facts.append(
            e.MessageCompleted(message=state.step.message, role="assistant", parts=displayed, stop=stop, partial=True)
        )
    is_interrupted = isinstance(end, e.RunCancelled) and end.reason == INTERRUPTED
    for call in state.waiting.open_calls():
        is_asked = call.status == "pending" and call.on == "approval"
        if is_asked and (approval := call.approval):
            facts.append(
                e.ApprovalDecided(
                    approval=approval.approval,
                    call=call.call,
                    tool=call.name,
                    arguments=call.arguments if approval.form is None else approval.given,
                    status="cancelled",
                    by=getattr(end, "by", None),
                    reason=WITHDRAWN if is_interrupted else None,
                )
            )
        facts.append(_closed(call, tools, NOT_DECIDED if is_interrupted and is_asked else NOT_RUN))
    return [*facts, end]


def cancelled(state: RunState) -> list[FactBody]:
    """Return the facts that end a cancelled run that has no driver."""
    assert state.cancelling is not None
    end = e.RunCancelled(by=state.cancelling.by, reason=state.cancelling.reason)
    return list(finish(end, state, {}))


def _starts(call: CallState, tools: Mapping[str, ToolSpec]) -> bool:
    """Return whether this process executes *call*."""
    if call.status != "requested" or call.raw is not None or call.denial is not None:
        return False
    spec = tools.get(call.name)
    return spec is None or spec.kind == "function"


def _announce_ask(move: Ask, state: RunState, agent: Agent) -> Sequence[FactBody]:
    chosen = recorded(move.controls)
    before: list[FactBody] = [e.SnapshotFrozen(hash=move.snapshot, reason=REPAIR)] if move.repair else []
    if move.note:
        before.append(e.ContextAdded(source="note", text=move.note))
    takes = (*(t if t > 0 else t - len(before) for t in move.takes), *((-1,) if move.note else ()))
    started = e.StepStarted(
        n=move.n,
        attempt=move.attempt,
        message=move.message,
        takes=takes,
        snapshot=move.snapshot,
        controls=None if chosen == state.step.controls else chosen,
        cache_note=cache_note(move, chosen, state.last_call, agent),
        vision=agent.able(move.controls.model or "").vision,
    )
    return [*before, started]


def cache_note(move: Ask, chosen: dict[str, Any], last: PromptCall | None, agent: Agent) -> str | None:
    """Return what the cache loses with *move*, whose controls are recorded as *chosen*, after the call *last*.

    None when there was none before it, nothing changed that its vendor caches prompts under, the model has no cache
    that is billed, or nothing is marked for it.
    """
    caching = agent.able(move.controls.model or "").caching
    if last is None or caching is None or not agent.prompt_caching:
        return None
    model = str(chosen.get("model") or "")
    if last.model == model and last.snapshot == move.snapshot and last.controls == chosen:
        return None
    now = PromptCall(time=0, model=model, snapshot=move.snapshot, entries=0, controls=chosen, usage=UNKNOWN_USAGE)
    before = as_prompted(sent(read(last.controls), agent.able(last.model)), agent).tool_choice
    differences = changes(last, now, (before, (move.sends or move.controls).tool_choice), caching)
    return sentence(differences, caching) if differences else None


def sentence(changes: Sequence[CacheChange], caching: Caching) -> str:
    """Return *changes* as a sentence, the worst first, and what their vendor's cache loses."""
    again = "written again" if caching.exact else "processed again"
    return f"{' and '.join(map(_named, changes))}: {_LOSSES[changes[0].loses].format(again)}."


def _named(change: CacheChange) -> str:
    if change.name == "snapshot":
        return "the frozen prompt changed"
    return f"`{change.name}` changed from {change.before} to {change.now}"


def _closed(call: CallState, tools: Mapping[str, ToolSpec], unstarted: str) -> e.ToolCompleted:
    outcome: CallOutcome = "cancelled"
    text = STOPPED if call.status == "started" else unstarted
    spec = tools.get(call.name)
    if call.status == "started" and (spec is None or spec.effect == "write"):
        outcome, text = "unknown", UNKNOWN
    return e.ToolCompleted(call=call.call, outcome=outcome, parts=(Text(text),), truncated=False)

"""The facts that say what is about to happen, before it does, and what the prompt cache loses by it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_core import events as e
from agent_core.agent.compaction import Compact
from agent_core.agent.state import REPAIR, RunState
from agent_core.agent.strategy import Ask, AskHooks, CallTools, Finish, Move, Recall, UseTools, Wait
from agent_core.agent.waiting import CallState
from agent_core.agents import Agent, ToolSpec, as_prompted
from agent_core.channels import INTERRUPTED
from agent_core.controls import CacheChange, Caching, PromptCall, changes, read, recorded, sent
from agent_core.events import FactBody
from agent_core.messages import UNKNOWN_USAGE, CallOutcome, Part, Text

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
            return _ask(move, state, agent)
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


def _ask(move: Ask, state: RunState, agent: Agent) -> Sequence[FactBody]:
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

"""view: the fold of a session's events into the `Body` that channels show; pure, and cheap enough for every delta."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from agent_core import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalVoted,
    Event,
    Fact,
    MessageCompleted,
    MessageCorrected,
    MessageReceived,
    Part,
    Reasoning,
    ReasoningDelta,
    RenderShown,
    RunCancelled,
    RunCancelling,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunResumed,
    RunStarted,
    RunWaiting,
    StepStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolPending,
    ToolProgress,
    ToolRequested,
    ToolStarted,
)
from channels.base import Body, Call, GrowingText, Piece, Question, Run, ShownMessage, ShownRender

EMPTY = Body()

_Delta = TextDelta | ReasoningDelta
_MessageBody = MessageReceived | MessageCorrected | MessageCompleted
_ToolBody = ToolRequested | ToolStarted | ToolProgress | ToolPending | ToolCompleted | RenderShown
_AskBody = ApprovalRequested | ApprovalVoted | ApprovalDecided
_CALLS = (ToolStarted, ToolProgress, ToolPending, ToolCompleted, RenderShown, *_AskBody.__args__)
_RunBody = RunQueued | RunStarted | RunResumed | RunWaiting | RunCancelling | RunCompleted | RunFailed | RunCancelled
_SHOWN = {StepStarted.type} | frozenset(
    cls.type for kinds in (_Delta, _MessageBody, _ToolBody, _AskBody, _RunBody) for cls in kinds.__args__
)


def view(body: Body, event: Event) -> Body:
    """Fold *event* into *body*.

    A fact at or below `body.seq` changes nothing, so overlapping reads are harmless; unknown events and those of child
    runs are passed over.
    """
    if not isinstance(event, Fact):
        return _apply(body, event) if event.parent_run is None and event.type in _SHOWN else body
    if event.seq <= body.seq:
        return body
    if event.parent_run is None and event.type in _SHOWN:
        body = _apply(body, event)
    return replace(body, seq=event.seq)


def _apply(body: Body, event: Event) -> Body:
    run, seq = event.run, event.seq if isinstance(event, Fact) else 0
    match event.body:
        case TextDelta() | ReasoningDelta() as delta:
            return _write(body, delta, run)
        case MessageReceived() as fact:
            steered = body.run(run) is not None
            said = ShownMessage(fact.message, "user", run, seq=seq, parts=_pieces(fact.parts), steered=steered)
            return replace(body, waiting=(*body.waiting, said))
        case MessageCorrected() as fact:
            return _correct(body, fact)
        case MessageCompleted() as fact:
            return _complete(body, fact, run, seq)
        case StepStarted() as fact:
            return _start_step(body, fact, run)
        case ToolRequested() as fact:
            return _request(body, fact, run)
        case fact if isinstance(fact, _CALLS):
            return _apply_call(body, fact, event.time)
        case fact:
            return body if run is None else _apply_run(body, run, fact)


def _apply_call(body: Body, fact: Any, time: int) -> Body:
    match fact:
        case ToolStarted(call=call):
            return _change_call(body, call, status="running")
        case ToolProgress(call=call, text=text):
            return _change_call(body, call, progress=text)
        case ToolPending(call=call):
            return _change_call(body, call, status="waiting")
        case ToolCompleted(call=call, outcome=outcome):
            return _change_call(body, call, status=outcome, progress=None)
        case RenderShown():
            return _draw(body, fact)
        case ApprovalRequested() as fact:
            return _change_call(body, fact.call, question=_question(fact, time))
        case ApprovalVoted(votes=yes, arguments=arguments, edited=edited) as fact:
            return _change_question(body, fact.call, yes=yes, arguments=arguments, edited=edited)
        case ApprovalDecided(status=status, arguments=arguments, edited=edited, by=by, reason=reason) as fact:
            told = {"arguments": arguments, "edited": edited, "by": by, "reason": reason}
            return _change_question(body, fact.call, status=status, **told)
        case _:
            return body


def _apply_run(body: Body, run: str, fact: Any) -> Body:
    match fact:
        case RunQueued(inputs=inputs):
            return _change_run(_hand(body, inputs, run), run, status="queued")
        case RunStarted() | RunResumed():
            return _change_run(body, run, status="running")
        case RunWaiting(on=on):
            status = "requires_action" if "client" in on else "waiting"
            return _mark(_change_run(body, run, status=status), run)
        case RunCancelling(clears=clears):
            joined = tuple(said.seq for said in body.waiting if clears and said.run == run)
            return _change_run(_hand(body, joined, run), run, cancelling=True)
        case RunCompleted(stop_reason=reason):
            return _settle(_change_run(body, run, status="completed", cancelling=False, reason=reason), run)
        case RunFailed(message=message):
            return _settle(_change_run(body, run, status="failed", cancelling=False, error=message), run)
        case RunCancelled():
            return _settle(_change_run(_pass_over(body, run), run, status="cancelled", cancelling=False), run)
        case _:
            return body


def _write(body: Body, delta: _Delta, run: str | None) -> Body:
    """Put *delta* where it belongs: `shown[:offset] + text`, after clearing what an older try wrote."""
    said = _find(body, delta.message)
    if said is None:
        said = ShownMessage(delta.message, "assistant", run, open=True)
        body = replace(body, recent=(*body.recent, said))
    if not said.open or (delta.epoch, delta.attempt) < (said.epoch, said.attempt):
        return body
    is_newer = (delta.epoch, delta.attempt) > (said.epoch, said.attempt)
    parts = list(() if is_newer else said.parts)
    parts += [Piece("other", GrowingText.of(""))] * (delta.part + 1 - len(parts))
    kind = "text" if isinstance(delta, TextDelta) else "reasoning"
    shown = parts[delta.part]
    grown = shown.text.put(delta.offset, delta.text) if shown.kind == kind else GrowingText.of(delta.text)
    parts[delta.part] = Piece(kind, grown)
    changed = replace(said, parts=tuple(parts), epoch=delta.epoch, attempt=delta.attempt)
    return _put(body, changed)


def _complete(body: Body, fact: MessageCompleted, run: str | None, seq: int) -> Body:
    """Replace what was shown of a message; show the calls that it asks for before `tool.requested` tells of them."""
    said = _find(body, fact.message)
    if said is None:
        said = ShownMessage(fact.message, fact.role, run)
        if fact.role == "assistant" and run is not None:  # no step took what this answers, as when a hook refused it
            body = _give_up(body, run, keeper=run)
        body = replace(body, recent=(*body.recent, said))
    known = {call.id for call in said.calls}
    calls = (Call(part.call, part.name, "requested") for part in fact.parts if isinstance(part, ToolCall))
    added = tuple(call for call in calls if call.id not in known)
    return _put(
        body,
        replace(
            said,
            seq=seq,
            parts=_pieces(fact.parts),
            calls=said.calls + added,
            open=False,
            partial=fact.partial,
            continued=fact.stop in ("length", "continue"),
        ),
    )


def _start_step(body: Body, fact: StepStarted, run: str | None) -> Body:
    """Open the step's message behind the messages that the step takes."""
    taken = tuple(said for said in body.waiting if said.seq in fact.takes)
    waiting = tuple(said for said in body.waiting if said.seq not in fact.takes) if taken else body.waiting
    at = next((n for n, said in enumerate(body.recent) if said.id == fact.message), None)
    if at is not None:
        return replace(body, waiting=waiting, recent=(*body.recent[:at], *taken, *body.recent[at:]))
    still = next((n for n, said in enumerate(body.recent) if said.open), len(body.recent))
    opened = ShownMessage(fact.message, "assistant", run, open=True)
    return replace(
        body,
        past=body.past + body.recent[:still],
        recent=(*body.recent[still:], *taken, opened),
        waiting=waiting,
    )


def _request(body: Body, fact: ToolRequested, run: str | None) -> Body:
    """Show a call below the last message of its run, unless its message told of it already."""
    if any(call.id == fact.call for said in body.recent for call in said.calls):
        return body
    for said in body.newest():
        if said.role == "assistant" and said.run == run:
            return _put(body, replace(said, calls=(*said.calls, Call(fact.call, fact.name, "requested"))))
    return body


def _correct(body: Body, fact: MessageCorrected) -> Body:
    """Show what a message says now; one that was deleted is empty, and gone if no step took it."""
    if not fact.parts and any(said.id == fact.message for said in body.waiting):
        return replace(body, waiting=tuple(said for said in body.waiting if said.id != fact.message))
    return _change(body, fact.message, parts=_pieces(fact.parts))


def _hand(body: Body, seqs: Collection[int], run: str) -> Body:
    """Let *run* have the messages *seqs* as its own: if no step of it takes them, they end with it."""
    if not seqs:
        return body
    waiting = tuple(replace(said, run=run, steered=False) if said.seq in seqs else said for said in body.waiting)
    return replace(body, waiting=waiting)


def _pass_over(body: Body, run: str) -> Body:
    """Give up on *run* if it is cancelled in the queue behind another: no message tells of its end.

    A border would end the message of the run that is at work.
    """
    stood = body.run(run)
    behind = any(other.id != run and not other.ended for other in body.runs)
    return _give_up(body, run, keeper=None) if behind and stood and stood.status == "queued" else body


def _settle(body: Body, run: str) -> Body:
    """Close what *run* left open, and give up on its own messages that no step took.

    Those that joined it later open the next run.
    """
    body = _give_up(body, run, keeper=run)
    if any(said.open and said.run == run for said in body.recent):
        closed = tuple(replace(said, open=False) if said.run == run else said for said in body.recent)
        body = replace(body, recent=closed)
    return _mark(body, run)


def _give_up(body: Body, run: str, *, keeper: str | None) -> Body:
    """Put the messages that only *run* would have taken, now *keeper*'s, behind what was taken, in their order."""
    lost = tuple(replace(said, run=keeper) for said in body.waiting if said.run == run and not said.steered)
    if not lost:
        return body
    at = len(body.recent)
    while at and body.recent[at - 1].role == "user":
        at -= 1
    behind = sorted((*body.recent[at:], *lost), key=lambda said: said.seq)
    waiting = tuple(said for said in body.waiting if said.run != run or said.steered)
    return replace(body, recent=(*body.recent[:at], *behind), waiting=waiting)


def _mark(body: Body, run: str) -> Body:
    """Draw a border behind the last message of *run*."""
    for said in body.newest():
        if said.run == run:
            return _put(body, replace(said, border=True))
    return body


def _find(body: Body, id: str) -> ShownMessage | None:
    return next((said for said in body.newest() if said.id == id), None)


def _change(body: Body, id: str, **changes: Any) -> Body:
    waiting = tuple(replace(said, **changes) if said.id == id else said for said in body.waiting)
    said = _find(body, id)
    body = replace(body, waiting=waiting)
    return body if said is None else _put(body, replace(said, **changes))


def _change_call(body: Body, id: str, **changes: Any) -> Body:
    for said in body.newest():
        if any(call.id == id for call in said.calls):
            calls = tuple(replace(call, **changes) if call.id == id else call for call in said.calls)
            return _put(body, replace(said, calls=calls))
    return body


def _draw(body: Body, fact: RenderShown) -> Body:
    """Show a render at its call; a call that ran again shows it once."""
    shown = ShownRender(fact.render, fact.kind, fact.payload, fact.text, fact.title)
    for said in body.newest():
        for call in said.calls:
            if call.id == fact.call:
                others = tuple(each for each in call.renders if each.id != shown.id)
                return _change_call(body, call.id, renders=(*others, shown))
    return body


def _question(fact: ApprovalRequested, time: int) -> Question:
    return Question(
        id=fact.approval,
        title=fact.title,
        tool=fact.tool,
        arguments=fact.arguments,
        responders=fact.responders,
        quorum=fact.quorum,
        until=time + int(fact.timeout_s * 1000),
        detail=fact.detail,
        edit=fact.edit,
        remember=fact.remember,
    )


def _change_question(body: Body, call: str, **changes: Any) -> Body:
    for said in body.newest():
        for each in said.calls:
            if each.id == call and each.question is not None:
                return _change_call(body, call, question=replace(each.question, **changes))
    return body


def _change_run(body: Body, id: str, **changes: Any) -> Body:
    at = next((n for n in range(len(body.runs) - 1, -1, -1) if body.runs[n].id == id), None)
    if at is None:
        return replace(body, runs=(*body.runs, replace(Run(id), **changes)))
    return replace(body, runs=(*body.runs[:at], replace(body.runs[at], **changes), *body.runs[at + 1 :]))


def _put(body: Body, said: ShownMessage) -> Body:
    """Replace the message that *said* is a new state of; it is in *recent* nearly always."""
    for at in range(len(body.recent) - 1, -1, -1):
        if body.recent[at].id == said.id:
            return replace(body, recent=(*body.recent[:at], said, *body.recent[at + 1 :]))
    return replace(body, past=tuple(said if other.id == said.id else other for other in body.past))


def _pieces(parts: tuple[Part, ...]) -> tuple[Piece, ...]:
    return tuple(_piece(part) for part in parts)


def _piece(part: Part) -> Piece:
    match part:
        case Text(text):
            return Piece("text", GrowingText.of(text))
        case Reasoning(text):
            return Piece("reasoning", GrowingText.of(text))
        case _:
            return Piece("other", GrowingText.of(""))

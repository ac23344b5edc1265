"""Which part of a conversation each message of a channel shows, and where one ends; pure.

A wait, the end of a run and rollover past `MessageLimits.text` or `MessageLimits.age` end a segment; the next text
opens a new one.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from agent_core.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalVoted,
    ContentLeftOut,
    Event,
    Fact,
    MessageCompleted,
    MessageCorrected,
    MessageReceived,
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
    TextDelta,
    ToolCompleted,
    ToolPending,
    ToolProgress,
    ToolRequested,
    ToolStarted,
)
from agent_core.messages import Part, ToolCall
from channels.spec import (
    CallView,
    ConversationView,
    GrowingText,
    MessageLimits,
    Piece,
    Question,
    RunView,
    ShownMessage,
    ShownRender,
)

_LINE_END = "\n"
_SPLITS = ("\n\n", _LINE_END, " ")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Border:
    """A position in a conversation: before code point *offset* of a message's text, or after the message (None).

    *at* is where to search for the message from: its index when the border was drawn, which can only grow.
    """

    message: str
    offset: int | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} {self.offset}"

    @classmethod
    def read(cls, text: str | None) -> "Border | None":
        """Parse the border that `str` wrote as *text*."""
        if text is None:
            return None
        message, _, offset = text.partition(" ")
        return cls(message, int(offset) if offset else None)


@dataclass(frozen=True, slots=True)
class Segment:
    """What one message of a channel shows: all from *start* (None: the beginning) to *end* (None: it still grows)."""

    start: Border | None = None
    end: Border | None = None

    @property
    def names(self) -> tuple[str | None, str | None]:
        """Its borders as text."""
        return (None if self.start is None else str(self.start), None if self.end is None else str(self.end))


def cut(body: ConversationView, segment: Segment) -> ConversationView:
    """Return the picture of *segment*: its messages, the runs they belong to, and whether it is closed.

    It ends at the first border that the view drew, if that comes before its own end.
    """
    taken = body.past + body.recent
    fenced = tuple(_fenced(taken[at], message, _begin(taken[at], segment.start)) for at, message in _cut(body, segment))
    return ConversationView(recent=fenced, runs=_runs(body, fenced), closed=segment.end is not None)


def length(body: ConversationView, segment: Segment) -> int:
    """Return the code points of the text that *segment* shows."""
    return sum(len(message.text) for _, message in _cut(body, segment) if message.role == "assistant")


def border(body: ConversationView, segment: Segment, limits: MessageLimits) -> Border | None:
    """Return where *segment*, which still grows, has to end; None when it may go on."""
    room = limits.text
    last: Border | None = None
    for at, message in _cut(body, segment):
        if room is not None and message.role == "assistant":
            text = message.text
            if len(text) > room:
                offset = _begin(message, segment.start) + _split(text[:room], required=room == limits.text)
                return Border(message.id, offset, at)
            room -= len(text)
        last = Border(message.id, None, at) if message.is_last else None
    return last


def rollover(body: ConversationView, segment: Segment) -> Border | None:
    """Return the end of the words that *segment* shows, or the position after its tool calls; None without either."""
    last: Border | None = None
    for at, message in _cut(body, segment):
        if message.role != "assistant" or message.is_last:
            last = None
        elif message.open:
            words = _words(message.text)
            last = Border(message.id, _begin(message, segment.start) + words, at) if words else last
        else:
            last = Border(message.id, None, at) if message.calls else None
    return last


def _words(text: str) -> int:
    """Return the length of *text* up to the end of its last whole word."""
    return max(text.rfind(" "), text.rfind("\n")) + 1


def _cut(body: ConversationView, segment: Segment) -> Iterator[tuple[int, ShownMessage]]:
    """Yield the messages of *segment* with their indexes, the first and the last with their part of the text."""
    for at, message in _from(body, segment.start):
        begin = _begin(message, segment.start)
        end = segment.end if segment.end is not None and segment.end.message == message.id else None
        if end is not None and end.offset is not None:
            yield at, _part(message, begin, end.offset)
            return
        yield at, _part(message, begin, None) if begin else message
        if message.is_last or message.open or end is not None:  # after an open one comes only what has its own message
            return


def _begin(message: ShownMessage, start: Border | None) -> int:
    """Return the offset in *message* at which a segment from *start* on begins."""
    return start.offset or 0 if start is not None and start.message == message.id else 0


def is_visible(picture: ConversationView) -> bool:
    """Return whether there is anything to show of an agent: text, a call, or an end that has to be said."""
    if any(message.role == "assistant" and (message.calls or message.text.strip()) for message in picture.recent):
        return True
    ends = [run for run in picture.runs if run.status in ("failed", "cancelled", "waiting", "requires_action")]
    refused = [run for run in picture.runs if run.blank or run.reason not in (None, "end_turn")]
    return bool(ends or refused) and any(message.border for message in picture.recent)


def _from(body: ConversationView, start: Border | None) -> Iterator[tuple[int, ShownMessage]]:
    """Yield the messages from *start* on with their indexes, without those that no step has taken yet."""
    taken = body.past + body.recent
    at = 0
    if start is not None:
        at = next((n for n in range(start.at, len(taken)) if taken[n].id == start.message), len(taken))
        at += start.offset is None
    return ((n, taken[n]) for n in range(at, len(taken)))


def _runs(body: ConversationView, messages: Iterable[ShownMessage]) -> tuple[RunView, ...]:
    """Return the runs that *messages* belong to, searched from the newest."""
    names = {message.run for message in messages}
    runs: list[RunView] = []
    for run in reversed(body.runs):
        if len(runs) == len(names):
            break
        if run.id in names:
            runs.append(run)
    return tuple(reversed(runs))


def _part(message: ShownMessage, begin: int, end: int | None) -> ShownMessage:
    """Return *message* with a part of its text; what is shown below its text goes with the last part."""
    parts = (Piece("text", GrowingText.of(message.text[begin:end])),)
    if end is None:
        return replace(message, parts=parts)
    return replace(message, parts=parts, calls=(), border=False, alone=False)


def _fenced(whole: ShownMessage, part: ShownMessage, begin: int) -> ShownMessage:
    """Return *part* of *whole*, from *begin* on, with a code fence that the cut splits closed and reopened."""
    if whole is part:
        return part
    text, end = part.text, begin + len(part.text)
    if end < len(whole.text) and (inside := _fence_at(whole.text[:end])) is not None:
        text = f"{text.removesuffix(_LINE_END)}{_LINE_END}{inside.mark}"
    if begin and (before := _fence_at(whole.text[:begin])) is not None:
        text = f"{before.opening}{_LINE_END}{text}"
    return replace(part, parts=(Piece("text", GrowingText.of(text)),))


def _split(text: str, *, required: bool) -> int:
    """Return where to cut *text*: at the end of a paragraph, a line or a word in its second half, else at its end.

    Where a cut is not *required*, return 0 rather than cut inside a word.
    """
    for mark in _SPLITS:
        at = text.rfind(mark, len(text) // 2)
        if at > 0:
            return at + len(mark)
    return len(text) if required else 0


# ---- code fences --------------------------------------------------------------------------------


class _Fence(NamedTuple):
    """An open code fence: the *mark* that closes it, and the line that opens it again."""

    mark: str
    opening: str


def _fence_at(text: str) -> _Fence | None:
    """Return the fence that is open at the end of *text*, as CommonMark reads it at the top level."""
    fence: _Fence | None = None
    for line in _FENCE.finditer(text):
        mark, info = line["mark"], line["info"].strip()
        if fence is None:
            if mark[0] == "~" or "`" not in info:
                fence = _Fence(mark, f"{mark}{info}")
        elif mark[0] == fence.mark[0] and len(mark) >= len(fence.mark) and not info:
            fence = None
    return fence


EMPTY = ConversationView()

_Delta = TextDelta | ReasoningDelta
_MessageBody = MessageReceived | MessageCorrected | MessageCompleted
_ToolBody = ToolRequested | ToolStarted | ToolProgress | ToolPending | ToolCompleted | RenderShown
_AskBody = ApprovalRequested | ApprovalVoted | ApprovalDecided
_CALLS = (ToolStarted, ToolProgress, ToolPending, ToolCompleted, RenderShown, *_AskBody.__args__)
_RunBody = (
    ContentLeftOut
    | RunQueued
    | RunStarted
    | RunResumed
    | RunWaiting
    | RunCancelling
    | RunCompleted
    | RunFailed
    | RunCancelled
)
_SHOWN = {StepStarted.type} | frozenset(
    cls.type for kinds in (_Delta, _MessageBody, _ToolBody, _AskBody, _RunBody) for cls in kinds.__args__
)


def view(body: ConversationView, event: Event) -> ConversationView:
    """Fold *event* into *body*.

    A fact at or below `body.seq` changes nothing, so overlapping reads are harmless; unknown events and those of child
    runs are ignored.
    """
    if not isinstance(event, Fact):
        return _apply(body, event) if event.parent_run is None and event.type in _SHOWN else body
    if event.seq <= body.seq:
        return body
    if event.parent_run is None and event.type in _SHOWN:
        body = _apply(body, event)
    return replace(body, seq=event.seq)


def _apply(body: ConversationView, event: Event) -> ConversationView:
    run, seq = event.run, event.seq if isinstance(event, Fact) else 0
    match event.body:
        case TextDelta() | ReasoningDelta() as delta:
            return _write(body, delta, run)
        case MessageReceived() as fact:
            steered = body.run(run) is not None
            parts = tuple(map(Piece.of_person, fact.parts))
            message = ShownMessage(fact.message, "user", run, seq=seq, parts=parts, steered=steered)
            return replace(body, waiting=(*body.waiting, message))
        case MessageCorrected() as fact:
            return _correct(body, fact)
        case MessageCompleted() as fact:
            return _complete(body, fact, run, seq)
        case StepStarted() as fact:
            return _start_step(_seen(body, fact, run), fact, run)
        case ToolRequested() as fact:
            return _request(body, fact, run)
        case fact if isinstance(fact, _CALLS):
            return _apply_call(body, fact, event.time)
        case fact:
            return body if run is None else _apply_run(body, run, fact)


def _apply_call(body: ConversationView, fact: Any, time: int) -> ConversationView:
    match fact:
        case ToolStarted(call=call):
            return _change_call(body, call, status="running", began=time)
        case ToolProgress(call=call, text=text):
            return _change_call(body, call, progress=text)
        case ToolPending(call=call):
            return _change_call(body, call, status="waiting")
        case ToolCompleted(call=call, outcome=outcome):
            return _end_call(body, call, time, status=outcome, progress=None)
        case RenderShown():
            return _draw(body, fact)
        case ApprovalRequested() as fact:
            return _change_call(body, fact.call, question=_question(fact, time))
        case ApprovalVoted(votes=yes, arguments=arguments, edited=edited) as fact:
            return _change_question(body, fact.call, yes=yes, arguments=arguments, edited=edited)
        case ApprovalDecided(status=status, arguments=arguments, edited=edited, by=by, reason=reason) as fact:
            changes = {"arguments": arguments, "edited": edited, "by": by, "reason": reason}
            return _change_question(body, fact.call, status=status, **changes)
        case _:
            return body


def _apply_run(body: ConversationView, run: str, fact: Any) -> ConversationView:
    match fact:
        case RunQueued(inputs=inputs):
            return _change_run(_hand(body, inputs, run), run, status="queued")
        case RunStarted() | RunResumed():
            return _change_run(body, run, status="running")
        case ContentLeftOut(names=names):
            known = body.run(run)
            return _change_run(body, run, left_out=((known and known.left_out) or ()) + names)
        case RunWaiting(on=on):
            status = "requires_action" if "client" in on else "waiting"
            return _mark(_change_run(body, run, status=status), run)
        case RunCancelling(clears=clears):
            joined = tuple(message.seq for message in body.waiting if clears and message.run == run)
            return _change_run(_hand(body, joined, run), run, cancelling=True)
        case RunCompleted(stop_reason=reason):
            ended = {"status": "completed", "cancelling": False, "reason": reason, "cut": _is_cut(body, run)}
            return _settle(_change_run(body, run, blank=reason == "end_turn" and _is_blank(body, run), **ended), run)
        case RunFailed(message=message):
            cut = _is_cut(body, run)
            return _settle(_change_run(body, run, status="failed", cancelling=False, error=message, cut=cut), run)
        case RunCancelled():
            return _settle(_change_run(_drop_queued(body, run), run, status="cancelled", cancelling=False), run)
        case _:
            return body


def _is_blank(body: ConversationView, run: str) -> bool:
    """Return whether *run* shows nothing after its last calls, which showed nothing to people either."""
    for message in body.newest():
        if message.run == run and message.role == "assistant":
            if message.calls:
                return not any(call.renders for call in message.calls)
            if message.text.strip() or any(piece.kind in ("other", "picture") for piece in message.parts):
                return False
    return True


def _is_cut(body: ConversationView, run: str) -> bool:
    """Return whether the last words of *run* are a part of an answer, or were to be continued."""
    last = next((each for each in body.newest() if each.run == run and each.role == "assistant"), None)
    return last is not None and (last.partial or last.continued) and bool(last.text.strip())


def _write(body: ConversationView, delta: _Delta, run: str | None) -> ConversationView:
    """Apply *delta*: `shown[:offset] + text`, after clearing the text of an earlier attempt."""
    message = _find(body, delta.message)
    if message is None:
        message = ShownMessage(delta.message, "assistant", run, open=True)
        body = replace(body, recent=(*body.recent, message))
    if not message.open or (delta.epoch, delta.attempt) < (message.epoch, message.attempt):
        return body
    is_newer = (delta.epoch, delta.attempt) > (message.epoch, message.attempt)
    parts = list(() if is_newer else message.parts)
    parts += [Piece("other", GrowingText.of(""))] * (delta.part + 1 - len(parts))
    kind = "text" if isinstance(delta, TextDelta) else "reasoning"
    text = parts[delta.part]
    grown = text.text.put(delta.offset, delta.text) if text.kind == kind else GrowingText.of(delta.text)
    parts[delta.part] = Piece(kind, grown)
    changed = replace(message, parts=tuple(parts), epoch=delta.epoch, attempt=delta.attempt)
    return _put(body, changed)


def _complete(body: ConversationView, fact: MessageCompleted, run: str | None, seq: int) -> ConversationView:
    """Replace what was shown of a message, and show its calls before their `tool.requested` arrives."""
    message = _find(body, fact.message)
    if message is None:
        message = ShownMessage(fact.message, fact.role, run)
        if fact.role == "assistant" and run is not None:  # no step took what this answers, as when a hook refused it
            body = _give_up(body, run, keeper=run)
        body = replace(body, recent=(*body.recent, message))
    if fact.actor is not None:
        return _alone(_put(body, replace(message, seq=seq, parts=_pieces(fact.parts), by=fact.actor, alone=True)))
    ids = {call.id for call in message.calls}
    calls = (CallView(part.call, part.name, "requested") for part in fact.parts if isinstance(part, ToolCall))
    added = tuple(call for call in calls if call.id not in ids)
    done = replace(
        message,
        seq=seq,
        parts=_pieces(fact.parts),
        calls=message.calls + added,
        open=False,
        partial=fact.partial,
        continued=fact.stop in ("length", "continue"),
    )
    return _alone(_put(body, done))


def _alone(body: ConversationView) -> ConversationView:
    """Let the message before a person's answer end there, once it is complete: they are never in one message."""
    for before, after in pairwise((*body.past[-1:], *body.recent)):
        if after.by is not None and before.role == "assistant" and not (before.open or before.alone):
            body = _put(body, replace(before, alone=True))
    return body


def _start_step(body: ConversationView, fact: StepStarted, run: str | None) -> ConversationView:
    """Open the step's message after the messages that the step takes."""
    taken = tuple(message for message in body.waiting if message.seq in fact.takes)
    waiting = tuple(message for message in body.waiting if message.seq not in fact.takes) if taken else body.waiting
    at = next((n for n, message in enumerate(body.recent) if message.id == fact.message), None)
    if at is not None:
        return replace(body, waiting=waiting, recent=(*body.recent[:at], *taken, *body.recent[at:]))
    still = next((n for n, message in enumerate(body.recent) if message.open), len(body.recent))
    opened = ShownMessage(fact.message, "assistant", run, open=True)
    return replace(
        body,
        past=body.past + body.recent[:still],
        recent=(*body.recent[still:], *taken, opened),
        waiting=waiting,
    )


def _seen(body: ConversationView, fact: StepStarted, run: str | None) -> ConversationView:
    """Note whether the model of a step sees the pictures that its run's messages came with."""
    view = None if run is None else body.run(run)
    taken = (piece for message in body.waiting if message.seq in fact.takes for piece in message.parts)
    if view is None or not (view.pictured or any(piece.kind == "picture" for piece in taken)):
        return body
    return _change_run(body, view.id, pictured=True, unseen=not fact.vision)


def _request(body: ConversationView, fact: ToolRequested, run: str | None) -> ConversationView:
    """Show a call below the last message of its run; one that is shown already gets the name of the tool it means."""
    if any(call.id == fact.call for message in body.recent for call in message.calls):
        named = {"title": fact.title, "title_done": fact.title_done}
        return _change_call(body, fact.call, name=fact.name, **{key: each for key, each in named.items() if each})
    requested = CallView(fact.call, fact.name, "requested", title=fact.title, title_done=fact.title_done)
    for message in body.newest():
        if message.role == "assistant" and message.run == run:
            return _put(body, replace(message, calls=(*message.calls, requested)))
    if fact.step or run is None:
        return body
    # A person's message made the call, and no step has taken it yet: the call is shown below it.
    taken = tuple(replace(message, steered=False) for message in body.waiting if message.run == run)
    waiting = tuple(message for message in body.waiting if message.run != run)
    made = ShownMessage(f"{run}.0", "assistant", run, calls=(requested,))
    return replace(body, recent=(*body.recent, *taken, made), waiting=waiting)


def _correct(body: ConversationView, fact: MessageCorrected) -> ConversationView:
    """Show the corrected text of a message; a deleted one is empty, or removed if no step took it."""
    if not fact.parts and any(message.id == fact.message for message in body.waiting):
        return replace(body, waiting=tuple(message for message in body.waiting if message.id != fact.message))
    return _change(body, fact.message, parts=_pieces(fact.parts))


def _hand(body: ConversationView, seqs: Collection[int], run: str) -> ConversationView:
    """Assign the messages *seqs* to *run*: if no step of it takes them, they end with it."""
    if not seqs:
        return body
    waiting = tuple(
        replace(message, run=run, steered=False) if message.seq in seqs else message for message in body.waiting
    )
    return replace(body, waiting=waiting)


def _drop_queued(body: ConversationView, run: str) -> ConversationView:
    """Drop *run* without a border if it is cancelled while queued after another run.

    A border would end the message of the run that is active.
    """
    view = body.run(run)
    is_blocked = any(other.id != run and not other.ended for other in body.runs)
    return _give_up(body, run, keeper=None) if is_blocked and view and view.status == "queued" else body


def _settle(body: ConversationView, run: str) -> ConversationView:
    """Close the open messages of *run*, and its own messages that no step took.

    Those that were added to it later open the next run.
    """
    body = _give_up(body, run, keeper=run)
    if any(message.open and message.run == run for message in body.recent):
        closed = tuple(replace(message, open=False) if message.run == run else message for message in body.recent)
        body = replace(body, recent=closed)
    return _mark(body, run)


def _give_up(body: ConversationView, run: str, *, keeper: str | None) -> ConversationView:
    """Move the messages that only *run* would have taken after those that were taken; they belong to *keeper* now."""
    lost = tuple(replace(message, run=keeper) for message in body.waiting if message.run == run and not message.steered)
    if not lost:
        return body
    at = len(body.recent)
    while at and body.recent[at - 1].role == "user":
        at -= 1
    unanswered = sorted((*body.recent[at:], *lost), key=lambda message: message.seq)
    waiting = tuple(message for message in body.waiting if message.run != run or message.steered)
    return replace(body, recent=(*body.recent[:at], *unanswered), waiting=waiting)


def _mark(body: ConversationView, run: str) -> ConversationView:
    """Draw a border after the last message of *run*."""
    for message in body.newest():
        if message.run == run:
            return _put(body, replace(message, border=True))
    return body


def _pieces(parts: Iterable[Part]) -> tuple[Piece, ...]:
    return tuple(map(Piece.of, parts))


def _find(body: ConversationView, id: str) -> ShownMessage | None:
    return next((message for message in body.newest() if message.id == id), None)


def _change(body: ConversationView, id: str, **changes: Any) -> ConversationView:
    waiting = tuple(replace(message, **changes) if message.id == id else message for message in body.waiting)
    message = _find(body, id)
    body = replace(body, waiting=waiting)
    return body if message is None else _put(body, replace(message, **changes))


def _change_call(body: ConversationView, id: str, **changes: Any) -> ConversationView:
    for message in body.newest():
        if any(call.id == id for call in message.calls):
            calls = tuple(replace(call, **changes) if call.id == id else call for call in message.calls)
            return _put(body, replace(message, calls=calls))
    return body


def _end_call(body: ConversationView, id: str, time: int, **changes: Any) -> ConversationView:
    """Change a call that has ended at *time*, and note how long it took since it was started last."""
    began = next((call.began for message in body.newest() for call in message.calls if call.id == id), None)
    seconds = None if began is None else max(0, time - began) / 1000
    return _change_call(body, id, seconds=seconds, **changes)


def _draw(body: ConversationView, fact: RenderShown) -> ConversationView:
    """Show a render at its call; a call that ran again shows it once."""
    render = ShownRender(fact.render, fact.kind, fact.payload, fact.text, fact.title)
    for message in body.newest():
        for call in message.calls:
            if call.id == fact.call:
                others = tuple(each for each in call.renders if each.id != render.id)
                return _change_call(body, call.id, renders=(*others, render))
    return body


def _question(fact: ApprovalRequested, time: int) -> Question:
    return Question(
        id=fact.approval,
        title=fact.title,
        tool=fact.tool,
        arguments=fact.given,
        responders=fact.responders,
        quorum=fact.quorum,
        until=time + int(fact.timeout_s * 1000),
        detail=fact.detail,
        edit=fact.edit,
        remember=fact.remember,
        form=fact.form,
    )


def _change_question(body: ConversationView, call: str, **changes: Any) -> ConversationView:
    for message in body.newest():
        for each in message.calls:
            if each.id == call and each.question is not None:
                return _change_call(body, call, question=replace(each.question, **changes))
    return body


def _change_run(body: ConversationView, id: str, **changes: Any) -> ConversationView:
    at = next((n for n in range(len(body.runs) - 1, -1, -1) if body.runs[n].id == id), None)
    if at is None:
        return replace(body, runs=(*body.runs, replace(RunView(id), **changes)))
    return replace(body, runs=(*body.runs[:at], replace(body.runs[at], **changes), *body.runs[at + 1 :]))


def _put(body: ConversationView, message: ShownMessage) -> ConversationView:
    """Replace the message with the id of *message*, which is nearly always in *recent*."""
    for at in range(len(body.recent) - 1, -1, -1):
        if body.recent[at].id == message.id:
            return replace(body, recent=(*body.recent[:at], message, *body.recent[at + 1 :]))
    return replace(body, past=tuple(message if other.id == message.id else other for other in body.past))

"""What a message of Slack shows of an answer: its texts and tool calls in order, and how it ended; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal

from agent_core.messages import shorten
from channels.delivery import PartTooLong
from channels.slack import limits
from channels.slack.blocks import Figure, Payload, feedback_row, payloads, segments
from channels.slack.text import flowing, neutral, safe
from channels.spec import CallView, ConversationView, RunView, ShownRender
from channels.text import lasted, one_line, unread

Json = dict[str, Any]
Status = Literal["in_progress", "complete", "error"]

_GAP = "\n\n"
_FENCE = "```"
_NOTHING = "…"
MAX_RENDER = 2_000
"""Characters of a render that is shown as text: the text of an answer has the rest of a message."""
BLANK = "The model gave no answer. Ask again, or put it in other words."
_CUT = "\n\n(The rest is too long for Slack.)"
_MIN_TEXT = 64
"""Characters of text below which a message is not divided any further."""
_FITS = 0.9
"""The share of the length limit to fill when a text is divided: escaping lengthens some parts more than others."""
_STATUS: dict[str, Status] = {
    "requested": "in_progress",
    "running": "in_progress",
    "waiting": "in_progress",
    "done": "complete",
}
_SIGN: dict[Status, str] = {"in_progress": "◌", "complete": "✓", "error": "✗"}
_OUTCOME = {"failed": "failed", "denied": "denied", "cancelled": "stopped", "unknown": "interrupted"}


@dataclass(frozen=True, slots=True)
class Words:
    """Text of an answer as Slack takes it; *mentions* says that it may mention users, *grows* that more may come."""

    key: str
    text: str
    mentions: bool = False
    grows: bool = field(default=False, compare=False)

    def chunks(self, start: int = 0) -> list[Json]:
        """Return the chunks that show the text from *start* on."""
        return [_chunk(block) for block in segments(self.text, start, allow_mentions=self.mentions)]


@dataclass(frozen=True, slots=True)
class ToolTask:
    """A tool call: *details* are its latest progress, *output* is how it ended unless it succeeded."""

    key: str
    title: str
    status: Status
    details: str = ""
    output: str = ""

    def chunk(self, before: "ToolTask | None") -> Json:
        """Return the chunk that updates the task from *before*, without unchanged fields, since Slack appends them."""
        fields = {"type": "task_update", "id": self.key, "title": self.title, "status": self.status}
        if self.details and (before is None or before.details != self.details):
            fields["details"] = self.details
        if self.output and (before is None or before.output != self.output):
            fields["output"] = self.output
        return fields

    def line(self) -> str:
        """Return the task as a line of text."""
        more = self.output or (self.details if self.status == "in_progress" else "")
        return f"{_SIGN[self.status]} {self.title}{f': {more}' if more else ''}"


@dataclass(frozen=True, slots=True)
class DrawnItem:
    """A table or a chart: its *blocks*, and the same in a few words as mrkdwn, *text*; *step* says which form it is.

    *has_file* says that a block shows an uploaded file.
    """

    key: str
    blocks: tuple[Json, ...]
    text: str
    step: int
    has_file: bool = False

    def chunks(self) -> list[Json]:
        """Return the chunk that shows it."""
        return [{"type": "blocks", "blocks": list(self.blocks)}]


Item = Words | ToolTask | DrawnItem


@dataclass(frozen=True, slots=True)
class MessagePicture:
    """One message: its *items* in order, a *notice* below them, and the run to ask *feedback* on, if it succeeded.

    *status* is that of Slack's session after a *closed* message; *run* is the one that it shows.
    """

    items: tuple[Item, ...]
    notice: str = ""
    feedback: str | None = None
    closed: bool = False
    status: Literal["processing", "active", "suspended"] = "active"
    run: str | None = None

    @property
    def length(self) -> int:
        """The characters of its text."""
        return sum(len(item.text) for item in self.items if isinstance(item, Words))

    def rows(self) -> list[Json]:
        """Return the blocks below a stream."""
        if self.notice:
            return [block for made in payloads("", notice=self.notice, feedback=self.feedback) for block in made.blocks]
        return [feedback_row(self.feedback)] if self.feedback is not None else []

    def payload(self, *, allow_mentions: bool) -> Payload:
        """Return the whole as one message, an ellipsis when there is nothing to show."""
        lines = [item.line() for item in self.items if isinstance(item, ToolTask)]
        built = payloads(
            list(self._parts()),
            lines=lines,
            notice=self.notice,
            feedback=self.feedback,
            allow_mentions=allow_mentions,
            text_room=limits.TEXT_HARD,
        )
        if len(built) < 2:  # noqa: PLR2004 - one message
            return built[0] if built else Payload((), _NOTHING)
        # Too much for one message, which our own limit prevents for all but rare texts: send the text without blocks.
        return Payload((), _GAP.join(each.text for each in built)[: limits.TEXT_HARD])

    def _parts(self) -> Iterator[str | Figure]:
        """Give its texts, and the tables and charts between them."""
        for is_drawn, items in groupby(
            (each for each in self.items if not isinstance(each, ToolTask)),
            key=lambda each: isinstance(each, DrawnItem),
        ):
            if is_drawn:
                yield from (Figure(each.blocks, each.text) for each in items if isinstance(each, DrawnItem))
            else:
                yield "".join(each.text for each in items if isinstance(each, Words)).strip()


def picture(
    body: ConversationView, *, allow_mentions: bool = False, drawn: Mapping[str, Item | None] | None = None
) -> MessagePicture:
    """Return what a message shows of *body*; *drawn* are renders that have a form of their own, None while absent."""
    items: list[Item] = []
    drawn = drawn or {}
    messages = [each for each in body.recent if each.role == "assistant"]
    run = body.runs[-1] if body.runs else None
    text_before = False
    continues = False
    for each in messages:
        grows = each.open and not body.closed
        words = each.text if each.speaker is None else f"**{one_line(each.speaker)}:**{_GAP}{each.text}"
        text = (flowing if grows else safe)(words, allow_mentions=allow_mentions)
        if text.strip():
            gap = _GAP if text_before and not continues else ""
            items.append(Words(each.id, f"{gap}{text}", allow_mentions, grows))
            text_before = True
        continues = each.continued
        items += [_task(call, ended=run is None or run.ended) for call in each.calls]
        renders = [render for call in each.calls for render in call.renders]
        figures = [drawn[render.id] if render.id in drawn else words_item(render) for render in renders]
        items += [item for item in figures if item is not None]
        text_before = text_before or bool(renders)
    if run is None or not any(each.border for each in body.recent):
        return MessagePicture(tuple(items), closed=body.closed, status="processing", run=run.id if run else None)
    answered = run.status == "completed" and bool(messages) and not messages[-1].calls
    waits = run.status in ("waiting", "requires_action")
    return MessagePicture(
        tuple(items),
        " ".join(text for text in (*unread(run), _notice(run)) if text),
        feedback=run.id if answered else None,
        closed=body.closed,
        status="suspended" if waits else "active",
        run=run.id,
    )


def words_item(render: ShownRender) -> Words:
    """Return *render* as its text."""
    return Words(render.id, f"{_GAP}{markdown_of(render)}")


def update_text(payload: Payload, wanted: MessagePicture) -> str:
    """Return the text of an update, which takes less than a post; raises `PartTooLong` for long text without blocks."""
    limit = limits.TEXT
    if payload.blocks or len(payload.text) <= limit:
        return payload.text[:limit]
    if wanted.length < _MIN_TEXT:  # it is not the answer that is long
        return payload.text[: limit - len(_CUT)] + _CUT
    raise PartTooLong("Slack takes less text in an update.", part=_FITS * limit / len(payload.text))


def never_shorter(current: Sequence[Item], wanted: Sequence[Item]) -> tuple[Item, ...]:
    """Return *wanted* with all that is *current* of a text that grows: what may become a construct is shown already."""
    *before, last = current or (None,)
    if not (isinstance(last, Words) and last.grows):
        return tuple(wanted)
    at = len(before)
    if len(wanted) == at:
        return (*wanted, last)
    now = wanted[at]
    if isinstance(now, Words) and now.grows and now.key == last.key and last.text.startswith(now.text):
        return (*wanted[:at], replace(now, text=last.text), *wanted[at + 1 :])
    return tuple(wanted)


def as_sent(current: Sequence[Item], wanted: Sequence[Item], *, streams: bool) -> tuple[Item, ...]:
    """Return *wanted* in the order in which a message that shows *current* can show it: what is new comes last.

    A picture that comes late does not split a text that grows: it comes after it. While the message *streams*, what
    was drawn stays as it is.
    """
    places = {item.key: at for at, item in enumerate(wanted)}
    result = [_retained(item, wanted, places, streams=streams) for item in current]
    before = [item for item in result if item is not None]
    keys = {item.key for item in before}
    rest = [item for item in wanted if item.key not in keys]
    last = before[-1] if before else None
    if streams and isinstance(last, Words) and last.grows:
        rest = [item for item in rest if not isinstance(item, DrawnItem) or places[item.key] > places[last.key]]
    return (*before, *rest)


def _retained(item: Item, wanted: Sequence[Item], places: Mapping[str, int], *, streams: bool) -> Item | None:
    """Return what stands in the place of *item*, which is shown."""
    if isinstance(item, DrawnItem) and streams:
        return item
    return wanted[places[item.key]] if item.key in places else None


def tail(current: Sequence[Item], wanted: Sequence[Item]) -> list[Json] | None:
    """Return the chunks that make a stream that shows *current* show *wanted*; None when no chunks can."""
    before = {item.key: item for item in current}
    chunks: list[Json] = []
    last = current[-1].key if current else None
    at_end = last is None
    for n, item in enumerate(wanted):
        old = before.get(item.key)
        if n < len(current) and current[n].key != item.key:
            return None
        match item, old:
            case Words(text=text), Words(text=sent):
                if not text.startswith(sent) or (text != sent and item.key != last):
                    return None
                chunks += item.chunks(len(sent))
            case Words(), _:
                chunks += item.chunks()
            case DrawnItem(), None:
                chunks += item.chunks()
            case DrawnItem(), _ if item != old:
                return None
            case ToolTask(), _ if item != old:
                chunks.append(item.chunk(old if isinstance(old, ToolTask) else None))
            case _:
                pass
        at_end = at_end or item.key == last
    return chunks if at_end else None


def _chunk(block: Json) -> Json:
    is_text = block["type"] == "markdown"
    return {"type": "markdown_text", "text": block["text"]} if is_text else {"type": "blocks", "blocks": [block]}


def _task(call: CallView, *, ended: bool) -> ToolTask:
    name = neutral(call.shown if call.title else call.name.replace("_", " "))
    duration = lasted(call.seconds)
    title = f"{name[: limits.TASK_TEXT - len(duration)]}{duration}"
    status = _STATUS.get(call.status, "error")
    details = neutral(" ".join((call.progress or "").split()))[: limits.TASK_TEXT]
    if ended and status == "in_progress":
        return ToolTask(call.id, title, "error", details)
    return ToolTask(call.id, title, status, details, _OUTCOME.get(call.status, ""))


def _notice(run: RunView) -> str:
    match run.status:
        case "failed":
            error = run.error or "The answer could not be finished."
            return f"The answer above is incomplete. {error}" if run.cut else error
        case "cancelled":
            return "Stopped."
        case "waiting" | "requires_action":
            return "Waiting for a decision."
        case "completed" if run.blank:
            return BLANK
        case "completed" if run.reason == "max_tokens":
            return "Ended: the answer was cut at its length limit."
        case "completed" if run.reason not in (None, "end_turn"):
            limit = run.reason == "max_steps"
            why = "the most steps of one answer were taken" if limit else run.reason.replace("_", " ")
            return f"Ended: {why}{', before the answer was complete' if run.cut else ''}."
        case "completed" if run.cut:
            return "Ended before the answer was complete."
        case _:
            return ""


def markdown_of(render: ShownRender) -> str:
    """Return the title and the text of *render* in a fence that nothing in them can close, safe to send."""
    text = render.plain.replace(_FENCE, "'''")
    return safe(f"{_FENCE}\n{shorten(text, MAX_RENDER)}\n{_FENCE}")

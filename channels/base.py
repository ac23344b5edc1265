"""What a channel is to the rest of the product, and the view of a conversation that it shows.

Inbound, a channel turns a payload into an `Inbound`, a `Decision` or a `Stop` and does nothing else. Outbound, it is
given a `ConversationView`: always the complete content of one of its messages, never a delta. So an edit may be
repeated, the next edit repairs a lost one, and after a restart the log is folded again and each message edited once.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NewType, Protocol, Self, TypeVar

from sqlalchemy import Connection

from agent_core import (
    Actor,
    ApprovalStatus,
    CallOutcome,
    File,
    ParleyError,
    Part,
    Reasoning,
    RunStatus,
    Text,
    ToolCall,
)

Ref = NewType("Ref", str)
"""Where one message of a channel is, in the channel's own words; it outlives the process."""

OPERATOR = "An operator"
"""What a person is called who answers in the agent's place and gives no name."""

T = TypeVar("T")
CallStatus = Literal["requested", "running", "waiting"] | CallOutcome


class Records(Protocol):
    """Keeps the rows of a channel's own tables; what belongs to the core goes through `Core`."""

    async def read(self, work: Callable[[Connection], T], /) -> T:
        """Run *work*, which only reads, in one transaction and return its result."""
        ...

    async def write(self, work: Callable[[Connection], T], /) -> T:
        """Run *work* in one transaction, perhaps more than once, and return its result once it is committed."""
        ...


@dataclass(frozen=True, slots=True)
class Stop:
    """A request to stop the answer; *run* is None when the place identifies it."""

    by: Actor
    run: str | None = None


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What a place can take.

    *edit_every* is the least number of seconds between two edits of a message; *text* is the most code points of text
    in one message, activity lines not counted, and *age* the most seconds for which a message may grow (None: any).
    """

    edit_every: float
    text: int | None = None
    age: float | None = None


State = Literal["planned", "sent", "acknowledged", "uncertain", "repaired", "closed"]


@dataclass(slots=True)
class LedgerEntry:
    """One message of a channel in the delivery ledger, planned before it is sent.

    *begins* and *ends* are borders, set by the delivery. The rest is the outbox's: *state* is sent while no answer
    came, acknowledged, uncertain when the answer was lost, repaired when the message was found, and closed when
    nothing will change any more; *mode* is how it is shown, *sent_to* and *acked_to* count code points of its text, and
    *began_at* (milliseconds) is when it was opened.
    """

    id: str
    n: int
    begins: str | None = None
    ends: str | None = None
    state: State = "planned"
    mode: str | None = None
    ref: str | None = None
    sent_to: int = 0
    acked_to: int = 0
    began_at: int | None = None


class NotShown(ParleyError):
    """The place did not take a message or an edit; the next edit comes after *retry_after* seconds or more."""

    code = "not_shown"

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Screen(Protocol):
    """Shows pictures at one place that does not outlive the process."""

    @property
    def limits(self) -> MessageLimits: ...

    async def post(self, address: str, body: "ConversationView", /) -> Ref:
        """Show *body* as a new message at *address*; raises `NotShown`."""
        ...

    async def edit(self, ref: Ref, body: "ConversationView", /) -> None:
        """Make the message at *ref* show *body* and nothing else; raises `NotShown`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GrowingText:
    """Text that grows at its end: the first *count* of *pieces*, of *length* code points.

    The list is shared by all states of a text and only ever added to, so that growing copies nothing.
    """

    pieces: list[str]
    count: int
    length: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Return *text* as one piece."""
        return cls([text], 1, len(text))

    def put(self, offset: int, text: str) -> "GrowingText":
        """Return the first *offset* code points followed by *text*."""
        if offset < self.length or self.count != len(self.pieces):
            return GrowingText.of(str(self)[:offset] + text)
        self.pieces.append(text)
        return GrowingText(self.pieces, self.count + 1, self.length + len(text))

    def __str__(self) -> str:
        return "".join(self.pieces[: self.count])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrowingText) and self.length == other.length and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a message; a *picture* and *other* parts hold their place and show nothing here."""

    kind: Literal["text", "reasoning", "picture", "other"]
    text: GrowingText

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return a part of an answer with its text; a file's is empty."""
        match part:
            case Text(text):
                return cls("text", GrowingText.of(text))
            case Reasoning(text):
                return cls("reasoning", GrowingText.of(text))
            case File(mime=mime) if mime.startswith("image/"):
                return cls("picture", GrowingText.of(""))
            case _:
                return cls("other", GrowingText.of(""))

    @classmethod
    def of_person(cls, part: Part) -> Self:
        """Return a part of a person's message; of a tool that it had used the name."""
        return cls("text", GrowingText.of(part.name)) if isinstance(part, ToolCall) else cls.of(part)


@dataclass(frozen=True, slots=True)
class Question:
    """What people are asked about a call; *arguments* are those that run if they say yes, *yes* counts who did.

    With a *form*, the JSON Schema of an object, the tool itself asks; *arguments* are what it is filled with at first.
    *until* is when it is over, in milliseconds; *by* and *reason* say how it was decided.
    """

    id: str
    title: str
    tool: str
    arguments: dict[str, Any]
    responders: tuple[str, ...]
    quorum: int
    until: int
    detail: str | None = None
    edit: bool = False
    remember: bool = False
    form: dict[str, Any] | None = None
    status: ApprovalStatus = "open"
    yes: int = 0
    edited: bool = False
    by: Actor | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ShownRender:
    """What a tool shows to people: *payload* is for a renderer of its *kind*, *text* for every other place."""

    id: str
    kind: str
    payload: dict[str, Any]
    text: str
    title: str | None = None

    @property
    def plain(self) -> str:
        """Its title and its text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class CallView:
    """What an agent does beside talking: the use of a tool, and what people are asked about it.

    *title* says to people what the tool does, *title_done* what it did. *began* is when it was started last, in
    milliseconds, *seconds* how long it took.
    """

    id: str
    name: str
    status: CallStatus
    progress: str | None = None
    question: Question | None = None
    renders: tuple[ShownRender, ...] = ()
    title: str | None = None
    title_done: str | None = None
    began: int | None = None
    seconds: float | None = None

    @property
    def shown(self) -> str:
        """Return what people read for the tool."""
        return (self.status == "done" and self.title_done) or self.title or self.name


@dataclass(frozen=True, slots=True)
class RunView:
    """The state of a run; *reason* is why it completed, *error* why it failed.

    *blank* is an answer without a word, *cut* one that ended before it was complete. *pictured*: one of its
    messages came with a picture; *unseen*: the model that answers sees none. *left_out* is what a provider refused, for
    good: the names of files, none where it was something else; None if it refused nothing.
    """

    id: str
    status: RunStatus = "queued"
    cancelling: bool = False
    reason: str | None = None
    error: str | None = None
    blank: bool = False
    cut: bool = False
    pictured: bool = False
    unseen: bool = False
    left_out: tuple[str, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether it is being driven, or waits."""
        return self.status in ("running", "waiting", "requires_action")

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.status in ("completed", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message as it is shown: its parts, and the calls that it made.

    *seq* is that of the latest fact about it. *border* is set when its run waited or ended after it: what comes
    next gets a message of its own. *continued* text was cut by the token limit and continues in the next message.
    *steered* messages joined a run that was under way. *by* is the person who answered in the agent's place: such a
    message is *alone*, and so is what comes before it and after it.
    """

    id: str
    role: Literal["user", "assistant"]
    run: str | None
    seq: int = 0
    parts: tuple[Piece, ...] = ()
    calls: tuple[CallView, ...] = ()
    open: bool = False
    partial: bool = False
    border: bool = False
    continued: bool = False
    steered: bool = False
    epoch: int = 0
    attempt: int = 0
    by: Actor | None = None
    alone: bool = False

    @property
    def speaker(self) -> str | None:
        """The name of the person who answered in the agent's place."""
        return None if self.by is None else self.by.name or OPERATOR

    @property
    def is_last(self) -> bool:
        """Whether what comes next gets a message of its own."""
        return self.border or self.alone

    @property
    def text(self) -> str:
        """The text parts, joined by blank lines."""
        return "\n\n".join(str(piece.text) for piece in self.parts if piece.kind == "text")


@dataclass(frozen=True, slots=True)
class ConversationView:
    """The whole picture of a conversation, or of that part of it which one message of a channel shows.

    The messages of *past* change no more, those of *recent* may, and those of *waiting* were not taken by a step yet.
    *closed* is set in the picture of a message to which no new text will come.
    """

    seq: int = 0
    past: tuple[ShownMessage, ...] = ()
    recent: tuple[ShownMessage, ...] = ()
    waiting: tuple[ShownMessage, ...] = ()
    runs: tuple[RunView, ...] = ()
    closed: bool = False

    @property
    def messages(self) -> tuple[ShownMessage, ...]:
        """Every message in the order of the conversation."""
        return self.past + self.recent + self.waiting

    @property
    def active(self) -> RunView | None:
        """The run that a Stop would end: the one at work, else the first in the queue."""
        open_runs = [run for run in self.runs if not run.ended]
        return next((run for run in open_runs if run.active), open_runs[0] if open_runs else None)

    def run(self, id: str | None) -> RunView | None:
        """Return run *id* in its latest state, None when it is unknown."""
        return next((run for run in reversed(self.runs) if run.id == id), None)

    def newest(self) -> Iterator[ShownMessage]:
        """Give the messages that a step has taken or made, the newest first."""
        yield from reversed(self.recent)
        yield from reversed(self.past)

"""What a channel is: how it is registered, what it shows, and the pictures of a conversation that it is given."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NewType, Protocol, Self, TypeVar

import msgspec
from sqlalchemy import Connection

from agent_core.channels import ChannelConflict, Responder, misfit
from agent_core.core import Core
from agent_core.errors import InvalidInput, ParleyError
from agent_core.messages import Actor, CallOutcome, File, Part, Reasoning, Text, ToolCall
from agent_core.objects import ApprovalStatus, RunStatus

if TYPE_CHECKING:
    from fastapi import APIRouter


PREFERRED = "assistant"


def default_agent(agents: Iterable[tuple[str, bool]]) -> str | None:
    """Return the name of the agent that answers when none is asked for; None when several might be meant.

    *agents* are names, each with whether it is an agent of the files as they are now. It is `assistant` where there is
    one, else the only agent of the files, else the only one there is.
    """
    by_id = dict(agents)
    if PREFERRED in by_id:
        return PREFERRED
    names = [name for name, has_file in by_id.items() if has_file] or list(by_id)
    return names[0] if len(names) == 1 else None


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


S = TypeVar("S", bound=msgspec.Struct)
Process_contra = TypeVar("Process_contra", contravariant=True)
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a channel of which an agent configures nothing."""


@dataclass(frozen=True, slots=True)
class AgentSettings(Generic[S]):
    """What an agent may configure of a channel: a struct of *type*, every field with a default.

    *check* raises `InvalidInput`, its paths begin with `$`, for what the types do not refuse. *claims* says whether
    settings claim a place that only one agent can have, *conflicts* which agents claim the same one.
    """

    type: type[S]
    check: Callable[[S], None] = lambda _: None
    claims: Callable[[S], bool] = lambda _: False
    conflicts: Callable[[Sequence[tuple[str, S]]], Sequence[ChannelConflict]] = lambda _: ()

    def of(self, channel: str, channels: Mapping[str, Any]) -> S:
        """Return an agent's settings of *channel*, the defaults where it has none.

        Fields that another version has stored, and this one does not know or cannot read, are left out.
        """
        settings: Mapping[str, Any] = channels.get(channel, {})
        try:
            return self.readable(settings)
        except InvalidInput:
            return self.readable({name: value for name, value in settings.items() if self._reads(name, value)})

    def readable(self, stored: Mapping[str, Any]) -> S:
        """Return *stored* settings without fields that this version does not know; raises `InvalidInput`."""
        return self._converted({name: each for name, each in stored.items() if name in self.type.__struct_fields__})

    def read(self, value: Any) -> S:
        """Return *value* settings, checked; raises `InvalidInput`."""
        read = self._converted(value)
        self.check(read)
        return read

    def _converted(self, value: Any) -> S:
        try:
            return msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:
            path, message = misfit(error, self.type)
            unknown = _UNKNOWN.search(message)
            end = f".{unknown[1]}" if unknown else ""
            raise InvalidInput(f"$.{path}".removesuffix(".") + end, f"{message}.") from None

    def _reads(self, name: str, value: Any) -> bool:
        try:
            self.readable({name: value})
        except InvalidInput:
            return False
        return True

    def stored(self, settings: S) -> dict[str, Any]:
        """Return *settings* as JSON, empty when they are the defaults."""
        return {} if settings == self.type() else msgspec.json.decode(msgspec.json.encode(settings))


class Serve(Protocol[Process_contra]):
    """Serves a channel while the block lasts, and gives its HTTP routes, if it has some."""

    def __call__(
        self, core: Core, records: Records, settings: Process_contra, /, *, socket: bool
    ) -> "AbstractAsyncContextManager[APIRouter | None]":
        """Serve with the *settings* of the process; with *socket* receive also by connections opened here.

        *records* keeps what the channel delivered.
        """
        ...


class ChannelPreview(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a channel would be sent; *upload* names a file that is uploaded first, with a made-up id in *blocks*."""

    blocks: tuple[dict[str, Any], ...]
    text: str
    upload: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec(Generic[Process_contra]):
    """One channel; *Process_contra* is what it reads of the settings of the process.

    *name* begins its addresses, its responders and its destinations; *address* matches a whole address and names its
    parts. *responder* says what `<name>:<id>` is as the responder of an approval. With *delivers_approvals* an approval
    can be shown at `<name>:<place>` outside its conversation. *serve* is None for a channel that others serve: its
    routes are those of the API, or it is a command. *receives* says, for the greeting, how a server at a URL receives.
    *no_socket* says why the process cannot receive by connections of its own, None if it can. *preview* gives a render
    in the form that the channel is sent first; None for a channel that has no form of its own.
    """

    name: str
    address: re.Pattern[str]
    settings: AgentSettings[Any] = field(default_factory=lambda: AgentSettings(NoSettings))
    responder: Callable[[str], Responder | None] = lambda _: None
    delivers_approvals: bool = False
    serve: Serve[Process_contra] | None = None
    receives: Callable[[Process_contra, str | None], str | None] = lambda _settings, _url: None
    no_socket: Callable[[Process_contra], str | None] = lambda _: None
    preview: Callable[[ShownRender], ChannelPreview] | None = None

    def parse_address(self, address: str) -> dict[str, str] | None:
        """Return the parts of an *address* of this channel by their names, None when it is none."""
        match = self.address.fullmatch(address)
        return match.groupdict() if match else None

    def checked(self, settings: Any, /) -> dict[str, Any]:
        return self.settings.stored(self.settings.read(settings))

    def readable(self, settings: Mapping[str, Any], /) -> dict[str, Any]:
        return self.settings.stored(self.settings.readable(settings))

    def claims(self, settings: Mapping[str, Any], /) -> bool:
        return self.settings.claims(self._of(settings))

    def conflicts(self, agents: Sequence[tuple[str, Mapping[str, Any]]], /) -> Sequence[ChannelConflict]:
        return self.settings.conflicts([(name, self._of(settings)) for name, settings in agents])

    def delivers(self, place: str, /) -> bool:
        return self.delivers_approvals and bool(place.strip())

    def _of(self, settings: Mapping[str, Any]) -> Any:
        return self.settings.of(self.name, {self.name: settings})

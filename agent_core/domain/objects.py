"""The objects that clients read, as the contract lists them; each is a reading of the log. Times are milliseconds."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

from agent_core.domain.agents import Definition
from agent_core.domain.events import WaitingOn
from agent_core.domain.messages import Actor, Part, Usage

RunStatus = Literal["queued", "running", "waiting", "requires_action", "completed", "failed", "cancelled"]
SessionStatus = Literal["idle", "running", "waiting", "requires_action", "closed"]
Rating = Literal["up", "down"]
ApprovalStatus = Literal["open", "approved", "denied", "expired", "cancelled"]
AuditKind = Literal[
    "requested", "delivered", "opened", "voted", "approved", "denied", "expired", "cancelled", "refused", "late"
]
ACTIVE: tuple[RunStatus, ...] = ("running", "waiting", "requires_action")
ENDED: tuple[RunStatus, ...] = ("completed", "failed", "cancelled")
T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some items of a list, and the cursor of the next ones."""

    items: tuple[T, ...]
    next_cursor: str | None


class AgentObject(msgspec.Struct, frozen=True, kw_only=True):
    """A stored agent at its newest version; *source* `file` means read-only."""

    id: str
    version: int
    source: Literal["file", "api"]
    definition: Definition


class SessionObject(msgspec.Struct, frozen=True, kw_only=True):
    """A durable conversation.

    *forked_from* is the session that it began as a copy of, *replaced_by* the one that goes on in its place, by id.
    """

    id: str
    agent: str
    actor: Actor
    title: str | None
    status: SessionStatus
    metadata: dict[str, Any]
    created_at: int
    last_activity_at: int
    forked_from: str | None = None
    replaced_by: str | None = None


class ConversationObject(msgspec.Struct, frozen=True, kw_only=True):
    """A session as its person looks for it.

    *title* is on one line: the one that it was given, else the beginning of what was said first. *newest_seq*
    is the fact of the newest answer, 0 before the first.
    """

    id: str
    title: str | None
    status: SessionStatus
    created_at: int
    last_activity_at: int
    newest_seq: int


class MessageObject(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session's transcript; *run* is the run that takes or made it."""

    id: str
    seq: int
    role: Literal["user", "assistant"]
    actor: Actor | None
    run: str | None
    parts: tuple[Part, ...]
    partial: bool
    created_at: int


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person, a client or another run has to complete."""

    call: str
    on: WaitingOn
    tool: str
    arguments: dict[str, Any]
    approval: str | None = None


class RunError(msgspec.Struct, frozen=True):
    """Why a run failed: *message* is for the person, *detail* for the operator."""

    code: str
    message: str
    retryable: bool
    detail: str | None = None


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """A person's feedback on a run."""

    run: str
    actor: Actor
    rating: Rating
    comment: str | None
    created_at: int


class RenderObject(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a call showed; *payload* is what its *kind* says, *text* all of it for those who cannot draw it.

    A fork shows it under the same id: there *session* and *run* are the fork's.
    """

    id: str
    session: str
    run: str | None
    call: str
    kind: str
    title: str | None
    payload: dict[str, Any]
    text: str
    created_at: int


class RunObject(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an agent, from input to a terminal status; *text* is the last assistant message."""

    id: str
    session: str
    agent: str
    agent_version: int
    parent_run: str | None
    root_run: str
    status: RunStatus
    stop_reason: str | None
    error: RunError | None
    text: str
    parts: tuple[Part, ...]
    structured: Any | msgspec.UnsetType
    usage: Usage
    cost: str | None
    steps: int
    pending: tuple[PendingCall, ...]
    started_by: Actor | None
    created_at: int
    started_at: int | None
    last_activity_at: int
    completed_at: int | None
    feedback: tuple[Feedback, ...] = ()


class Vote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One person's vote on an approval; *decider* is how the surface knew them, stored to check later permissions."""

    actor: Actor
    approved: bool
    at: int
    surface: str
    remember: bool = False
    is_operator: bool = False
    is_present: bool = False
    also: tuple[str, ...] = ()


class ApprovalObject(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people about one exact call; *arguments* are those that may run, *asked* the model's own.

    *digest* is the hash of tool and arguments; *edit* and *remember* are what a decision may do besides yes or no. With
    a *form*, a JSON Schema, the tool asks people to fill it in, and *arguments* are what it is filled with.
    *parameters* is the JSON Schema of a tool's arguments, left out where it is long.
    """

    id: str
    session: str
    run: str
    agent: str
    call: str
    step: int
    tool: str
    arguments: dict[str, Any]
    asked: dict[str, Any]
    digest: str
    title: str
    detail: str | None
    status: ApprovalStatus
    responders: tuple[str, ...]
    quorum: int
    votes: tuple[Vote, ...]
    edit: bool
    remember: bool
    deliver_to: tuple[str, ...]
    on_timeout: Literal["deny", "fail"]
    asker: Actor | None
    speakers: tuple[Actor, ...] = ()
    requested_at: int
    expires_at: int
    decided_by: Actor | None = None
    decided_at: int | None = None
    reason: str | None = None
    form: dict[str, Any] | None = None
    parameters: dict[str, Any] | None = None

    @property
    def is_edited(self) -> bool:
        """Whether other arguments may run than the model asked for; what fills a form in is none of these."""
        return self.form is None and _canonical(self.arguments) != _canonical(self.asked)


def _canonical(arguments: dict[str, Any]) -> bytes:
    """Return a key that distinguishes arguments: to Python 1 and true are equal."""
    return msgspec.json.encode(arguments, order="deterministic")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record of approvals; *seq* orders all of them."""

    seq: int
    approval: str
    session: str
    run: str
    at: int
    kind: AuditKind
    actor: Actor | None
    surface: str | None
    place: str | None
    data: dict[str, Any] | None


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of receiving a message: its id, the run that answers it, its seq; *repeated* when the key was known.

    The run's facts have seqs above *before*.
    """

    session: str
    message: str
    run: str
    seq: int
    before: int = 0
    repeated: bool = False


__all__ = [
    "ACTIVE",
    "ENDED",
    "AgentObject",
    "ApprovalObject",
    "ApprovalStatus",
    "AuditEntry",
    "AuditKind",
    "Feedback",
    "MessageObject",
    "Page",
    "PendingCall",
    "Rating",
    "Receipt",
    "RunError",
    "RunObject",
    "RunStatus",
    "SessionObject",
    "SessionStatus",
    "Vote",
]

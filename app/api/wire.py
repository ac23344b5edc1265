"""The objects of the API as they travel: the contract's fields, times as RFC 3339 text."""

from functools import lru_cache
from time import gmtime, strftime
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from agent_core import (
    Actor,
    AgentObject,
    ApprovalObject,
    ApprovalStatus,
    AuditEntry,
    AuditKind,
    Controls,
    DeclaredTool,
    Hook,
    Limits,
    MessageObject,
    Page,
    Part,
    PendingCall,
    Rating,
    Receipt,
    RunError,
    RunObject,
    RunStatus,
    SessionObject,
    SessionStatus,
    Usage,
)
from agent_core import Feedback as FeedbackObject
from agent_core.domain.controls import without_context
from channels.slack import settings as slack
from channels.slack.settings import Slack
from channels.web import settings as web
from channels.web.settings import Web
from channels.web.visible import ShowTools, visible_approval, visible_message, visible_run, visible_session


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """What one person said to an approval; *remember*: the tool may be used for the rest of the conversation."""

    actor: Actor
    approved: bool
    at: str
    surface: str
    remember: bool


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A question to people about one exact call.

    *arguments* are those that run after a yes, *asked* those of the model; *digest* is the hash of the tool's name and
    *arguments*. *speakers* are those who had a say in it beside the *asker*. *edit* and *remember* tell what a decision
    may bring, *may_decide* whether the caller may give one.
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
    on_timeout: Literal["deny", "fail"]
    asker: Actor | None
    speakers: tuple[Actor, ...]
    requested_at: str
    expires_at: str
    decided_by: Actor | None
    decided_at: str | None
    reason: str | None
    may_decide: bool


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record of approvals: what happened, and who did it where."""

    seq: int
    approval: str
    session: str
    run: str
    at: str
    kind: AuditKind
    actor: Actor | None
    surface: str | None
    place: str | None
    data: dict[str, Any] | None


class FieldProblem(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    path: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error, after RFC 9457; programs read `code`, people read `detail`.

    Of a decision that came too late *approval* has the outcome.
    """

    type: str = msgspec.field(default_factory=lambda: "about:blank")
    title: str
    status: int
    code: str
    detail: str
    errors: tuple[FieldProblem, ...] = ()
    approval: Approval | None = None


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent at its newest version; *channels* are the settings of those that have no field of their own."""

    id: str
    name: str
    version: int
    source: Literal["file", "api"]
    model: str | None
    fallback_models: tuple[str, ...]
    instructions: str
    tools: tuple[str | DeclaredTool, ...]
    hooks: tuple[Hook, ...]
    limits: Limits
    controls: Controls
    web: Web
    slack: Slack
    channels: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A durable conversation."""

    id: str
    agent: str
    actor: Actor
    title: str | None
    status: SessionStatus
    metadata: dict[str, Any]
    created_at: str
    last_activity_at: str


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session."""

    id: str
    seq: int
    role: Literal["user", "assistant"]
    actor: Actor | None
    run: str | None
    parts: tuple[Part, ...]
    partial: bool
    created_at: str


class Output(msgspec.Struct, frozen=True):
    """What a run said last; *structured* is its answer as a value, where one was asked for."""

    text: str
    parts: tuple[Part, ...]
    structured: Any | msgspec.UnsetType = msgspec.UNSET


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody thinks of a run."""

    run: str
    actor: Actor
    rating: Rating
    comment: str | None
    created_at: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an agent; operators see what people think of it."""

    id: str
    session: str
    agent: str
    agent_version: int
    parent_run: str | None
    root_run: str
    status: RunStatus
    stop_reason: str | None
    error: RunError | None
    output: Output
    usage: Usage
    cost: str | None
    steps: int
    pending: tuple[PendingCall, ...]
    started_by: Actor | None
    created_at: str
    started_at: str | None
    last_activity_at: str
    completed_at: str | None
    feedback: tuple[Feedback, ...] | msgspec.UnsetType = msgspec.UNSET


class RunTree(msgspec.Struct, frozen=True):
    """A run and its descendants, parents first."""

    items: tuple[Run, ...]


class Posted(msgspec.Struct, frozen=True):
    """What became of a posted message."""

    message_id: str
    run_id: str
    seq: int


class TokenAnswer(msgspec.Struct, frozen=True):
    """A visitor's token and when it ends."""

    token: str
    expires_at: str


class Health(msgspec.Struct, frozen=True):
    """Whether the server lives."""

    status: Literal["ok"]


_OWN_FIELDS = frozenset({web.NAME, slack.NAME})


def agent_wire(agent: AgentObject) -> Agent:
    """Return *agent* with its definition's fields spread out."""
    made = agent.definition
    return Agent(
        id=agent.id,
        name=made.name,
        version=agent.version,
        source=agent.source,
        model=made.model,
        fallback_models=made.fallback_models,
        instructions=made.instructions,
        tools=made.tools,
        hooks=made.hooks,
        limits=made.limits,
        controls=without_context(made.controls),
        web=web.settings_of(made),
        slack=slack.settings_of(made),
        channels={name: given for name, given in made.channels.items() if name not in _OWN_FIELDS} or msgspec.UNSET,
    )


def session_wire(session: SessionObject, show: ShowTools | None = None) -> Session | dict[str, Any]:
    """Return *session*; for a visitor when *show* is given."""
    wire = _copy(session, Session)
    return wire if show is None else visible_session(msgspec.to_builtins(wire))


def message_wire(message: MessageObject, show: ShowTools | None = None) -> Message | dict[str, Any]:
    """Return *message*; for a visitor when *show* is given."""
    wire = _copy(message, Message)
    return wire if show is None else visible_message(msgspec.to_builtins(wire), show)


def run_wire(run: RunObject, show: ShowTools | None = None) -> Run | dict[str, Any]:
    """Return *run*; for a visitor when *show* is given."""
    told = msgspec.UNSET if show is not None or not run.feedback else tuple(map(feedback_wire, run.feedback))
    wire = _copy(run, Run, output=Output(run.text, run.parts, run.structured), feedback=told)
    return wire if show is None else visible_run(msgspec.to_builtins(wire), show)


def feedback_wire(feedback: FeedbackObject) -> Feedback:
    """Return *feedback* as it travels."""
    return _copy(feedback, Feedback)


def approval_wire(
    approval: ApprovalObject, show: ShowTools | None = None, *, may_decide: bool
) -> Approval | dict[str, Any]:
    """Return *approval*, to a caller who *may_decide* of it or may not; for a visitor when *show* is given."""
    votes = tuple(_copy(vote, Vote, at=rfc3339(vote.at)) for vote in approval.votes)
    wire = _copy(approval, Approval, votes=votes, may_decide=may_decide)
    return wire if show is None else visible_approval(msgspec.to_builtins(wire), show, decides=may_decide)


def audit_line(entry: AuditEntry) -> AuditLine:
    """Return *entry* as it travels."""
    return _copy(entry, AuditLine, at=rfc3339(entry.at))


def posted(receipt: Receipt) -> Posted:
    """Return what the poster of a message is told."""
    return Posted(receipt.message, receipt.run, receipt.seq)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return *value* as a JSON answer."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def page(found: Page[Any], wire: Any, *more: Any) -> Response:
    """Return *found* as a list answer, each item by *wire*."""
    return answer(Page(tuple(wire(item, *more) for item in found.items), found.next_cursor))


def rfc3339(milliseconds: int) -> str:
    """Return a time since the epoch as text in UTC, with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))


def _copy(source: msgspec.Struct, wire: type[Any], **more: Any) -> Any:
    """Return a *wire* with the fields that *source* has too; those called `…_at` become text."""
    fields = {name: getattr(source, name, None) for name in wire.__struct_fields__ if name not in more}
    times = {name: rfc3339(value) for name, value in fields.items() if name.endswith("_at") and value is not None}
    return wire(**{**fields, **times, **more})

"""The objects of the API as they travel: the contract's fields, times as RFC 3339 text."""

from collections.abc import Sequence
from functools import lru_cache
from time import gmtime, strftime
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from agent_core import (
    AgentDefaults,
    AgentObject,
    ApprovalObject,
    AuditEntry,
    MessageObject,
    Page,
    Part,
    Receipt,
    RenderObject,
    RunObject,
    SessionObject,
)
from agent_core import Feedback as FeedbackObject
from agent_core.agents import ToolObject, ToolVersion
from agent_core.controls import without_context
from agent_core.messages import CostGroup, CostItem
from agent_core.objects import ConversationObject, KeyObject, OperationEntry, Revocation, SecretObject, SigningKey
from agent_core.objects import Vote as VoteObject
from agent_core.runtime.tools import DryRun
from app.api.bodies.agent_fields import AgentFields
from app.api.bodies.derived import is_time, wire_of
from channels.slack import settings as slack
from channels.web import settings as web
from channels.web.visible import ShowTools, visible_approval, visible_message, visible_run, visible_session


class Vote(wire_of(VoteObject, without=("is_operator", "is_present", "also")), frozen=True, kw_only=True):
    """One person's vote on an approval; *remember*: the tool may be used for the rest of the conversation."""


class Approval(wire_of(ApprovalObject, without=("deliver_to", "votes")), frozen=True, kw_only=True):
    """A question to people about one exact call.

    *arguments* are those that run after a yes, *asked* those of the model; *digest* is the hash of the tool's name and
    *arguments*. *speakers* are the people besides the *asker* whose messages led to it. *edit* and *remember* are what
    a decision may contain; *may_decide* is whether the caller may decide.
    """

    votes: tuple[Vote, ...]
    may_decide: bool


class AuditLine(wire_of(AuditEntry), frozen=True, kw_only=True):
    """One line of the record of approvals: what happened, where, and by whom."""


class FieldProblem(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    path: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error, after RFC 9457; programs read `code`, people read `detail`.

    After a decision that came too late, *approval* has the outcome.
    """

    type: str = msgspec.field(default_factory=lambda: "about:blank")
    title: str
    status: int
    code: str
    detail: str
    errors: tuple[FieldProblem, ...] = ()
    approval: Approval | None = None


_EFFECTIVE = ("prompt_caching", "idle_refreeze_s", "tool_limit", "clock")


class Agent(
    wire_of(AgentObject, AgentFields, without=("definition", "channels", *_EFFECTIVE)), frozen=True, kw_only=True
):
    """An agent at its newest version; *channels* are the settings of those that have no field of their own.

    *prompt_caching*, *idle_refreeze_s*, *tool_limit* and *clock* are what holds for the agent, also where it does not
    say it itself.
    """

    prompt_caching: bool
    idle_refreeze_s: int
    tool_limit: int
    clock: str
    channels: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


class Session(wire_of(SessionObject), frozen=True, kw_only=True):
    """A durable conversation."""


class OwnConversation(wire_of(ConversationObject), frozen=True, kw_only=True):
    """A visitor's own conversation; its *title* is one that was given, or the beginning of what was said first.

    *newest_seq* is where its newest answer is in the events, 0 before the first: what was read up to there is read.
    """


class Message(wire_of(MessageObject), frozen=True, kw_only=True):
    """A message of a session."""


class Output(msgspec.Struct, frozen=True):
    """What a run said last; *structured* is its answer as a value, where one was asked for."""

    text: str
    parts: tuple[Part, ...]
    structured: Any | msgspec.UnsetType = msgspec.UNSET


class Feedback(wire_of(FeedbackObject), frozen=True, kw_only=True):
    """A person's rating of a run."""


class Run(wire_of(RunObject, without=("text", "parts", "structured", "feedback")), frozen=True, kw_only=True):
    """One execution of an agent; operators see its feedback."""

    output: Output
    feedback: tuple[Feedback, ...] | msgspec.UnsetType = msgspec.UNSET


class RenderAnswer(wire_of(RenderObject), frozen=True, kw_only=True):
    """Something that a call showed; a client that does not know its *kind* shows the *text*."""


class ToolVersionLine(wire_of(ToolVersion, without=("definition",)), frozen=True, kw_only=True):
    """When a version of a tool's definition was made."""


class Tool(wire_of(ToolObject), frozen=True, kw_only=True):
    """A tool of this process; one without a stored definition has its name as *id*, and neither *version* nor *source*.

    *parameters* are all, those with a *preset* too, which the model neither sees nor can change. *place* is the file
    that defines it. *available* is false while what it needs is not here. One tool that is asked for comes with the
    *agents* that have it and with its *versions*, the newest first.
    """

    agents: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    versions: tuple[ToolVersionLine, ...] | msgspec.UnsetType = msgspec.UNSET


class ToolTest(msgspec.Struct, frozen=True):
    """What keeps the calls of a tool from working now, a sentence each."""

    id: str
    name: str
    faults: tuple[str, ...]


class DryRunAnswer(wire_of(DryRun), frozen=True, kw_only=True):
    """How an operator's call of a tool ended; *text* is what a model would read of it."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of what model calls cost, of UTC days: `from` inclusive, `to` exclusive; null without a bound."""

    by: CostGroup
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    items: tuple[CostItem, ...]
    next_cursor: str | None


class RunTree(msgspec.Struct, frozen=True):
    """A run and its descendants, parents first."""

    items: tuple[Run, ...]


class Posted(msgspec.Struct, frozen=True):
    """Where a posted message is: its id, its run, its seq."""

    message_id: str
    run_id: str
    seq: int


class Key(wire_of(KeyObject), frozen=True, kw_only=True):
    """An API key without its secret; *actor* is the id that it decides and acts under."""


class KeyWithSecret(wire_of(KeyObject), frozen=True, kw_only=True):
    """An API key with its *secret*, which is shown this once: only its hash is kept."""

    secret: str


class Secret(wire_of(SecretObject), frozen=True, kw_only=True):
    """A secret without its value; *id* is its name."""

    id: str


class Revoked(wire_of(Revocation), frozen=True, kw_only=True):
    """What holds no more since *at*: a token, an actor's tokens from before, or visitors' access to a session."""


class OperationLine(wire_of(OperationEntry), frozen=True, kw_only=True):
    """One line of the record of operations: who did what to which object, and the HTTP status of the answer."""


class SigningKeyAnswer(wire_of(SigningKey), frozen=True, kw_only=True):
    """A public key by which a site signs tokens of its visitors; *kid* is what the header of a token says."""


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a server that is alive; *warning* is what is not as it should be although it serves."""

    status: Literal["ok"]
    warning: str | None = None


_OWN_FIELDS = frozenset({web.NAME, slack.NAME})


def agent_wire(agent: AgentObject, defaults: AgentDefaults) -> Agent:
    """Return *agent* with its definition's fields spread out; *defaults* hold for what it does not say."""
    made = agent.definition
    effective = {name: getattr(defaults, name) for name in _EFFECTIVE if getattr(made, name) is None}
    others = {name: given for name, given in made.channels.items() if name not in _OWN_FIELDS}
    more = {
        "controls": without_context(made.controls),
        "web": web.settings_of(made),
        "slack": slack.settings_of(made),
        "channels": others or msgspec.UNSET,
    }
    return copied(agent, Agent, **{**asdict(made), **effective, **more})


def session_wire(session: SessionObject, show: ShowTools | None = None) -> Session | dict[str, Any]:
    """Return *session*; for a visitor when *show* is given."""
    wire = copied(session, Session)
    return wire if show is None else visible_session(msgspec.to_builtins(wire))


def conversation_wire(conversation: ConversationObject) -> OwnConversation:
    """Return *conversation* as its visitor sees it."""
    return copied(conversation, OwnConversation)


def message_wire(message: MessageObject, show: ShowTools | None = None) -> Message | dict[str, Any]:
    """Return *message*; for a visitor when *show* is given."""
    wire = copied(message, Message)
    return wire if show is None else visible_message(msgspec.to_builtins(wire), show)


def run_wire(run: RunObject, show: ShowTools | None = None) -> Run | dict[str, Any]:
    """Return *run*; for a visitor when *show* is given."""
    feedback = msgspec.UNSET if show is not None or not run.feedback else tuple(map(feedback_wire, run.feedback))
    wire = copied(run, Run, output=Output(run.text, run.parts, run.structured), feedback=feedback)
    return wire if show is None else visible_run(msgspec.to_builtins(wire), show)


def tool_wire(tool: ToolObject) -> Tool:
    """Return *tool* as lists have it."""
    return copied(tool, Tool, agents=msgspec.UNSET, versions=msgspec.UNSET)


def whole_tool_wire(tool: ToolObject, agents: Sequence[str], versions: Sequence[ToolVersion]) -> Tool:
    """Return *tool* with the *agents* that have it and its *versions*."""
    lines = tuple(copied(version, ToolVersionLine) for version in versions)
    return copied(tool, Tool, agents=tuple(agents), versions=lines)


def dry_run_wire(done: DryRun) -> DryRunAnswer:
    """Return *done* as it travels."""
    return copied(done, DryRunAnswer)


def render_wire(render: RenderObject) -> RenderAnswer:
    """Return *render* as it travels; a visitor gets all of it, as in the stream."""
    return copied(render, RenderAnswer)


def feedback_wire(feedback: FeedbackObject) -> Feedback:
    """Return *feedback* as it travels."""
    return copied(feedback, Feedback)


def approval_wire(
    approval: ApprovalObject, show: ShowTools | None = None, *, may_decide: bool, own: str = ""
) -> Approval | dict[str, Any]:
    """Return *approval* for a caller that *may_decide* it or not; for the visitor *own* when *show* is given."""
    votes = tuple(copied(vote, Vote) for vote in approval.votes)
    wire = copied(approval, Approval, votes=votes, may_decide=may_decide)
    return wire if show is None else visible_approval(msgspec.to_builtins(wire), show, decides=may_decide, own=own)


def audit_line(entry: AuditEntry) -> AuditLine:
    """Return *entry* as it travels."""
    return copied(entry, AuditLine)


def key_wire(key: KeyObject) -> Key:
    """Return *key* as it travels."""
    return copied(key, Key)


def secret_wire(key: KeyObject, secret: str) -> KeyWithSecret:
    """Return *key* with its *secret*."""
    return copied(key, KeyWithSecret, secret=secret)


def stored_secret_wire(secret: SecretObject) -> Secret:
    """Return *secret* as it travels."""
    return copied(secret, Secret, id=secret.name)


def signing_key_wire(key: SigningKey) -> SigningKeyAnswer:
    """Return *key* as it travels."""
    return copied(key, SigningKeyAnswer)


def revoked_wire(revocation: Revocation) -> Revoked:
    """Return *revocation* as it travels."""
    return copied(revocation, Revoked)


def operation_line(entry: OperationEntry) -> OperationLine:
    """Return *entry* as it travels."""
    return copied(entry, OperationLine)


def posted(receipt: Receipt) -> Posted:
    """Return the answer to a posted message."""
    return Posted(receipt.message, receipt.run, receipt.seq)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return *value* as a JSON answer."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def page(listed: Page[Any], wire: Any, *more: Any) -> Response:
    """Return *listed* as a list answer, each item by *wire*."""
    return answer(Page(tuple(wire(item, *more) for item in listed.items), listed.next_cursor))


def rfc3339(milliseconds: int) -> str:
    """Return a time since the epoch as text in UTC, with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))


def copied(source: msgspec.Struct, wire: type[Any], **more: Any) -> Any:
    """Return a *wire* with the fields that *source* has too; times become text."""
    fields = {name: getattr(source, name, None) for name in wire.__struct_fields__ if name not in more}
    times = {name: rfc3339(value) for name, value in fields.items() if is_time(name) and value is not None}
    return wire(**{**fields, **times, **more})

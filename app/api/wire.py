"""What travels: bodies derived from the core's values, and the answers of the API."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache, partial
from time import gmtime, strftime
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, asdict
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model
from starlette.responses import Response

from agent_core.agents import AgentDefaults, Definition, ToolObject, ToolVersion
from agent_core.controls import without_context
from agent_core.listings import McpServerObject
from agent_core.messages import CostGroup, CostItem, FileObject, Part
from agent_core.objects import (
    AgentObject,
    ApprovalObject,
    AuditEntry,
    ConversationObject,
    KeyObject,
    MessageObject,
    OperationEntry,
    Page,
    Receipt,
    RenderObject,
    Revocation,
    RunObject,
    SecretObject,
    SessionObject,
    SigningKey,
)
from agent_core.objects import Feedback as FeedbackObject
from agent_core.objects import Vote as VoteObject
from agent_core.runtime.discovery import LoginBegun
from agent_core.runtime.tools import DryRun
from agent_core.servers import LoginObject
from channels.slack import settings as slack
from channels.slack.settings import Slack
from channels.web import settings as web
from channels.web.settings import Web
from channels.web.visible import ShowTools, visible_approval, visible_message, visible_run, visible_session


class AgentFields(Definition, frozen=True, kw_only=True):
    """What an author writes; settings of other channels are under `channels`."""

    web: Web = Web()
    slack: Slack = Slack()


TEXT, OBJECT = Tag("a text"), Tag("an object")
KINDS: Mapping[type, Tag] = {str: TEXT, dict: OBJECT, list: Tag("a list"), bool: Tag("a boolean")}
"""The kinds of JSON values by which the branch of a union is chosen."""


class RequestBody(BaseModel):
    """A request body: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Derived(RequestBody):
    """A request body with the fields of *struct*."""

    struct: ClassVar[type[msgspec.Struct]]

    def value(self) -> Any:
        """Return the core's value, a *struct*."""
        return msgspec.convert(self.model_dump(), self.struct)


def body_of(
    struct: type[msgspec.Struct], narrowed: Mapping[str, Any] | None = None, *, partial: bool = False
) -> type[Derived]:
    """Return the request body with the fields of *struct*; each keeps its type unless *narrowed* gives another.

    Whether a field may be null, and what it is when it is absent, is always as in *struct*.

    In a *partial* body every field may be missing; only `model_dump(exclude_unset=True)` makes sense of it.
    """
    types = narrowed or {}
    fields: dict[str, Any] = {
        field.name: (_type_of(field, types.get(field.name)), _default(field, partial=partial))
        for field in msgspec.structs.fields(struct)
    }
    base = create_model(f"{struct.__name__}Body", __base__=Derived, __doc__=struct.__doc__, **fields)
    base.struct = struct
    return base


def one_of(*types: Any) -> Any:
    """Return the union of *types*, each of another kind."""
    kinds = [_kind_of_type(each) for each in types]
    branches = tuple(Annotated[each, kind] for each, kind in zip(types, kinds, strict=True))
    return Annotated[Union[branches], by_kind(*kinds)]  # noqa: UP007 - of a tuple that is made here


def by_kind(*kinds: Tag) -> Discriminator:
    """Return what chooses among branches tagged with *kinds*: an error is about the one that was meant, or names all.

    Without it pydantic reports an error of each branch, under a path that holds the branch's name.
    """
    message = f"Input should be {' or '.join(kind.tag for kind in kinds)}"
    return Discriminator(_kind_of_value, custom_error_type="kind", custom_error_message=message)


def wire_of(*structs: type[msgspec.Struct], without: Collection[str] = ()) -> type[msgspec.Struct]:
    """Return what travels of *structs*: all fields but those *without*, each required, times as RFC 3339 text."""
    fields = [(each.name, _sent(each)) for struct in structs for each in msgspec.structs.fields(struct)]
    made = [field for field in fields if field[0] not in without]
    return msgspec.defstruct(structs[0].__name__, made, frozen=True, kw_only=True)


def is_time(name: str) -> bool:
    """Return whether the field *name* holds a time, which the core has as milliseconds since the epoch."""
    return name == "at" or name.endswith("_at")


def _sent(field: FieldInfo) -> Any:
    if not is_time(field.name):
        return field.type
    return str | None if NoneType in get_args(field.type) else str


def _type_of(field: FieldInfo, narrowed: Any) -> Any:
    if narrowed is None:
        return _accepted(field.type)
    return Union[narrowed, None] if NoneType in get_args(field.type) else narrowed  # noqa: UP007 - made here


def _accepted(type_: Any) -> Any:
    """Return what a body accepts for a field of *type_*: lists for tuples, bodies for structs."""
    arguments = get_args(type_)
    match get_origin(type_):
        case None if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return _nested(type_)
        case origin if origin is tuple:
            return list[_accepted(arguments[0])]  # pyright: ignore[reportInvalidTypeArguments] - computed
        case origin if origin in (Union, UnionType):
            types = [_accepted(each) for each in arguments if each is not NoneType]
            wanted = types[0] if len(types) == 1 else one_of(*types)
            return Union[wanted, None] if NoneType in arguments else wanted  # noqa: UP007 - made here
        case _:
            return type_


@cache
def _nested(struct: type[msgspec.Struct]) -> type[Derived]:
    return body_of(struct)


def _default(field: FieldInfo, *, partial: bool) -> Any:
    if partial:
        return Field(default_factory=lambda: None)
    if field.required:
        return Field()
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    plain = msgspec.json.decode(msgspec.json.encode(default))
    return Field(default=plain, validate_default=isinstance(default, msgspec.Struct))


def _kind_of_type(type_: Any) -> Tag:
    origin = get_origin(type_)
    if origin is Annotated:
        return _kind_of_type(get_args(type_)[0])
    if origin is Literal:
        return KINDS[type(get_args(type_)[0])]
    plain = origin or type_
    return KINDS[dict if issubclass(plain, BaseModel) else plain]


def _kind_of_value(value: Any) -> str | None:
    kind = KINDS.get(dict if isinstance(value, BaseModel) else type(value))
    return kind and kind.tag


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


def message_wire(message: MessageObject, show: ShowTools | None = None) -> Message | dict[str, Any]:
    """Return *message*; for a visitor when *show* is given."""
    wire = copied(message, Message)
    return wire if show is None else visible_message(msgspec.to_builtins(wire), show)


def run_wire(run: RunObject, show: ShowTools | None = None) -> Run | dict[str, Any]:
    """Return *run*; for a visitor when *show* is given."""
    feedback = (
        msgspec.UNSET
        if show is not None or not run.feedback
        else tuple(copied(each, Feedback) for each in run.feedback)
    )
    wire = copied(run, Run, output=Output(run.text, run.parts, run.structured), feedback=feedback)
    return wire if show is None else visible_run(msgspec.to_builtins(wire), show)


def tool_wire(tool: ToolObject) -> Tool:
    """Return *tool* as lists have it."""
    return copied(tool, Tool, agents=msgspec.UNSET, versions=msgspec.UNSET)


def whole_tool_wire(tool: ToolObject, agents: Sequence[str], versions: Sequence[ToolVersion]) -> Tool:
    """Return *tool* with the *agents* that have it and its *versions*."""
    lines = tuple(copied(version, ToolVersionLine) for version in versions)
    return copied(tool, Tool, agents=tuple(agents), versions=lines)


def approval_wire(
    approval: ApprovalObject, show: ShowTools | None = None, *, may_decide: bool, own: str = ""
) -> Approval | dict[str, Any]:
    """Return *approval* for a caller that *may_decide* it or not; for the visitor *own* when *show* is given."""
    votes = tuple(copied(vote, Vote) for vote in approval.votes)
    wire = copied(approval, Approval, votes=votes, may_decide=may_decide)
    return wire if show is None else visible_approval(msgspec.to_builtins(wire), show, decides=may_decide, own=own)


def stored_secret_wire(secret: SecretObject) -> Secret:
    """Return *secret* as it travels."""
    return copied(secret, Secret, id=secret.name)


def posted(receipt: Receipt) -> Posted:
    """Return the answer to a posted message."""
    return Posted(receipt.message, receipt.run, receipt.seq)


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return *value* as a JSON answer."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def page(listed: Page[Any], wire: Any, *more: Any) -> Response:
    """Return *listed* as a list answer, each item as a *wire*, or by that function."""
    make = partial(copied, wire=wire) if isinstance(wire, type) else wire
    return answer(Page(tuple(make(item, *more) for item in listed.items), listed.next_cursor))


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


class McpLoginAnswer(wire_of(LoginObject), frozen=True, kw_only=True):
    """How the login at an MCP server is: `none`, `ok`, `expired`, or `ended`, as *why* says; *remedy* is what to do.

    *expires_at* is when the access token ends, which is renewed by itself where the status stays `ok`.
    """


class McpLoginBegun(wire_of(LoginBegun), frozen=True, kw_only=True):
    """A login that has begun: an operator opens *url*, and *ticket* ends it with the address that this led to.

    *issuer* is who gives the tokens, which come from *token_endpoint*.
    """


class McpServerAnswer(wire_of(McpServerObject, without=("login",)), frozen=True, kw_only=True):
    """An MCP server with what is known of it; private texts are hidden.

    *tools* are those that agents may use, *changes* how what it says now differs from them: with `on_change: hold` a
    changed or added one waits until *digest* is accepted. *left_out* are tools that no model could be offered.
    *login* is how an operator's login there is, null where there is none and none is known to be needed.
    """

    login: McpLoginAnswer | None


def mcp_server_wire(server: McpServerObject) -> McpServerAnswer:
    """Return *server* as it travels."""
    login = None if server.login is None else copied(server.login, McpLoginAnswer)
    return copied(server, McpServerAnswer, login=login)


_OPERATORS = ("agent", "actor", "actor_kind", "text", "pages")


class StoredFile(wire_of(FileObject, without=_OPERATORS), frozen=True, kw_only=True):
    """A file that was sent; *session* is the conversation that it belongs to, null while it waits for a message."""


class TokenAnswer(msgspec.Struct, frozen=True):
    """A visitor's token, when it ends, and the *id* by which it can be revoked."""

    token: str
    expires_at: str
    id: str


class AnonymousToken(TokenAnswer, frozen=True):
    """A token for a visitor whom no site names, and the *secret* that gives the same visitor the next one.

    The secret is for the browser's storage; each answer has a new one, good for 30 days.
    """

    secret: str

"""Agents as they are defined: prompt, controls by step, hooks and tools."""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.controls import (
    ABLE,
    DEFAULT_MAX_STEPS,
    Abilities,
    Controls,
    Defaults,
    NamedTool,
    Override,
    ToolKind,
    merged,
    resolve,
)
from agent_core.errors import InvalidInput
from agent_core.quotas import AddressQuota, Quota, Quotas, VisitorQuota

HookEvent = Literal["OnRunStart", "PreToolUse", "PostToolUse", "PreResponse", "OnRunComplete"]
HookType = Literal["http", "rule", "approval"]
Operator = Literal["CONTAINS", "STARTS_WITH", "MATCHES", "IN", "EQUALS", "GREATER_THAN"]
_RANK: dict[str, int] = {"rule": 0, "http": 1, "approval": 2}


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One hook: asked at *event*, of the tools that *matcher* names (a name or a glob; None: every tool).

    Those of the same *order* are asked by type, rules first and people last, then as they are written. *name* is its
    name in the log. *config* is read as the type's own struct below.
    """

    event: HookEvent
    type: HookType
    matcher: str | None = None
    order: int = 0
    config: dict[str, Any] = {}
    name: str | None = None


class ApprovalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The people who may decide on a call, and how they may.

    *responders* are `asker`, `operators`, `anyone`, `not_asker`, `actor:<id>` and `slack:<user or group id>`; *quorum*
    is how many must approve; after *timeout_s* seconds the call is denied, or the run fails. With *edit* the arguments
    may be corrected; with *remember* the tool may be allowed for the rest of the conversation. *deliver_to* names
    places (`slack:<channel or user id>`) where the question is shown besides the conversation, with *title* and
    *detail*.
    """

    responders: tuple[str, ...] = ("asker", "operators")
    quorum: int = 1
    timeout_s: float = 300
    on_timeout: Literal["deny", "fail"] = "deny"
    edit: bool = False
    remember: bool = False
    deliver_to: tuple[str, ...] = ()
    title: str | None = None
    detail: str | None = None


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*field* is a path: `arguments.…`, `actor.id`, `actor.kind`, `actor.name`, `channel`, `tool`, `text`, `result`."""

    field: str
    operator: Operator
    value: Any


class RuleConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """If all *conditions* hold, the ruling is *decision*; otherwise the rule gives no ruling."""

    conditions: tuple[Condition, ...]
    decision: Literal["deny", "allow"] = "deny"
    reason: str | None = None


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Ask *url*, signed with *secret*; *on_error* is the ruling when it is down, slow or its answer is invalid."""

    url: str
    secret: str
    timeout_s: float = 5
    on_error: Literal["allow", "deny"] = "allow"


Config = ApprovalConfig | RuleConfig | HttpConfig
CONFIGS: dict[HookType, type[Config]] = {"approval": ApprovalConfig, "rule": RuleConfig, "http": HttpConfig}


class NamedHook(msgspec.Struct, frozen=True):
    """A hook of an agent with its *name* in the log and its parsed *config*."""

    name: str
    hook: Hook
    config: Config


def config_of(hook: Hook) -> Config:
    """Return the config of *hook*, parsed by its type; raises `msgspec.ValidationError`."""
    return msgspec.convert(hook.config, CONFIGS[hook.type])


def covers(hook: Hook, tool: str) -> bool:
    """Return whether *hook* runs for *tool*."""
    return hook.matcher is None or fnmatchcase(tool, hook.matcher)


def chain(hooks: Sequence[Hook], event: HookEvent, tools: Sequence[str] = ()) -> list[NamedHook]:
    """Return the hooks that are asked at *event* (of a tool with one of the names *tools*), in their order."""
    named = [(hook, hook.name or f"{hook.type}-{index}") for index, hook in enumerate(hooks, 1)]
    entries = [
        (hook, name)
        for hook, name in named
        if hook.event == event and (not tools or any(covers(hook, tool) for tool in tools))
    ]
    entries.sort(key=lambda each: (each[0].order, _RANK[each[0].type]))
    return [NamedHook(name, hook, config_of(hook)) for hook, name in entries]


DEFAULT_CONTEXT_MESSAGES = 200
RESULT_LIMIT = 50_000
MAX_CONTRACT = 50_000
"""Characters of an agent's own operating contract, and of each text of its persona."""
MAX_IDLE = 30 * 86_400
"""The longest `idle_refreeze_s`: thirty days."""
MAX_TOOL_LIMIT = 1_000
ToolSource = Literal["builtin", "render", "python", "http", "mcp"]
RouterKind = Literal["auto", "meta", "native", "off"]
AfterUntrusted = Literal["ask", "allow", "deny"]
RENDER_TOOLS = ("render_chart", "render_table")
"""The names of the tools that agents have without naming them, where the process has them; see `include_render`."""
CALL_TOOL, LIST_RESOURCES, USE_RESOURCE = "call_tool", "list_resources", "use_resource"
ROUTER_TOOLS = (CALL_TOOL, LIST_RESOURCES, USE_RESOURCE)
"""The names of the router's own tools, see `context.router`; with `router: native` there is `SEARCH_TOOLS` too."""
SEARCH_TOOLS = "search_tools"
ALL_ROUTER_TOOLS = (*ROUTER_TOOLS, SEARCH_TOOLS)


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop knows of a tool.

    *effect* `write` means that a second execution may do harm; *idempotent* that the tool takes the call id as
    an idempotency key; *timeout* is seconds; *result_limit* characters of text shown to the model. *kind* is its
    executor: this process, the client of the run, or none, so that a call of it is the run's answer.

    *title* says to people what it does while it runs, such as "Looking up your order", *title_done* afterwards.
    *source* says where it comes from. *untrusted*: what it returns may have been written by strangers. *resource*
    groups it for the router, *pinned* keeps it in the prompt there. *wraps* is the tool that it gives another name,
    whose hooks are asked too; *preset* are arguments of each call that the model does not give.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Literal["read", "write"] = "read"
    concurrency_safe: bool = False
    idempotent: bool = False
    timeout: float = 60.0
    result_limit: int = RESULT_LIMIT
    kind: ToolKind = "function"
    title: str | None = None
    title_done: str | None = None
    source: ToolSource = "python"
    untrusted: bool = False
    resource: str | None = None
    pinned: bool = False
    wraps: str | None = None
    preset: dict[str, Any] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that hooks know it by: its own, and that of the tool that it wraps."""
        return (self.name,) if self.wraps is None else (self.name, self.wraps)


def is_of_router(spec: ToolSpec | None) -> bool:
    """Return whether *spec* is one of the router's own: a tool of a user may have had its name before there was one."""
    return spec is not None and spec.name in ALL_ROUTER_TOOLS and spec.source == "builtin"


class DeclaredTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool that an agent's author declares: the `client` executes its calls, or they are the answer (`none`).

    *effect* says what the client does with a call: a `write` that follows an untrusted result is subject to
    `after_untrusted`.
    """

    name: str
    kind: Literal["client", "none"]
    description: str
    parameters: dict[str, Any]
    effect: Literal["read", "write"] = "read"

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(**msgspec.structs.asdict(self))


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """*max_context_messages* is both the window's bound and the history depth; None keeps everything.

    *max_runs* is how many runs of the agent, their children not counted, may run at once over all processes and
    versions; None sets no bound. The newest version's value applies to all of them.

    The others are quotas, of people and never of operators: of each *visitor*, each *user* (a person whom a channel
    knows), each network *address* of visitors, and of *everyone* together. Theirs too are the newest version's.
    """

    max_context_messages: int | None = DEFAULT_CONTEXT_MESSAGES
    max_runs: int | None = None
    visitor: VisitorQuota = VisitorQuota()
    user: Quota = Quota()
    address: AddressQuota = AddressQuota()
    everyone: Quota = Quota()

    @property
    def quotas(self) -> Quotas:
        return Quotas(visitor=self.visitor, user=self.user, address=self.address, everyone=self.everyone)


class Persona(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who an agent is: its *identity*, its *style*, what it has to *avoid*, and its *defaults*, each as a text."""

    identity: str | None = None
    style: str | None = None
    avoid: str | None = None
    defaults: str | None = None


class Compaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the window of a long conversation is made shorter.

    `summary`: *model* (`provider:name`; None: the conversation's own) sums up the older part. `cut`: old results of
    tools become placeholders, then the older part is left out. `off`: nothing is done.
    """

    kind: Literal["summary", "cut", "off"] = "summary"
    model: str | None = None


class AgentDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for agents that do not say it themselves; *idle_refreeze_s* is seconds, *clock* see `Definition`."""

    include_render: bool = True
    prompt_caching: bool = True
    idle_refreeze_s: int = 1800
    tool_limit: int = 40
    clock: str = "off"


PLAIN_DEFAULTS = AgentDefaults()


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agent as its author writes it, in YAML or over HTTP.

    *operating_contract* replaces what Parley itself says to the model, see `context.contract`; an empty text is none.
    After *idle_refreeze_s* seconds without activity a conversation takes up the newest version of the agent.
    *tools* are names and globs over names. *mcp_servers* are servers all of whose tools the agent has. Above
    *tool_limit* tools (0: always) the prompt has the *router*'s instead. *after_untrusted* is what becomes of a write
    that follows an untrusted result in the same run. *clock* is the IANA name of the time zone in which the model
    learns the time, or `off`; see `context.clock`.
    *prompt_caching* is whether requests are marked for the provider's cache; None of both: `AgentDefaults`.
    *fallback_models* answer, in this order, when the model fails before the first token of its answer. *channels* are
    the settings of channels, by the channel's name, which only the channel itself reads; authors may also write them
    beside the other fields, see `gathered`.
    """

    name: str
    instructions: str
    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    tools: tuple[str | DeclaredTool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    limits: Limits = Limits()
    controls: Controls = Controls()
    persona: Persona | None = None
    operating_contract: str | None = None
    prompt_caching: bool | None = None
    idle_refreeze_s: int | None = None
    compaction: Compaction = Compaction()
    mcp_servers: tuple[str, ...] = ()
    tool_limit: int | None = None
    router: RouterKind = "auto"
    after_untrusted: AfterUntrusted = "ask"
    clock: str | None = None
    channels: dict[str, Any] = {}


_FIELDS = frozenset(Definition.__struct_fields__)


def gathered(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an agent, with every field that `Definition` does not have moved under `channels`.

    Raises `InvalidInput` when a channel's settings are given both there and beside the fields.
    """
    beside = {name: value for name, value in values.items() if name not in _FIELDS}
    if not beside:
        return dict(values)
    channels: Mapping[str, Any] = values.get("channels") or {}
    for name in channels:
        if name in beside:
            raise InvalidInput(name, f"`{name}` is given twice, here and under `channels`; keep one of them.")
    fields = {name: value for name, value in values.items() if name in _FIELDS}
    return {**fields, "channels": {**channels, **beside}}


def spread(definition: Definition) -> dict[str, Any]:
    """Return *definition* as JSON with each channel's settings beside the fields, under the channel's name."""
    fields = msgspec.to_builtins(definition)
    return {**fields.pop("channels"), **fields}


class Snapshot(msgspec.Struct, frozen=True):
    """The frozen prompt prefix of a session; *tools* are sorted by name; *hash* names the content.

    Its texts, empty where there is none, are in the prompt in this order: *contract*, *persona*, *instructions*,
    *skills* (an index) and *memory* (the agent's), which sessions share, then *profile*, the person's own.

    *routed* are tools, sorted by name, that are frozen beside the prompt and not in it: the router shows them. The hash
    names them too, by *routed_hash*, which is empty without any.
    """

    hash: str
    model: str
    instructions: str
    tools: tuple[ToolSpec, ...]
    contract: str = ""
    persona: str = ""
    skills: str = ""
    memory: str = ""
    profile: str = ""
    routed: tuple[ToolSpec, ...] = ()
    routed_hash: str = ""

    @property
    def frozen(self) -> tuple[ToolSpec, ...]:
        """Return the tools of the prompt and those that the router shows."""
        return (*self.tools, *self.routed)

    @property
    def searches(self) -> bool:
        """Return whether the model finds routed tools by `search_tools`, and calls them by their own names."""
        return bool(self.routed) and any(is_of_router(spec) and spec.name == SEARCH_TOOLS for spec in self.tools)

    @property
    def shared(self) -> str:
        """Return the system text that all sessions of the agent share."""
        texts = (self.contract, self.persona, self.instructions, self.skills, self.memory)
        return "\n\n".join(text for text in texts if text)

    @property
    def own(self) -> str:
        """Return the system text of this session alone, which comes after the shared one."""
        return self.profile


def _able(_model: str) -> Abilities:
    return ABLE


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an agent as a run uses it: definition, frozen snapshot, and the run's own overrides.

    *tools* are those of the prompt, those that the router shows, and, with `call_tool` in the prompt, those that came
    after it. *asked_with* is what the channel knows of who asked, for the tools alone. *render_tools* are those that a
    run may put into the prompt.
    *able* returns what the API of a model, `provider:name`, enforces by itself; *has_sources* is whether there are
    context sources to ask before a first step.
    """

    id: str
    version: int
    definition: Definition
    snapshot: Snapshot
    tools: Mapping[str, ToolSpec]
    overrides: Controls = Controls()
    asked_with: Mapping[str, Any] = {}
    render_tools: tuple[ToolSpec, ...] = ()
    able: Callable[[str], Abilities] = _able
    has_sources: bool = False
    defaults: AgentDefaults = PLAIN_DEFAULTS

    @property
    def name(self) -> str:
        return self.definition.name

    def hooks(self, event: HookEvent, tool: str | None = None) -> Sequence[NamedHook]:
        """Return the hooks that are asked at *event* (of *tool*), in their order; of the router's own tools none is."""
        spec = None if tool is None else self.tools.get(tool)
        if not self.definition.hooks or is_of_router(spec):
            return ()
        return chain(
            self.definition.hooks, event, spec.names if spec is not None else (tool,) if tool is not None else ()
        )

    def listed(self, model: str) -> str:
        """Return the name of *model*, `provider:name`, in the model table."""
        return self.able(model).listed_as or model

    @property
    def calls_by_name(self) -> bool:
        """Return whether the prompt has the router's `call_tool`, so that tools that are not in it can be called."""
        return is_of_router(self.tools.get(CALL_TOOL))

    @property
    def prompted(self) -> frozenset[str]:
        """Return the names of the tools that are in the prompt."""
        return frozenset(spec.name for spec in self.snapshot.tools)

    @property
    def max_steps(self) -> int:
        return self.overrides.max_steps or self.definition.controls.max_steps or DEFAULT_MAX_STEPS

    @property
    def prompt_caching(self) -> bool:
        """Return whether requests of the run are marked for the provider's prompt cache."""
        levels = (
            self.overrides.prompt_caching,
            self.definition.controls.prompt_caching,
            self.definition.prompt_caching,
        )
        return next((level for level in levels if level is not None), self.defaults.prompt_caching)

    @property
    def idle_refreeze_s(self) -> int:
        """Return the seconds without activity after which a conversation takes up the agent's newest version."""
        own = self.definition.idle_refreeze_s
        return self.defaults.idle_refreeze_s if own is None else own

    @property
    def tool_context(self) -> dict[str, Any]:
        """Return what is passed to the tools besides their arguments; it may hold secrets.

        No controls can replace what the channel knows of who asked.
        """
        own = merged(self.overrides, self.definition.controls).tool_context or {}
        return {**own, **self.asked_with} if self.asked_with else own

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, version={self.version})"


def controls(
    n: int,
    agent: Agent,
    model: str | None = None,
    *,
    override: Override | None = None,
    defaults: Defaults | None = None,
) -> Controls:
    """Return what step *n* (from 1) of a run of *agent* may do.

    *override* is for this step alone; below it are the rule for the step, the *defaults* of a resume, the run and the
    agent. *model* is a fallback that took over.
    """
    controls = merged(defaults, agent.overrides, agent.definition.controls)
    controls = replace(controls, model=model or agent.snapshot.model)
    chosen = resolve(n, controls, override, {name: spec.kind for name, spec in agent.tools.items()})
    active = chosen.active_tools
    if active is None or not agent.calls_by_name or agent.prompted.issuperset(active):
        return chosen
    ways = [name for name in ALL_ROUTER_TOOLS if is_of_router(agent.tools.get(name)) and name not in active]
    return replace(chosen, active_tools=(*active, *ways))


def as_prompted(sends: Controls, agent: Agent) -> Controls:
    """Return what a model's API gets of a step's controls, *sends*, in terms of the tools that the prompt has.

    A tool outside the prompt is called by `call_tool`; that no other is called is then seen to here, see `refusal`.
    """
    if not agent.calls_by_name:
        return sends
    prompted, active = agent.prompted, sends.active_tools
    if isinstance(sends.tool_choice, NamedTool) and sends.tool_choice.tool not in prompted:
        sends = replace(sends, tool_choice=NamedTool(CALL_TOOL))
    if active is None:
        return sends
    seen = tuple(name for name in active if name in prompted)
    return replace(sends, active_tools=None if len(seen) == len(prompted) else seen)


def forced_by_name(before: Controls | None, now: Controls, agent: Agent) -> str | None:
    """Return the note on a tool that must be called and is not in the prompt, with what the model has to know of it.

    None where none must, or the step *before* said so already.
    """
    choice = now.tool_choice
    if not isinstance(choice, NamedTool) or (before is not None and before.tool_choice == choice):
        return None
    spec = agent.tools.get(choice.tool)
    if spec is None or not agent.calls_by_name or spec.name in agent.prompted:
        return None
    prompted = msgspec.json.encode({"name": spec.name, "description": spec.description, "parameters": spec.parameters})
    return f"Call `{CALL_TOOL}` now, for this tool: {prompted.decode()}"


StoredKind = Literal["http", "mcp", "python"]
SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.-]{1,64})\s*\}\}")
"""How a definition refers to a stored secret: `{{secret:NAME}}`."""
_GLOB = frozenset("*?[")


class ToolExample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A call of a tool by which its author tests it: how it has to end, and the texts that its result must contain.

    *tool_context* is who asks, as a run would bring it.
    """

    arguments: dict[str, Any] = {}
    tool_context: dict[str, Any] | None = None
    outcome: Literal["done", "failed", "unknown"] = "done"
    contains: tuple[str, ...] = ()


class ToolDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tool as its author writes it, in YAML or over HTTP.

    *config* is what its *kind* reads: of `http` the request, of `mcp` `{server, tool}`, of `python` `{tool}`; the last
    two give a tool that is there another name, *preset* or *output*. *preset* are arguments that the model neither sees
    nor can change. *output* is a JMESPath expression over the JSON that the tool returned, or `jq:` and a jq program.
    *context* are the keys of the caller's context that the tool's server gets as headers. *untrusted*: what it returns
    may have been written by strangers. *resource* groups it for the router, *pinned* keeps it in the prompt there.
    *title* says to people what it does while it runs, *title_done* afterwards. *timeout_s* is seconds, *result_limit*
    characters shown to the model; *effect* None is what the kind says. *tests* are calls that are only made on demand.
    """

    name: str
    kind: StoredKind = "http"
    description: str = ""
    title: str | None = None
    title_done: str | None = None
    parameters: dict[str, Any] | None = None
    effect: Literal["read", "write"] | None = None
    idempotent: bool = False
    concurrency_safe: bool | None = None
    timeout_s: float = 30.0
    result_limit: int = RESULT_LIMIT
    preset: dict[str, Any] = {}
    output: str | None = None
    context: tuple[str, ...] = ()
    untrusted: bool = False
    resource: str | None = None
    pinned: bool = False
    config: dict[str, Any] = {}
    tests: tuple[ToolExample, ...] = ()


ToolOrigin = Literal["file", "api"]
"""Where a definition comes from: those of files are read-only over the API."""


class DefinedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A stored tool at its newest version; times are milliseconds since the epoch."""

    id: str
    version: int
    source: ToolOrigin
    definition: ToolDefinition
    created_at: int
    updated_at: int


class ToolVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a tool's definition, which is never changed."""

    version: int
    created_at: int
    definition: ToolDefinition


class ToolObject(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a process, defined or not, as operators see it.

    One without a stored definition has its name as *id*, no *version* and no *source*. *parameters* are all, those that
    have a *preset* too. *place* is the file that defines it. *available* is false while what it needs is not here.
    """

    id: str
    name: str
    title: str | None
    kind: ToolSource
    description: str
    parameters: dict[str, Any]
    effect: Literal["read", "write"]
    idempotent: bool
    concurrency_safe: bool
    timeout_s: float
    result_limit: int
    preset: dict[str, Any] = {}
    output: str | None = None
    context: tuple[str, ...] = ()
    untrusted: bool = False
    resource: str | None = None
    pinned: bool = False
    title_done: str | None = None
    config: dict[str, Any] = {}
    tests: tuple[ToolExample, ...] = ()
    version: int | None = None
    source: ToolOrigin | None = None
    place: str | None = None
    available: bool = True


def is_glob(name: str) -> bool:
    """Return whether *name*, of an agent's `tools` or a hook's `matcher`, is a glob over the names of tools."""
    return not _GLOB.isdisjoint(name)


def secrets_in(value: object) -> frozenset[str]:
    """Return the names of the secrets that a JSON *value* refers to, in keys too."""
    return frozenset(SECRET.findall(msgspec.json.encode(value).decode()))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return *text* with each reference replaced by the secret of that name in *values*; raises KeyError without."""
    return SECRET.sub(lambda match: values[match[1]], text)

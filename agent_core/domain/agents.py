"""Agents: frozen definitions, the specs of their tools, and what one step may do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from agent_core.domain.controls import (
    ABLE,
    DEFAULT_MAX_STEPS,
    Abilities,
    Controls,
    ToolKind,
    merged,
)
from agent_core.domain.hooks import Hook, HookEvent, NamedHook, chain
from agent_core.domain.quotas import AddressQuota, Quota, Quotas, VisitorQuota
from agent_core.errors import InvalidInput

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

    `summary`: first old results of tools become placeholders, then *model* (`provider:name`; None: the small one of the
    session's provider) sums up the older part. `cut`: the older part is left out. `off`: nothing is done.
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
    def tool_limit(self) -> int:
        """Return the number of tools above which the prompt has the router's instead; 0: always."""
        own = self.definition.tool_limit
        return self.defaults.tool_limit if own is None else own

    @property
    def tool_context(self) -> dict[str, Any]:
        """Return what is passed to the tools besides their arguments; it may hold secrets.

        No controls can replace what the channel knows of who asked.
        """
        own = merged(self.overrides, self.definition.controls).tool_context or {}
        return {**own, **self.asked_with} if self.asked_with else own

    def __repr__(self) -> str:
        return f"Agent({self.id!r}, version={self.version})"

"""Tools as operators define them: tried without a model, and kept."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec.structs import asdict, replace
from sqlalchemy import Connection

from agent_core.agents import DefinedTool, ToolDefinition, ToolObject, ToolSpec, ToolVersion
from agent_core.clock import Clock
from agent_core.controls import check_tool_context, hint
from agent_core.errors import InvalidInput, ManagedByFile, NotFound, UnknownCursor
from agent_core.ids import new_id
from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpConnections
from agent_core.messages import Actor, CallOutcome, Part, Text, clean, text_of
from agent_core.net.fetch import Fetch
from agent_core.net.targets import check_text
from agent_core.objects import Page
from agent_core.runtime.agent_checks import check_definition, check_program
from agent_core.runtime.mcp import McpCatalog
from agent_core.runtime.revisions import Revisions, SecretValues
from agent_core.schemas import problems
from agent_core.secrets import Secrets
from agent_core.store import tools as definitions
from agent_core.store.store import Store
from agent_core.tools.base import CallContext, Done, Elicitation, ForeignError, Outcome, Pending, Tool, ToolError, use
from agent_core.tools.functions import NAME
from agent_core.tools.http import HttpKind
from agent_core.tools.output import CatalogTool
from agent_core.tools.toolset import KindFactory, McpConfig, Merged, Noted, PythonConfig, Scope, Toolset, Wrapping

CHANNEL = "api"
MAX_PROGRESS = 100
"""Lines of progress that are returned."""
_CANCEL_TIMEOUT = 0.5


class DryRunRender(msgspec.Struct, frozen=True, kw_only=True):
    """What a dry run would show to people."""

    kind: str
    title: str | None
    text: str


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a dry run ended: *text* is what a model would read of its *parts*, cut as for a model if *truncated*.

    *call* is the id that the tool got, its idempotency key; *progress* are the lines that it showed meanwhile.
    """

    call: str
    outcome: CallOutcome
    text: str
    parts: tuple[Part, ...]
    renders: tuple[DryRunRender, ...]
    truncated: bool
    progress: tuple[str, ...]
    duration_ms: int


async def dry_run(
    tool: Tool, arguments: dict[str, Any], *, by: Actor, clock: Clock, tool_context: Mapping[str, Any] | None = None
) -> DryRun:
    """Call *tool* for *by*, with the checks, the timeout and the cut of a run; raises `InvalidInput`.

    No hook is asked, and there are no rows of a session.
    """
    check_tool_context(tool_context)
    call, progress = new_id("call"), list[str]()
    context = CallContext(
        call=call,
        session="",
        run="",
        actor=by,
        channel=CHANNEL,
        clock=clock,
        progress=lambda line: progress.append(clean(line)) if len(progress) < MAX_PROGRESS else None,
        tool_context=tool_context or {},
    )
    began = time.perf_counter()
    outcome = await asyncio.to_thread(_unfit, tool, arguments) or await _called(tool, arguments, context)
    milliseconds = int((time.perf_counter() - began) * 1000)
    ended, parts, renders = _end(tool, outcome)
    shown, truncated = _cut(parts, tool.spec.result_limit)
    return DryRun(
        call=call,
        outcome=ended,
        text=text_of(shown),
        parts=shown,
        renders=renders,
        truncated=truncated,
        progress=tuple(progress),
        duration_ms=milliseconds,
    )


def _unfit(tool: Tool, arguments: dict[str, Any]) -> ToolError | None:
    faults = problems(tool.spec.parameters, arguments)
    listed = "; ".join(map(str, faults))
    return ToolError(f"The arguments do not fit the schema of `{tool.spec.name}`: {listed}") if faults else None


async def _called(tool: Tool, arguments: dict[str, Any], context: CallContext) -> Outcome | None:
    """Return the outcome, None when *tool* did not answer in time; one that ignores its end is left alone."""
    name, work = tool.spec.name, asyncio.ensure_future(use(tool, arguments, context))
    try:
        await asyncio.wait((work,), timeout=tool.spec.timeout)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait((work,), timeout=_CANCEL_TIMEOUT)
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
    if not work.done() or work.cancelled():
        return None
    try:
        return work.result()
    except ForeignError as error:
        return ToolError(f"`{name}` failed: {error}")


def _end(tool: Tool, outcome: Outcome | None) -> tuple[CallOutcome, Sequence[Part], tuple[DryRunRender, ...]]:
    match outcome:
        case Done(parts, renders):
            shown = tuple(DryRunRender(kind=each.kind, title=each.title, text=clean(each.text)) for each in renders)
            texts = () if text_of(parts) else tuple(Text(each.text) for each in shown)
            return "done", (*parts, *texts), shown
        case ToolError(message, unknown):
            return "unknown" if unknown else "failed", (Text(message),), ()
        case Elicitation(title):
            return "failed", (Text(f"It asks a person, which only a run can: {title}"),), ()
        case Pending(on):
            return "failed", (Text(f"It waits for something ({on}), which only a run can."),), ()
        case None:
            text = f"`{tool.spec.name}` did not answer within {tool.spec.timeout:g} s."
            return "unknown" if tool.spec.effect == "write" else "failed", (Text(text),), ()


def _cut(parts: Sequence[Part], limit: int) -> tuple[tuple[Part, ...], bool]:
    """Return *parts* with at most *limit* characters of text, and whether that is less than there was."""
    length, left, result = 0, limit, list[Part]()
    for part in parts:
        if not isinstance(part, Text):
            result.append(part)
            continue
        text = clean(part.text)
        length += len(text)
        if left > 0:
            result.append(Text(text[:left]))
        left -= len(text)
    if length <= limit:
        return tuple(result), False
    return (*result, Text(f"[Cut after {limit} of {length} characters.]")), True


_log = structlog.get_logger("parley.tools")


class _Made(NamedTuple):
    """The *tools* of a process, made of the *stored* definitions and the tools of *base*."""

    stored: Mapping[str, DefinedTool]
    base: Mapping[str, Tool]
    tools: Mapping[str, Tool]


class ToolCatalog:
    """CatalogTool tools, beside those of *base* that need no definition; it is the toolset of both.

    A change of this process counts at once, one of another within a second. A tool of *base* keeps its name: a
    definition that has it too, as its file came later, makes no tool.
    """

    def __init__(
        self,
        store: Store,
        base: Toolset,
        kinds: Mapping[str, KindFactory],
        revisions: Revisions,
        places: Callable[[], Mapping[str, str]],
    ) -> None:
        """*kinds* has the factory of each kind; *places* returns where tools are defined, by their names."""
        self._store, self._base, self._kinds, self._revisions, self._places = store, base, kinds, revisions, places
        self._stored: Mapping[str, DefinedTool] = {}
        self._made = _Made({}, {}, {})
        revisions.follow("tools", self._load)

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        """Return all tools; no statement is run."""
        base, made = await self._base.tools(scope), self._made
        if made.stored is not self._stored or made.base != base:
            made = self._made = _Made(self._stored, base, {**self._of_definitions(base), **base})
        return made.tools

    async def refresh(self) -> None:
        """Take up what other processes have changed."""
        await self._revisions.look()

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[ToolObject]:
        """Return the tools of this process whatever their kind, by name; raises `UnknownCursor`."""
        if cursor is not None and not NAME.fullmatch(cursor):
            raise UnknownCursor("cursor", "not a cursor of this list; use `next_cursor` of the page before.")
        tools = await self.tools(Scope())
        names = sorted(name for name in {*tools, *self._stored} if name > (cursor or ""))
        objects = tuple(self._object(name, tools) for name in names[:limit])
        return Page(objects, names[limit - 1] if len(names) > limit else None)

    async def get(self, name: str) -> ToolObject:
        """Return the tool with this id or name; raises `NotFound`."""
        name, tools = await self._find(name)
        return self._object(name, tools)

    async def tool(self, name: str) -> Tool:
        """Return what the tool with this id or name does; raises `NotFound`, also while what it needs is not here."""
        found, tools = await self._find(name)
        if found not in tools:
            raise NotFound("tool", name, "It is defined, but what it needs is not here now.")
        return tools[found]

    async def versions(self, name: str) -> Sequence[ToolVersion]:
        """Return the versions of a defined tool, the newest first; none of one without a definition."""
        tool = self._stored.get((await self._find(name))[0])
        return () if tool is None else await self._store.read(definitions.versions, tool.id)

    async def create(self, definition: ToolDefinition) -> ToolObject:
        """Store a new tool; raises `InvalidInput`."""
        await self.check(definition)
        now = self._store.clock.now()
        made = await self._store.write(definitions.create, definition, now=now)
        await self._revisions.look()
        return await self.get(made.id)

    async def update(self, name: str, changes: Mapping[str, Any]) -> ToolObject:
        """Store *changes* (fields) as a new version; raises `NotFound`, `ManagedByFile`, `InvalidInput`, `ToolInUse`.

        Absent fields stay; `preset` and `config` are replaced whole.
        """
        seen = await self._editable(name)
        now, base = self._store.clock.now(), await self._base.tools(Scope())
        # Checking a schema takes up to a second, so it runs neither on the event loop nor inside the transaction.
        wanted = await asyncio.to_thread(self._changed, seen, changes, base)
        await check_program(wanted)

        def work(connection: Connection) -> DefinedTool:
            tool = definitions.editable(definitions.hold(connection, seen.id))
            # After a concurrent update the changes apply to its result, which has to be checked again.
            made = wanted if tool == seen else self._changed(tool, changes, base)
            if made.name != tool.definition.name:
                definitions.check_unused(connection, tool)
            return definitions.change(connection, tool, made, now=now)

        made = await self._store.write(work)
        await self._revisions.look()
        return await self.get(made.id)

    async def delete(self, name: str) -> None:
        """Remove a defined tool; raises `NotFound`, `ManagedByFile`, `ToolInUse`."""
        seen = await self._editable(name)

        def work(connection: Connection) -> None:
            definitions.delete(connection, definitions.editable(definitions.hold(connection, seen.id)))

        await self._store.write(work)
        await self._revisions.look()

    async def sync_files(self, wanted: Sequence[ToolDefinition], *, whole: bool = True) -> None:
        """Update the stored tools to those that files define, which have been checked.

        One whose file is gone is removed, unless the files are not *whole*: what a broken one defines is not known.
        """
        now = self._store.clock.now()
        await self._store.write(definitions.sync_files, wanted, whole=whole, now=now)
        await self._revisions.look()

    async def check(self, definition: ToolDefinition) -> None:
        """Raise `InvalidInput`, with the field, for a definition that cannot be stored or could not work here."""
        await self._revisions.look()
        base = await self._base.tools(Scope())
        await asyncio.to_thread(self._check, definition, base)
        await check_program(definition)

    async def check_filed(self, definition: ToolDefinition) -> None:
        """Do as `check`, for a definition of a file: it cannot take the place of a tool that the API defined."""
        await self.check(definition)
        stored = self._stored.get(definition.name)
        if stored is not None and stored.source == "api":
            raise definitions.of_api(definition.name)

    async def faults(self, name: str) -> Sequence[str]:
        """Return what keeps the calls of a tool from working now, a sentence each; raises `NotFound`."""
        name, tools = await self._find(name)
        tool = self._stored.get(name)
        if tool is None:
            return ()
        try:
            await self.check(tool.definition)
        except InvalidInput as error:
            return (str(error),)
        missing = () if name in tools else ("what it needs is not here now.",)
        return (*missing, *await self._kinds[tool.definition.kind].faults(tool.definition))

    async def call(
        self, name: str, arguments: dict[str, Any], *, by: Actor, tool_context: Mapping[str, Any] | None = None
    ) -> DryRun:
        """Call a tool for an operator, see `dry_run`; raises `NotFound`, `InvalidInput`."""
        tool = await self.tool(name)
        return await dry_run(tool, arguments, by=by, clock=self._store.clock, tool_context=tool_context)

    async def _load(self) -> None:
        tools = await self._store.read(definitions.everything)
        self._stored = {tool.definition.name: tool for tool in tools}

    async def _find(self, name: str) -> tuple[str, Mapping[str, Tool]]:
        """Return the name of the tool with this id or name, and all tools; another process may have just made it."""
        for again in (False, True):
            if again:
                await self._revisions.look()
            tools = await self.tools(Scope())
            if name in tools or name in self._stored:
                return name, tools
            for tool in self._stored.values():
                if tool.id == name:
                    return tool.definition.name, tools
        raise NotFound("tool", name, _meant(name, tools))

    async def _editable(self, name: str) -> DefinedTool:
        await self._revisions.look()
        name, _ = await self._find(name)
        tool = self._stored.get(name)
        if tool is None:
            place = self._places().get(name)
            comes = f"comes from {place}: change it there" if place else "has no stored definition"
            raise ManagedByFile(f"The tool `{name}` {comes}.")
        return definitions.editable(tool)

    def _changed(self, tool: DefinedTool, changes: Mapping[str, Any], base: Mapping[str, Tool]) -> ToolDefinition:
        """Return the definition of *tool* with *changes*, checked."""
        try:
            wanted = msgspec.convert({**asdict(tool.definition), **changes}, ToolDefinition)
        except msgspec.ValidationError as error:
            raise InvalidInput("tool", str(error)) from error
        self._check(wanted, base, tool)
        return wanted

    def _check(self, wanted: ToolDefinition, base: Mapping[str, Tool], own: DefinedTool | None = None) -> None:
        if wanted.name in base and (own is None or own.definition.name != wanted.name):
            place = self._places().get(wanted.name)
            where = f"is defined at {place}" if place else "ships with Parley"
            raise InvalidInput("name", f"the tool `{wanted.name}` {where}; choose another name.")
        factory = self._kinds.get(wanted.kind)
        if factory is None:
            kinds = ", ".join(f"`{kind}`" for kind in sorted(self._kinds))
            raise InvalidInput("kind", f"this process makes no tools of the kind `{wanted.kind}`, only of {kinds}.")
        check_definition(wanted, factory, base)

    def _of_definitions(self, base: Mapping[str, Tool]) -> dict[str, Tool]:
        """Return the tools of the stored definitions; one that has not changed is the same object as before."""
        before, tools = self._made.tools, dict[str, Tool]()
        for name, tool in self._stored.items():
            try:
                factory = self._kinds.get(tool.definition.kind)
                inner = None if factory is None else factory.tool(tool.definition, base)
            except Exception as error:  # noqa: BLE001 - one that an older version stored keeps no other from working
                _log.warning("tool.unusable", tool=name, error=str(error), remedy="change its definition")
                continue
            if inner is None:
                continue
            existing = before.get(name)
            if isinstance(existing, CatalogTool) and (existing.definition, existing.inner) == (tool.definition, inner):
                tools[name] = existing
            else:
                tools[name] = CatalogTool(tool.definition, inner)
        return tools

    def _object(self, name: str, tools: Mapping[str, Tool]) -> ToolObject:
        tool, stored = tools.get(name), self._stored.get(name)
        place = self._places().get(name)
        if tool is not None and (stored is None or not isinstance(tool, CatalogTool)):
            return _of_spec(tool.spec, place)
        assert stored is not None
        return _of_defined(stored, tool.inner if isinstance(tool, CatalogTool) else None, place)


def _of_spec(spec: ToolSpec, place: str | None) -> ToolObject:
    return ToolObject(
        id=spec.name,
        name=spec.name,
        title=spec.title,
        title_done=spec.title_done,
        kind=spec.source,
        description=spec.description,
        parameters=spec.parameters,
        effect=spec.effect,
        idempotent=spec.idempotent,
        concurrency_safe=spec.concurrency_safe,
        timeout_s=spec.timeout,
        result_limit=spec.result_limit,
        untrusted=spec.untrusted,
        resource=spec.resource,
        pinned=spec.pinned,
        place=place,
    )


def _of_defined(stored: DefinedTool, inner: Tool | None, place: str | None) -> ToolObject:
    made = stored.definition
    spec = ToolSpec(
        name=made.name,
        description=made.description,
        parameters=made.parameters or {},
        effect=made.effect or "write",
        concurrency_safe=bool(made.concurrency_safe),
        **{
            name: getattr(made, name)
            for name in ("title", "title_done", "idempotent", "untrusted", "resource", "pinned")
        },
    )
    return replace(
        _of_spec(spec if inner is None else inner.spec, place),
        id=stored.id,
        name=made.name,
        kind=made.kind,
        timeout_s=made.timeout_s,
        result_limit=made.result_limit,
        preset=made.preset,
        output=made.output,
        context=made.context,
        config=made.config,
        tests=made.tests,
        version=stored.version,
        source=stored.source,
        available=inner is not None,
    )


def _meant(name: str, tools: Mapping[str, Tool]) -> str:
    likely = hint(name, tools).strip(" ()")
    return f"{likely[0].upper()}{likely[1:]}" if likely else ""


@dataclass(frozen=True, slots=True)
class ToolPorts:
    """What a process gives its core for tools.

    *places* returns where tools that are not defined come from, by their names, such as `tools/orders.py:3`. Without
    *fetch* there are no HTTP tools. *mcp* are the connections to MCP servers, without which these are only stored;
    *mcp_stdio* is whether the API may make servers of programs; *mcp_client* is where this deployment describes itself
    as a client of OAuth, an address of HTTPS.
    """

    places: Callable[[], Mapping[str, str]] = dict
    fetch: Fetch | None = None
    mcp: McpConnections | None = None
    mcp_stdio: bool = False
    mcp_client: str | None = None


NO_PORTS = ToolPorts()


class Tooling:
    """All tools: *shipped* are those that need no definition. `toolset` is what agents and runs use.

    *secrets* seals what is stored; None where the core has no key.

    Attach a kind of stored things here: it gets `revisions`, to see what other processes change, its toolset is merged
    into the base, and `kinds` has the factory of each kind of definitions.
    """

    def __init__(self, store: Store, shipped: Toolset, secrets: Secrets | None, ports: ToolPorts) -> None:
        self.revisions = Revisions(store)
        self.secrets = SecretValues(store, secrets, self.revisions)
        authorization = None if ports.fetch is None else Authorization(ports.fetch, store.clock, ports.mcp_client)
        self.servers = McpCatalog(
            store,
            self.revisions,
            ports.mcp,
            secrets=secrets,
            values=self.secrets,
            check_url=check_text if ports.fetch is None else ports.fetch.guard.check,
            stdio=ports.mcp_stdio,
            authorization=authorization,
        )
        base = Merged((shipped, self.servers))
        kinds: dict[str, KindFactory] = {
            "python": Wrapping(PythonConfig),
            "mcp": Wrapping(McpConfig, lambda: self.servers.names),
        }
        self._http = None if ports.fetch is None else HttpKind(ports.fetch, self.secrets.values, store.clock)
        if self._http is not None:
            kinds["http"] = self._http
        self.definitions = ToolCatalog(store, base, kinds, self.revisions, ports.places)
        self.toolset: Toolset = Noted(self.definitions, store.counters.know)

    async def start(self) -> None:
        """Load what is stored, and from now on what other processes change."""
        await self.revisions.start()
        self.servers.start()

    async def stop(self) -> None:
        """End what `start` began."""
        if self._http is not None:
            await self._http.tokens.close()
        await self.revisions.stop()
        await self.servers.stop()

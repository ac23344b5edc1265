"""The stored agents as this process can run them."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_core.agent.router import offer_of
from agent_core.agent.snapshot import snapshot_of
from agent_core.agents import (
    PLAIN_DEFAULTS,
    RENDER_TOOLS,
    Agent,
    AgentDefaults,
    Controls,
    Definition,
    Hook,
    Snapshot,
    gathered,
    is_glob,
    spread,
)
from agent_core.channels import ChannelPort, Channels
from agent_core.controls import ABLE, NOTHING, Abilities, check
from agent_core.errors import InvalidInput, UnknownCursor
from agent_core.hooks import http
from agent_core.hooks.chain import Resolver
from agent_core.hooks.http import check_secrets
from agent_core.hooks.rules import HookResolvers, warn_open
from agent_core.objects import AgentObject, Page
from agent_core.providers.base import Provider, named
from agent_core.runtime.agent_checks import RefusedAgent, Surroundings, check_agent
from agent_core.runtime.offers import (
    NoServers,
    Servers,
    added,
    attached,
    current,
    guarded,
    lacking,
    names_of,
    offer_the_same,
    offered,
    warn_of_offer,
    with_later,
)
from agent_core.secrets import Secrets
from agent_core.store import catalog
from agent_core.store.catalog import StoredAgent
from agent_core.store.store import Store
from agent_core.tools.base import Tool
from agent_core.tools.toolset import Scope, Toolset, tools_with


def with_changes(current: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return *current* with its fields replaced by *changes*, one level deep in groups; two in `limits`, for quotas."""
    groups = {name: {**current[name], **each} for name, each in changes.items() if _is_group(current.get(name), each)}
    if "limits" in groups:
        groups["limits"] = with_changes(current["limits"], changes["limits"])
    return {**current, **changes, **groups}


def _is_group(current: Any, change: Any) -> bool:
    return isinstance(current, dict) and isinstance(change, dict)


MAX_PROTOTYPES = 256
"""How many agents are cached for new sessions."""
_log = structlog.get_logger("parley.agents")


class Prototype(NamedTuple):
    """An agent as a new session uses it; *key* is its row's, *known* are the tools that it was built with."""

    key: int
    agent: Agent
    tools: Mapping[str, Tool]


class Roster:
    """Stored agents; every definition that enters has been checked against what this process can run."""

    def __init__(
        self,
        store: Store,
        toolset: Toolset,
        providers: Mapping[str, Provider],
        default_model: str,
        secrets: Secrets | None = None,
        channels: Sequence[ChannelPort] = (),
        resolvers: Resolver | None = None,
        *,
        has_sources: bool = False,
        tools_looked_for: str = "",
        defaults: AgentDefaults = PLAIN_DEFAULTS,
        provider_needs: Mapping[str, str] = {},
        servers: Servers | None = None,
    ) -> None:
        """*defaults* hold for agents that do not say it themselves.

        *provider_needs* says of providers that this process could have what it lacks for them: the name of a setting.
        """
        self._needs, self.servers = provider_needs, servers or NoServers()
        self.defaults = defaults
        self._store, self._toolset, self._providers = store, toolset, providers
        self._default_model, self._clock, self._secrets = default_model, store.clock, secrets
        self._has_sources, self._tools_looked_for = has_sources, tools_looked_for
        self._guard = resolvers.guard if isinstance(resolvers, HookResolvers) else None
        self._channels = Channels(channels)
        self._prototypes: dict[str, Prototype] = {}
        self._warned: set[tuple[str, int]] = set()

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[AgentObject]:
        """Return agents, oldest first."""
        after = cursor_key(cursor) or 0
        agents = await self._store.read(catalog.listed, limit=limit, after=after)
        return replace(agents, items=tuple(map(self._public, agents.items)))

    async def get(self, name: str) -> AgentObject:
        """Return the agent with this id or name; raises `NotFound`."""
        return self._public((await self.find(name)).object)

    async def find(self, name: str) -> StoredAgent:
        """Return the agent as it is stored, its secrets sealed; raises `NotFound`."""
        return await self._store.peek(catalog.find, name)

    async def create(self, definition: Definition) -> AgentObject:
        """Store a new agent; raises `InvalidInput`."""
        tools = await tools_with(self._toolset, Scope(), _exact(definition.tools))
        await self.servers.known(definition.mcp_servers)
        now, sealed = self._clock.now(), await asyncio.to_thread(self._sealed, definition, tools)
        return self._public(await self._store.write(catalog.create, sealed, channels=self._channels, now=now))

    async def update(self, name: str, changes: dict[str, Any]) -> AgentObject:
        """Store *changes* (fields) as a new version; raises `NotFound`, `ManagedByFile`, `InvalidInput`.

        Absent fields stay, also in a group such as `limits`, and so does a secret that is sent back masked.
        """
        now, seen = self._clock.now(), catalog.editable(await self.find(name))
        tools = await tools_with(self._toolset, Scope(seen.object.id), _exact(changes.get("tools") or ()))
        await self.servers.known(changes.get("mcp_servers") or ())
        # Checking a schema takes up to a second, so it runs neither on the event loop nor inside the transaction.
        sealed = await asyncio.to_thread(self._changed, seen, changes, tools)

        def work(connection: Connection) -> AgentObject:
            agent = catalog.editable(catalog.find(connection, name))
            # After a concurrent update the changes apply to its result, which has to be checked again.
            wanted = sealed if agent == seen else self._changed(agent, changes, tools)
            return catalog.update_definition(connection, agent, wanted, channels=self._channels, now=now)

        return self._public(await self._store.write(work))

    async def delete(self, name: str) -> None:
        """Remove an agent; raises `NotFound`, `ManagedByFile`, `SessionOpen`."""
        await self._store.write(
            lambda connection: catalog.delete(connection, catalog.editable(catalog.find(connection, name)))
        )

    async def sync_files(self, definitions: Sequence[Definition]) -> None:
        """Update the stored agents to the files; raises `RefusedAgent`, `InvalidInput`, `ConfigError`.

        One whose model has no provider here is stored, and is unavailable, see `unserved`.
        """
        tools = await tools_with(self._toolset, Scope(), (name for each in definitions for name in _exact(each.tools)))
        await self.servers.known([name for each in definitions for name in each.mcp_servers])
        now, sealed = self._clock.now(), [self._filed(each, tools) for each in definitions]
        await self._store.write(catalog.sync_files, sealed, channels=self._channels, now=now)

    async def having(self, tool: str) -> Sequence[str]:
        """Return the names of the agents that new conversations have *tool* of, named, by a glob or by a setting."""
        names: list[str] = []
        for agent in await self.all():
            made, tools = agent.definition, await self._toolset.tools(Scope(agent.id))
            more = added(made, tools, include_render=self.defaults.include_render)
            if tool in (*names_of(attached(made, tools)), *more):
                names.append(made.name)
        return names

    async def all(self) -> Sequence[AgentObject]:
        """Return every agent, oldest first."""
        agents: list[AgentObject] = []
        cursor: str | None = None
        while True:
            page = await self.list(cursor=cursor)
            agents += page.items
            cursor = page.next_cursor
            if cursor is None:
                return agents

    async def unavailable(self) -> Sequence[tuple[str, str]]:
        """Return the name of each agent that no model can answer for here, and what it needs, as a sentence."""
        reasons = [(agent.definition.name, self.unserved(agent.definition)) for agent in await self.all()]
        return [(name, why) for name, why in reasons if why is not None]

    def unserved(self, definition: Definition, frozen: str | None = None) -> str | None:
        """Return why none of an agent's models can be asked here, in a sentence; None when one can.

        *frozen* is the model of the session in question, which stays its own.
        """
        return why_unserved(definition, frozen or self._model_of(definition), self._providers, self._needs)

    def check(self, definition: Definition, tools: Collection[str], *, filed: bool = False) -> None:
        """Raise `InvalidInput` when this process, which has *tools*, could not run *definition*.

        One of a file (*filed*) may name a model of a provider that is not here, see `unserved`.
        """
        around = Surroundings(
            tools, self.servers, self._channels, self._tools_looked_for, self.defaults.include_render, self._guard
        )
        check_agent(definition, around)
        warn_of_offer(definition, tools, searches=self.searches(definition))
        warn_open(definition)
        models = {"model": definition.model, "controls.model": definition.controls.model}
        models["compaction.model"] = definition.compaction.model
        models |= {f"fallback_models[{index}]": model for index, model in enumerate(definition.fallback_models)}
        for path, model in models.items():
            if model is None:
                continue
            provider, colon, _ = model.partition(":")
            if not (filed and colon and provider not in self._providers):
                self.check_model(path, model)

    def check_controls(self, controls: Controls, tools: Collection[str]) -> None:
        """Raise `InvalidInput` when an agent with *tools* cannot follow *controls*."""
        if controls.model is not None:
            self.check_model("controls.model", controls.model)
        check(controls, tools)

    async def prototype(self, name: str) -> Prototype:
        """Return the agent with this id or name for a new session; raises `NotFound`, `InvalidInput`.

        It is cached while the toolset returns tools with equal specs. It may be stale; the transaction that opens the
        session then raises `StaleAgent`: `forget` it and retry.
        """
        cached = self._prototypes.get(name)
        if cached is not None and offer_the_same(cached.tools, await self._toolset.tools(Scope(cached.agent.id))):
            return cached
        stored = await self.find(name)
        current = stored.object
        tools = await self._toolset.tools(Scope(current.id))
        agent = await self.agent(current.id, current.version, current.definition, await self.base(current), NOTHING)
        if len(self._prototypes) >= MAX_PROTOTYPES:
            self._prototypes.clear()
        self._prototypes[name] = Prototype(stored.key, agent, tools)
        return self._prototypes[name]

    def forget(self, name: str) -> None:
        """Remove the agent with this id or name from the cache."""
        self._prototypes.pop(name, None)

    async def base(self, agent: AgentObject) -> Snapshot:
        """Return the snapshot that a new session of *agent* freezes; raises `InvalidInput` when a tool is gone."""
        definition = agent.definition
        served = await tools_with(self._toolset, Scope(agent.id), _exact(definition.tools))
        for tool in lacking(definition, served, self.servers.names):
            remedy = "bring it back, or take it out of the agent's `tools`."
            raise InvalidInput("agent", f"`{definition.name}` uses the tool `{tool}`, which is not here; {remedy}")
        if why := self.unserved(definition):
            raise InvalidInput("agent", why)
        tools = offered(definition, served, include_render=self.defaults.include_render)
        limit = self.defaults.tool_limit if definition.tool_limit is None else definition.tool_limit
        prompt, routed = offer_of(definition, tools, limit, searches=self.searches(definition))
        return snapshot_of(definition, prompt, model=self._model_of(definition), routed=routed)

    def searches(self, definition: Definition) -> bool:
        """Return whether the model of *definition* loads tools that a search of ours finds (`router: native`)."""
        return self._able(self._model_of(definition)).searches

    def _model_of(self, definition: Definition) -> str:
        return definition.controls.model or definition.model or self._default_model

    async def agent(
        self,
        id: str,
        version: int,
        definition: Definition,
        snapshot: Snapshot,
        overrides: Controls,
    ) -> Agent:
        """Return an agent as a run uses it: what the model sees is frozen, tools behave as they do now."""
        served = await self._toolset.tools(Scope(id))
        tools = {spec.name: guarded(current(spec, served), definition) for spec in snapshot.frozen}
        agent = Agent(
            id=id,
            version=version,
            definition=definition,
            snapshot=snapshot,
            tools=tools,
            overrides=overrides,
            render_tools=tuple(guarded(served[name].spec, definition) for name in RENDER_TOOLS if name in served),
            able=self._able,
            has_sources=self._has_sources,
            defaults=self.defaults,
        )
        return with_later(agent, served)

    async def present(self, agent: Agent) -> Agent:
        """Return *agent* with the tools that came after its prompt was frozen, as they are now.

        They are those that its own definition names, by a glob or a server, and are called by `call_tool` alone.
        """
        return with_later(agent, await self._toolset.tools(Scope(agent.id))) if agent.calls_by_name else agent

    def _changed(self, agent: StoredAgent, changes: dict[str, Any], tools: Collection[str]) -> Definition:
        """Return *agent* with *changes*, checked, in the stored form."""
        stored = self._channels.readable(agent.object.definition)
        # `channels` replaces the settings of all channels; a channel's own field replaces those of that channel.
        base = replace(stored, channels={}) if "channels" in changes else stored
        merged = with_changes(spread(base), changes)
        try:
            wanted = msgspec.convert(gathered(merged), Definition)
        except msgspec.ValidationError as error:
            raise InvalidInput("agent", str(error)) from error
        return self._sealed(wanted, tools, agent.object.definition.hooks)

    def _filed(self, definition: Definition, tools: Collection[str]) -> Definition:
        try:
            return self._sealed(definition, tools, filed=True)
        except InvalidInput as error:
            raise RefusedAgent(definition.name, error) from None

    def _sealed(
        self, definition: Definition, tools: Collection[str], stored: Sequence[Hook] = (), *, filed: bool = False
    ) -> Definition:
        """Return *definition*, checked, in the stored form; masked secrets in it are replaced by those of *stored*."""
        hooks = http.unmasked(definition.hooks, stored)
        wanted = replace(definition, hooks=hooks) if hooks else definition
        self.check(wanted, tools, filed=filed)
        wanted = self._channels.checked(wanted)
        check_secrets(wanted.hooks, stored)
        if all(hook.type != "http" for hook in wanted.hooks):
            return wanted
        if self._secrets is None:
            raise InvalidInput("hooks", "this core has no key for a webhook's secret; build it with `secrets`.")
        return replace(wanted, hooks=http.sealed(wanted.hooks, stored, self._secrets.seal))

    def _public(self, agent: AgentObject) -> AgentObject:
        """Return *agent* without its secrets and without settings of channels that this process does not know."""
        readable = self._channels.readable(agent.definition)
        if readable.channels and (agent.id, agent.version) not in self._warned:
            for fault in self._channels.unreadable(agent.definition):
                self._warned.add((agent.id, agent.version))
                remedy = "send the channel's settings of this agent again, or run the version that wrote them"
                _log.warning("agent.settings_unreadable", agent=agent.definition.name, error=str(fault), remedy=remedy)
        return replace(agent, definition=replace(readable, hooks=http.masked(readable.hooks)))

    def _able(self, model: str) -> Abilities:
        provider = self._providers.get(model.partition(":")[0])
        return provider.able(named(model)) if provider else ABLE

    def check_model(self, path: str, model: str) -> None:
        """Raise `InvalidInput` when no provider here serves *model*, which the field at *path* names."""
        name = model.partition(":")[0]
        provider = self._providers.get(name)
        if provider is None:
            names = ", ".join(sorted(self._providers))
            text = f"there is no provider `{name}` here; with the keys that are set there are: {names}."
            raise InvalidInput(path, text)
        if not provider.accepts(named(model)):
            raise InvalidInput(path, f"`{model}` is no model of `{name}`.")


def _exact(tools: Iterable[Any]) -> Iterator[str]:
    """Yield the exact names among an agent's *tools*."""
    return (tool for tool in tools if isinstance(tool, str) and not is_glob(tool))


def cursor_key(cursor: str | None) -> int | None:
    """Return the row key in a list's cursor; raises `UnknownCursor`."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):  # noqa: PLR2004 - fits 64 bits
        raise UnknownCursor("cursor", "not a cursor of this list; use `next_cursor` of the page before.")
    return int(cursor)


def why_unserved(
    definition: Definition, model: str, providers: Collection[str], needs: Mapping[str, str]
) -> str | None:
    """Return why none of *providers* answers for an agent whose *model* it is, in a sentence; None when one does.

    *needs* says what to set for those that are known.
    """
    if any(each.partition(":")[0] in providers for each in (model, *definition.fallback_models)):
        return None
    provider = model.partition(":")[0]
    wanted = needs.get(provider)
    what = f"{wanted}; set it" if wanted else f"the provider `{provider}`, which is not known here; define it"
    remedy = "and start the server again, or give the agent another model."
    return f"`{definition.name}` is unavailable: its model `{model}` needs {what} {remedy}"

"""A project in its tests: its agents and tools at work, with a scripted model and played MCP servers."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace
from sqlalchemy import create_engine
from sqlmodel import SQLModel

from agent_core.agents import Definition
from agent_core.channels import Channels, Inbound
from agent_core.charts.draw import Drawer
from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import ConfigError
from agent_core.events import ApprovalDecided, Fact, RenderShown, ToolCompleted, ToolRequested
from agent_core.hooks.rules import HookResolvers
from agent_core.mcp.port import McpConnections, McpUnavailable, ServerLogins
from agent_core.messages import Actor, CallOutcome, Text, text_of
from agent_core.net.fetch import Fetch
from agent_core.objects import ApprovalObject, Decider, Decision, RunError, RunObject, RunStatus
from agent_core.providers.base import Request
from agent_core.runtime.tools import ToolPorts
from agent_core.secrets import Secrets
from agent_core.servers import McpAnnotations, McpListing, McpServer, McpTool
from agent_core.store.database import SqliteDatabase
from agent_core.testing import Answer, Script, ScriptedProvider, ScriptExhausted, fail
from agent_core.tools.base import CallContext, NewRender, Outcome, Tool
from agent_core.tools.toolset import Toolset
from app.compose import CHANNELS
from app.files import StillFiles, ToolFiles, load_servers, read_agents, read_servers, toolset_with
from app.own_tools import OwnTools, shipped_names
from app.settings import load_settings
from channels.ledger import DeliveryRow
from channels.spec import default_agent

ServerTools = Mapping[str, Sequence[Tool]]
"""The tools that stand in for those of servers, by the names of these."""
_UNSET = "a-variable-that-is-not-set"
_NOWHERE = "https://unset.invalid/mcp"


def _placed(server: McpServer) -> McpServer:
    """Return *server* with an address where only variables give it one."""
    if _UNSET in (server.url or ""):
        server = replace(server, url=_NOWHERE)
    for name in ("token_url", "issuer"):
        if server.oauth is not None and _UNSET in (getattr(server.oauth, name) or ""):
            server = replace(server, oauth=replace(server.oauth, **{name: _NOWHERE}))
    return server


class PlayedServers:
    """The servers of the file at *path*, as the `McpConnections` of a test: those that are played are reached.

    Variables that the file names need not be set: tests have no tokens.
    """

    def __init__(self, path: Path, played: ServerTools) -> None:
        """*played* are the tools that play those of servers; raises ConfigError for a server that the file has not."""
        self.servers = [_placed(each) for each in read_servers(path, required=False, unset=_UNSET)]
        self._played = {server: {tool.spec.name: tool for tool in tools} for server, tools in played.items()}
        names = [each.name for each in self.servers]
        if strange := [name for name in played if name not in names]:
            listed = ", ".join(f"`{name}`" for name in names) or "none"
            raise ConfigError(f"`servers`: there is no MCP server `{strange[0]}` in `{path}`; it has: {listed}.")

    async def load(self, core: Core) -> None:
        """Store the servers, and ask those that are played what they offer; raise ConfigError if one cannot work."""
        await load_servers(core, self.servers)
        for name in self._played:
            await core.tools.servers.refresh(name)

    def attach(self, logins: ServerLogins) -> None:
        """Do nothing: no one logs in to what is played."""

    async def discover(self, server: McpServer) -> McpListing:
        if server.name not in self._played:
            raise McpUnavailable(
                f"The MCP server `{server.name}` is not connected to in tests; give `open_project` tools that play its "
                f"own, `servers={{{server.name!r}: [...]}}`."
            )
        tools = self._played[server.name].values()
        return McpListing(tools=tuple(sorted(map(_listed, tools), key=lambda each: each.name)), era="test")

    async def call(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],  # noqa: ARG002 - of the port
        *,
        repeatable: bool = False,  # noqa: ARG002 - of the port
    ) -> Outcome:
        return await self._played[server.name][tool].call(arguments, context)

    def follow(self, server: McpServer, changed: Callable[[], None]) -> None:
        """Do nothing: what is played stays as it is."""

    async def forget(self, name: str) -> None:
        """Do nothing, as in `close`."""

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _listed(tool: Tool) -> McpTool:
    spec = tool.spec
    annotations = McpAnnotations(read_only=spec.effect == "read", idempotent=spec.idempotent or None)
    return McpTool(
        name=spec.name,
        description=spec.description,
        parameters=spec.parameters,
        title=spec.title,
        annotations=annotations,
    )


ASKER = "tester"
"""The id of who asks when a test names no one."""
OPERATOR = Actor(id="operator", kind="service")
SECONDS = 30.0
"""How long an answer may take: a scripted one takes milliseconds, so what takes longer hangs in a tool."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A tool call of a run: *arguments* are those that may run, so as people corrected them.

    *outcome* is `done`, `failed`, `denied`, `cancelled` or `unknown`, and None while it is open; *text* is its result
    as the model reads it, *renders* are what it showed to people.
    """

    name: str
    arguments: Mapping[str, Any]
    outcome: CallOutcome | None = None
    text: str = ""
    renders: tuple[NewRender, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentReply:
    """What became of a message: *text* is the last answer, *calls* are all calls of its run, in order.

    *status* is `completed`, `failed` (then *error* says why), `cancelled`, or `waiting` while the open *approvals* are,
    or `requires_action` while a call is that a client executes. *run* and *session* are ids.
    """

    text: str
    status: RunStatus
    calls: tuple[MadeCall, ...]
    approvals: tuple[ApprovalObject, ...]
    run: str
    session: str
    error: RunError | None = None


@dataclass(slots=True)
class PlayedScript:
    """Plays a *script*, and keeps the error of a model call that it has no answer for: the run only knows that one."""

    script: Script
    exhausted: ScriptExhausted | None = None
    _played: int = field(default=0, init=False)

    def __call__(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except ScriptExhausted as error:
            self.exhausted = error
            return [fail("invalid", retryable=False, message=str(error))]

    def _answer(self, request: Request) -> Answer:
        if callable(self.script):
            return self.script(request)
        n, self._played = self._played, self._played + 1
        if n >= len(self.script):
            raise ScriptExhausted(
                f"The model was asked {n + 1} times, and the script has {len(self.script)} answers: add what it says "
                "then, such as [say('Done.')]."
            )
        return self.script[n]


class OpenProject:
    """A project at work: `ask` its agents, and `approve` or `deny` what they want to do.

    *model* is the scripted provider, whose `requests` are what the model was shown; *core* is the whole runtime, for
    what is not offered here.
    """

    def __init__(self, core: Core, model: ScriptedProvider, script: PlayedScript, agents: Sequence[str]) -> None:
        self.core, self.model = core, model
        self._script, self._agents = script, agents

    async def ask(
        self,
        text: str,
        *,
        agent: str | None = None,
        actor: str | Actor = ASKER,
        tool_context: Mapping[str, Any] | None = None,
        session: str | None = None,
        timeout: float = SECONDS,
    ) -> AgentReply:
        """Send a message, and return the reply once its run has ended or waits for people.

        *agent* is a name, by default `assistant` or the only one. *actor* is who asks: an id stands for a user.
        *tool_context* is what a visitor's token or a channel would bring for the tools. *session* continues an earlier
        conversation: it is in each reply. Raises `ScriptExhausted` when the model is asked more often than the script
        has answers, and TimeoutError after *timeout* seconds.
        """
        message = Inbound(
            parts=(Text(text),),
            actor=_actor(actor),
            tool_context=None if tool_context is None else dict(tool_context),
        )
        receipt = await self.core.run_agent(agent or self._agent(), message, session=session)
        return await self._reply(receipt.run, timeout)

    async def approve(
        self,
        approval: ApprovalObject,
        *,
        by: str | Actor | None = None,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
        timeout: float = SECONDS,
    ) -> AgentReply:
        """Allow a call, and return the reply once the run has ended or waits again.

        *by* is who decides, an operator by default; *arguments* replace those that the model asked for. Raises
        `NotAnApprover`, `AlreadyDecided`, and `InvalidInput` for arguments that do not fit the tool.
        """
        changed = None if arguments is None else dict(arguments)
        return await self._decide(approval, approved=True, by=by, arguments=changed, reason=reason, timeout=timeout)

    async def deny(
        self,
        approval: ApprovalObject,
        *,
        by: str | Actor | None = None,
        reason: str | None = None,
        timeout: float = SECONDS,
    ) -> AgentReply:
        """Forbid a call, and return the reply; the model is given the *reason*. Raises as `approve` does."""
        return await self._decide(approval, approved=False, by=by, arguments=None, reason=reason, timeout=timeout)

    async def _decide(
        self,
        approval: ApprovalObject,
        *,
        approved: bool,
        by: str | Actor | None,
        arguments: dict[str, Any] | None,
        reason: str | None,
        timeout: float,
    ) -> AgentReply:
        decider = Decider(actor=OPERATOR, is_operator=True) if by is None else Decider(actor=_actor(by))
        await self.core.approvals.decide(
            Decision(
                approval=approval.id, by=decider, approved=approved, surface="api", reason=reason, arguments=arguments
            )
        )
        return await self._reply(approval.run, timeout)

    def _agent(self) -> str:
        if (default := default_agent((name, True) for name in self._agents)) is not None:
            return default
        names = ", ".join(f"`{name}`" for name in self._agents) or "none"
        raise ConfigError(f"Which agent? Give `agent=` the name of one; there are: {names}.")

    async def _reply(self, run: str, timeout: float) -> AgentReply:
        """Return the reply of *run* once it has ended or waits."""
        calls: dict[str, MadeCall] = {}
        try:
            async with asyncio.timeout(timeout), aclosing(self.core.follow_run(run)) as batches:
                async for batch in batches:
                    for event in batch:
                        if isinstance(event, Fact):
                            _note(calls, event)
        except TimeoutError:
            raise TimeoutError(f"The run has not ended after {timeout:g} s; look for a tool that hangs.") from None
        if self._script.exhausted is not None:
            raise self._script.exhausted
        return await self._replied(await self.core.run(run), calls)

    async def _replied(self, run: RunObject, calls: Mapping[str, MadeCall]) -> AgentReply:
        open_approvals = await self.core.approvals.list(status="open", run=run.id, limit=100)
        return AgentReply(
            text=run.text,
            status=run.status,
            calls=tuple(calls.values()),
            approvals=open_approvals.items,
            run=run.id,
            session=run.session,
            error=run.error,
        )


@asynccontextmanager
async def open_project(
    folder: str | Path,
    script: Script,
    *,
    agents: str | Path = "agents",
    tools: str | Path = "tools",
    mcp: str | Path = "mcp.json",
    servers: ServerTools | None = None,
) -> AsyncIterator[OpenProject]:
    """Give the project in *folder* at work, with a model that plays *script*; all that it stores is temporary.

    *script* is a list of answers, one per model call, or a function from a `Request` to its answer. *agents* and
    *tools* are the project's folders. Every agent is asked through the script, whatever model it names. Of the settings
    PARLEY_FETCH_ALLOW alone counts. Raises ConfigError for a file that cannot be used, as `parley serve` does.

    The MCP servers of the file *mcp* are known and never connected to: *servers* are tools that play those of a server,
    by its name, `{"github": [get_issue]}`. An agent has no tools of the others, as when they are down.
    """
    played = PlayedScript(script)
    model = ScriptedProvider(played)
    own = OwnTools(Path(folder, tools), reserved=shipped_names())
    fetch, drawer = Fetch(load_settings(Path(folder, ".env"), serving=False).fetch_allow), Drawer()
    await own.refresh()
    own.check()
    toolset = toolset_with(own, drawer=drawer)
    filed, read = ToolFiles(own.folder), _agents(Path(folder, agents))
    played_servers = PlayedServers(Path(folder, mcp), servers or {})
    with TemporaryDirectory(prefix="parley-", ignore_cleanup_errors=True) as place:
        await asyncio.to_thread(make_tables, path := Path(place, "parley.db"))
        core = _core(path, model, toolset, drawer, fetch, played_servers)
        try:
            await core.start()
            await played_servers.load(core)
            await StillFiles(own, read, filed, played_servers.servers).load(core)
            yield OpenProject(core, model, played, [each.name for each in read.values()])
        finally:
            await core.stop(grace=1.0)
            await drawer.close()
            await fetch.close()


def _core(
    path: Path, model: ScriptedProvider, toolset: Toolset, drawer: Drawer, fetch: Fetch, mcp: McpConnections
) -> Core:
    secrets = Secrets(b"the key of a test, of 32 bytes..")
    return Core(
        SqliteDatabase(path),
        providers={model.name: model},
        tools=toolset,
        default_model=model.name,
        resolvers=HookResolvers(SystemClock(), fetch, secrets, fetch.guard),
        secrets=secrets,
        channels=CHANNELS,
        drawer=drawer,
        tool_ports=ToolPorts(fetch=fetch, mcp=mcp),
    )


def _agents(folder: Path) -> Mapping[Path, Definition]:
    """Return the agents of *folder*, each with the scripted model in the place of its own ones."""

    def any_model(_name: str, _where: str) -> None:
        """Accept every model: none is asked."""

    if not folder.is_dir():
        raise ConfigError(f"There is no folder `{folder}`; give `open_project` the folder of the project.")
    files = read_agents(folder, channels=Channels(CHANNELS), check=any_model)
    for fault in files.broken.values():
        raise ConfigError(fault)
    return {path: _without_models(made) for path, made in files.agents.items()}


def _without_models(made: Definition) -> Definition:
    controls, compaction = replace(made.controls, model=None), replace(made.compaction, model=None)
    return replace(made, model=None, fallback_models=(), controls=controls, compaction=compaction)


def make_tables(path: Path) -> None:
    """Make the tables of this version, without the steps of earlier ones that migrations go through."""
    assert DeliveryRow  # the tables of channels are known once their module is imported
    engine = create_engine(f"sqlite:///{path}")
    SQLModel.metadata.create_all(engine)
    engine.dispose()


def _note(calls: dict[str, MadeCall], fact: Fact) -> None:
    match fact.body:
        case ToolRequested() as asked:
            calls[asked.call] = MadeCall(asked.name, asked.arguments)
        case ApprovalDecided() as decided if decided.call in calls:
            calls[decided.call] = MadeCall(decided.tool, decided.arguments)
        case RenderShown() as shown if shown.call in calls:
            made, render = calls[shown.call], NewRender(shown.kind, shown.payload, shown.text, shown.title)
            calls[shown.call] = dataclasses.replace(made, renders=(*made.renders, render))
        case ToolCompleted() as ended if ended.call in calls:
            calls[ended.call] = dataclasses.replace(calls[ended.call], outcome=ended.outcome, text=text_of(ended.parts))
        case _:
            return


def _actor(actor: str | Actor) -> Actor:
    return Actor(id=actor, kind="user") if isinstance(actor, str) else actor

"""What a conversation needs of the core: over HTTP while a server runs, else a core in this process."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

from agent_core import (
    Actor,
    Clock,
    ConfigError,
    Decision,
    Event,
    Forbidden,
    Inbound,
    Page,
    Receipt,
    RunObject,
    SessionObject,
)
from app.cli.remote import Remote, running_server
from app.settings import load_settings
from channels.delivery import EventSource
from channels.spec import default_agent
from channels.text import one_line


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str: ...


class Defined(Protocol):
    """An agent; its *source* is `file` while it is one of the files as they are now."""

    @property
    def definition(self) -> Named: ...
    @property
    def source(self) -> str: ...


class ApprovalRules(Protocol):
    """The fields of an approval that decide whose vote counts."""

    @property
    def responders(self) -> tuple[str, ...]: ...
    @property
    def asker(self) -> Actor | None: ...
    @property
    def speakers(self) -> tuple[Actor, ...]: ...


class AfterVote(Protocol):
    """An approval after a vote: still `open` while a quorum lacks some."""

    @property
    def status(self) -> str: ...


class ApprovalsPort(Protocol):
    """Where approvals are decided."""

    async def get(self, id: str, /) -> ApprovalRules: ...
    async def decide(self, decision: Decision, /) -> AfterVote: ...


class AgentsPort(Protocol):
    """Where the names of agents are."""

    async def all(self) -> Sequence[Defined]: ...


class Port(EventSource, Protocol):
    """What a conversation needs of the core, in this process or over HTTP."""

    @property
    def approvals(self) -> ApprovalsPort: ...
    @property
    def agents(self) -> AgentsPort: ...

    async def open_session(self, *, agent: str, actor: Actor) -> SessionObject: ...
    async def session(self, id: str) -> SessionObject: ...
    async def sessions(self, *, actor: str, limit: int) -> Page[SessionObject]: ...
    async def receive(self, session: str, inbound: Inbound) -> Receipt: ...
    async def cancel(self, run: str, *, by: Actor) -> RunObject: ...
    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]: ...


@asynccontextmanager
async def opened_port(clock: Clock) -> AsyncIterator[Port]:
    """Give a running server, else a core in this process; raise ConfigError when another holds PARLEY_DATA."""
    server = await running_server(load_settings(serving=False))
    if server is not None:
        async with aclosing(server):
            yield Remote(server, clock)
        return
    from app.embedded import own_core  # the runtime is not imported for a conversation over HTTP

    async with own_core(load_settings()) as core:
        yield core


async def own_session(port: Port, id: str, actor: Actor) -> SessionObject:
    """Return the session *id* of *actor*; raise `Forbidden` for another's, in whose name a message would be posted."""
    session = await port.session(id)
    if session.actor.id != actor.id:
        whose = one_line(session.actor.id)
        raise Forbidden(
            f"`{session.id}` is a conversation of `{whose}`, and you are `{actor.id}` here: "
            "answer in it as a person on the operator's page (`/operator`), or begin one of your own."
        )
    return session


async def chosen_agent(port: Port, name: str | None) -> str:
    """Return *name*, else the agent that answers where none is named; raises ConfigError that names several."""
    if name is not None:
        return name
    agents = await port.agents.all()
    if not agents:
        raise ConfigError("There is no agent to talk to; `parley agents apply FILE` makes one.")
    default = default_agent((agent.definition.name, agent.source == "file") for agent in agents)
    if default is None:
        names = sorted(agent.definition.name for agent in agents)
        raise ConfigError(f"--agent: say which one to talk to: {', '.join(names)}.")
    return default

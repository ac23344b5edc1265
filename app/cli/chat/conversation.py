"""A conversation in the terminal: its commands, where it is held, and how it goes on."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from agent_core.channels import Inbound
from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.errors import ConfigError, Forbidden, ParleyError
from agent_core.events import Event, Fact
from agent_core.messages import Actor
from agent_core.objects import Decision, SessionObject
from agent_core.runtime.approvals import Approvals
from app.cli.client import Unreachable
from app.cli.printing import short
from app.cli.remote import Remote, RemoteApprovals, running_server
from app.compose import running_core
from app.models import running_models
from app.settings import Settings, load_settings
from app.storage import migrate, owned, private_files
from channels.delivery import Delivery, NullOutbox
from channels.spec import ConversationView, RunView, Screen, Stop, default_agent
from channels.terminal import ADDRESS
from channels.text import one_line, queued

Name = Literal["/help", "/new", "/sessions", "/stop", "/quit"]
COMMANDS: dict[Name, str] = {
    "/help": "lists these",
    "/new": "starts a new conversation",
    "/sessions": "lists your latest conversations, to continue one",
    "/stop": "stops the answer, also one that waits",
    "/quit": "leaves",
}
BRIEF = "(/help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves)"
KEYS = (
    ("//…", "sends a message that begins with a slash"),
    ("Enter", "sends; Alt-Enter or Ctrl-J begins a line, pasted lines are one message"),
    ("Up, Ctrl-R", "earlier messages, a search in them"),
    ("Ctrl-X Ctrl-E", "writes in $EDITOR"),
    ("Ctrl-C", "stops the answer; twice where none is being written leaves"),
    ("Ctrl-D", "leaves"),
)


@dataclass(frozen=True, slots=True)
class Slash:
    """A command; *rest* is what follows its name."""

    name: Name
    rest: str = ""


@dataclass(frozen=True, slots=True)
class UnknownSlash:
    """A line that looks like a command and is none."""

    name: str

    def __str__(self) -> str:
        return f"unknown command `{self.name}`; `/help` lists them, and `//` sends a message that begins with a slash"


def read_slash(line: str) -> Slash | UnknownSlash | None:
    """Return the command that *line* is; None for a message, also for one that begins with two slashes."""
    text = line.strip()
    if not text.startswith("/") or text.startswith("//"):
        return None
    word, *rest = text.split(maxsplit=1)
    for name in COMMANDS:
        if word == name:
            return Slash(name, *rest)
    return UnknownSlash(word)


def help_text(*, keys: bool) -> str:
    """Return what `/help` prints, with the *keys* of a terminal or those of plain lines."""
    rows = [*COMMANDS.items(), *(KEYS if keys else (KEYS[0], *KEYS[-2:]))]
    return "\n".join(f"  {name:<13} {words}" for name, words in rows)


@asynccontextmanager
async def own_core(settings: Settings) -> AsyncIterator[Core]:
    """Give a core of this process: on SQLite the only one, on Postgres one of many; raise ConfigError.

    On SQLite the database is brought up to date; a Postgres is migrated when it is deployed to.
    """
    with ExitStack() as stack:
        if settings.postgres is None:
            migrate(settings)
            stack.enter_context(private_files())
            stack.enter_context(owned(settings))
        async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
            yield core


Port = Core | Remote
"""What a conversation needs: the core, in this process or over HTTP."""
ApprovalsPort = Approvals | RemoteApprovals


@asynccontextmanager
async def opened_port(clock: Clock) -> AsyncIterator[Port]:
    """Give a running server, else a core in this process; raise ConfigError when another holds PARLEY_DATA."""
    server = await running_server(load_settings(serving=False))
    if server is not None:
        async with aclosing(server):
            yield Remote(server, clock)
        return

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


RECENT = 20
"""How many conversations `/sessions` lists."""


class Recent:
    """The conversations that were last listed."""

    def __init__(self, port: Port, actor: Actor) -> None:
        self._port, self._actor = port, actor
        self._listed: list[SessionObject] = []

    async def lines(self) -> list[str]:
        """List the latest, each as a line."""
        self._listed = list((await self._port.sessions(actor=self._actor.id, limit=RECENT)).items)
        return [_described(each) for each in self._listed]

    async def named(self, wanted: str) -> SessionObject:
        """Return the conversation with this number of the list, from 1, or with this id; raise `Forbidden`."""
        if wanted.isdecimal() and 0 < int(wanted) <= len(self._listed):
            return self._listed[int(wanted) - 1]
        return await own_session(self._port, wanted, self._actor)


def numbered(lines: list[str]) -> str:
    """Return *lines* with the numbers by which one is continued."""
    listed = "\n".join(f"{n:>3}  {line}" for n, line in enumerate(lines, 1))
    return f"{listed}\n(/sessions NUMBER continues one)"


def _described(session: SessionObject) -> str:
    last = datetime.fromtimestamp(session.last_activity_at / 1000).astimezone()
    return f"{last:%Y-%m-%d %H:%M}  {short(session.title or '(no title yet)', 36)}  {session.id}"


INTERRUPT = "\x03"
"""The line that Ctrl-C makes."""
AGAIN = 2.0
"""Seconds between two tries to reach a server that was lost."""


class Front(Screen, Protocol):
    """Where a person types and reads."""

    @property
    def actor(self) -> Actor: ...

    def parse(self, line: str, /) -> Inbound | Decision | Stop | None: ...
    def typed(self, line: str) -> None: ...
    def tell(self, words: str) -> None: ...


class Panel(Protocol):
    """What a conversation has beside its text: a sign that an answer is being written, and lists to pick from."""

    keys: bool

    def saw(self, run: RunView | None) -> None:
        """Show that *run* is active, or that none is."""
        ...

    async def pick(self, items: list[str]) -> int | None:
        """Return the index of the item that the person picks; None when none is, or nothing can be picked here."""
        ...


class NoPanel:
    """Plain lines alone."""

    keys = False

    def saw(self, run: RunView | None) -> None:
        """Show nothing."""

    async def pick(self, items: list[str]) -> int | None:  # noqa: ARG002 - a port's shape
        return None


async def converse(
    port: Port,
    front: Front,
    clock: Clock,
    lines: AsyncIterator[str],
    *,
    agent: str,
    session: str,
    panel: Panel | None = None,
) -> None:
    """Show *session* and post what is typed, until the lines end; `/new` and `/sessions` go on with another."""
    talk = Conversation(port, front, clock, panel or NoPanel(), agent)
    current: str | None = session
    while current is not None:
        current = await talk.hold(lines, current)


class Conversation:
    """Obeys lines in one session after the other."""

    def __init__(self, port: Port, front: Front, clock: Clock, panel: Panel, agent: str) -> None:
        self._port, self._front, self._clock, self._panel, self._agent = port, front, clock, panel, agent
        self._leaving = False
        self._recent = Recent(port, front.actor)

    async def hold(self, lines: AsyncIterator[str], session: str) -> str | None:
        """Show *session* until a line asks for another one, whose id it returns, or the lines end."""
        source = Lasting(self._port, self._clock, self._front.tell, lambda: self._panel.saw(showing.body.active))
        showing = Delivery(source, NullOutbox(self._front, ADDRESS), self._clock, session=session)
        obeying = asyncio.create_task(self._obey(lines, showing, session))
        tasks = (obeying, asyncio.create_task(showing.run()))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return obeying.result() if obeying in done else None

    async def _obey(self, lines: AsyncIterator[str], showing: Delivery, session: str) -> str | None:
        """Execute each line; return the session to go on with, None at their end."""
        async for line in lines:
            try:
                if line == INTERRUPT:
                    if await self._interrupt(showing):
                        return None
                    continue
                self._leaving = False
                match read_slash(line):
                    case Slash("/quit"):
                        return None
                    case Slash("/new"):
                        return await self._begin()
                    case Slash("/sessions", rest):
                        if (picked := await self._continue(rest)) not in (None, session):
                            return picked
                    case Slash("/help"):
                        self._front.tell(help_text(keys=self._panel.keys))
                    case UnknownSlash() as unknown:
                        self._front.tell(f"! {unknown}")
                    case _:
                        await self._say(line, showing, session)
            except ParleyError as error:
                self._front.tell(f"! {error}")
        return None

    async def _say(self, line: str, showing: Delivery, session: str) -> None:
        match self._front.parse(line):
            case Stop(by=by) if (run := showing.body.active) is not None:
                await self._port.cancel(run.id, by=by)
            case Stop():
                self._front.tell("(there is no answer to stop; /quit or Ctrl-D leaves)")
            case Decision() as vote:
                self._front.typed(line)
                await self._port.approvals.decide(vote)
            case Inbound() as inbound:
                self._front.typed(line)
                run = (await self._port.receive(session, inbound)).run
                if words := _queued(showing.body, run):
                    self._front.tell(words)
            case None:
                self._front.tell("")

    async def _begin(self) -> str:
        id = (await self._port.open_session(agent=self._agent, actor=self._front.actor)).id
        self._front.tell(f"(a new conversation: {id})")
        return id

    async def _continue(self, wanted: str) -> str | None:
        """Return the session that the person picks or names by its number or id; list them where nothing is picked."""
        if not wanted:
            items = await self._recent.lines()
            if (at := await self._panel.pick(items)) is None:
                if not self._panel.keys:
                    self._front.tell(numbered(items))
                return None
            wanted = str(at + 1)
        session = await self._recent.named(wanted)
        self._agent = session.agent
        self._front.tell(f"(continues {session.id})")
        return session.id

    async def _interrupt(self, showing: Delivery) -> bool:
        """Stop the answer that is being written; return whether the person leaves, as the second Ctrl-C says."""
        run = showing.body.active
        if run is not None and run.status in ("running", "queued") and not run.cancelling:
            self._leaving = False
            await self._port.cancel(run.id, by=self._front.actor)
            return False
        if self._leaving:
            return True
        self._leaving = True
        waits = "this conversation waits; /stop ends that, " if run is not None and not run.cancelling else ""
        self._front.tell(f"({waits}Ctrl-C once more leaves)")
        return False


class Lasting:
    """Follows a session however often the server is lost; *saw* is called once a batch was taken."""

    def __init__(self, port: Port, clock: Clock, tell: Callable[[str], None], saw: Callable[[], None]) -> None:
        self._port, self._clock, self._tell, self._saw = port, clock, tell, saw

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        lost = False
        while True:
            try:
                async with aclosing(self._port.follow(session, after=after)) as batches:
                    async for batch in batches:
                        if lost:
                            self._tell("(connected again)")
                            lost = False
                        yield batch
                        after = max([after, *(event.seq for event in batch if isinstance(event, Fact))])
                        self._saw()
            except Unreachable as error:
                if not lost:
                    self._tell(f"! {error} (trying again)")
                lost = True
                await self._clock.sleep(AGAIN)
            else:
                return


def _queued(body: ConversationView, run: str) -> str | None:
    """Return the line for a message whose *run* is queued after another one of *body*; None when it is not."""
    active = body.active
    if active is None or active.id == run:  # its own run may wait already
        return None
    return queued(body) or "(queued: answered after the answer that is being written)"

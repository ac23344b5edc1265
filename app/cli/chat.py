"""`parley chat`: a conversation in the terminal, over HTTP while a server runs, else with a core of its own."""

import asyncio
import codecs
import getpass
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import Protocol, TextIO

from agent_core import (
    Actor,
    Clock,
    Decision,
    Event,
    Inbound,
    InvalidInput,
    ParleyError,
    Receipt,
    RunObject,
    SessionObject,
    SystemClock,
)
from app.cli.remote import Remote, running_server
from app.settings import Settings, load_settings
from channels.base import Stop
from channels.delivery import Delivery, EventSource, NullOutbox
from channels.plain import queued
from channels.terminal import ADDRESS, Terminal

HELP = "(/stop or Ctrl-C stops the answer, /new starts a new conversation, /quit or Ctrl-D leaves)"
PROMPT = "> "
INTERRUPTED = 130
STOPPING = 5.0
"""Seconds that an interrupted command gives a run to end and to show what it said."""


class ApprovalsPort(Protocol):
    """Where approvals are decided."""

    async def decide(self, decision: Decision, /) -> object: ...


class Port(EventSource, Protocol):
    """What a conversation needs of the core, in this process or over HTTP."""

    @property
    def approvals(self) -> ApprovalsPort: ...

    async def open_session(self, *, agent: str, actor: Actor) -> SessionObject: ...
    async def session(self, id: str) -> SessionObject: ...
    async def receive(self, session: str, inbound: Inbound) -> Receipt: ...
    async def cancel(self, run: str, *, by: Actor) -> RunObject: ...
    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]: ...


def chat(*, agent: str, session: str | None, message: str | None) -> int:
    """Answer *message* once, or talk until the person leaves; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] - both are text files
    try:
        return asyncio.run(_chat(agent, session, message))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _chat(agent: str, session: str | None, message: str | None) -> int:
    asks = message is None and sys.stdin.isatty()
    terminal, clock = _terminal(PROMPT if asks else ""), SystemClock()
    async with _port(clock) as port:
        if session is None:
            session = (await port.open_session(agent=agent, actor=terminal.actor)).id
        else:
            agent = (await port.session(session)).agent
        if message is not None:
            return 0 if await answer(port, terminal, clock, session, message) else 1
        lines = Lines()
        if asks:
            terminal.tell(HELP)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lines.put, "/stop")
            await converse(port, terminal, clock, lines, agent=agent, session=session)
            return 0
        return 0 if all([await answer(port, terminal, clock, session, line) async for line in lines if line]) else 1


async def answer(port: Port, terminal: Terminal, clock: Clock, session: str, line: str) -> bool:
    """Post *line*, show the answer, and return whether its run completed; Ctrl-C stops the run."""
    inbound = terminal.parse(line)
    if not isinstance(inbound, Inbound):
        raise InvalidInput("message", "there is nothing to answer in it; write a few words.")
    terminal.typed(line)
    waits = (await port.session(session)).status in ("waiting", "requires_action")
    run = (await port.receive(session, inbound)).run
    if waits:
        terminal.tell("(queued: answered when this conversation goes on; it waits for an approval or a client call)")
    answering = Delivery(_OneRun(port, run), NullOutbox(terminal, ADDRESS), clock, session=session)
    showing = asyncio.create_task(answering.run())
    try:
        await asyncio.shield(showing)
    except asyncio.CancelledError:
        await port.cancel(run, by=terminal.actor)
        await asyncio.wait((showing,), timeout=STOPPING)
        raise
    finally:
        showing.cancel()
        await asyncio.wait((showing,))
    found = answering.body.run(run)
    return found is not None and found.status == "completed"


async def converse(
    port: Port, terminal: Terminal, clock: Clock, lines: AsyncIterator[str], *, agent: str, session: str
) -> None:
    """Show *session* and post what is typed, until the lines end; `/new` opens a new session."""
    while True:
        showing = Delivery(port, NullOutbox(terminal, ADDRESS), clock, session=session)
        tasks = (
            asyncio.create_task(_obey(port, terminal, lines, showing, session)),
            asyncio.create_task(showing.run()),
        )
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            again = [task.result() for task in done]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if again != [True]:
            return
        session = (await port.open_session(agent=agent, actor=terminal.actor)).id
        terminal.tell(f"(a new conversation: {session})")


async def _obey(port: Port, terminal: Terminal, lines: AsyncIterator[str], showing: Delivery, session: str) -> bool:
    """Execute each line; return whether the last one asks for a new session."""
    async for line in lines:
        if line.strip() in ("/quit", "/new"):
            return line.strip() == "/new"
        try:
            match terminal.parse(line):
                case Stop(by=by) if (run := showing.body.active) is not None:
                    await port.cancel(run.id, by=by)
                case Stop():
                    terminal.tell(HELP)
                case Decision() as vote:
                    terminal.typed(line)
                    await port.approvals.decide(vote)
                case Inbound() as inbound:
                    terminal.typed(line)
                    await port.receive(session, inbound)
                    if (words := queued(showing.body)) is not None:
                        terminal.tell(words)
                case None:
                    terminal.tell("")
        except ParleyError as error:
            terminal.tell(f"! {error}")
    return False


class _OneRun:
    """The events of one run, as the source of a delivery."""

    def __init__(self, port: Port, run: str) -> None:
        self._port, self._run = port, run

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:  # noqa: ARG002 - a port's shape
        return self._port.follow_run(self._run, after=after)


class Lines:
    """The lines of standard input, and those that `put` adds; they end with the input.

    A thread reads them: as a daemon it holds up no exit, and the raw descriptor has no lock that it could die with.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        threading.Thread(target=self._read, name="parley-lines", daemon=True).start()

    def put(self, line: str | None) -> None:
        """Add a line; None is the end."""
        self._lines.put_nowait(line)

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            self.put(None)
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
        # A loop that has ended takes no more lines, and needs none.
        with suppress(RuntimeError):
            while chunk := os.read(self._descriptor, 65536):
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                for line in lines:
                    self._loop.call_soon_threadsafe(self.put, line)
            if rest:
                self._loop.call_soon_threadsafe(self.put, rest)
            self._loop.call_soon_threadsafe(self.put, None)


@asynccontextmanager
async def _port(clock: Clock) -> AsyncIterator[Port]:
    """Give a running server, else a core in this process; raise ConfigError when another holds PARLEY_DATA."""
    found = await running_server(load_settings(serving=False))
    if found is not None:
        async with aclosing(found):
            yield Remote(found, clock)
        return
    async with _own_core(load_settings()) as core:
        yield core


@asynccontextmanager
async def _own_core(settings: Settings) -> AsyncIterator[Port]:
    """Give a core of this process: on SQLite the only one, on Postgres one of many."""
    # The runtime is not imported for a conversation over HTTP.
    from app.compose import running_core
    from app.models import running_models

    with _alone(settings):
        async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
            yield core


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """On SQLite own the database and bring it up to date; a Postgres is migrated when it is deployed to."""
    from app.storage.lock import owned
    from app.storage.migrate import migrate

    if settings.postgres is not None:
        yield
        return
    migrate(settings)
    with owned(settings):
        yield


def _terminal(prompt: str) -> Terminal:
    """Return the terminal of this process: live on a screen, else answers alone go to standard output."""
    live = sys.stdout.isatty()
    note = _writer(sys.stdout if live else sys.stderr, dim=live and not os.environ.get("NO_COLOR"))
    name = "unknown"
    with suppress(OSError, KeyError, ImportError):
        name = getpass.getuser()
    actor = Actor(id=f"terminal:{name}", kind="user", name=name)  # rules know by the id that it is no other caller
    return Terminal(actor, write=_writer(sys.stdout), note=note, live=live, prompt=prompt)


def _writer(stream: TextIO, *, dim: bool = False) -> Callable[[str], None]:
    def write(text: str) -> None:
        stream.write(f"\x1b[2m{text}\x1b[22m" if dim else text)
        stream.flush()

    return write

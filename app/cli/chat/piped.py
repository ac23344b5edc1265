"""One message and its answer."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from agent_core.channels import Inbound
from agent_core.clock import Clock
from agent_core.errors import InvalidInput, ParleyError
from agent_core.events import Event, Fact
from agent_core.objects import Decision
from app.cli.chat.conversation import Front, Port, Recent, Slash, UnknownSlash, help_text, numbered, read_slash
from app.cli.client import Unreachable
from channels.delivery import Delivery, NullOutbox
from channels.spec import ConversationView, RunView, Stop
from channels.terminal import ADDRESS

STOPPING = 5.0
"""Seconds that an interrupted command gives a run to end and to show what it said."""
WAITS = ("waiting", "requires_action")
QUEUED = "(queued: answered when this conversation goes on; it waits for an approval or a client call)"


async def answer(port: Port, terminal: Front, clock: Clock, session: str, line: str) -> bool:
    """Post *line*, show the answer, and return whether its run completed; Ctrl-C stops the run."""
    inbound = terminal.parse(line)
    if not isinstance(inbound, Inbound):
        raise InvalidInput("message", "there is nothing to answer in it; write a few words.")
    terminal.typed(line)
    waits = (await port.session(session)).status in WAITS
    run = (await port.receive(session, inbound)).run
    if waits:
        terminal.tell(QUEUED)
    answering = Delivery(OneRun(port, run), NullOutbox(terminal, ADDRESS), clock, session=session)
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
    view = answering.body.run(run)
    return view is not None and view.status == "completed"


class OneRun:
    """The events of one run, as the source of a delivery."""

    def __init__(self, port: Port, run: str) -> None:
        self._port, self._run = port, run

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:  # noqa: ARG002 - a port's shape
        return self._port.follow_run(self._run, after=after)


SETTLING = frozenset({"run.waiting", "run.completed", "run.failed", "run.cancelled"})


class Piped:
    """Answers the lines of a pipe in one session after the other."""

    def __init__(self, port: Port, front: Front, clock: Clock, *, agent: str, session: str) -> None:
        self._port, self._front, self._clock, self._agent, self._session = port, front, clock, agent, session
        self._source, self._recent = _Counted(port), Recent(port, front.actor)
        self._showing: Delivery | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked: set[str] = set()
        self._is_ok = True

    async def answer_all(self, lines: AsyncIterator[str]) -> bool:
        """Obey each of *lines*; return whether all could be done and each message got its answer."""
        try:
            async for line in lines:
                command = read_slash(line)
                if command == Slash("/quit"):
                    break
                try:
                    await (self._say(line) if command is None else self._obey(command))
                except Unreachable:
                    raise
                except ParleyError as error:
                    self._front.tell(f"! {error}")
                    self._is_ok = False
            self._count()
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            await self._leave()
        return self._is_ok

    async def _obey(self, command: Slash | UnknownSlash) -> None:
        match command:
            case Slash("/new"):
                opened = await self._port.open_session(agent=self._agent, actor=self._front.actor)
                await self._go_on(opened.id)
                self._front.tell(f"(a new conversation: {opened.id})")
            case Slash("/sessions", ""):
                self._front.tell(numbered(await self._recent.lines()))
            case Slash("/sessions", wanted):
                session = await self._recent.named(wanted)
                await self._go_on(session.id)
                self._agent = session.agent
                self._front.tell(f"(continues {session.id})")
            case Slash("/stop"):
                await self._say("/stop")
            case Slash():
                self._front.tell(help_text(keys=False))
            case UnknownSlash():
                self._front.tell(f"! {command}")
                self._is_ok = False

    async def _go_on(self, session: str) -> None:
        """Go on with another session."""
        self._count()
        await self._leave()
        self._session = session

    async def _say(self, line: str) -> None:
        match self._front.parse(line):
            case Stop(by=by) if (run := self._active()) is not None:
                await self._port.cancel(run.id, by=by)
                await self._settled(lambda body: (view := body.run(run.id)) is not None and view.ended)
            case Stop():
                self._front.tell("(there is no answer to stop)")
            case Decision() as vote if (run := self._active()) is not None:
                seen = self._source.settled.get(run.id, 0)
                if (await self._port.approvals.decide(vote)).status == "open":
                    self._front.tell("(counted; others have to agree)")
                else:
                    await self._settled(lambda _: self._source.settled.get(run.id, 0) > seen)
            case Inbound() as inbound:
                await self._post(line, inbound)
            case _:
                return

    async def _post(self, line: str, inbound: Inbound) -> None:
        self._front.typed(line)
        waits = (await self._port.session(self._session)).status in WAITS
        receipt = await self._port.receive(self._session, inbound)
        self._asked.add(receipt.run)
        if self._showing is None:
            outbox = NullOutbox(self._front, ADDRESS)
            self._showing = Delivery(self._source, outbox, self._clock, session=self._session)
            self._task = asyncio.create_task(self._showing.run(after=receipt.seq - 1))
        if waits:
            self._front.tell(QUEUED)
        else:
            await self._settled(lambda body: body.run(receipt.run) is not None)

    def _active(self) -> RunView | None:
        return None if self._showing is None else self._showing.body.active

    async def _settled(self, is_done: Callable[[ConversationView], bool]) -> None:
        """Return once *is_done* holds, no run is at work and all is shown; raise what ends the showing."""
        assert self._showing is not None
        assert self._task is not None
        waiting = asyncio.create_task(self._settle(self._showing, is_done))
        try:
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            await (waiting if waiting.done() else self._task)
        finally:
            waiting.cancel()

    async def _settle(self, showing: Delivery, is_done: Callable[[ConversationView], bool]) -> None:
        while not is_done(showing.body) or not _is_at_rest(showing.body):
            self._source.changed.clear()
            await self._source.changed.wait()
        await showing.shown()

    def _count(self) -> None:
        """Note whether each message of this session got its answer."""
        if self._showing is not None:
            runs = [self._showing.body.run(run) for run in self._asked]
            self._is_ok &= all(run is not None and run.status == "completed" for run in runs)
        self._asked.clear()

    async def _stop(self) -> None:
        """Stop the run at work, as its command was interrupted, and show what it said."""
        if (run := self._active()) is not None and run.status == "running":
            await self._port.cancel(run.id, by=self._front.actor)
            stopped = asyncio.create_task(self._settled(lambda _: True))
            await asyncio.wait((stopped,), timeout=STOPPING)
            stopped.cancel()

    async def _leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._task = self._showing = None


class _Counted:
    """The events of a session, and the seq of the latest wait or end of each run."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self.changed = asyncio.Event()
        self.settled: dict[str, int] = {}

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        async with aclosing(self._port.follow(session, after=after)) as batches:
            async for batch in batches:
                yield batch
                for event in batch:
                    if isinstance(event, Fact) and event.run is not None and event.type in SETTLING:
                        self.settled[event.run] = event.seq
                self.changed.set()


def _is_at_rest(body: ConversationView) -> bool:
    return body.active is None or body.active.status in WAITS

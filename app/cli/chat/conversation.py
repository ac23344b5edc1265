"""A conversation of many lines: what is typed goes in, what the session's log says is shown."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Protocol

from agent_core import Actor, Clock, Decision, Event, Fact, Inbound, ParleyError
from app.cli.chat.listing import Recent, numbered
from app.cli.chat.ports import Port
from app.cli.chat.slash import Slash, UnknownSlash, help_text, read_slash
from app.cli.client import Unreachable
from channels.delivery import Delivery, NullOutbox
from channels.spec import ConversationView, RunView, Screen, Stop
from channels.terminal import ADDRESS
from channels.text import queued

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

"""One message and its answer."""

import asyncio
from collections.abc import AsyncGenerator

from agent_core import Clock, Event, Inbound, InvalidInput
from app.cli.chat.conversation import Front
from app.cli.chat.ports import Port
from channels.delivery import Delivery, NullOutbox
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

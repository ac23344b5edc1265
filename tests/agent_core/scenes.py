"""What tests of the core say again and again: open a session, send a message, read the log, wait for the end."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol, cast

from sqlalchemy import Engine

from agent_core.channels import Inbound
from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.engine.local import Sweep
from agent_core.engine.pool import Pool
from agent_core.events import Event, Fact
from agent_core.messages import Actor, Text
from agent_core.objects import Receipt
from agent_core.store import log, queue, runs, sessions
from agent_core.store.database import SqliteDatabase
from agent_core.store.log import RunRef
from agent_core.store.postgres import PostgresDatabase
from tests.polling import PATIENCE

ANN = Actor("ann", "user", "Ann")
BOB = Actor("bob", "user", "Bob")
SAFETY = PATIENCE
"""Seconds after which a test gives up: far more than anything here takes."""


class Hurried(SystemClock):
    """A clock that waits a twentieth of the time: the pauses before the retries of a step are no subject here."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 20)


async def open_session(core: Core, *, agent: str = "assistant", actor: Actor = ANN, **options: Any) -> str:
    return (await core.open_session(agent=agent, actor=actor, **options)).id


async def send(core: Core, session: str, text: str, **options: Any) -> Receipt:
    return await core.receive(session, inbound(text, **options))


def inbound(text: str, **options: Any) -> Inbound:
    return Inbound(**{"parts": (Text(text),), "actor": ANN, **options})


async def idle(core: Core, session: str, *, after: int = 0) -> list[Fact]:
    """Wait until the session is idle, and return its facts beyond *after*."""
    async with asyncio.timeout(SAFETY):
        return [fact async for batch in core.follow(session, after=after, until_idle=True) for fact in facts_of(batch)]


async def say_and_wait(core: Core, session: str, text: str, **options: Any) -> Receipt:
    """Send *text*, and return once all is answered."""
    receipt = await send(core, session, text, **options)
    await idle(core, session)
    return receipt


async def log_of(core: Core, session: str, *, after: int = 0) -> list[Fact]:
    """Return the facts that are in the log now."""
    return await core._store.read(
        lambda connection: log.facts_between(connection, sessions.find(connection, session).session_key, after)
    )


async def ref_of(core: Core, run: str) -> RunRef:
    """Return the run as its owner holds it."""
    return (await core._store.read(runs.find, run))[0]


def engine_of(core: Core) -> Engine:
    """Return what the core's statements go through, to listen to them."""
    database = core._store.database
    if isinstance(database, PostgresDatabase):
        return database._engine.sync_engine
    assert isinstance(database, SqliteDatabase)
    return database._engine


class Driving(Protocol):
    """An engine that drives runs in this process."""

    @property
    def pool(self) -> Pool: ...
    @property
    def sweep(self) -> Sweep: ...


def local(core: Core) -> Driving:
    """Return what drives the core's runs, to look inside."""
    return cast("Driving", core._engine)


async def look_at(core: Core, run: int, at: int) -> None:
    """Have the sweep look at a run at *at* milliseconds, as the end of an approval does."""
    await core._store.write(queue.set_deadline, run, at)
    local(core).sweep.look_soon()


def facts_of(events: Iterable[Event]) -> list[Fact]:
    return [event for event in events if isinstance(event, Fact)]


def types(facts: Iterable[Event]) -> list[str]:
    return [fact.type for fact in facts]


def only(facts: Iterable[Fact], *kinds: type[Any]) -> list[Any]:
    """Return the bodies of these *kinds*, in order."""
    return [fact.body for fact in facts if isinstance(fact.body, kinds)]

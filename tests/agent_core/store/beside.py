"""Another process's transactions on the same Postgres: held open, and seen to be waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from agent_core.store.postgres import PostgresDatabase
from tests.agent_core.scenes import SAFETY
from tests.polling import until_async

T = TypeVar("T")
_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


@asynccontextmanager
async def opened(url: str, *, idle_timeout: float = SAFETY) -> AsyncIterator[PostgresDatabase]:
    """Give a database that another process might have; its transactions may stand still for *idle_timeout* seconds."""
    database = PostgresDatabase(url, connect_timeout=SAFETY, idle_timeout=idle_timeout, lock_timeout=SAFETY)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def held(database: PostgresDatabase, work: Callable[[Connection], T]) -> AsyncIterator[T]:
    """Have *work* done in a transaction that is committed at the end of the block."""
    done, go = asyncio.get_running_loop().create_future(), asyncio.Event()

    def stay(connection: Connection) -> None:
        done.set_result(work(connection))
        await_only(go.wait())

    transaction = asyncio.create_task(database.write(stay))
    try:
        async with asyncio.timeout(SAFETY):
            yield await done
    finally:
        go.set()
        await transaction


async def waits(database: PostgresDatabase, count: int = 1) -> None:
    """Return once so many transactions wait for a lock."""

    async def holds() -> bool:
        return await database.read(lambda connection: connection.execute(_WAITING).scalar_one()) >= count

    await until_async(holds)

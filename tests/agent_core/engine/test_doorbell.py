"""The end of a worker whose database is away: nothing of DBOS outlasts it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import make_url

from agent_core.engine.dbos import Doorbell
from tests.agent_core.engine.fleet import PATIENCE
from tests.polling import until

SOCKET = ".s.PGSQL.5432"


class DatabaseRoute:
    """A way to a database that may be *silent*, or gone."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._open: list[asyncio.StreamWriter] = []
        self.flows, self.is_silent = asyncio.Event(), asyncio.Event()
        self.flows.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._server)
        self._open += [writer, back]
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                if not self.flows.is_set():
                    self.is_silent.set()
                await self.flows.wait()
                sink.write(data)
            sink.close()
        except OSError:
            sink.close()

    def end(self) -> None:
        for each in self._open:
            each.close()


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[tuple[str, DatabaseRoute, asyncio.Server]]:
    """Lay a wire to the database at *url*, and yield the URL of its near end."""
    found = make_url(url)
    made = DatabaseRoute(f"{found.query['host']}/{SOCKET}")
    with TemporaryDirectory(prefix="wire-") as folder:
        near = found.update_query_dict({"host": folder}).render_as_string(hide_password=False)
        server = await asyncio.start_unix_server(made.carry, Path(folder) / SOCKET)
        try:
            yield near, made, server
        finally:
            made.flows.set()
            made.end()
            server.close()


def workers() -> list[threading.Thread]:
    """Return the threads of DBOS for which the end of a process waits."""
    return [each for each in threading.enumerate() if each.name.startswith("dbos-executor")]


@pytest.mark.postgres
@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "silent"])
async def test_no_thread_of_dbos_outlasts_a_stop_without_a_database(postgres_url: str, *, is_gone: bool):
    """A worker that stops while the database is away leaves no thread that the process would have to wait for."""

    async def ensure(_key: int) -> None:
        await asyncio.Event().wait()

    async with wire(postgres_url) as (url, line, server), asyncio.timeout(PATIENCE):
        doorbell = Doorbell(url, "wrk_doorbell", max_runs=10, ensure=ensure)
        doorbell.start()
        await until(lambda: doorbell.is_ready)
        line.flows.clear()
        if is_gone:
            server.close()
            line.end()
        assert doorbell.notify("run_1:1", 1)
        assert doorbell.notify("run_2:1", 2, queued=True)
        if not is_gone:
            await line.is_silent.wait()
        await until(lambda: bool(workers()))
        await doorbell.stop(1.0)
        for each in workers():
            await asyncio.to_thread(each.join, PATIENCE)
        assert workers() == []

"""The two processes under measurement, and what the runner asks of them."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.client import KEY, Connection
from tests.bench.exchange import Exchange

ROOT = Path(__file__).resolve().parent.parent.parent


class Side:
    """A server in a process of its own."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, port: int) -> None:
        self.name, self.port = name, port
        self._process = process
        self._talking = asyncio.Lock()

    async def order(self, order: str, **given: Any) -> Any:
        """Have the server do something beside its work, and return what it says."""
        async with self._talking:
            return json.loads(await _talk(self._process, json.dumps([order, given]).encode() + b"\n"))

    async def cpu(self) -> float:
        """Return the seconds that the server's process has computed."""
        return await self.order("cpu")

    async def connect(self) -> Connection:
        return await Connection.open(self.port)

    async def open_session(self, agent: str = "assistant") -> str:
        """Open a session; the bare server takes any."""
        if self.name == "bare":
            return "ses_bare"
        async with self.connection() as connection:
            return (await connection.fetch("POST", "/v1/sessions", {"agent": agent}))["id"]

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a connection and close it."""
        connection = await self.connect()
        try:
            yield connection
        finally:
            await connection.close()


def bare() -> AbstractAsyncContextManager[Side]:
    """Start the bare server."""
    return _started("bare", [sys.executable, "-m", "tests.bench.bare"])


def parley(database: Path) -> AbstractAsyncContextManager[Side]:
    """Start Parley with a scripted model on *database*, which is migrated."""
    return _started("parley", [sys.executable, "-m", "tests.bench.parley", str(database)])


def served(database: Path) -> AbstractAsyncContextManager[Side]:
    """Start Parley as people do, with the demo model; it takes no orders."""
    environment = {
        "DATABASE_URL": f"sqlite:///{database}",
        "PARLEY_AGENTS": str(ROOT / "agents"),
        "PARLEY_API_KEY": KEY,
        "PARLEY_DATA": str(database.parent),
        "PARLEY_DEMO_RATE": "1000",
        "PARLEY_MODEL": "demo",
        "PORT": "0",
    }
    return _started("served", [str(Path(sys.executable).with_name("parley")), "serve"], environment)


async def record(side: Side, exchange: Exchange, file: Path) -> dict[str, str]:
    """Write the frames that Parley streams for *exchange* to *file*; return the order that teaches them."""
    session = await side.open_session()
    async with side.connection() as asking, side.connection() as reading:
        events = reading.send("GET", f"/v1/sessions/{session}/events?after=1", keep=True)
        await events.begun()
        told = len(events.body)
        asking.send("POST", f"/v1/sessions/{session}/messages", {"text": replace(exchange, rate=0.0).text})
        await events.until(ends=1)
    assert events.deltas == exchange.deltas
    await asyncio.to_thread(file.write_bytes, events.body[told:])
    return {"text": exchange.text, "path": str(file)}


@asynccontextmanager
async def _started(name: str, command: list[str], environment: Mapping[str, str] | None = None) -> AsyncIterator[Side]:
    """Start *command*, whose first line out ends with its port."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, cwd=ROOT, env={**os.environ, **(environment or {})}
    )
    try:
        yield Side(name, process, int(re.findall(rb"\d+", await _talk(process))[-1]))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        if name == "served":
            process.terminate()
        await process.wait()


async def _talk(process: asyncio.subprocess.Process, line: bytes = b"") -> bytes:
    """Write *line* to a server and return the line that it writes."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    said = await process.stdout.readline()
    if not said:
        raise RuntimeError("A server of the bench has ended early; what it wrote to stderr says why.")
    return said

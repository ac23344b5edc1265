"""The processes of the bench, and what the runner asks of them."""

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.bench.client import KEY, Connection
from tests.bench.wires import MESSAGES, PARLEY, WIRES, BenchWire, Marks

ROOT = Path(__file__).resolve().parent.parent.parent


class Side:
    """A server in a process of its own."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, port: int) -> None:
        self.name, self.port = name, port
        self._process = process
        self._talking = asyncio.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def marks(self, agent: str) -> Marks:
        """Return how the text in the answers of *agent* is found; the limit passes on the wire as it is."""
        return WIRES[agent].marks if self.name == "limit" else PARLEY

    async def order(self, order: str, **given: Any) -> Any:
        """Have the server do something beside its work, and return what it says."""
        async with self._talking:
            return json.loads(await _talk(self._process, json.dumps([order, given]).encode() + b"\n"))

    async def cpu(self) -> float:
        """Return the seconds that the server's process has computed."""
        return await self.order("cpu")

    def memory(self) -> int:
        """Return the bytes that the server's process holds in memory."""
        statm = Path(f"/proc/{self._process.pid}/statm")
        if statm.exists():
            return int(statm.read_text("ascii").split()[1]) * resource.getpagesize()
        command = ("ps", "-o", "rss=", "-p", str(self._process.pid))
        return 1024 * int(subprocess.run(command, capture_output=True, check=True, timeout=10).stdout)

    async def open_session(self, agent: str = "assistant") -> str:
        """Open a session."""
        async with self.connection() as connection:
            return (await connection.fetch("POST", "/v1/sessions", {"agent": agent}))["id"]

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Give a connection and close it."""
        connection = await Connection.open(self.port)
        try:
            yield connection
        finally:
            await connection.close()


def model() -> AbstractAsyncContextManager[Side]:
    """Start the model server."""
    return started("model", [sys.executable, "-m", "tests.bench.model"])


def limit(url: str) -> AbstractAsyncContextManager[Side]:
    """Start the limit before the model server at *url*."""
    return started("limit", [sys.executable, "-m", "tests.bench.limit", url])


def parley(database: Path, url: str, wires: Sequence[BenchWire] = (MESSAGES,)) -> AbstractAsyncContextManager[Side]:
    """Start Parley on *database*, which is migrated, with an agent for each of *wires* of the model server at *url*."""
    return started(
        "parley", [sys.executable, "-m", "tests.bench.parley", str(database), url, *(wire.agent for wire in wires)]
    )


def served(database: Path, url: str, wire: BenchWire = MESSAGES) -> AbstractAsyncContextManager[Side]:
    """Start Parley as people do, with the model server at *url*, asked over *wire*."""
    environment = {
        "ANTHROPIC_API_KEY": "any",
        "ANTHROPIC_BASE_URL": url,
        "DATABASE_URL": f"sqlite:///{database}",
        "PARLEY_AGENTS": str(ROOT / "agents"),
        "PARLEY_API_KEY": KEY,
        "PARLEY_DATA": str(database.parent),
        "OPENAI_API_KEY": "any",
        "OPENAI_BASE_URL": f"{url}/v1",
        "PARLEY_MODEL": wire.model,
        "PORT": "0",
    }
    return started("served", [str(Path(sys.executable).with_name("parley")), "serve"], environment)


@asynccontextmanager
async def started(name: str, command: list[str], environment: Mapping[str, str] | None = None) -> AsyncIterator[Side]:
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

"""A stage for MCP: connections, calls with what they showed and kept, and what is left of tasks and sockets."""

import asyncio
import math
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.clock import Clock, SystemClock
from agent_core.mcp.connections import IDLE, McpConnected
from agent_core.messages import Actor, File, Text
from agent_core.net.fetch import Fetch
from agent_core.servers import McpServer
from agent_core.testing import FakeClock
from agent_core.testing.mcp import FakeMcp
from agent_core.tools.base import CallContext, Done, ElicitationAnswer, Outcome

SDK_SERVER = Path(__file__).with_name("sdk_server.py")


@dataclass
class McpCaller:
    """Calls through *connections*; *shown* are lines of progress, *kept* the files with their bytes."""

    connections: McpConnected
    shown: list[str] = field(default_factory=list[str])
    kept: list[tuple[File, bytes]] = field(default_factory=list[tuple[File, bytes]])

    async def call(
        self,
        server: McpServer,
        tool: str,
        *,
        answer: ElicitationAnswer | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        **arguments: Any,
    ) -> Outcome:
        context = self.context(answer)
        return await self.connections.call(server, tool, arguments, context, headers or {}, repeatable=repeatable)

    def context(self, answer: ElicitationAnswer | None = None) -> CallContext:
        return CallContext(
            call="call_1",
            session="ses_1",
            run="run_1",
            actor=Actor("ann", "user", "Ann"),
            channel="api",
            clock=SystemClock(),
            progress=self.shown.append,
            answer=answer,
            keep_file=self._keep,
        )

    async def _keep(self, data: bytes, mime: str, name: str) -> File:
        file = File(f"blob_{len(self.kept) + 1}", name, mime, len(data))
        self.kept.append((file, data))
        return file


@asynccontextmanager
async def staged(*hosts: str, clock: Clock | None = None, idle: float = IDLE) -> AsyncGenerator[McpCaller]:
    """Give a stage whose guard lets *hosts* through; at the end no task is left that was not there before."""
    before = client_tasks()
    fetch = Fetch(allow=hosts)
    connections = McpConnected(fetch, clock=clock, idle=idle)
    try:
        yield McpCaller(connections)
    finally:
        await connections.close()
        await fetch.close()
    left = client_tasks() - before
    assert not left, f"Tasks are left: {left}"


def client_tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of the connections and of the SDK; not those of the tests and of the made-up servers."""
    found: set[asyncio.Task[Any]] = set()
    for task in asyncio.all_tasks():
        code: Any = getattr(task.get_coro(), "cr_code", None)
        if code is not None and _is_client(code.co_filename):
            found.add(task)
    return found


_CLIENTS = ("/agent_core/mcp/", "agent_core/clock.py", "site-packages/mcp/", "site-packages/anyio/", "httpcore2/")


def _is_client(file: str) -> bool:
    return "/tests/" not in file and any(each in file for each in _CLIENTS)


def moved(clock: FakeClock, pauses: list[float] | None = None, *, most: float = math.inf) -> bool:
    """Wake the next sleeper of *clock* unless it sleeps longer than *most* seconds, and return False."""
    if clock.sleepers and clock.ahead <= most:
        if pauses is not None:
            pauses.append(clock.ahead)
        clock.advance(clock.ahead)
    return False


def server_of(fake: FakeMcp, **options: Any) -> McpServer:
    return McpServer(**{"name": "fake", "url": fake.url, **options})


def child(*arguments: str, **options: Any) -> McpServer:
    """Return the made-up server as a child process."""
    args = ("-m", "agent_core.testing.mcp", *arguments)
    return McpServer(**{"name": "child", "transport": "stdio", "command": sys.executable, "args": args, **options})


def texts(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Done), outcome
    return [part.text for part in outcome.parts if isinstance(part, Text)]


def sockets() -> int:
    """Return how many sockets and pipes this process has open."""
    links = Path("/proc/self/fd")
    return sum(_names(each).startswith(("socket:", "pipe:")) for each in links.iterdir())


def _names(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # the one with which the folder was read
        return ""


def children() -> set[int]:
    """Return the processes that this one has started and that still run."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(each) for each in listed.split()}

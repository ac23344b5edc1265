"""How both sides are served: one uvicorn worker on a free port, and orders over stdin, a line of JSON each."""

import asyncio
import cProfile
import gc
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

BACKLOG = 2048
STATM = Path("/proc/self/statm")
# What the runner may order by name; the values are functions of JSON values, async or not.
Orders = dict[str, Callable[..., Any]]
Building = AbstractAsyncContextManager[tuple[ASGIApp, Orders]]


def serve(building: Building) -> None:
    """Serve the application that *building* gives until stdin is closed; the first line out is the port."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(building))


async def _serve(building: Building) -> None:
    async with building as (app, orders):
        sock = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        server = uvicorn.Server(_config(app))
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        _settle_memory()
        _say(sock.getsockname()[1])
        await _obey({"cpu": time.process_time, "memory": memory, "profile": _Profile(), **orders})
        server.should_exit = server.force_exit = True
        await serving


def memory() -> int:
    """Return the bytes that this process holds in memory; where there is no /proc, the most that it ever held."""
    if STATM.exists():
        return int(STATM.read_text("ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _config(app: ASGIApp) -> uvicorn.Config:
    """Return the settings that `parley serve` has too."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
    )


def _settle_memory() -> None:
    """Do with the collector what `parley serve` does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


async def _obey(orders: Orders) -> None:
    """Follow orders, one after the other, until there are no more."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        order, given = json.loads(line)
        done = orders[order](**given)
        _say(await done if asyncio.iscoroutine(done) else done)


def _say(value: Any) -> None:
    os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


class _Profile:
    """Profile the event loop's thread between two orders; the second one names the file."""

    def __init__(self) -> None:
        self._running: cProfile.Profile | None = None

    def __call__(self, to: str | None = None) -> None:
        if self._running is None:
            self._running = cProfile.Profile()
            self._running.enable()
            return
        self._running.disable()
        if to is not None:
            self._running.dump_stats(to)
        self._running = None

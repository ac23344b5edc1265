"""How the processes of the bench run: a port as the first line out, then orders over stdin, a line of JSON each."""

import asyncio
import cProfile
import gc
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

BACKLOG = 2048
_ANSWERS = 1  # standard output's own descriptor
# What the runner may order by name; the values are functions of JSON values, async or not.
Orders = dict[str, Callable[..., Any]]


def serve(running: AbstractAsyncContextManager[tuple[int, Orders]]) -> None:
    """Run what *running* starts until stdin is closed; it gives the port that it listens on, and its own orders.

    Standard output is for the answers to orders alone: whatever prints goes to standard error, which the runner does
    not read. A line among the answers would pass for one, and a pipe that no one reads stops the event loop.
    """
    sys.stdout = sys.stderr
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(running))


async def _serve(running: AbstractAsyncContextManager[tuple[int, Orders]]) -> None:
    async with running as (port, orders):
        _settle_memory()
        _say(port)
        await _obey({"cpu": time.process_time, "profile": _Profile(), **orders})


@asynccontextmanager
async def listening(app: ASGIApp, http: Any = "httptools") -> AsyncIterator[int]:
    """Serve *app* on a free port with the settings that `parley serve` has too; *http* is the protocol."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    config = uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield sock.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await serving


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
    os.write(_ANSWERS, json.dumps(value).encode() + b"\n")


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

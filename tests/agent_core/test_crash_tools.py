"""A crash at every append of a run that writes elsewhere, over HTTP, over MCP or by an alias: no write twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import pytest

from agent_core.agents import DeclaredTool, ToolDefinition
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from agent_core.testing import by_step, call, say
from agent_core.testing.mcp import FakeCall, FakeMcp, FakeTool
from tests.agent_core.crashing import Side
from tests.agent_core.net.stage import Site, ok, serving
from tests.agent_core.test_crash import Executions, Scenario, lives
from tests.conftest import Fresh
from tests.polling import until

pytestmark = pytest.mark.whole

Kind = Literal["http", "idempotent http", "mcp", "alias"]
NAMES: dict[Kind, str] = {"mcp": "mcp__fake__write"}


@dataclass
class Servers:
    """An HTTP server and an MCP server that outlive the processes."""

    site: Site
    mcp: FakeMcp


@dataclass
class Elsewhere(Executions):
    """What the servers remember of one session whose only tool is of *kind*; *asked* are the requests, by their key."""

    servers: Servers = field(kw_only=True)
    kind: Kind = field(kw_only=True)
    asked: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.servers.site.answers["/write"] = self._by_http
        self.servers.mcp.tools[:] = [FakeTool("write", "Write.", answer=self._by_mcp)]

    def ports(self) -> ToolPorts:
        fetch = Fetch((f"127.0.0.1:{self.servers.site.port}", self.servers.mcp.host))
        return ToolPorts(fetch=fetch, mcp=McpConnected(fetch))

    async def define(self, core: Core, /) -> Sequence[str | DeclaredTool]:
        try:
            await self._define(core)
        except InvalidInput:  # a process that crashed has defined it, and may have died while it asked the server
            if self.kind == "mcp":
                await core.tools.servers.refresh("fake")
        if self.kind == "mcp":  # asked by nothing but the process itself, so that each life writes the same number
            await until(lambda: "fake" not in core.tools.servers.unreached)
        return (NAMES.get(self.kind, "write"),)

    async def _define(self, core: Core) -> None:
        if self.kind == "mcp":
            await core.tools.servers.create(McpServer(name="fake", url=self.servers.mcp.url))
            return
        made = partial(ToolDefinition, name="write", description="Write.", effect="write")
        if self.kind == "alias":
            alias = made(kind="python", preset={"room": "r1"}, config={"tool": "book"})
            await core.tools.definitions.create(alias)
            return
        config = {"url": self.servers.site.url("/write", "127.0.0.1"), "method": "POST"}
        await core.tools.definitions.create(made(config=config, idempotent=self.kind == "idempotent http"))

    async def _by_http(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write, as a server that knows keys does: once per key; one that knows none writes each time."""
        key = self.servers.site.requests[-1].headers["idempotency-key"]
        self.asked.append(key)
        if self.kind == "http" or key not in self.written:
            self.written.append(key)
        writer.write(ok(b"written"))

    def _by_mcp(self, _call: FakeCall) -> str:
        self.written.append("mcp")
        return "written"


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with serving() as site, FakeMcp() as mcp:
        yield Servers(site, mcp)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "side"),
    [
        ("http", "before"),
        ("idempotent http", "before"),
        ("idempotent http", "after"),
        ("mcp", "before"),
        ("alias", "before"),
        *(pytest.param(kind, "after", marks=pytest.mark.whole) for kind in ("http", "mcp", "alias")),
    ],
)
async def test_crash_at_every_append_of_a_write_elsewhere(
    fresh: Fresh, servers: Servers, kind: Kind, side: Side, whole: bool
) -> None:
    """The write happens once, or the model reads that no one knows; under a key that the server knows it is certain.

    Of the crashes some must have cut the call: those ended unknown, or, where only the end of the call was lost, sent
    the same key again.
    """
    script = by_step((call(NAMES.get(kind, "write")),), (say("Done."),))
    scenario = Scenario(f"write by {kind}", ("Write",), script, ("", "Done."))
    made = partial(Elsewhere, servers=servers, kind=kind)
    with fresh() as database:
        _, _, process = await lives(database, scenario, (), made())
    cut, died = 0, 0
    for at in range(1 if whole else process.prepared + 1, process.database.writes + 1):
        ledger = made()
        with fresh() as database:
            outcome, crashed, _ = await lives(database, scenario, ((at, side),), ledger)
        died += crashed
        if kind == "idempotent http":
            assert (ledger.written, outcome.unknown) == ([ledger.asked[0]], 0)
            cut += len(ledger.asked) > 1
        else:
            cut += outcome.unknown
    assert died > 1
    assert (cut > 0) == (kind != "idempotent http" or side == "before")

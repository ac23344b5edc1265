"""A crash at every append of one run that has a tool of each kind: the next process finishes, and no write is twice."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

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
from tests.agent_core.test_crash import FEW, WHERE, Executions, Scenario, lives
from tests.conftest import Fresh
from tests.polling import until

STEPS = (
    (call("look", what="a"), call("book", room="r1")),
    (call("write_plain"), call("write_keyed")),
    (call("mcp__fake__write"), call("write_alias")),
    (call("seat", room="r3"), call("where")),
)
NAMES = ("look", "book", "write_plain", "write_keyed", "mcp__fake__write", "write_alias", "seat", WHERE)


@dataclass
class Everywhere(Executions):
    """What the world remembers of a run with every kind of tool; *keys* are those of the requests to `/keyed`."""

    site: Site = field(kw_only=True)
    mcp: FakeMcp = field(kw_only=True)
    keys: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.site.answers.update({"/plain": self._plain, "/keyed": self._keyed})
        self.mcp.tools[:] = [FakeTool("write", "Write.", answer=self._by_mcp)]

    def ports(self) -> ToolPorts:
        fetch = Fetch((f"127.0.0.1:{self.site.port}", self.mcp.host))
        return ToolPorts(fetch=fetch, mcp=McpConnected(fetch))

    async def define(self, core: Core, /) -> Sequence[str | DeclaredTool]:
        kinds: dict[str, dict[str, Any]] = {
            "plain": {"config": {"url": self.site.url("/plain", "127.0.0.1"), "method": "POST"}},
            "keyed": {"config": {"url": self.site.url("/keyed", "127.0.0.1"), "method": "POST"}, "idempotent": True},
            "alias": {"kind": "python", "preset": {"room": "r2"}, "config": {"tool": "book"}},
        }
        for name, fields in kinds.items():
            definition = ToolDefinition(name=f"write_{name}", description="Write.", effect="write", **fields)
            with suppress(InvalidInput):  # a process that crashed has defined it
                await core.tools.definitions.create(definition)
        try:
            await core.tools.servers.create(McpServer(name="fake", url=self.mcp.url))
        except InvalidInput:  # it may have died while it asked the server
            await core.tools.servers.refresh("fake")
        await until(lambda: "fake" not in core.tools.servers.unreached)
        return NAMES

    async def _plain(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write each time, as a server that knows no keys."""
        self.written.append("plain")
        writer.write(ok(b"written"))

    async def _keyed(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write once per key."""
        self.keys.append(self.site.requests[-1].headers["idempotency-key"])
        if self.keys[-1] not in self.written:
            self.written.append(self.keys[-1])
        writer.write(ok(b"written"))

    def _by_mcp(self, _call: FakeCall) -> str:
        self.written.append("mcp")
        return "written"


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


@pytest.fixture
async def mcp() -> AsyncIterator[FakeMcp]:
    async with FakeMcp() as mcp:
        yield mcp


@pytest.mark.parametrize("side", ["before", pytest.param("after", marks=pytest.mark.whole)])
async def test_crash_at_every_append_of_a_run_with_each_kind_of_tool(
    fresh: Fresh, site: Site, mcp: FakeMcp, side: Side, whole: bool
) -> None:
    """Each write happens once, or its outcome is unknown; one under a key that its server knows is never unknown."""
    script = by_step(*STEPS, (say("Done."),))
    scenario = Scenario("write by each kind", ("Write",), script, (*[""] * len(STEPS), "Done."))
    with fresh() as database:
        _, _, process = await lives(database, scenario, (), Everywhere(writes=6, site=site, mcp=mcp))
    died, cut, repeated = 0, 0, 0
    for at in range(process.prepared + 1, process.database.writes + 1, 1 if whole else FEW):
        ledger = Everywhere(writes=6, site=site, mcp=mcp)
        with fresh() as database:
            outcome, crashed, _ = await lives(database, scenario, ((at, side),), ledger)
        assert len(set(ledger.keys)) == 1
        died, cut, repeated = died + crashed, cut + outcome.unknown, repeated + (len(ledger.keys) > 1)
    assert died > 1
    assert cut
    assert repeated or not whole or side == "after"

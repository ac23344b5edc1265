"""A server that wants a login at the made-up authorization server, and the browser of an operator."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from agent_core.testing.mcp import FakeLogins, FakeMcp, sample_tools
from agent_core.tools.base import ToolError
from agent_core.tools.toolset import Scope
from tests.agent_core.tools.mcp.stage import McpCaller, texts
from tests.conftest import MakeCore

REDIRECT = "http://127.0.0.1:9/callback"


async def browse(page: str) -> str:
    """Return where *page* leads the browser, once its operator has consented."""
    async with aiohttp.ClientSession() as browser, browser.get(page, allow_redirects=False) as answer:
        return answer.headers["Location"]


@dataclass
class LoginStage:
    """A *core* whose server `fake` wants the tokens of *site*; `others` are cores of further processes."""

    core: Core
    fake: FakeMcp
    site: FakeLogins
    cores: list[Core]
    stage: McpCaller

    async def login(self) -> None:
        """Log in at the server, as an operator does."""
        logins = self.core.tools.servers.logins
        begun = await logins.begin("fake", REDIRECT)
        await logins.complete("fake", begun.ticket, await browse(begun.url))
        await self.core.tools.servers.refresh("fake")

    async def said(self, core: int = 0) -> str:
        """Return what a call of a tool returns, or why it fails."""
        tools = await self.cores[core].tools.servers.tools(Scope())
        outcome = await tools["mcp__fake__echo"].call({"text": "hi"}, self.stage.context())
        return outcome.message if isinstance(outcome, ToolError) else texts(outcome)[0]

    async def refused(self) -> str:
        """Return why a login is refused."""
        try:
            await self.login()
        except Exception as error:  # noqa: BLE001 - what is said is what is tested
            return str(error)
        return ""


@asynccontextmanager
async def login_stage(
    make_core: MakeCore, clock: Clock | None = None, cores: int = 1, **options: Any
) -> AsyncGenerator[LoginStage]:
    """Give a stage whose server has *options*."""
    async with FakeLogins() as site, FakeMcp(sample_tools()) as fake:
        fake.admits, fake.protected_by = site.admits, site.issuer
        fetch, made = Fetch((fake.host, site.host)), list[Core]()
        connections = McpConnected(fetch)
        for _ in range(cores):
            connections = McpConnected(fetch, clock=clock)
            ports = ToolPorts(fetch=fetch, mcp=connections)
            made.append(await make_core(tool_ports=ports, **({} if clock is None else {"clock": clock})))
        await made[0].tools.servers.create(McpServer(name="fake", url=fake.url, **options))
        yield LoginStage(made[0], fake, site, made, McpCaller(connections))
        for core in made:
            await core.stop(grace=0.1)
        await fetch.close()

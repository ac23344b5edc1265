"""A login at a server of the official SDK, which registers the client and checks every token."""

import aiohttp

from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from tests.agent_core.tools.mcp.login_site import REDIRECT
from tests.agent_core.tools.mcp.sdk_auth import protected_server
from tests.conftest import MakeCore


async def test_a_server_of_the_sdk_is_logged_in_to_renewed_and_logged_out_of(make_core: MakeCore) -> None:
    """It is found by its metadata, takes the registered client, and has the renewed token at once."""
    async with protected_server() as (url, host):
        fetch = Fetch((host,))
        core = await make_core(tool_ports=ToolPorts(fetch=fetch, mcp=McpConnected(fetch)))
        servers = core.tools.servers
        await servers.create(McpServer(name="guarded", url=url))
        begun = await servers.logins.begin("guarded", REDIRECT)
        async with aiohttp.ClientSession() as browser, browser.get(begun.url, allow_redirects=False) as answer:
            redirected = answer.headers["Location"]
        await servers.logins.complete("guarded", begun.ticket, redirected)
        found = await servers.refresh("guarded")
        assert (found.error, [tool.tool for tool in found.tools]) == (None, ["echo"])
        before = await servers.logins.login("guarded")
        assert before is not None
        assert (before.scope, before.resource) == ("tools", url)
        authorization = servers.logins._authorization
        assert authorization is not None
        renewed = await authorization.renewed(McpServer(name="guarded", url=url), before)
        await servers.logins.put("guarded", before, renewed)
        assert (await servers.refresh("guarded")).error is None
        await servers.logins.logout("guarded")
        gone = await servers.refresh("guarded")
        assert "run `parley mcp login guarded`" in str(gone.error)
        await core.stop(grace=0.1)
        await fetch.close()

"""Runs of agents whose MCP servers are dead: no message waits for their discovery."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_core.agents import Definition
from agent_core.events import ToolsUnavailable
from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from agent_core.testing import say
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, set_stage
from tests.conftest import MakeCore
from tests.polling import until_async


class HangingServer:
    """A server that accepts connections and answers none before it is *released*; then it drops them."""

    def __init__(self) -> None:
        self.host = ""
        self.accepted, self.released = asyncio.Event(), asyncio.Event()

    async def serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted.set()
        await self.released.wait()
        writer.close()


@asynccontextmanager
async def _hanging() -> AsyncGenerator[HangingServer]:
    server = HangingServer()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.host = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        server.released.set()
        listener.close()
        await listener.wait_closed()


async def test_discovery_of_a_dead_server_delays_no_message(make_core: MakeCore) -> None:
    """One server hangs, one has its port closed: the run ends while the first discovery is still under way."""
    with socket.socket() as closed:  # bound and never listening: who connects is refused
        closed.bind(("127.0.0.1", 0))
        async with _hanging() as hanging:
            hosts = {"hanging": hanging.host, "closed": f"127.0.0.1:{closed.getsockname()[1]}"}
            ports = ToolPorts(mcp=McpConnected(Fetch(tuple(hosts.values()))))
            scene = await set_stage(make_core, [(say("Hello."),)], tool_ports=ports)
            core, servers = scene.core, scene.core.tools.servers
            for name, host in hosts.items():
                await servers.create(McpServer(name=name, url=f"http://{host}/mcp"))
            await hanging.accepted.wait()
            await core.agents.create(Definition(name="helper", instructions="", mcp_servers=tuple(hosts)))
            stage = Stage(core, scene.provider, (await core.open_session(agent="helper", actor=ANN)).id)
            run = await stage.play()
            assert (run.status, run.text) == ("completed", "Hello.")
            assert (await servers.get("hanging")).status == "new"  # its discovery has not ended, not even in failure
            frozen = scene.provider.requests[0].snapshot.frozen
            assert not [tool for tool in frozen if tool.name.startswith("mcp__")]
            assert {event.server for event in await stage.said(ToolsUnavailable)} == set(hosts)
            check_log(await stage.log())
            hanging.released.set()

            async def both_fail() -> bool:
                return {(await servers.get(name)).status for name in hosts} == {"failing"}

            await until_async(both_fail)
            await core.stop()

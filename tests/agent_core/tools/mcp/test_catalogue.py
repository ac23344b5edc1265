"""The catalogue of servers over real connections: from a saved definition to a call."""

from agent_core.agents import Definition
from agent_core.mcp.connections import McpConnected
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from agent_core.testing import call, say
from agent_core.testing.mcp import FakeMcp, FakeTool
from tests.agent_core.stage import ANN, Stage, results, set_stage
from tests.conftest import MakeCore
from tests.polling import until_async


async def test_a_saved_server_is_discovered_and_called(make_core: MakeCore):
    """A server that was saved is asked by itself; its tools are in the prompt, and a call reaches it."""
    add = FakeTool("add", "Add.", answer=lambda asked: str(asked.arguments["a"]))
    async with FakeMcp([add]) as fake:
        host = fake.url.split("/")[2]
        fetch = Fetch([host])
        script = [(call("mcp__fake__add", a=5),), (say("Five."),)]
        ports = ToolPorts(fetch=fetch, mcp=McpConnected(fetch))
        stage = await set_stage(make_core, script, tool_ports=ports)
        core, servers = stage.core, stage.core.tools.servers
        await servers.create(McpServer(name="fake", url=fake.url, on_change="adopt"))

        async def has(*names: str) -> bool:
            return [tool.tool for tool in (await servers.get("fake")).tools] == [*names]

        await until_async(lambda: has("add"))
        await core.agents.create(Definition(name="adder", instructions="", mcp_servers=("fake",)))
        session = (await core.open_session(agent="adder", actor=ANN)).id
        await Stage(core, stage.provider, session).play()
        (result,) = results(await stage.asked(2))
        assert result.outcome == "done"
        assert "5" in str(result.parts)
        await core.stop(grace=1.0)
        await fetch.close()

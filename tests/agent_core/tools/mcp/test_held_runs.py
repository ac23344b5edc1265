"""Runs whose MCP tool writes, and asks a person in the middle, as servers of before 2026-07-28 do."""

from agent_core.agents import Definition
from agent_core.events import ToolCompleted
from agent_core.mcp.connections import McpConnected
from agent_core.messages import text_of
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.servers import McpServer
from agent_core.testing import call, say
from agent_core.testing.mcp import FakeMcp, sample_tools
from tests.agent_core.asking import open_approvals, yes
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage, set_stage
from tests.conftest import MakeCore
from tests.polling import until


async def test_a_run_goes_on_with_the_call_that_asked(make_core: MakeCore) -> None:
    """The person's answer goes to the call that waits; the server was called once."""
    async with FakeMcp(sample_tools(), era="legacy") as fake:
        ports = ToolPorts(mcp=McpConnected(Fetch((fake.host,))))
        scene = await set_stage(make_core, [(call("mcp__fake__paint"),), (say("Done."),)], tool_ports=ports)
        core = scene.core
        await core.tools.servers.create(McpServer(name="fake", url=fake.url))
        await until(lambda: "fake" not in core.tools.servers.unreached)
        await core.agents.create(Definition(name="painter", instructions="", mcp_servers=("fake",)))
        stage = Stage(core, scene.provider, (await core.open_session(agent="painter", actor=ANN)).id)
        run = await stage.play()
        (asked,) = await open_approvals(stage)
        assert (run.status, asked.title) == ("waiting", "fake asks: Which colour?")
        await core.approvals.decide(yes(asked.id, arguments={"colour": "red"}))
        assert (await stage.done(run.id)).text == "Done."
        (ended,) = await stage.said(ToolCompleted)
        assert (ended.outcome, text_of(ended.parts)) == ("done", "painted red")
        assert len(fake.asked_for("tools/call")) == 1
        check_log(await stage.log())
        await core.stop()

"""A preset that is added while a conversation has the tool as it was."""

from agent_core.agents import ToolDefinition
from agent_core.events import ToolCompleted
from agent_core.messages import text_of
from agent_core.testing import ScriptedProvider, by_step, call, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import open_session
from tests.agent_core.stage import Stage
from tests.conftest import MakeCore


@tool
def find(region: str, limit: int) -> str:
    """Find orders."""
    return f"{limit} of {region}"


async def test_it_takes_the_place_of_what_the_frozen_schema_still_requires(make_core: MakeCore):
    """The model of an open conversation must give the parameter; the call has the preset instead."""
    provider = ScriptedProvider(by_step([call("orders", region="us", limit=3)], [say("Done.")]))
    core = await make_core(provider, tools=(find,), definition={"tools": ("find",)})
    await core.tools.definitions.create(ToolDefinition(name="orders", kind="python", config={"tool": "find"}))
    await core.agents.update("assistant", {"tools": ["orders"]})
    stage = Stage(core, provider, await open_session(core))
    await stage.play()
    await core.tools.definitions.update("orders", {"preset": {"region": "eu"}})
    await stage.play()
    said = [text_of(each.parts) for each in await stage.said(ToolCompleted)]
    assert said == ["3 of us", "3 of eu"]

"""Snapshots with routed tools: stored once for all prompts that share them."""

from sqlalchemy import func, select

from agent_core.agents import Controls, Snapshot
from agent_core.channels import Inbound
from agent_core.messages import Text
from agent_core.store import catalog
from agent_core.store.catalog import SNAPSHOT
from agent_core.testing import ScriptedProvider, say
from agent_core.tools.functions import tool
from tests.agent_core.scenes import ANN
from tests.agent_core.stage import Stage
from tests.conftest import MakeCore


@tool
async def get_order() -> str:
    """Get an order."""
    return "It is fine."


async def test_routed_tools_are_stored_once(make_core: MakeCore):
    """Two prompts of one agent are two rows with the prompt alone and one with the tools; both are read back whole."""
    provider = ScriptedProvider(lambda _: (say("Fine."),))
    core = await make_core(provider, tools=(get_order,), definition={"tool_limit": 0})
    stage = Stage(core, provider, (await core.open_session(agent="assistant", actor=ANN)).id)
    await stage.play()
    other = Inbound(parts=(Text("Go"),), actor=ANN, instructions="Be long.", controls=Controls(max_steps=3))
    await stage.done((await core.receive(stage.session, other)).run)
    first, second = (request.snapshot for request in provider.requests)
    assert first.hash != second.hash
    assert [[spec.name for spec in each.routed] for each in (first, second)] == [["get_order"]] * 2
    names = [first.hash, second.hash, f"routed:{first.routed_hash}"]

    def read(connection) -> tuple[list[Snapshot], dict[str, int]]:
        sizes = select(SNAPSHOT.c.hash, func.length(SNAPSHOT.c.content))
        stored = {row[0]: row[1] for row in connection.execute(sizes)}
        return [catalog.snapshot(connection, each.hash) for each in (first, second)], stored

    found, stored = await core._store.read(read)
    assert found == [first, second]
    assert found[0].routed is found[1].routed
    assert sorted(stored) == sorted(names)

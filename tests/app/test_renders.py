"""Tables and charts in a process that is composed from its settings: the tools, the drawer, and what turns them off."""

from pathlib import Path

import pytest

from agent_core.channels import Inbound
from agent_core.charts.draw import Drawer
from agent_core.clock import SystemClock
from agent_core.events import RenderShown
from agent_core.messages import Actor, Text
from app.compose import running_core
from app.models import running_models
from app.settings import Settings
from tests.agent_core.scenes import idle, log_of

pytestmark = pytest.mark.whole

AGENT = "name: shop\ninstructions: Be brief.\n"


@pytest.fixture
def settings(tmp_path: Path, database_path: Path) -> Settings:
    assert database_path.parent == tmp_path
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "shop.yaml").write_text(AGENT)
    return Settings(_env_file=None, data=tmp_path, agents=tmp_path / "agents", demo_rate=0)  # type: ignore[call-arg]


async def shown(settings: Settings, *questions: str) -> list[RenderShown]:
    """Return what the agent of the file shows when it is asked *questions*, at a core of these *settings*."""
    async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
        session = await core.open_session(agent="shop", actor=Actor("ann", "user"))
        for question in questions:
            await core.receive(session.id, Inbound(parts=(Text(question),), actor=Actor("ann", "user")))
        await idle(core, session.id)
        found = [fact.body for fact in await log_of(core, session.id) if isinstance(fact.body, RenderShown)]
        drawer = core.drawer
    assert isinstance(drawer, Drawer)
    assert drawer.pids == ()
    return found


async def test_an_agent_of_a_file_shows_tables_and_charts_without_naming_the_tools(settings: Settings):
    """The sample chart that no surface can draw itself is tried out by the process's drawer, which ends with it."""
    table, heat = await shown(settings, "Show me a sample table.", "Draw me a sample heatmap.")
    assert (table.kind, heat.kind, set(heat.payload)) == ("table", "chart", {"spec"})


async def test_the_environment_takes_the_tools_away(settings: Settings):
    """With PARLEY_INCLUDE_RENDER=off an agent that says nothing shows none, and one that says otherwise does."""
    off = settings.model_copy(update={"include_render": False})
    assert await shown(off, "Show me a sample table.") == []
    (settings.agents / "shop.yaml").write_text(f"{AGENT}controls: {{include_render: true}}\n")
    assert [each.kind for each in await shown(off, "Show me a sample table.")] == ["table"]

"""Agents that people whom no site names may use at any cost: the warnings of them."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from agent_core.clock import SystemClock
from app.compose import running_core
from app.doctor import examine
from app.models import running_models
from app.settings import Settings
from app.storage import migrate

OPEN = {"anonymous": {"origins": ["https://shop.example"]}}
BOUNDED = ({"cost_per_day": "5"}, {"tokens_per_day": 1_000_000}, {"messages_per_day": 1_000})
TEXT = "open.yaml: anonymous visitors may use it at any cost"


def warned(logs: list[Any]) -> list[str]:
    return [line["agent"] for line in logs if line["event"] == "agent.no_budget"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with agents of which one has no budget."""
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "open.yaml").write_text(f"name: open\ninstructions: Help\nweb: {OPEN}\n")
    (agents / "named.yaml").write_text("name: named\ninstructions: Help\n")
    for n, everyone in enumerate(BOUNDED):
        limits = {"everyone": everyone}
        (agents / f"b{n}.yaml").write_text(f"name: b{n}\ninstructions: Help\nweb: {OPEN}\nlimits: {limits}\n")
    return Settings(_env_file=None, data=tmp_path / "data", agents=agents)  # type: ignore[call-arg]


async def test_an_agent_for_strangers_without_a_budget_is_warned_of_at_each_start(settings: Settings):
    """Each start names it; any bound of what everyone may use is enough."""
    migrate(settings)
    for _ in range(2):
        with structlog.testing.capture_logs() as logs:
            async with running_models(settings, SystemClock()) as models, running_core(settings, models):
                pass
        assert warned(logs) == ["open"]


@pytest.mark.whole
def test_the_doctor_names_an_agent_for_strangers_without_a_budget(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """It is a warning with its file."""
    monkeypatch.setenv("PARLEY_DATA", str(settings.data))
    monkeypatch.setenv("PARLEY_AGENTS", str(settings.agents))
    found = [each for each in examine(offline=True, env_file=None) if "at any cost" in each.text]
    assert [(each.level, each.about, each.text) for each in found] == [("warn", "agents", TEXT)]


async def test_an_agent_for_strangers_without_a_budget_is_warned_of_when_it_is_saved(client: httpx.AsyncClient):
    """Making it over HTTP, and taking its budget away, are each a line of the log."""
    body = {"name": "helpdesk", "instructions": "Help.", "web": OPEN, "limits": {"everyone": {"cost_per_day": "5"}}}
    with structlog.testing.capture_logs() as logs:
        assert (await client.post("/v1/agents", json=body)).status_code == 201
        assert warned(logs) == []
        changes = {"limits": {"everyone": {"cost_per_day": None}}}
        assert (await client.patch("/v1/agents/helpdesk", json=changes)).status_code == 200
        assert warned(logs) == ["helpdesk"]
        assert (await client.post("/v1/agents", json={**body, "name": "other", "limits": {}})).status_code == 201
    assert warned(logs) == ["helpdesk", "other"]

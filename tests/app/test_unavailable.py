"""Agents of files whose model has no key: they say what they need, and the others serve."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import structlog

from agent_core.clock import SystemClock
from agent_core.core import Core
from app.compose import create_app, running_core
from app.doctor import examine
from app.models import running_models
from app.settings import ConfigError, Settings, check, with_providers
from app.storage import ApiKey, load_keys, migrate
from channels.web.identity import TokenSigner
from tests.app.conftest import KEY, caller

NEEDS = "`far` is unavailable: its model `anthropic:claude-opus-5-5` needs ANTHROPIC_API_KEY"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with an agent that the demo answers for, and two that need keys, one of them only at first."""
    (tmp_path / "agents").mkdir()
    for name, more in {
        "near": "model: demo",
        "far": "model: anthropic:claude-opus-5-5",
        "fallen": "model: anthropic:claude-opus-5-5\nfallback_models: [demo]",
    }.items():
        (tmp_path / "agents" / f"{name}.yaml").write_text(f"name: {name}\ninstructions: Be brief.\n{more}\n")
    migrate(given(tmp_path))
    return tmp_path


@pytest.fixture
def named(folder: Path) -> Path:
    """The project with an entry whose variable is not set, and an agent of an entry that is not there any more."""
    (folder / "providers.yaml").write_text("gpt: {kind: openai, key: '${NO_SUCH_KEY}'}\n")
    for name, model in (("far", "gpt:gpt-6.1-sol"), ("left", "old:model")):
        (folder / "agents" / f"{name}.yaml").write_text(f"name: {name}\ninstructions: Be brief.\nmodel: {model}\n")
    return folder


def given(folder: Path, **more: str) -> Settings:
    return Settings(_env_file=None, data=folder, agents=folder / "agents", demo_rate=0, **more)  # type: ignore[call-arg]


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[tuple[Core, httpx.AsyncClient]]:
    async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
        tokens, key = TokenSigner(load_keys(settings).derive), ApiKey(hashlib.sha256(KEY.encode()).digest())
        async with caller(create_app(core, settings, tokens=tokens, api_key=key), KEY) as client:
            yield core, client


@pytest.mark.whole
async def test_agent_without_its_key_says_so_and_the_others_serve(folder: Path):
    """Opening it names the agent and the setting; the server is ready with a warning, and the log has a line."""
    with structlog.testing.capture_logs() as lines:
        async with served(given(folder)) as (_, client):
            assert (await client.post("/v1/sessions", json={"agent": "near"})).status_code == 201
            assert (await client.post("/v1/sessions", json={"agent": "fallen"})).status_code == 201
            opened = await client.post("/v1/sessions", json={"agent": "far"})
            asked = await client.post("/v1/agents/far/runs", json={"input": "Hi"})
            ready = await client.get("/readyz")
            agents = (await client.get("/v1/agents")).json()["items"]
    for answer in (opened, asked):
        assert answer.status_code == 422
        assert NEEDS in answer.text
    assert ready.status_code == 200
    assert ready.json()["warning"].startswith("Agents without a model that can be asked: 1.")
    assert "far" not in ready.text
    assert {agent["name"] for agent in agents} >= {"near", "far", "fallen"}
    (line,) = [line for line in lines if line["event"] == "agent.unavailable"]
    assert line["agent"] == "far"
    assert NEEDS in line["why"]


@pytest.mark.whole
async def test_entry_without_its_variable_and_unknown_provider_cost_their_agents_alone(
    named: Path, monkeypatch: pytest.MonkeyPatch
):
    """The start goes on; each agent says what it lacks, an entry with its file and variable, and so does the doctor."""
    monkeypatch.chdir(named)
    lacks = {
        "far": "its model `gpt:gpt-6.1-sol` needs NO_SUCH_KEY (providers.yaml: `gpt`: `key`)",
        "left": "its model `old:model` needs the provider `old`, which is not known here",
    }
    async with served(with_providers(given(named, model="demo"), None)) as (_, client):
        assert (await client.post("/v1/sessions", json={"agent": "near"})).status_code == 201
        for name, why in lacks.items():
            opened = await client.post("/v1/sessions", json={"agent": name})
            assert (opened.status_code, f"`{name}` is unavailable: {why}" in opened.json()["detail"]) == (422, True)
        ready = await client.get("/readyz")
    assert ready.json()["warning"].startswith("Agents without a model that can be asked: 2.")
    monkeypatch.setenv("PARLEY_DATA", str(named))
    monkeypatch.setenv("PARLEY_MODEL", "demo")
    findings = await asyncio.to_thread(lambda: list(examine(offline=True, env_file=None)))
    found = [each for each in findings if each.about in ("settings", "gpt") or each.event == "agent.unavailable"]
    assert [each.level for each in found] == ["ok", "warn", "warn", "warn"]
    for why, finding in zip((*lacks.values(), "without NO_SUCH_KEY (providers.yaml:"), found[1:], strict=True):
        assert why in finding.text


@pytest.mark.whole
async def test_session_outlives_the_key_of_its_model(folder: Path):
    """A message for it is refused while the key is away, and taken once it is there again after a restart."""
    keyed = given(folder, anthropic_api_key="sk-ant", anthropic_base_url="http://127.0.0.1:9")
    async with served(keyed) as (_, client):
        session = (await client.post("/v1/sessions", json={"agent": "far"})).json()["id"]
        assert "warning" not in (await client.get("/readyz")).json()
    path = f"/v1/sessions/{session}/messages"
    async with served(given(folder)) as (_, client):
        refused = await client.post(path, json={"text": "Hi"})
        assert (refused.status_code, NEEDS in refused.text) == (422, True)
        other = await client.post(path, json={"text": "Hi", "controls": {"model": "demo"}})
        assert other.status_code == 202
    async with served(keyed) as (_, client):
        assert (await client.post(path, json={"text": "Hi", "overlap": "steer"})).status_code == 202


@pytest.mark.whole
def test_doctor_names_it_and_does_not_fail(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """What the file needs is a warning; the default model's own key is still a reason not to start."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PARLEY_DATA", str(folder))
    found = [each for each in examine(offline=True, env_file=None) if each.about == "agents"]
    fallen = "fallen.yaml: its model `anthropic:claude-opus-5-5` is not here"
    assert [(each.level, each.text) for each in found if NEEDS not in each.text] == [("warn", fallen)]
    assert [each.level for each in found if NEEDS in each.text] == ["warn"]
    with pytest.raises(ConfigError, match=r"PARLEY_MODEL: .* needs ANTHROPIC_API_KEY"):
        check(given(folder, model="anthropic:claude-opus-5-5"))

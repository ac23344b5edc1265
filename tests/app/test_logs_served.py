"""What a server's process writes: one form of lines, and nothing that people, models, tools or keys say."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent_core.testing import call, fail, say, think
from agent_core.testing.models import FakeModels, status
from tests.app.frames import frames
from tests.app.processes import Serving, Shell, start
from tests.polling import PATIENCE

MARK = "Zq7Marked"
SECRETS = {"OPENAI_API_KEY": f"sk-{MARK}-provider", "PARLEY_SECRET_KEY": f"{MARK} is the secret of this server"}


def play(asked):
    """Use a tool that fails, think and answer; or fail as the message asks, citing it."""
    if "refuse" in asked.text:
        cited = {"error": {"type": "invalid_request_error", "message": f"messages.0: `{asked.text}` cannot be taken"}}
        return [status(400, json.dumps(cited))]
    if "break" in asked.text:
        return [say(f"Well, {MARK}"), fail("error", message=f"A fault at {asked.text}")]
    if asked.step:
        return [think(f"Now {MARK}"), say(f"The answer is {MARK}.")]
    return [say(f"Let me see {MARK}."), call("calculate", expression=f"{MARK} + 1"), call("made_up", it=MARK)]


@pytest.fixture
async def models() -> AsyncIterator[FakeModels]:
    async with FakeModels(play) as models:
        yield models


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "sqlite":
        request.getfixturevalue("shell").migrated(request.getfixturevalue("template"))
        return {}
    return {"DATABASE_URL": request.getfixturevalue("postgres_url")}


@pytest.fixture
async def serving(
    shell: Shell, models: FakeModels, database: dict[str, str], request: pytest.FixtureRequest
) -> AsyncIterator[Serving]:
    model = {"OPENAI_BASE_URL": f"{models.url}/v1", "PARLEY_MODEL": "openai-compatible:qwen3"}
    form = getattr(request, "param", "json")
    async with start(shell, **SECRETS, **database, **model, PARLEY_LOG=form) as serving:
        yield serving


async def talk(serving: Serving) -> None:
    """Have a conversation in which everything is marked, and much goes wrong."""
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers, timeout=PATIENCE) as http:
        made = {"name": "marked", "instructions": f"Say {MARK}.", "tools": ["calculate"]}
        assert (await http.post("/v1/agents", json=made)).status_code == 201
        opened = {"agent": "marked", "actor": {"id": f"{MARK}-id", "name": MARK}, "metadata": {"note": MARK}}
        session = (await http.post("/v1/sessions", json=opened)).json()["id"]
        ends = []
        for text in (f"Hello {MARK}", f"Please refuse {MARK}", f"Please break {MARK}"):
            run = (await http.post(f"/v1/sessions/{session}/messages", json={"text": text})).json()["run_id"]
            if "break" in text:  # it is tried again and again: what is seen until it is stopped will do
                await http.post(f"/v1/runs/{run}/cancel")
            ends.append(frames((await http.get(f"/v1/runs/{run}/events")).text)[-1].event)
        assert ends == ["run.completed", "run.failed", "run.cancelled"]
        await http.post(f"/v1/sessions/{session}/messages", content=f'{{"text": "{MARK}')
        await http.post(f"/v1/sessions/{session}/messages", json={"text": MARK, MARK: MARK})
        await http.get("/v1/runs", headers={"Authorization": f"Bearer {MARK}"})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("serving", ["json", "text"], indirect=True)
async def test_nothing_that_was_said_is_in_what_a_server_writes(serving: Serving):
    """No messages, arguments, results, failures, metadata or keys; a run's failure is logged with its kind."""
    await talk(serving)
    rest = await serving.rest()
    assert "run.failed" in rest
    assert "invalid" in rest
    assert MARK not in serving.printed + rest
    assert serving.key not in rest


@pytest.mark.whole
@pytest.mark.parametrize("launched", ["serve", "core"])
async def test_a_launcher_of_ones_own_writes_nothing_that_was_said(
    launched: str, models: FakeModels, tmp_path: Path, template: Path
):
    """Who sets up logs of their own, down to DEBUG and with variables in traces, gets no words of people and models."""
    shell = Shell(tmp_path, module="tests.app.launching").migrated(template)
    model = {"OPENAI_BASE_URL": f"{models.url}/v1", "PARLEY_MODEL": "openai-compatible:qwen3"}
    async with start(shell, **SECRETS, **model, LAUNCHED=launched) as serving:
        await talk(serving)
        rest = await serving.rest()
    assert "run.failed" in rest
    assert "cannot be taken" not in rest, "the provider's own words"
    assert MARK not in serving.printed + rest


@pytest.mark.sampled(1)
async def test_programs_get_one_object_per_line(serving: Serving):
    """With `PARLEY_LOG=json` each line is an object with time, level and event, and names run, session and worker."""
    await talk(serving)
    lines = [json.loads(line) for line in (await serving.rest()).splitlines() if line]
    (failed,) = (line for line in lines if line["event"] == "run.failed")
    assert (failed["level"], failed["code"], failed["kind"]) == ("warning", "provider_error", "invalid")
    assert failed["timestamp"].endswith("Z")
    assert {name: failed[name][:4] for name in ("run", "session", "worker")} == {
        "run": "run_",
        "session": "ses_",
        "worker": "wrk_",
    }

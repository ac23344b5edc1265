"""Limits over HTTP: what is too much is refused with the time to come back, and nothing of it is kept."""

import httpx
import pytest

from agent_core import Core
from tests.app.conftest import Model

BUSY = {"text": "Hello"}


@pytest.fixture
async def crowded(core: Core, client: httpx.AsyncClient, model: Model) -> str:
    """A session in which one run works and one waits, which is all that this server takes on."""
    model.hold()
    core._backlog._limit = 1
    session = (await client.post("/v1/sessions", json={"agent": "assistant", "actor": "ada"})).json()["id"]
    for n in range(2):
        posted = await client.post(f"/v1/sessions/{session}/messages", json={**BUSY, "idempotency_key": f"k{n}"})
        assert posted.status_code == 202
    return session


def is_refusal(answer: httpx.Response) -> bool:
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    return (answer.status_code, problem["code"], problem["status"]) == (429, "rate_limited", 429)


async def test_a_message_too_many_answers_429(crowded: str, client: httpx.AsyncClient, visitor: httpx.AsyncClient):
    """An operator's message, a visitor's and a run get a problem with Retry-After, and store nothing."""
    before = (await client.get(f"/v1/sessions/{crowded}/messages")).json()
    assert is_refusal(await client.post(f"/v1/sessions/{crowded}/messages", json=BUSY))
    assert is_refusal(await visitor.post(f"/v1/sessions/{crowded}/messages", json=BUSY))
    assert is_refusal(await client.post("/v1/agents/assistant/runs", json={"input": "Hello", "mode": "background"}))
    assert is_refusal(await client.post("/v1/agents/assistant/runs", json={"input": "Hello", "session": crowded}))
    assert (await client.get(f"/v1/sessions/{crowded}/messages")).json() == before
    assert len((await client.get("/v1/sessions")).json()["items"]) == 1


async def test_what_is_in_already_is_answered_again(crowded: str, client: httpx.AsyncClient, model: Model):
    """A repeated idempotency key gets its first answer while others are refused, and a refused key is not used up."""
    path = f"/v1/sessions/{crowded}/messages"
    assert is_refusal(await client.post(path, json={**BUSY, "idempotency_key": "new"}))
    again = await client.post(path, json={**BUSY, "idempotency_key": "k1"})
    assert again.status_code == 202
    runs = (await client.get("/v1/runs")).json()["items"]
    assert again.json()["run_id"] in {run["id"] for run in runs}
    assert len(runs) == 2


async def test_an_agents_cap_is_a_field_of_its_limits(client: httpx.AsyncClient):
    """`limits.max_runs` is null until it is set, and is never below one."""
    made = (await client.post("/v1/agents", json={"name": "scout", "instructions": "Be brief."})).json()
    assert made["limits"]["max_runs"] is None
    changed = (await client.patch("/v1/agents/scout", json={"limits": {"max_runs": 4}})).json()
    assert changed["limits"] == {**made["limits"], "max_runs": 4}
    refused = await client.patch("/v1/agents/scout", json={"limits": {"max_runs": 0}})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "limits.max_runs")

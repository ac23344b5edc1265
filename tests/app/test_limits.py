"""Limits over HTTP: what is too much is refused with the time to come back, and nothing of it is kept."""

import httpx
import pytest
from fastapi import FastAPI, Request

from agent_core.core import Core
from agent_core.messages import Actor
from app.api.deps import address_of
from app.serving.metrics import Metrics
from channels.web.identity import TokenSigner
from tests.app.conftest import Model
from tests.cases import for_each

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


async def test_a_visitor_who_sends_too_much_gets_the_time_to_come_back(
    core: Core, client: httpx.AsyncClient, visitor: httpx.AsyncClient
):
    """Beyond a quota a visitor gets 429 with a sentence for people and Retry-After; operators go on in any name."""
    quota = {"messages_per_minute": 1, "sessions_per_day": 2}
    assert (await client.patch("/v1/agents/assistant", json={"limits": {"visitor": quota}})).status_code == 200
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}/messages"
    assert (await visitor.post(path, json=BUSY)).status_code == 202
    refused = await visitor.post(path, json=BUSY)
    assert is_refusal(refused)
    seconds = refused.headers["retry-after"]
    assert refused.json()["detail"].startswith("You have sent 1 message within a minute")
    assert 60 <= int(seconds) <= 120
    for _ in range(2):
        assert (await client.post(path, json=BUSY)).status_code == 202
        assert (await client.post("/v1/sessions", json={"agent": "assistant", "actor": "ada"})).status_code == 201
    assert (await visitor.post("/v1/sessions", json={})).status_code == 201
    assert is_refusal(await visitor.post("/v1/sessions", json={}))
    text = (await Metrics(core).text()).decode()
    assert 'parley_rate_limited_total{limit="visitor.messages_per_minute"} 1.0' in text
    assert 'parley_rate_limited_total{limit="visitor.sessions_per_day"} 1.0' in text


async def test_visitors_of_one_address_share_its_quota(
    app: FastAPI, core: Core, client: httpx.AsyncClient, tokens: TokenSigner
):
    """Two visitors of one address have its quota together, and a third one of another address has its own."""
    await client.patch("/v1/agents/assistant", json={"limits": {"address": {"messages_per_day": 1}}})
    agent = (await core.agents.get("assistant")).id
    found: list[int] = []
    for name, address in (("ada", "203.0.113.7"), ("ben", "203.0.113.7"), ("cyd", "203.0.113.8")):
        token = tokens.visitor(Actor(name, "visitor"), agent=agent).text
        transport = httpx.ASGITransport(app, client=(address, 1))
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": name}
        async with httpx.AsyncClient(transport=transport, base_url="http://parley.test", headers=headers) as caller:
            session = (await caller.post("/v1/sessions", json={})).json()["id"]
            found.append((await caller.post(f"/v1/sessions/{session}/messages", json=BUSY)).status_code)
    assert found == [202, 429, 202]


async def test_quotas_are_fields_of_an_agents_limits(client: httpx.AsyncClient):
    """What a change leaves out stays, null lifts a bound, and what is no bound is refused with its path."""
    made = (await client.post("/v1/agents", json={"name": "scout", "instructions": "Be brief."})).json()
    assert made["limits"]["visitor"]["messages_per_minute"] == 20
    assert set(made["limits"]["everyone"].values()) == {None}
    for change in ({"visitor": {"messages_per_day": 7}}, {"everyone": {"cost_per_day": "50"}}, {"max_runs": 3}):
        changed = (await client.patch("/v1/agents/scout", json={"limits": change})).json()["limits"]
    lifted = {"visitor": {"messages_per_minute": None}}
    changed = (await client.patch("/v1/agents/scout", json={"limits": lifted})).json()["limits"]
    assert (changed["visitor"]["messages_per_day"], changed["visitor"]["messages_per_minute"]) == (7, None)
    assert (changed["everyone"]["cost_per_day"], changed["max_runs"]) == ("50", 3)
    for name, value in (
        ("messages_per_day", 0),
        ("cost_per_day", "much"),
        ("cost_per_day", "0"),
        ("stored_bytes", "1"),
    ):
        refused = await client.patch("/v1/agents/scout", json={"limits": {"user": {name: value}}})
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, f"limits.user.{name}")


@for_each(
    "host, address",
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("fe80::1%eth0", None),
        ("127.0.0.1", None),
        ("192.168.1.9", None),
        ("fd00::9", None),
        ("testclient", None),
    ],
)
def test_an_address_is_that_of_the_connection(host: str, address: str | None):
    """Of IPv6 one customer's network counts; a private address is a proxy's; a forwarded header counts for nothing."""
    headers = [(b"x-forwarded-for", b"198.51.100.1")]
    assert address_of(Request({"type": "http", "client": (host, 1), "headers": headers})) == address

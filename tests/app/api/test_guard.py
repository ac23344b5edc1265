"""The gate before all routes."""

import time

import httpx
import pytest

from agent_core import Actor
from app.storage.keys import Keys
from channels.web.identity import TokenSigner
from tests.app.conftest import SECRET

PROBLEM = "application/problem+json"


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}])
@pytest.mark.parametrize("path", ["/v1/agents", "/v1/runs/x/events", "/v1/nothing"])
async def test_every_route_under_v1_asks_for_a_key(anyone: httpx.AsyncClient, path, header):
    """Without a key or token that counts everything under /v1 answers 401 and says how to ask."""
    answer = await anyone.get(path, headers=header)
    assert (answer.status_code, answer.headers["content-type"]) == (401, PROBLEM)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
async def test_health_and_description_are_open(anyone: httpx.AsyncClient, path):
    """No key is asked for by health, readiness and the API's description."""
    assert (await anyone.get(path)).status_code == 200


@pytest.mark.parametrize(
    "content",
    [b"{", b'{"agent": NaN}', b'{"agent": "\\ud800"}', b"\xff", b'{"a": 1e999}', b'{"a": ' + b"9" * 5_000 + b"}"],
    ids=["cut", "nan", "surrogate", "bytes", "huge", "long"],
)
async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient, content):
    """Malformed JSON answers 400 invalid_json, whatever is wrong with it."""
    answer = await client.post("/v1/sessions", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM)
    assert answer.json()["code"] == "invalid_json"


async def test_another_media_type_is_not_json(client: httpx.AsyncClient):
    """A form answers 400 invalid_json with the header to send."""
    answer = await client.post("/v1/sessions", data={"agent": "assistant"})
    assert answer.status_code == 400
    assert "application/json" in answer.json()["detail"]


async def test_a_body_has_a_bound(client: httpx.AsyncClient):
    """More than two megabytes answer 413, with and without a `Content-Length`."""

    async def endless():
        for _ in range(30):
            yield b" " * 100_000

    sized = await client.post("/v1/sessions", content=b" " * 2_000_001)
    chunked = await client.post("/v1/sessions", content=endless())
    assert [sized.status_code, chunked.status_code] == [413, 413]
    assert sized.json()["code"] == "too_large"


NUL = "a\0b"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/sessions/x/messages", {"text": NUL}, "text"),
        ("/v1/sessions/x/messages", {"text": "a", "idempotency_key": NUL}, "idempotency_key"),
        ("/v1/agents/assistant/runs", {"input": NUL}, "input"),
        (
            "/v1/agents/assistant/runs",
            {"messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": NUL}]}]},
            "messages[0].parts[1].text",
        ),
        ("/v1/sessions", {"agent": "assistant", "actor": {"id": "u1", "name": NUL}}, "actor.name"),
        ("/v1/sessions", {"agent": "assistant", "actor": NUL}, "actor"),
        ("/v1/sessions", {"agent": "assistant", "metadata": {"a": [1, {"b": NUL}]}}, "metadata.a[1].b"),
        ("/v1/sessions", {"agent": "assistant", "metadata": {"a": {NUL: 1}}}, "metadata.a.a\\u0000b"),
        ("/v1/agents", {"name": "a", "instructions": NUL}, "instructions"),
        ("/v1/web/visitor-tokens", {"agent": "assistant", "actor": NUL}, "actor"),
    ],
)
async def test_the_nul_character_is_refused(client: httpx.AsyncClient, path, body, field):
    """U+0000, which not every database can keep, answers 422 with its place, wherever a body has it."""
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [error["path"] for error in answer.json()["errors"]] == [field]
    assert "U+0000" in answer.json()["detail"]


async def test_the_nul_character_names_nothing(client: httpx.AsyncClient):
    """An id with U+0000 is unknown, a filter with it is invalid; its escape as plain text is text like any other."""
    assert (await client.get("/v1/sessions/ses%00")).status_code == 404
    assert (await client.get("/v1/sessions?actor=a%00b")).status_code == 422
    answer = await client.post("/v1/sessions", json={"agent": "assistant", "metadata": {"a": ["\\u0000"]}})
    assert answer.json()["metadata"] == {"a": ["\\u0000"]}


async def test_sites_of_the_list_may_call(anyone: httpx.AsyncClient):
    """A preflight of an allowed origin may send token and cursor; another origin gets nothing."""
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization,last-event-id"}
    good = await anyone.options("/v1/sessions", headers={"Origin": "https://site.example", **asked})
    bad = await anyone.options("/v1/sessions", headers={"Origin": "https://evil.example", **asked})
    assert good.status_code == 200
    assert good.headers["Access-Control-Allow-Origin"] == "https://site.example"
    assert "Access-Control-Allow-Origin" not in bad.headers


async def test_failed_logins_are_slowed(anyone: httpx.AsyncClient, client: httpx.AsyncClient, visitor, capsys):
    """After thirty wrong keys in a minute an address gets 429 for more; a valid key works, an old token gets 401."""
    wrong = {"Authorization": "Bearer a-guess-that-no-log-has"}
    answers = [await anyone.get("/v1/agents", headers=wrong) for _ in range(32)]
    assert [answer.status_code for answer in answers] == [401] * 30 + [429] * 2
    slowed = answers[-1]
    assert (slowed.json()["code"], 1 <= int(slowed.headers["Retry-After"]) <= 60) == ("rate_limited", True)
    assert (await anyone.get("/v1/agents")).status_code == 401, "without a key nothing failed"
    assert (await client.get("/v1/agents")).status_code == 200
    assert (await visitor.get("/v1/sessions")).status_code == 200
    old = {"Authorization": f"Bearer {expired()}"}
    assert (await anyone.get("/v1/sessions", headers=old)).status_code == 401
    assert "a-guess" not in "".join(capsys.readouterr())


def expired() -> str:
    """Return a visitor's token of yesterday, signed by the application."""
    early = TokenSigner(Keys(SECRET).derive, now=lambda: time.time() - 86_400)
    return early.visitor(Actor(id="ada", kind="visitor"), agent="agent_1").text

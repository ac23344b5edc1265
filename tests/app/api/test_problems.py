"""Every error is a problem that says what to do."""

import httpx
import pytest

from agent_core.core import Core
from agent_core.errors import Unavailable
from tests.cases import for_each


@for_each(
    "method, path, status, code",
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/agents/", 404, "not_found"),
        ("GET", "/v1/sessions/ses_none", 404, "not_found"),
        ("GET", "/v1/agents/unknown", 404, "not_found"),
        ("GET", "/v1/runs/run_none", 404, "not_found"),
        ("POST", "/v1/runs/run_none/cancel", 404, "not_found"),
        ("GET", "/v1/sessions/ses_none/events", 404, "not_found"),
        ("PUT", "/v1/agents", 405, "method_not_allowed"),
        ("GET", "/v1/sessions?limit=0", 422, "invalid_request"),
        ("GET", "/v1/sessions?limit=101", 422, "invalid_request"),
        ("GET", "/v1/sessions?status=odd", 422, "invalid_request"),
        ("GET", "/v1/agents?cursor=odd", 400, "unknown_cursor"),
    ],
)
async def test_wrong_requests_answer_problems(client: httpx.AsyncClient, method, path, status, code):
    """Unknown places, methods, ids and values each have their status and code."""
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert (body["status"], body["code"], body["type"]) == (status, code, "about:blank")
    assert body["title"]
    assert body["detail"]


async def test_a_refused_method_names_all_that_work(client: httpx.AsyncClient):
    """The Allow header holds every method of the path, not of the first route only."""
    answer = await client.put("/v1/agents/assistant")
    assert answer.headers["Allow"] == "DELETE, GET, PATCH"
    named = await client.request("OPTIONS", "/v1/renders/preview")  # which is no render's id
    assert named.headers["Allow"] == "POST"


async def test_a_crash_shows_no_trace(client: httpx.AsyncClient, core: Core, monkeypatch):
    """An error of our own answers 500 without a word of where it happened."""

    async def broken(*_, **__):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(core.listing, "newest", broken)
    answer = await client.get("/v1/sessions")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


async def test_a_database_that_is_away_is_said(client: httpx.AsyncClient, core: Core, monkeypatch):
    """Without a database a request answers 503, and says when to come again."""

    async def away(*_, **__):
        raise Unavailable("The database cannot be reached; try again in a moment.")

    monkeypatch.setattr(core.listing, "newest", away)
    answer = await client.get("/v1/sessions")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert "try again" in answer.json()["detail"]


@for_each(
    "body, path",
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": " \n\t"}, "text"),
        ({"text": 5}, "text"),
        ({"text": "a", "files": ["f"]}, "files[0]"),
        ({"text": "a", "files": "f"}, "files"),
        ({"text": "a", "overlap": "push"}, "overlap"),
        ({"text": "a", "controls": {"budget": 1}}, "controls.budget"),
        ({"text": "a", "controls": {"max_steps": 0}}, "controls.max_steps"),
    ],
)
async def test_an_invalid_body_names_the_field(client: httpx.AsyncClient, taken, body, path):
    """Validation answers 422 with the path of each field that is wrong."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()
    answer = await client.post(f"/v1/sessions/{session['id']}/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [error["path"] for error in answer.json()["errors"]] == [path]
    assert not taken


async def test_long_text_is_too_large(client: httpx.AsyncClient):
    """100,000 characters are taken, one more answers 413, as a message and as a run's input."""
    session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()
    path = f"/v1/sessions/{session['id']}/messages"
    assert (await client.post(path, json={"text": "ä" * 100_000})).status_code == 202
    assert (await client.post(path, json={"text": "ä" * 100_001})).status_code == 413
    answer = await client.post("/v1/agents/assistant/runs", json={"input": "a" * 100_001})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_message_in_parts_is_one_text(client: httpx.AsyncClient, taken):
    """The parts of one message hold 100,000 characters together; each message has its own bound."""

    def talk(*lengths: int) -> dict:
        parts = [{"type": "text", "text": "a" * length} for length in lengths]
        return {"messages": [{"role": "assistant", "text": "b" * 100_000}, {"role": "user", "parts": parts}]}

    assert (await client.post("/v1/agents/assistant/runs", json=talk(50_000, 50_000))).status_code == 200
    taken.clear()
    for lengths in ((50_000, 50_001), (100_001,)):
        answer = await client.post("/v1/agents/assistant/runs", json=talk(*lengths))
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert answer.json()["errors"][0]["path"].startswith("messages[1].parts")
    assert not taken


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"actor": 5}, ["actor"]),
        ({"actor": ""}, ["actor"]),
        ({"actor": {}}, ["actor.id"]),
        ({"actor": {"id": "u1", "Kind": "user"}}, ["actor.Kind"]),
        ({"Agent": "assistant"}, ["Agent"]),
    ],
)
async def test_a_path_holds_only_what_was_sent(client: httpx.AsyncClient, body, paths):
    """The path of an error is that of the field: no word of a library, no branch of a union, each error once."""
    answer = await client.post("/v1/sessions", json=body)
    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == paths


async def test_a_place_of_slack_is_one_error(client: httpx.AsyncClient):
    """A value that may be of two kinds is refused once, with both kinds named."""
    body = {"name": "a", "instructions": "b", "slack": {"default": 5}}
    answer = await client.post("/v1/agents", json=body)
    assert answer.json()["errors"] == [{"path": "slack.default", "message": "Input should be a boolean or a list"}]

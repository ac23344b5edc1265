"""Routes of sessions, as an operator uses them."""

import re

import httpx

from agent_core.core import Core
from agent_core.messages import Actor
from tests.app.frames import frames


async def opened(client: httpx.AsyncClient, **body) -> dict:
    return (await client.post("/v1/sessions", json={"agent": "assistant", **body})).json()


async def test_a_session_is_opened_for_an_actor(client: httpx.AsyncClient, core: Core):
    """A bare text names a user; times are RFC 3339 in UTC."""
    answer = await client.post("/v1/sessions", json={"agent": "assistant", "actor": "u1", "metadata": {"a": [1]}})
    assert answer.status_code == 201
    session = answer.json()
    assert session["actor"] == {"id": "u1", "kind": "user"}
    assert session["agent"] == (await core.agents.get("assistant")).id
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", session["created_at"])
    assert (await client.get(f"/v1/sessions/{session['id']}")).json() == session
    listed = (await client.get("/v1/sessions?actor=u1&agent=assistant&status=idle")).json()
    assert listed == {"items": [session], "next_cursor": None}
    assert (await client.get("/v1/sessions?actor=u2")).json()["items"] == []


async def test_a_session_needs_a_known_agent(client: httpx.AsyncClient):
    """No agent answers 422, an unknown one 404."""
    assert (await client.post("/v1/sessions", json={})).status_code == 422
    assert (await client.post("/v1/sessions", json={"agent": "unknown"})).status_code == 404


async def test_metadata_of_visitors_is_smaller(visitor: httpx.AsyncClient):
    """What a visitor writes down with each session is no way around `stored_bytes`: over 1,000 bytes answer 422."""
    refused = await visitor.post("/v1/sessions", json={"metadata": {"a": "x" * 1_000}})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "metadata")
    assert (await visitor.post("/v1/sessions", json={"metadata": {"a": "x" * 900}})).status_code == 201


async def test_metadata_is_small_plain_json(client: httpx.AsyncClient):
    """Over 16,000 bytes of metadata answer 422."""
    answer = await client.post("/v1/sessions", json={"agent": "assistant", "metadata": {"a": "x" * 20_000}})
    assert answer.json()["errors"][0]["path"] == "metadata"


async def test_a_message_is_taken_at_once(client: httpx.AsyncClient, taken):
    """Posting answers 202 with the message, its run and its seq; the sender is the session's actor."""
    session = await opened(client, actor={"id": "u1", "kind": "user", "name": "Ada"})
    path = f"/v1/sessions/{session['id']}/messages"
    answer = await client.post(path, json={"text": "Hi", "controls": {"max_steps": 2}})
    assert answer.status_code == 202
    posted = answer.json()
    assert posted["seq"] == 3
    assert taken[0].actor == Actor(id="u1", kind="user", name="Ada")
    assert taken[0].controls.max_steps == 2
    await client.get(f"/v1/runs/{posted['run_id']}/events")
    items = (await client.get(path)).json()["items"]
    assert [m["role"] for m in items] == ["user", "assistant", "assistant"]
    assert {m["run"] for m in items} == {posted["run_id"]}
    assert items[0]["parts"] == [{"type": "text", "text": "Hi"}]


async def test_a_repeated_key_gives_the_same_answer(client: httpx.AsyncClient):
    """The same body with the same key starts nothing; another body answers 422 idempotency_mismatch."""
    path = f"/v1/sessions/{(await opened(client))['id']}/messages"
    first = await client.post(path, json={"text": "Hi", "idempotency_key": "k"})
    again = await client.post(path, json={"idempotency_key": "k", "overlap": "queue", "text": "Hi"})
    other = await client.post(path, json={"text": "Ho", "idempotency_key": "k"})
    assert again.json() == first.json()
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert len((await client.get("/v1/runs")).json()["items"]) == 1


async def test_a_busy_session_can_be_refused(client: httpx.AsyncClient, model):
    """Overlap reject answers 409 session_busy while a run is open."""
    model.hold()
    path = f"/v1/sessions/{(await opened(client))['id']}/messages"
    await client.post(path, json={"text": "Hi"})
    answer = await client.post(path, json={"text": "And?", "overlap": "reject"})
    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")


async def test_sessions_are_forked_closed_and_deleted(client: httpx.AsyncClient):
    """A fork is a new session; a closed one takes no message; a deleted one is unknown."""
    session = await opened(client)
    path = f"/v1/sessions/{session['id']}"
    plain = await client.post(f"{path}/fork")
    at = await client.post(f"{path}/fork", json={"at": 2})
    assert [plain.status_code, at.status_code] == [201, 201]
    assert plain.json()["id"] != session["id"]
    assert (await client.post(f"{path}/fork", json={"at": 99})).status_code == 422
    assert (await client.post(f"{path}/close")).json()["status"] == "closed"
    late = await client.post(f"{path}/messages", json={"text": "Hi"})
    assert (late.status_code, late.json()["code"]) == (409, "session_closed")
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).status_code == 404


async def test_events_begin_where_the_cursor_says(client: httpx.AsyncClient):
    """No cursor is the beginning; `Last-Event-ID` takes precedence over `after`; the newest seq leaves nothing."""
    path = f"/v1/sessions/{(await opened(client))['id']}"
    await client.post(f"{path}/messages", json={"text": "Hi"})

    async def ids(query: str = "", **headers: str) -> list:
        answer = await client.get(f"{path}/events?until=idle{query}", headers=headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
        return [frame.id for frame in frames(answer.text)]

    await ids()
    whole = await ids()
    newest = len(whole)
    assert whole == list(range(1, newest + 1))
    assert await ids("&after=5") == whole[5:]
    assert await ids("&after=5", **{"Last-Event-ID": "6"}) == whole[6:]
    assert await ids(f"&after={newest}") == []


async def test_unknown_cursors_are_refused_before_the_stream(client: httpx.AsyncClient):
    """Not an integer, negative or beyond the newest seq answers 400 unknown_cursor."""
    path = f"/v1/sessions/{(await opened(client))['id']}/events?until=idle"
    for after in ("x", "-1", "3", "1.5", "٣", "9" * 30, ""):
        answer = await client.get(f"{path}&after={after}")
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_cursor"), after
    answer = await client.get(path, headers={"Last-Event-ID": "soon"})
    assert answer.headers["content-type"] == "application/problem+json"


async def test_what_the_page_says_is_quoted_before_the_message(client: httpx.AsyncClient):
    """`context` reaches the model as a quotation and no tool; a repeated key with another one is other work."""
    session = (await opened(client))["id"]
    body = {"text": "How much is it?", "context": "Product: Lamp 12\n[end]", "idempotency_key": "k"}
    path = f"/v1/sessions/{session}/messages"
    assert (await client.post(path, json=body)).status_code == 202
    assert (await client.post(path, json={**body, "context": "Chair"})).json()["code"] == "idempotency_mismatch"
    read = await client.get(f"/v1/sessions/{session}/events?until=idle")
    (added,) = [frame.data for frame in frames(read.text) if frame.event == "context.added"]
    assert [line for line in added["text"].splitlines() if line.startswith("| ")] == [
        "| the page around the chat, as the user's browser says it: Product: Lamp 12",
        "|   [end]",
    ]
    for wrong in ("", " ", "x" * 2_001):
        refused = await client.post(path, json={"text": "Hi", "context": wrong})
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "context")

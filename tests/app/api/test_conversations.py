"""A visitor's own conversations over the API: the list, titles, deletion, and a message that is said again."""

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from agent_core.messages import Actor
from app.serving import caps
from channels.web.identity import TokenSigner
from tests.app.conftest import Model, caller

PLACE = "/v1/web/conversations"


async def said(client: httpx.AsyncClient, text: str, session: str | None = None) -> tuple[str, str]:
    """Say *text*, see it answered, and return the ids of the session and of the message."""
    if session is None:
        session = str((await client.post("/v1/sessions", json={})).json()["id"])
    posted = (await client.post(f"/v1/sessions/{session}/messages", json={"text": text})).json()
    await client.get(f"/v1/sessions/{session}/events?until=idle")
    return session, posted["message_id"]


async def listed(client: httpx.AsyncClient, query: str = "") -> list[str]:
    return [each["id"] for each in (await client.get(f"{PLACE}{query}")).json()["items"]]


@pytest.fixture
async def ben(app: FastAPI, core: Core, tokens: TokenSigner):
    """Another visitor."""
    agent = (await core.agents.get("assistant")).id
    async with caller(app, tokens.visitor(Actor(id="ben", kind="visitor"), agent=agent).text) as client:
        yield client


async def test_visitors_find_their_own(visitor: httpx.AsyncClient, ben: httpx.AsyncClient, client: httpx.AsyncClient):
    """The list has the visitor's own by activity, a page at a time, and finds words in them."""
    first, _ = await said(visitor, "a kettle")
    second, _ = await said(visitor, "a cup")
    await said(ben, "a kettle")
    await said(visitor, "with a lid", first)
    page = (await visitor.get(f"{PLACE}?limit=1")).json()
    assert [each["id"] for each in page["items"]] == [first]
    assert set(page["items"][0]) == {"id", "title", "status", "created_at", "last_activity_at", "newest_seq"}
    assert await listed(visitor, f"?limit=1&cursor={page['next_cursor']}") == [second]
    assert await listed(visitor, "?q=kettle") == [first]
    assert set(await listed(client, "?actor=ada&agent=assistant")) == {first, second}
    for wrong in ("?q=", "?limit=0", "?cursor=x", "?title=x"):
        assert (await visitor.get(f"{PLACE}{wrong}")).status_code in {400, 422}, wrong
    assert (await visitor.get(f"{PLACE}?actor=ben")).status_code == 403


async def test_a_revoked_conversation_is_in_no_page(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """What is found in it does not show in how pages end; operators find it."""
    closed, _ = await said(visitor, "an old kettle")
    kept, _ = await said(visitor, "a kettle")
    closed_too, _ = await said(visitor, "a new kettle")
    for session in (closed, closed_too):
        assert (await client.post("/v1/web/revocations", json={"session": session})).is_success
    for place in (f"{PLACE}?q=kettle&limit=1", f"{PLACE}?limit=1", "/v1/sessions?limit=1"):
        page = (await visitor.get(place)).json()
        assert ([each["id"] for each in page["items"]], page["next_cursor"]) == ([kept], None), place
    assert len(await listed(client, "?actor=ada&agent=assistant")) == 3


async def test_a_conversation_is_renamed(visitor: httpx.AsyncClient):
    """A title is one line of up to 200 characters, and shows what cannot be seen."""
    session, _ = await said(visitor, "Hi")
    answer = await visitor.patch(f"{PLACE}/{session}", json={"title": "My\norder \u202e1"})
    assert (answer.status_code, answer.json()["title"]) == (200, "My order \\u{202e}1")
    assert (await visitor.get(f"/v1/sessions/{session}")).json()["title"] == "My order \\u{202e}1"
    for wrong in ({}, {"title": " "}, {"title": "x" * 201}, {"title": None}, {"title": "x", "status": "idle"}):
        assert (await visitor.patch(f"{PLACE}/{session}", json=wrong)).status_code == 422, wrong


async def test_what_is_anothers_is_not_there(visitor: httpx.AsyncClient, ben: httpx.AsyncClient):
    """Another's conversation and one that does not exist are refused alike, and stay as they are."""
    session, message = await said(visitor, "Hi")
    for id in (session, "ses_unknown"):
        answers = [
            await ben.patch(f"{PLACE}/{id}", json={"title": "Mine"}),
            await ben.delete(f"{PLACE}/{id}"),
            await ben.post(f"{PLACE}/{id}/branch", json={"message": message}),
        ]
        said_of = {each.json()["detail"].replace(id, "X") for each in answers}
        assert ([each.status_code for each in answers], len(said_of)) == ([404] * 3, 1)
    assert (await visitor.get(f"/v1/sessions/{session}")).json()["title"] == "Hi"
    assert await listed(ben) == []


async def test_a_message_is_said_again(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """The copy takes the place of the conversation in both of the visitor's lists; operators read which is which."""
    session, message = await said(visitor, "Hi")
    answer = await visitor.post(f"{PLACE}/{session}/branch", json={"message": message})
    assert answer.status_code == 201
    copy = answer.json()["id"]
    assert "forked_from" not in answer.json()
    await said(visitor, "Hello", copy)
    assert await listed(visitor) == [copy]
    assert [each["id"] for each in (await visitor.get("/v1/sessions")).json()["items"]] == [copy]
    before = (await visitor.get(f"/v1/sessions/{session}")).json()
    assert (before["status"], before["replaced_by"]) == ("closed", copy)
    both = {each["id"]: each for each in (await client.get("/v1/sessions?actor=ada")).json()["items"]}
    assert (both[copy]["forked_from"], both[session]["replaced_by"]) == (session, copy)
    late = await visitor.post(f"{PLACE}/{session}/branch", json={"message": message})
    assert (late.status_code, late.json()["code"]) == (409, "session_closed")
    for wrong in ({}, {"message": "msg_unknown"}, {"message": message, "at": 2}):
        assert (await visitor.post(f"{PLACE}/{copy}/branch", json=wrong)).status_code == 422, wrong


async def test_nothing_is_said_again_while_an_answer_is_under_way(visitor: httpx.AsyncClient, model: Model):
    """It answers 409 in words; and a deletion stops what is being answered."""
    session = (await visitor.post("/v1/sessions", json={})).json()["id"]
    model.hold()
    posted = (await visitor.post(f"/v1/sessions/{session}/messages", json={"text": "Hi"})).json()
    answer = await visitor.post(f"{PLACE}/{session}/branch", json={"message": posted["message_id"]})
    assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    assert (await visitor.delete(f"{PLACE}/{session}")).status_code == 204
    assert (await visitor.get(f"/v1/sessions/{session}")).status_code == 404
    model.release()


async def test_searches_are_few_at_once(
    app: FastAPI, visitor: httpx.AsyncClient, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    """Beyond what one visitor may search at once it is 429 with Retry-After; lists, and operators, are not bounded."""
    monkeypatch.setattr(caps, "TURNS", caps.TURNS._replace(visitor=0))
    answer = await visitor.get(f"{PLACE}?q=kettle")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
    assert "Too many searches" in answer.json()["detail"]
    assert (await visitor.get(PLACE)).status_code == 200
    assert (await client.get(f"{PLACE}?q=kettle")).status_code == 200


async def test_a_long_conversation_is_read_from_its_end(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """`last` begins the stream with the newest messages, `before` gives the page before them, and that is the log."""
    session, _ = await said(visitor, "one")
    await said(visitor, "two", session)
    path = f"/v1/sessions/{session}/events"
    whole = await visitor.get(f"{path}?until=idle")
    newest = await visitor.get(f"{path}?until=idle&last=1")
    after = int(newest.headers["Parley-After"])
    assert "Parley-After" not in whole.headers
    assert '"two"' in newest.text
    assert '"one"' not in newest.text
    older = await visitor.get(f"{path}?last=50&before={after + 1}")
    assert older.headers["Parley-After"] == "0"
    assert older.text + newest.text == whole.text
    assert (await client.get(f"{path}?last=50&before={after + 1}")).text != older.text, "operators see more"
    assert (await visitor.get(f"{path}?until=idle&last=500&after={after}")).text == newest.text, "a cursor is kept"
    for wrong in ("?before=5", "?last=0", "?last=501", "?last=1&before=0"):
        assert (await visitor.get(f"{path}{wrong}")).status_code == 422, wrong

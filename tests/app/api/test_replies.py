"""Routes for an operator's page: replies as a person, and the list and search of conversations."""

import httpx

from agent_core.core import Core
from tests.app.api.test_sessions import opened
from tests.app.frames import frames
from tests.cases import for_each

TEXT = [{"type": "text", "text": "I look into it."}]


async def test_an_operator_replies_as_a_person(client: httpx.AsyncClient):
    """A reply answers 201 with the message, is in the list and the stream, and the same key says it once."""
    path = f"/v1/sessions/{(await opened(client, actor='u1'))['id']}"
    body = {"text": "I look into it.", "name": "Meg", "idempotency_key": "k"}
    answer = await client.post(f"{path}/replies", json=body)
    assert answer.status_code == 201
    message = answer.json()
    assert (message["role"], message["run"], message["parts"]) == ("assistant", None, TEXT)
    assert message["actor"] == {"id": "operator", "kind": "service", "name": "Meg"}
    assert (await client.post(f"{path}/replies", json=body)).json() == message
    assert (await client.get(f"{path}/messages")).json()["items"] == [message]
    (frame,) = [
        x for x in frames((await client.get(f"{path}/events?until=idle")).text) if x.event == "message.completed"
    ]
    assert frame.data["actor"] == message["actor"]
    assert (await client.get("/v1/runs")).json()["items"] == []
    other = await client.post(f"{path}/replies", json={**body, "text": "Else"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    await client.post(f"{path}/close")
    closed = await client.post(f"{path}/replies", json={"text": "Hi"})
    assert (closed.status_code, closed.json()["code"]) == (409, "session_closed")


@for_each(
    "body, field",
    [({"text": ""}, "text"), ({"text": "a", "name": " "}, "name"), ({"text": "a", "name": "a\u202eb"}, "name")],
)
async def test_a_bad_reply_names_its_field(client: httpx.AsyncClient, body: dict, field: str):
    """Empty text, a blank name and one that cannot be seen answer 422."""
    path = f"/v1/sessions/{(await opened(client))['id']}/replies"
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, field)


async def test_a_visitor_reads_the_name_and_no_key(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """In the stream and the list a visitor sees who replied by the name that was given, and not which key it was."""
    key = (await client.post("/v1/keys", json={"name": "meg@shop", "scopes": ["read", "run"]})).json()
    path = f"/v1/sessions/{(await visitor.post('/v1/sessions', json={})).json()['id']}"
    mine = {"Authorization": f"Bearer {key['secret']}"}
    for name in ({"name": "Meg"}, {}):
        answer = await client.post(f"{path}/replies", json={"text": "I look into it.", **name}, headers=mine)
        assert answer.json()["actor"] == {"id": key["actor"], "kind": "service", **name}
    stream = (await visitor.get(f"{path}/events?until=idle")).text
    listed = (await visitor.get(f"{path}/messages")).text
    for seen in (stream, listed):
        assert key["actor"] not in seen
        assert "meg@shop" not in seen
    shown = [x.data["actor"] for x in frames(stream) if x.event == "message.completed"]
    operator = {"id": "operator", "kind": "service"}
    assert shown == [{**operator, "name": "Meg"}, operator]
    assert (await visitor.post(f"{path}/replies", json={"text": "Hi"})).status_code == 403


async def test_sessions_are_searched_by_operators(client: httpx.AsyncClient, visitor: httpx.AsyncClient, core: Core):
    """`q` finds words, `order=activity` lists what changed last first; a visitor may order, and not search."""
    first, second = await opened(client, actor="u1"), await opened(client, actor="u2")
    await client.post(f"/v1/sessions/{first['id']}/replies", json={"text": "The kettle leaks."})

    async def ids(query: str, of: httpx.AsyncClient = client) -> list[str]:
        return [each["id"] for each in (await of.get(f"/v1/sessions?{query}")).json()["items"]]

    assert (await ids(""))[:2] == [second["id"], first["id"]]
    assert (await ids("order=activity"))[:2] == [first["id"], second["id"]]
    assert await ids("q=KETTLE") == [first["id"]]
    assert await ids("q=kettle&actor=u2") == []
    assert (await client.get("/v1/sessions?q=%20")).status_code == 422
    assert (await client.get("/v1/sessions?q=a&cursor=7")).json()["code"] == "unknown_cursor"
    assert await ids("order=activity", visitor) == []
    assert (await visitor.get("/v1/sessions?q=kettle")).status_code == 403

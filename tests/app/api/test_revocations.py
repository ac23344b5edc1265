"""Revocations over HTTP: of a token, an actor and a session; open streams end."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from agent_core.messages import Actor
from app.serving.credentials import Credentials
from app.serving.readers import Readers
from channels.web.identity import TokenSigner
from tests.app.conftest import Model, caller
from tests.polling import PATIENCE


async def minted(operator: httpx.AsyncClient, actor: str = "ada") -> tuple[str, str]:
    """Return a visitor's token and its id."""
    answer = await operator.post("/v1/web/visitor-tokens", json={"actor": actor, "agent": "assistant"})
    assert answer.status_code == 201, answer.text
    return answer.json()["token"], answer.json()["id"]


async def revoked(operator: httpx.AsyncClient, **what: str) -> None:
    answer = await operator.post("/v1/web/revocations", json=what)
    assert answer.status_code == 201, answer.text


async def test_a_revoked_token_is_refused(app: FastAPI, client: httpx.AsyncClient):
    """A token is refused once it is revoked by its id; another one of the same person works."""
    (first, id), (second, _) = await minted(client), await minted(client)
    await revoked(client, token=id)
    for token, status in ((first, 401), (second, 200)):
        async with caller(app, token) as visitor:
            assert (await visitor.get("/v1/sessions")).status_code == status
    (line,) = (await client.get("/v1/web/revocations")).json()["items"]
    assert (line["kind"], line["subject"]) == ("token", id)


async def test_a_token_revoked_while_its_request_arrives_does_nothing(app: FastAPI, client: httpx.AsyncClient):
    """Who asks is checked again once a body is there: it may have taken minutes."""
    token, id = await minted(client)

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await revoked(client, token=id)
        yield b"}"

    async with caller(app, token) as visitor:
        headers = {"Content-Type": "application/json"}
        assert (await visitor.post("/v1/sessions", content=body(), headers=headers)).status_code == 401
    assert (await client.get("/v1/sessions")).json()["items"] == []


async def test_a_stream_that_begins_after_the_revocation_ends(core: Core, tokens: TokenSigner, readers: Readers):
    """A reader who is refused by the time of the first event does not stay."""
    credentials = Credentials(core.access, tokens, None, readers=readers)
    visitor = credentials.identify(tokens.visitor(Actor("ada", "visitor"), agent="agent_1").text)
    assert visitor is not None
    await credentials.revoke("session", "ses_1")
    task = asyncio.ensure_future(asyncio.Event().wait())
    with readers.of(visitor, "ses_1").holding(task):
        await asyncio.wait((task,))
    assert task.cancelled()


async def test_a_revoked_actor_needs_a_new_token(app: FastAPI, client: httpx.AsyncClient):
    """All tokens of an actor from before a revocation are refused, those of others and later ones are not."""
    before = [(await minted(client))[0] for _ in range(2)]
    other, _ = await minted(client, "bob")
    await revoked(client, actor="ada")
    at = datetime.fromisoformat((await client.get("/v1/web/revocations")).json()["items"][0]["at"])
    while datetime.now(UTC) <= at:
        await asyncio.to_thread(lambda: None)
    after, _ = await minted(client)
    for token, status in [*((each, 401) for each in before), (other, 200), (after, 200)]:
        async with caller(app, token) as visitor:
            assert (await visitor.get("/v1/sessions")).status_code == status


async def test_a_revoked_session_is_closed_to_visitors(app: FastAPI, client: httpx.AsyncClient):
    """A visitor finds a revoked session no more, by any path; operators still read it."""
    token, _ = await minted(client)
    async with caller(app, token) as visitor:
        session = (await visitor.post("/v1/sessions", json={})).json()["id"]
        place = f"/v1/sessions/{session}"
        run = (await visitor.post(f"{place}/messages", json={"text": "Hi"})).json()["run_id"]
        await visitor.get(f"{place}/events?until=idle")
        await revoked(client, session=session)
        for path in (place, f"{place}/messages", f"{place}/events", f"/v1/runs/{run}/events"):
            assert (await visitor.get(path)).status_code == 404, path
        assert (await visitor.post(f"{place}/messages", json={"text": "Hi"})).status_code == 404
        assert (await visitor.get("/v1/sessions")).json()["items"] == []
    assert (await client.get(place)).status_code == 200
    assert (await client.post("/v1/web/revocations", json={"session": "ses_unknown"})).status_code == 404


@pytest.mark.parametrize("what", ["token", "actor", "session", "key"])
async def test_open_streams_end(app: FastAPI, client: httpx.AsyncClient, readers: Readers, model: Model, what: str):
    """The open stream of someone who is revoked ends at once; that of a bystander goes on."""
    model.hold()
    key = (await client.post("/v1/keys", json={"name": "Site", "scopes": ["run"]})).json()
    async with caller(app, key["secret"]) as site:
        token, id = await minted(site)
    other, _ = await minted(client, "bob")
    async with caller(app, token) as ada, caller(app, other) as bob:
        mine = (await ada.post("/v1/sessions", json={})).json()["id"]
        theirs = (await bob.post("/v1/sessions", json={})).json()["id"]
        stream = asyncio.create_task(ada.get(f"/v1/sessions/{mine}/events"))
        bystander = asyncio.create_task(bob.get(f"/v1/sessions/{theirs}/events"))
        while readers.count < 2:
            await asyncio.to_thread(lambda: None)
        if what == "key":
            await client.delete(f"/v1/keys/{key['id']}")
        else:
            await revoked(client, **{what: {"token": id, "actor": "ada", "session": mine}[what]})
        answer = await asyncio.wait_for(stream, PATIENCE)
        assert (answer.status_code, "session.opened" in answer.text) == (200, True)
        assert not bystander.done()
        readers.close()
        await bystander


async def test_revocations_survive_a_restart(core: Core, client: httpx.AsyncClient, tokens: TokenSigner):
    """What was revoked is read again at the next start, and by every other process."""
    token, id = await minted(client)
    assert tokens.read(token)
    await revoked(client, token=id)
    later = Credentials(core.access, tokens, None, readers=Readers())
    assert later.identify(token) is not None, "it has not read the database yet"
    async with later.following():
        assert later.identify(token) is None


@pytest.mark.parametrize("body", [{}, {"token": None}, {"token": "a", "actor": "b"}, {"actor": "", "token": "a"}])
async def test_one_thing_is_revoked_at_a_time(client: httpx.AsyncClient, body: dict[str, str]):
    """A revocation names exactly one token, actor or session."""
    assert (await client.post("/v1/web/revocations", json=body)).status_code == 422

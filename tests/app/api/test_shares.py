"""What one address may use up, of what all visitors share, and what is kept for operators."""

import asyncio
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI

from agent_core import Actor, RateLimited
from app.api.entrance import guard
from app.serving.connections import SPARE
from app.serving.drawings import MAX_OF_ADDRESS, Drawings
from channels.web.identity import Principal
from tests.app.conftest import KEY

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("address", "elsewhere", "is_anonymous"),
    [("203.0.113.7", "203.0.113.8", False), ("127.0.0.1", "203.0.113.8", True)],
    ids=["known", "unknown"],
)
async def test_bodies_of_one_address_leave_room_for_others(
    app: FastAPI, tokens, core, monkeypatch, *, address: str, elsewhere: str, is_anonymous: bool
):
    """Bodies that stall are bounded by address too, however many ids are there; anonymous ones always have one."""
    monkeypatch.setattr(guard, "EACH_ADDRESS", 60_000)
    agent = (await core.agents.get("assistant")).id
    began, end = asyncio.Event(), asyncio.Event()

    async def held():
        yield b'{"text": "' + b"x" * 50_000
        began.set()
        await end.wait()
        yield b'"}'

    def visitor(id: str, address: str) -> httpx.AsyncClient:
        given = tokens.anonymous(agent, "https://site.example")[0] if is_anonymous else None
        token = given or tokens.visitor(Actor(id=id, kind="visitor"), agent=agent)
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        headers = {"Authorization": f"Bearer {token.text}"}
        return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)

    url, large = "/v1/sessions/x/messages", {"text": "y" * 20_000}
    async with visitor("ada", address) as ada, visitor("ben", address) as ben, visitor("cem", elsewhere) as cem:
        waiting = asyncio.create_task(ada.post(url, content=held(), headers=JSON))
        await began.wait()
        assert (await ben.post(url, json=large)).status_code == 503
        assert (await cem.post(url, json=large)).status_code == 404
        end.set()
        assert (await waiting).status_code == 404
        assert (await ben.post(url, json=large)).status_code == 404


def test_one_address_leaves_drawings_to_others():
    """However many visitors are at one address, together they have one share; others have theirs."""
    drawings, ids = Drawings(), iter(range(100))

    def take(share: str | None) -> None:
        visitor = Principal("visitor", Actor(id=f"anonymous_{next(ids)}", kind="visitor"), agent="agent_1")
        held.enter_context(drawings.turn(visitor, share))

    with ExitStack() as held:
        for _ in range(MAX_OF_ADDRESS):
            take("192.0.2.1")
        with pytest.raises(RateLimited):
            take("192.0.2.1")
        take("192.0.2.2")
        take(None)
        held.enter_context(drawings.turn(Principal("operator", Actor("o", "service")), None))
    with drawings.turn(Principal("visitor", Actor("ada", "visitor")), "192.0.2.1"):
        assert (dict(drawings._at), drawings._open.total()) == ({"192.0.2.1": 1}, 1)


@pytest.mark.parametrize(
    ("path", "by", "status"),
    [
        ("/healthz", "no one", 200),
        ("/readyz", "no one", 200),
        ("/v1/agents", "operator", 200),
        ("/v1/agents", "no one", 503),
        ("/v1/sessions", "visitor", 503),
        ("/widget-demo", "no one", 503),
    ],
)
async def test_the_last_connections_are_for_operators_and_health(app: FastAPI, tokens, core, path, by, status):
    """On a spare connection others are refused as by a full server, counted, and the connection is closed."""
    refused: list[str] = []

    async def spare(scope, receive, send) -> None:
        await app({**scope, SPARE: lambda: refused.append(path)}, receive, send)

    agent = (await core.agents.get("assistant")).id
    sent = {"operator": KEY, "visitor": tokens.visitor(Actor("ada", "visitor"), agent=agent).text, "no one": ""}[by]
    headers = {"Authorization": f"Bearer {sent}"} if sent else {}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=spare), base_url="http://test") as http:
        answer = await http.get(path, headers=headers)
    assert answer.status_code == status, answer.text
    if status == 503:
        assert (answer.headers["connection"], answer.headers["retry-after"]) == ("close", "10")
    assert refused == ([path] if status == 503 else [])

"""What one address may use up."""

import asyncio
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI

from agent_core.errors import RateLimited
from agent_core.messages import Actor
from app.api import guard
from app.serving.caps import TURNS, Turns
from channels.web.identity import Principal

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
    monkeypatch.setattr(guard, "MAX_BODIES", guard.MAX_BODIES._replace(address=60_000))
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
    """However many visitors are at one address, together they have one cap; others have theirs."""
    drawings, ids = Turns("drawings", "Too many."), iter(range(100))

    def take(address: str) -> None:
        visitor = Principal("visitor", Actor(id=f"anonymous_{next(ids)}", kind="visitor"), agent="agent_1")
        held.enter_context(drawings.turn(visitor, {"client": (address, 1)}))

    with ExitStack() as held:
        for _ in range(TURNS.address):
            take("192.0.2.1")
        with pytest.raises(RateLimited):
            take("192.0.2.1")
        take("192.0.2.2")
        take("127.0.0.1")
        held.enter_context(drawings.turn(Principal("operator", Actor("o", "service")), {"client": ("192.0.2.1", 1)}))
    assert not drawings._held

"""How an agent presents itself to the visitors of a page."""

import httpx
from fastapi import FastAPI

from agent_core.core import Core
from agent_core.messages import FILE_KINDS, Actor
from channels.web.identity import TokenSigner
from channels.web.routes import widget
from tests.app.conftest import caller

WEB = {
    "title": "Shop help",
    "greeting": "Hello!",
    "avatar": "SH",
    "prompts": [{"label": "My order", "prompt": "Where is my order?", "icon": "?"}],
    "overlap": "steer",
}


async def test_a_visitor_reads_the_face_of_the_tokens_agent(
    app: FastAPI, client: httpx.AsyncClient, tokens: TokenSigner
):
    """What the agent configures is there; instructions, tools and origins are not."""
    anonymous = {"origins": ["https://shop.example"]}
    body = {"name": "shop", "instructions": "Sell.", "web": {**WEB, "anonymous": anonymous}}
    made = (await client.post("/v1/agents", json=body)).json()
    assert made["web"]["anonymous"] == anonymous
    async with caller(app, tokens.visitor(Actor(id="ada", kind="visitor"), agent=made["id"]).text) as visitor:
        answer = await visitor.get("/v1/web/agent")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "agent": {"id": made["id"], "name": "shop"},
        **WEB,
        "files": {"max_bytes": 10_000_000, "max_count": 5, "accept": list(FILE_KINDS)},
        "anonymous": True,
        "build": widget().build,
    }
    assert (await client.get("/v1/web/agent?agent=shop")).json() == answer.json()


async def test_what_is_not_configured_is_null(visitor: httpx.AsyncClient, core: Core):
    """An agent without settings has a name, no greeting and no prompts."""
    found = (await visitor.get("/v1/web/agent")).json()
    assert found == {
        "agent": {"id": (await core.agents.get("assistant")).id, "name": "assistant"},
        "title": None,
        "greeting": None,
        "avatar": None,
        "prompts": [],
        "files": {"max_bytes": 10_000_000, "max_count": 5, "accept": list(FILE_KINDS)},
        "overlap": "queue",
        "anonymous": False,
        "build": widget().build,
    }


async def test_other_agents_are_not_a_visitors(visitor: httpx.AsyncClient, client: httpx.AsyncClient):
    """A visitor who names another agent is refused as everywhere; an operator has to name one."""
    assert (await visitor.get("/v1/web/agent?agent=filed")).status_code == 403
    assert (await visitor.get("/v1/web/agent?agent=unknown")).status_code == 403
    assert (await client.get("/v1/web/agent")).json()["errors"][0]["path"] == "agent"
    assert (await client.get("/v1/web/agent?agent=unknown")).status_code == 404


async def test_a_fault_is_reported_at_its_field(client: httpx.AsyncClient):
    """What no page could show is refused when the agent is made."""
    for web, path in (
        ({"avatar": "http://shop.example/a.png"}, "web.avatar"),
        ({"prompts": [{"label": "a\nb", "prompt": "c"}]}, "web.prompts[0].label"),
        ({"greeting": "x" * 501}, "web.greeting"),
    ):
        answer = await client.post("/v1/agents", json={"name": "shop", "instructions": "Sell.", "web": web})
        assert (answer.status_code, [each["path"] for each in answer.json()["errors"]]) == (422, [path])

"""Fairness over HTTP: three visitors flood, one asks, and is served at once, or before one of them is served again."""

import asyncio
from functools import partial

import httpx
import pytest
from fastapi import FastAPI

from agent_core import Actor, Core
from agent_core.engine.local import LocalEngine
from agent_core.testing import ScriptedProvider, pause, say
from app.serving.readers import Readers
from channels.web.identity import TokenSigner
from tests.app.served import served
from tests.polling import PATIENCE

FLOODERS = ("eve", "mal", "tru")
SAFETY = PATIENCE


class Gated:
    """Answers each session once it is let; *order* is who was begun to be answered."""

    def __init__(self) -> None:
        self.provider = ScriptedProvider(self._answer)
        self.order: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    def _answer(self, request):
        self.order.append(request.session)
        self.gates[request.session] = asyncio.Event()
        return [pause(self.gates[request.session]), say("Fine.")]


@pytest.fixture
def model() -> Gated:
    return Gated()


@pytest.fixture
async def core(make_core, model: Gated, request: pytest.FixtureRequest) -> Core:
    """A core that answers as many sessions at once as the test says."""
    return await make_core(model.provider, engine=partial(LocalEngine, max_runs=request.param))


async def ask(http: httpx.AsyncClient, token: str) -> str:
    """Ask in a new session over HTTP, and return it."""
    headers = {"Authorization": f"Bearer {token}"}
    session = (await http.post("/v1/sessions", json={}, headers=headers)).json()["id"]
    body = {"text": "Hello"}
    assert (await http.post(f"/v1/sessions/{session}/messages", json=body, headers=headers)).status_code == 202
    return session


@pytest.mark.parametrize("core", [4], indirect=True, ids=["four-places"])
async def test_one_who_asks_starts_at_once_while_three_flood(
    app: FastAPI, core: Core, readers: Readers, tokens: TokenSigner, model: Gated
):
    """Beside fifteen runs of three visitors, none of which ends, a fourth's is under way with its message's commit."""
    agent = (await core.agents.get("assistant")).id
    tokens_of = {name: tokens.visitor(Actor(name, "visitor"), agent=agent).text for name in (*FLOODERS, "ada")}
    async with served(app, readers) as url, httpx.AsyncClient(base_url=url) as http, asyncio.timeout(SAFETY):
        for name in FLOODERS * 5:
            await ask(http, tokens_of[name])
        await model.provider.asked(len(FLOODERS))
        asked = await ask(http, tokens_of["ada"])
        assert [run.session for run in (await core.runs(status="running")).items].count(asked) == 1
        await model.provider.asked(len(FLOODERS) + 1)
    assert model.order[-1] == asked
    assert len((await core.runs(status="queued", limit=100)).items) == 4 * len(FLOODERS)


@pytest.mark.parametrize("core", [2], indirect=True, ids=["two-places"])
async def test_one_who_asks_is_served_before_a_flooder_is_served_again(
    app: FastAPI, core: Core, readers: Readers, tokens: TokenSigner, model: Gated
):
    """Beside fifteen runs of three visitors a fourth's is started after at most one more of each of them."""
    agent = (await core.agents.get("assistant")).id
    tokens_of = {name: tokens.visitor(Actor(name, "visitor"), agent=agent).text for name in (*FLOODERS, "ada")}
    owners: dict[str, str] = {}
    async with served(app, readers) as url, httpx.AsyncClient(base_url=url) as http, asyncio.timeout(SAFETY):
        for name in FLOODERS * 5:
            owners[await ask(http, tokens_of[name])] = name
        await model.provider.asked(2)
        asked = await ask(http, tokens_of["ada"])
        served_since: list[str] = []
        while asked not in model.order:
            begun = len(model.order)
            next(gate for gate in model.gates.values() if not gate.is_set()).set()
            await model.provider.asked(begun + 1)
            served_since += [owners.get(each, "ada") for each in model.order[begun:]]
    assert served_since[-1] == "ada"
    assert len(set(served_since)) == len(served_since), served_since

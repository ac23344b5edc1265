"""The channel of a question, as the rules and webhooks of an agent see it."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agent_core.agents import Definition, Hook
from agent_core.core import Core
from agent_core.messages import Actor
from channels.web.identity import TokenSigner
from tests.app.conftest import caller
from tests.app.processes import Shell, start
from tests.polling import PATIENCE

FILE = "name: placed\ninstructions: Be brief.\nhooks:\n"
PLACES = ("slack", "web", "terminal", "api")


def refuses(place: str) -> dict[str, Any]:
    """Return a rule that lets no run from *place* start, and names it in the message to the person."""
    conditions = [{"field": "channel", "operator": "EQUALS", "value": place}]
    return {
        "event": "OnRunStart",
        "type": "rule",
        "name": place,
        "config": {"conditions": conditions, "reason": f"Not from {place}."},
    }


@pytest.fixture
async def placed(core: Core) -> str:
    """The id of an agent that names the channel of each question."""
    hooks = tuple(Hook(**refuses(place)) for place in PLACES)
    return (await core.agents.create(Definition(name="placed", instructions="Be brief.", hooks=hooks))).id


async def said_to(
    core: Core, sender: httpx.AsyncClient, opener: httpx.AsyncClient | None = None, **opening: Any
) -> str:
    """Ask as *sender*, in a session that *opener* opens, and return the answer."""
    session = (await (opener or sender).post("/v1/sessions", json=opening)).json()["id"]
    posted = await sender.post(f"/v1/sessions/{session}/messages", json={"text": "Hi"})
    return (await core.settled(posted.json()["run_id"], timeout=PATIENCE)).text


@pytest.mark.usefixtures("placed")
@pytest.mark.parametrize("name", ["ada", "web:ada", "api:ada"])
async def test_a_visitor_is_on_the_web_whatever_they_are_called(
    core: Core, client: httpx.AsyncClient, app: FastAPI, name: str
) -> None:
    """A visitor's token means the web channel, in the visitor's own sessions and in those opened for them."""
    token = await client.post("/v1/web/visitor-tokens", json={"actor": {"id": name}, "agent": "placed"})
    async with caller(app, token.json()["token"]) as visitor:
        assert await said_to(core, visitor) == "Not from web."
        assert await said_to(core, visitor, client, agent="placed", actor=name) == "Not from web."


async def test_an_operators_sessions_come_from_the_api(core: Core, client: httpx.AsyncClient, placed: str) -> None:
    """What comes with the key, for the operator or in a user's name, is asked over the API."""
    assert await said_to(core, client, agent="placed") == "Not from api."
    assert await said_to(core, client, agent="placed", actor="ada") == "Not from api."
    run = (await client.post(f"/v1/agents/{placed}/runs", json={"input": "Hi", "actor": "ada"})).json()
    assert run["output"]["text"] == "Not from api."


async def test_an_address_says_where_a_session_is(core: Core, tokens: TokenSigner, app: FastAPI, placed: str) -> None:
    """A channel that gives its sessions an address is known by it, for every asker."""
    actor = Actor("ada", "user")
    session = await core.open_session(agent=placed, actor=actor, address="slack:T1:C1:1.0")
    async with caller(app, tokens.visitor(Actor("ada", "visitor"), agent=placed).text) as visitor:
        path = f"/v1/sessions/{session.id}"
        run = (await visitor.post(f"{path}/messages", json={"text": "Hi"})).json()["run_id"]
        await visitor.get(f"/v1/runs/{run}/events")
    assert (await core.run(run)).text == "Not from slack."
    found = await core.find_session("slack:T1:C1:1.0")
    assert found is not None
    assert found.id == session.id


@pytest.mark.whole
async def test_a_conversation_in_the_terminal_is_one_with_a_server_and_without(
    shell: Shell, template: Path, tmp_path: Path
) -> None:
    """`parley chat` asks from the terminal, over HTTP while a server runs and with a core of its own."""
    agents = tmp_path / "agents"
    agents.mkdir()
    hooks = "".join(f"  - {refuses(place)}\n" for place in PLACES)
    (agents / "placed.yaml").write_text(FILE + hooks)
    words = ("chat", "--agent", "placed", "Hi")
    async with start(shell.migrated(template), PARLEY_AGENTS=str(agents)):
        code, out, err = await shell.run(*words, PARLEY_AGENTS=str(agents))
        assert (code, out) == (0, "Not from terminal.\n"), err
    code, out, err = await shell.run(*words, PARLEY_AGENTS=str(agents))
    assert (code, out) == (0, "Not from terminal.\n"), err

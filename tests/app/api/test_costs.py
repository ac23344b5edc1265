"""GET /v1/costs: what operators read of it, its bounds, and the page that explains it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.quotas import DAY
from agent_core.testing import FakeClock, ScriptedProvider, say, usage
from channels.web.identity import TokenSigner
from tests.agent_core.scenes import open_session, say_and_wait
from tests.app.conftest import caller
from tests.cases import for_each
from tests.conftest import MakeCore

PAGE = (Path(__file__).parents[3] / "docs" / "costs.md").read_text("utf-8")
BLOCKS = [re.sub(r"(?m)^  ", "", block) for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
CURLS = [shlex.split(block) for block in BLOCKS]
PAID = usage(input=1000, output=50, reasoning=0, cache_read=8000, cache_write_short=0, cache_write_long=0)
COST, UNCACHED = "0.0041", "0.0185"
FIRST = "2024-10-04"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(20_000 * DAY)


@pytest.fixture
async def core(make_core: MakeCore, clock: FakeClock) -> Core:
    """A core whose model has a price."""
    provider = ScriptedProvider(lambda _: [PAID, say("Fine.")], name="anthropic")
    return await make_core(provider, definition={"model": "anthropic:claude-sonnet-5"}, clock=clock)


async def spend(core: Core, actor: str = "ann") -> str:
    """Ask once as *actor*, and return the session."""
    session = await open_session(core, actor=Actor(actor, "user"))
    await say_and_wait(core, session, "Hello", actor=Actor(actor, "user"))
    return session


async def get(client: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await client.get("/v1/costs", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_answer_is_the_contracts(core: Core, client: httpx.AsyncClient):
    """`{by, items: [{key, runs, usage, cost, uncached_cost}], next_cursor}`, money as decimals, tokens by kind."""
    await spend(core)
    found = await get(client, by="actor")
    assert found == {
        "by": "actor",
        "from": None,
        "to": None,
        "items": [
            {
                "key": "ann",
                "name": None,
                "runs": 1,
                "steps": 1,
                "unmeasured": 0,
                "unpriced": 0,
                "usage": {
                    "input": 1000,
                    "output": 50,
                    "reasoning": 0,
                    "cache_read": 8000,
                    "cache_write_short": 0,
                    "cache_write_long": 0,
                },
                "cost": COST,
                "uncached_cost": UNCACHED,
            }
        ],
        "next_cursor": None,
    }
    assert [each["key"] for each in (await get(client))["items"]] == [FIRST], "by day, unless it is said"


@pytest.mark.parametrize(
    ("bounds", "days"),
    [
        ({"from": "2024-10-05"}, 2),
        ({"to": "2024-10-05"}, 1),
        ({"from": "2024-10-05", "to": "2024-10-06"}, 1),
        ({"from": "2024-10-05T00:00:00Z", "to": "2024-10-06T00:00:00.000Z"}, 1),
        ({"from": "2024-10-05T12:00:00Z", "to": "2024-10-06T00:00:01Z"}, 2),
        ({"from": "2024-10-06T01:00:00+02:00"}, 2),
        ({"to": "2024-10-05T01:00:00+02:00"}, 1),
        ({"from": "1800-01-01", "to": "1900-01-01"}, 0),
    ],
)
async def test_bounds_are_days_of_utc(
    core: Core, client: httpx.AsyncClient, clock: FakeClock, bounds: dict[str, str], days: int
):
    """`from` is in, `to` is not; a bound within a day includes that day, and the answer says which days it covers."""
    for _ in range(3):
        await spend(core)
        clock.advance(DAY / 1000)
    found = await get(client, **bounds)
    assert len(found["items"]) == days
    for name in ("from", "to"):
        assert found[name] is None if name not in bounds else re.fullmatch(r"\d{4}-\d\d-\d\d", found[name])


@for_each(
    "query, field",
    [
        ({"from": "yesterday"}, "from"),
        ({"from": "2024-02-30"}, "from"),
        ({"from": "2024-10-05T12:00:00"}, "from"),
        ({"from": "2024-W10-1"}, "from"),
        ({"from": "0001-01-01T00:00:00+01:00"}, "from"),
        ({"to": "9999-12-31T12:00:00Z"}, "to"),
        ({"to": "2024-10-05T25:00:00Z"}, "to"),
        ({"from": "2024-10-05", "to": "2024-10-05"}, "to"),
        ({"by": "model"}, "by"),
        ({"until": "2024-10-05"}, "until"),
    ],
)
async def test_what_is_no_bound_is_named(client: httpx.AsyncClient, query: dict[str, str], field: str):
    """A bound that is no date or time, an empty range, and an unknown parameter are a 422 with the field's name."""
    answer = await client.get("/v1/costs", params=query)
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, field), answer.text


async def test_pages_and_filters(core: Core, client: httpx.AsyncClient):
    """`limit` and `cursor` page through the sums, filters narrow them; another list's cursor is a 400."""
    sessions = [await spend(core, name) for name in ("ann", "bob", "cid")]
    first = await get(client, by="session", limit=2)
    rest = await get(client, by="session", limit=2, cursor=first["next_cursor"])
    assert {item["key"] for page in (first, rest) for item in page["items"]} == set(sessions)
    (one,) = (await get(client, by="actor", session=sessions[1]))["items"]
    assert (one["key"], one["cost"]) == ("bob", COST)
    (agent,) = (await get(client, by="agent", actor="cid", channel="api", agent="assistant"))["items"]
    assert (agent["name"], agent["runs"]) == ("assistant", 1)
    refused = await client.get("/v1/costs?cursor=x.y")
    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_cursor")


async def test_visitors_read_no_costs(core: Core, app: FastAPI, tokens: TokenSigner):
    """A visitor's token opens no costs, and the visitor's log says nothing of what a step cost."""
    agent = (await core.agents.get("assistant")).id
    visitor = Actor("vic", "visitor")
    session = await open_session(core, actor=visitor)
    await say_and_wait(core, session, "Hello", actor=visitor)
    async with caller(app, tokens.visitor(visitor, agent=agent).text) as client:
        assert (await client.get("/v1/costs")).status_code == 403
        events = (await client.get(f"/v1/sessions/{session}/events?until=idle")).text
    assert "event: step.completed" in events
    assert "cost" not in events
    assert "usage" not in events


async def test_the_examples_of_the_page_run(core: Core, client: httpx.AsyncClient):
    """Each request of docs/costs.md is answered, and its answer has the fields of the example."""
    session = await spend(core)
    for curl in CURLS:
        path = curl[2].removeprefix("localhost:8000").replace("$SESSION", session)
        assert (await client.get(path)).status_code == 200, path
    shown = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    real = await get(client, by="agent")
    assert shown.keys() == real.keys()
    assert shown["items"][0].keys() == real["items"][0].keys()
    assert shown["items"][0]["usage"].keys() == real["items"][0]["usage"].keys()

"""What calls have shown, over HTTP: for operators and visitors, as objects and as files."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from agent_core.charts.draw import DrawingFailed, DrawingUnavailable
from agent_core.core import Core
from agent_core.messages import Actor
from app.serving.caps import TURNS
from channels.web.identity import SCOPES, TokenSigner
from tests.app.api.easel import DRAWING, PICTURE, SPEC, TABLE, Easel, core_with, ready, shown
from tests.app.conftest import caller
from tests.app.frames import frames
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import until


@pytest.fixture
def easel() -> Easel:
    return ready()


@pytest.fixture
async def core(make_core: MakeCore, easel: Easel) -> Core:
    return await core_with(make_core, easel)


@asynccontextmanager
async def another(app: FastAPI, tokens: TokenSigner, core: Core, **who: str) -> AsyncIterator[httpx.AsyncClient]:
    """Give a visitor called `name`, of `agent` if that is given."""
    agent = who.get("agent") or (await core.agents.get("assistant")).id
    async with caller(app, tokens.visitor(Actor(id=who["name"], kind="visitor"), agent=agent).text) as found:
        yield found


@pytest.mark.parametrize("who", ["client", "visitor"])
async def test_a_render_is_read_as_an_object(who: str, client: httpx.AsyncClient, visitor: httpx.AsyncClient):
    """Operators and the visitor whose session it is read all fields of the contract, as the stream has them."""
    by = {"client": client, "visitor": visitor}[who]
    (path,) = await shown(by, "table")
    found = (await by.get(path)).json()
    assert set(found) == {"id", "session", "run", "call", "kind", "title", "payload", "text", "created_at"}
    assert (found["id"], found["kind"], found["text"]) == (path.rpartition("/")[2], "table", "Oslo 717,710")
    assert found["payload"] == TABLE
    assert found["run"].startswith("run_")
    assert found["created_at"].endswith("Z")
    answer = await by.get(f"{path}.json")
    assert (answer.headers["Content-Type"], answer.json()) == ("application/json", TABLE)


async def test_a_chart_is_drawn(visitor: httpx.AsyncClient, easel: Easel):
    """`.png` is the chart, in the size and on the ground that were asked for, and 304 for who has it already."""
    (path,) = await shown(visitor, "chart")
    answer = await visitor.get(f"{path}.png")
    assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, "image/png", PICTURE)
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    large = await visitor.get(f"{path}.png?scale=3&theme=dark")
    assert [(scale, dark) for _, scale, dark in easel.asked] == [(2, False), (3, True)]
    assert easel.asked[0][0]["data"] == SPEC["data"]
    assert set(easel.owners) == {(await visitor.get(path)).json()["session"]}
    assert large.headers["ETag"] != answer.headers["ETag"]
    same = await visitor.get(f"{path}.png", headers={"If-None-Match": f'W/{answer.headers["ETag"]}, "x"'})
    assert (same.status_code, same.content, len(easel.asked)) == (304, b"", 2)
    other = await visitor.get(f"{path}.png", headers={"If-None-Match": large.headers["ETag"], "Range": "bytes=0-3"})
    assert (other.status_code, other.content) == (200, PICTURE)
    assert (await visitor.head(f"{path}.png")).status_code == 405


async def test_a_chart_is_drawn_as_svg(visitor: httpx.AsyncClient, easel: Easel):
    """`.svg` is the chart for a light or dark page; opened as a page of its own it is saved, and runs nothing."""
    (path,) = await shown(visitor, "chart")
    answer = await visitor.get(f"{path}.svg?theme=dark")
    assert (answer.status_code, answer.headers["Content-Type"], answer.content) == (200, "image/svg+xml", DRAWING)
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert [dark for _, _, dark in easel.asked] == [True]
    same = await visitor.get(f"{path}.svg?theme=dark", headers={"If-None-Match": answer.headers["ETag"]})
    assert (same.status_code, len(easel.asked)) == (304, 1)
    assert (await visitor.get(f"{path}.svg")).headers["ETag"] != answer.headers["ETag"]
    (table,) = await shown(visitor, "table")
    assert (await visitor.get(f"{table}.svg")).status_code == 404


async def test_a_table_is_saved_as_csv(client: httpx.AsyncClient):
    """`.csv` is a file of the title's name, without a path in it, that no browser shows."""
    (path,) = await shown(client, "table")
    answer = await client.get(f"{path}.csv")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    named = answer.headers["Content-Disposition"]
    assert named.startswith('attachment; filename="Cities of .. the north.csv"; filename*=UTF-8')
    lines = answer.content.decode("utf-8-sig").splitlines()
    assert lines == ['"City","People"', '"Oslo","717710"', '"Århus",""']


@for_each(
    "name, ending, says",
    [("table", "png", "no picture"), ("gauge", "png", "no picture"), ("gauge", "csv", "no rows")],
)
async def test_what_a_render_cannot_be_is_unknown(client: httpx.AsyncClient, name: str, ending: str, says: str):
    """A table has no picture, an own kind neither that nor rows; the answer names what to read instead."""
    (path,) = await shown(client, name)
    answer = await client.get(f"{path}.{ending}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert says in answer.json()["detail"]
    assert "`text`" in answer.json()["detail"]


async def test_foreign_and_unknown_renders_are_the_same(
    app: FastAPI, client: httpx.AsyncClient, visitor: httpx.AsyncClient, core: Core, tokens: TokenSigner
):
    """To another visitor, to one of another agent, and for an id that never was, each form answers the same 404."""
    (path,) = await shown(visitor, "chart")
    (operators,) = await shown(client, "chart")
    assert (await client.get(path)).status_code == 200
    async with (
        another(app, tokens, core, name="eve") as eve,
        another(app, tokens, core, name="ada", agent="agent_other") as ada,
    ):
        for ending in ("", ".png", ".svg", ".csv", ".json"):
            unknown = await visitor.get(f"/v1/renders/ren_none.1{ending}")
            assert unknown.status_code == 404
            for by, foreign in ((eve, path), (ada, path), (visitor, operators)):
                answer = await by.get(f"{foreign}{ending}")
                assert answer.json() == json.loads(unknown.text.replace("ren_none.1", foreign.rpartition("/")[2]))


@for_each(
    "odd",
    [
        ".gif",
        ".PNG",
        ".png.png",
        ".csv.json",
        ".png/",
        "/png",
        "%2epng%00",
        "%00",
        "/../x",
        "%2f..%2f..%2fv1%2fagents",
        ".exe",
    ],
)
async def test_odd_ids_and_endings_are_unknown(client: httpx.AsyncClient, odd: str):
    """Endings that are none, encoded slashes and NULs are 404, and never a file of another kind."""
    (path,) = await shown(client, "chart")
    answer = await client.get(f"{path}{odd}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@for_each(
    "query, status",
    [
        ("scale=0", 422),
        ("scale=4", 422),
        ("scale=1e9", 422),
        ("scale=NaN", 422),
        ("theme=blue", 422),
        ("width=9999", 422),
    ],
)
async def test_sizes_are_bounded(client: httpx.AsyncClient, easel: Easel, query: str, status: int):
    """A scale beyond 1 to 3, another theme and unknown parameters are refused before anything is drawn."""
    (path,) = await shown(client, "chart")
    assert (await client.get(f"{path}.png?{query}")).status_code == status
    assert easel.asked == []


async def test_a_chart_that_cannot_be_drawn_says_why(client: httpx.AsyncClient, easel: Easel):
    """A chart that the renderer fails at is 422, one that waits for too many is 503; no error is a picture."""
    (path,) = await shown(client, "chart")
    easel.error = DrawingFailed("The drawing takes more than 5 s; draw fewer rows.")
    failed = await client.get(f"{path}.png")
    assert (failed.status_code, failed.json()["code"]) == (422, "drawing_failed")
    assert failed.json()["detail"] == str(easel.error)
    assert failed.headers["Cache-Control"] == "no-store"
    easel.error = DrawingUnavailable("Too many drawings wait already; ask again in a few seconds.")
    later = await client.get(f"{path}.png")
    assert (later.status_code, later.json()["code"]) == (503, "drawing_unavailable")
    assert int(later.headers["Retry-After"]) > 0


async def test_a_chart_of_an_own_tool_that_reaches_outside_is_not_drawn(client: httpx.AsyncClient, easel: Easel):
    """What an own tool has shown without a check is checked before it is drawn, and the fault's place named."""
    (path,) = await shown(client, "remote")
    answer = await client.get(f"{path}.png")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["path"].startswith("$.data")
    assert easel.asked == []


async def test_one_visitor_cannot_make_the_server_draw_without_end(
    app: FastAPI, client: httpx.AsyncClient, visitor: httpx.AsyncClient, core: Core, tokens: TokenSigner, easel: Easel
):
    """Beside two drawings a visitor's third is 429 with Retry-After, and others are served."""
    (path,) = await shown(visitor, "chart")
    easel.open.clear()
    waiting = [asyncio.create_task(visitor.get(f"{path}.png?scale={n + 1}")) for n in range(TURNS.visitor)]
    await until(lambda: len(easel.asked) == TURNS.visitor)
    refused = await visitor.get(f"{path}.png?scale=3")
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert int(refused.headers["Retry-After"]) > 0
    async with another(app, tokens, core, name="eve") as eve:
        (hers,) = await shown(eve, "chart")
        others = [asyncio.create_task(each) for each in (eve.get(f"{hers}.png"), client.get(f"{path}.png"))]
        await until(lambda: len(easel.asked) == TURNS.visitor + 2)
        easel.open.set()
        assert {(await each).status_code for each in (*waiting, *others)} == {200}
    assert (await visitor.get(f"{path}.png?scale=3")).status_code == 200


async def test_a_deleted_session_shows_nothing(client: httpx.AsyncClient, visitor: httpx.AsyncClient):
    """With the session its renders are gone, in each form and for those who have an ETag."""
    (path,) = await shown(visitor, "chart")
    tag = (await visitor.get(f"{path}.png")).headers["ETag"]
    session = (await client.get(path)).json()["session"]
    assert (await client.delete(f"/v1/sessions/{session}")).status_code == 204
    for by in (client, visitor):
        assert (await by.get(f"{path}.png", headers={"If-None-Match": tag})).status_code == 404
        assert (await by.get(path)).status_code == 404


async def test_a_redacted_render_has_another_tag(
    client: httpx.AsyncClient, core: Core, tokens: TokenSigner, app: FastAPI
):
    """A forgotten person's table is empty at once, also for a caller who has kept it."""
    session = (await core.open_session(agent="assistant", actor=Actor("bob", "user"))).id
    body = {"input": "table", "session": session, "actor": {"id": "eve", "kind": "user"}}
    run = (await client.post("/v1/agents/assistant/runs", json=body)).json()
    seen = frames((await client.get(f"/v1/runs/{run['id']}/events")).text)
    path = next(f"/v1/renders/{each.data['render']}" for each in seen if each.event == "render.shown")
    kept = await client.get(f"{path}.csv")
    assert "Oslo" in kept.text
    assert (await client.delete("/v1/actors/eve")).status_code == 200
    now = await client.get(f"{path}.csv", headers={"If-None-Match": kept.headers["ETag"]})
    assert (now.status_code, "Oslo" in now.text) == (200, False)
    assert (await client.get(path)).json()["text"] == "[deleted]"


async def test_each_scope_is_asked_for(app: FastAPI, client: httpx.AsyncClient, tokens: TokenSigner):
    """Reading takes the scope `read`, a preview `run`; a visitor has no preview, and a caller without a key nothing."""
    (path,) = await shown(client, "chart")
    body = {"kind": "table", "payload": TABLE}
    async with caller(app, tokens.operator(scopes=SCOPES - {"read"}).text) as lacking:
        for ending in ("", ".png", ".svg", ".csv", ".json"):
            assert (await lacking.get(f"{path}{ending}")).status_code == 403
    async with caller(app, tokens.operator(scopes=("read",)).text) as reading:
        assert (await reading.get(f"{path}.png")).status_code == 200
        assert (await reading.post("/v1/renders/preview?as=text", json=body)).status_code == 403
    async with caller(app, "nothing") as stranger:
        assert (await stranger.get(f"{path}.png")).status_code == 401

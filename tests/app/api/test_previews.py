"""What a tool would show, over HTTP: as a picture, text, CSV and Slack's blocks."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core.charts.draw import DrawingFailed, DrawingUnavailable
from agent_core.core import Core
from tests.app.api.easel import COLUMNS, DRAWING, LOADED, PICTURE, SPEC, TABLE, Easel, core_with, ready
from tests.cases import for_each
from tests.conftest import MakeCore


@pytest.fixture
def easel() -> Easel:
    return ready()


@pytest.fixture
async def core(make_core: MakeCore, easel: Easel) -> Core:
    return await core_with(make_core, easel)


async def preview(by: httpx.AsyncClient, form: str, **body: Any) -> httpx.Response:
    return await by.post(f"/v1/renders/preview?as={form}", json=body)


async def test_a_table_is_previewed(client: httpx.AsyncClient, core: Core):
    """A table is seen as text, as CSV and as Slack's blocks, and nothing of it is kept."""
    text = await preview(client, "text", kind="table", title="Cities", payload=TABLE)
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert text.text.startswith("Cities\n")
    assert "717,710" in text.text
    assert (await preview(client, "csv", kind="table", payload=TABLE)).content.count(b"\r\n") == 3
    slack = (await preview(client, "slack", kind="table", title="Cities", payload=TABLE)).json()
    assert "data_table" in [block["type"] for block in slack["blocks"]]
    assert "Oslo" in str(slack["blocks"])
    picture = await preview(client, "png", kind="table", payload=TABLE)
    assert (picture.status_code, picture.json()["errors"][0]["path"]) == (422, "as")
    assert (await core.sessions()).items == ()


async def test_a_chart_is_previewed(client: httpx.AsyncClient, easel: Easel):
    """A chart is seen as a picture, as text, and as Slack's own block, or as the picture that is uploaded there."""
    picture = await preview(client, "png", kind="chart", payload={"spec": SPEC})
    assert (picture.headers["Content-Type"], picture.content) == ("image/png", PICTURE)
    drawing = await preview(client, "svg", kind="chart", payload={"spec": SPEC})
    assert (drawing.headers["Content-Type"], drawing.content) == ("image/svg+xml", DRAWING)
    assert drawing.headers["Content-Security-Policy"].startswith("sandbox")
    assert "Tue" in (await preview(client, "text", kind="chart", payload={"spec": SPEC})).text
    slack = (await preview(client, "slack", kind="chart", title="Week", payload={"spec": SPEC})).json()
    assert "upload" not in slack
    assert [block["type"] for block in slack["blocks"]] == ["data_visualization"]
    values = [{"a": a, "b": b, "n": a * b} for a in range(3) for b in range(3)]
    colour = {"field": "n", "type": "quantitative"}
    axes = {"x": {"field": "a", "type": "ordinal"}, "y": {"field": "b", "type": "ordinal"}, "color": colour}
    heat = {"data": {"values": values}, "mark": "rect", "encoding": axes}
    drawn = (await preview(client, "slack", kind="chart", title="Heat", payload={"spec": heat})).json()
    assert drawn["upload"] == "heat.png"
    assert drawn["blocks"][0]["slack_file"] == {"id": "F0PREVIEW"}
    assert len(easel.asked) == 2


@for_each(
    "body, path",
    [
        ({"kind": "chart", "payload": {"spec": LOADED}}, "payload.spec.data"),
        ({"kind": "chart", "payload": {}}, "payload.spec"),
        ({"kind": "chart", "payload": {"spec": "bar"}}, "payload.spec"),
        ({"kind": "chart", "payload": {"spec": {**SPEC, "mark": "image"}}}, "payload.spec.mark"),
        ({"kind": "table", "payload": {"columns": COLUMNS}}, "payload.rows"),
        ({"kind": "table", "payload": {"rows": []}}, "payload.columns"),
        ({"kind": "table", "payload": {"columns": [7], "rows": []}}, "payload.columns[0]"),
        (
            {"kind": "table", "payload": {"columns": [{"key": "a", "format": "money"}], "rows": []}},
            "payload.columns[0].format",
        ),
        ({"kind": "table", "payload": {"columns": ["a"], "rows": [7]}}, "payload.rows[0]"),
        ({"kind": "table", "payload": {"columns": ["a"], "rows": [{"a": 1}] * 501}}, "payload.rows"),
        ({"kind": "table", "payload": {"columns": [], "rows": [{"a": 1}]}}, "payload.columns"),
        ({"kind": "table", "payload": {"columns": ["a"], "rows": [{"a": 1}, {"b": 1}]}}, "payload.rows[1]"),
        ({"kind": "table", "payload": TABLE, "title": "<img src=x>"}, "title"),
        ({"kind": "table", "payload": {"columns": [{"key": 1}], "rows": []}}, "payload.columns[0]"),
        ({"kind": "gauge", "payload": {}}, "kind"),
        ({"kind": "table", "payload": TABLE, "title": ""}, "title"),
        ({"kind": "table", "payload": []}, "payload"),
        ({"kind": "table", "payload": TABLE, "html": "<b>"}, "html"),
    ],
)
async def test_a_preview_names_what_is_wrong(client: httpx.AsyncClient, body: dict[str, Any], path: str):
    """What a tool would refuse is 422 with the path in the body."""
    answer = await preview(client, "text", **body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["path"].startswith(path)
    assert answer.json()["errors"][0]["message"]


async def test_a_preview_says_what_as_is_for(client: httpx.AsyncClient):
    """Without `as`, and with another word, the answer is 422 and names the forms."""
    for query in ("", "?as=gif"):
        answer = await client.post(f"/v1/renders/preview{query}", json={"kind": "table", "payload": TABLE})
        assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "as")


async def test_large_previews_are_taken_and_bombs_are_not(client: httpx.AsyncClient, easel: Easel):
    """500 rows of 40 columns are previewed; more bytes, values or levels than a render has are refused unread."""
    keys = [f"c{n}" for n in range(40)]
    wide = {"columns": [{"key": key, "label": key} for key in keys], "rows": [dict.fromkeys(keys, 1)] * 500}
    assert (await preview(client, "text", kind="table", payload=wide)).status_code == 200
    long = {**TABLE, "rows": [{"city": "x" * 600_000}]}
    assert (await preview(client, "text", kind="table", payload=long)).status_code == 413
    many = {"columns": COLUMNS, "rows": [{} for _ in range(100_001)]}
    assert (await preview(client, "text", kind="table", payload=many)).status_code == 422
    deep = json.loads("[" * 200 + "]" * 200)
    assert (await preview(client, "text", kind="table", payload={"columns": deep})).status_code == 422
    grid = {"data": {"sequence": {"start": 0, "stop": 1e9}}, "mark": "point"}
    bomb = await preview(client, "png", kind="chart", payload={"spec": grid})
    assert (bomb.status_code, bomb.json()["errors"][0]["path"].startswith("payload.spec.data")) == (422, True)
    assert easel.asked == []


async def test_the_example_of_the_docs_works(client: httpx.AsyncClient):
    """The body that the page on renders sends is taken, and answered as the text that it says."""
    page = (Path(__file__).parents[3] / "docs" / "renders.md").read_text()
    body = page.partition("renders/preview?as=text")[2].partition("-d '")[2].partition("'\n")[0]
    answer = await preview(client, "text", **json.loads(body))
    assert answer.text.splitlines()[0] == "Cities"
    assert [line.split() for line in answer.text.splitlines()[3:5]] == [["Oslo", "717,710"], ["Bergen", "291,940"]]


async def test_a_preview_refuses_what_the_tool_refuses(client: httpx.AsyncClient, easel: Easel):
    """A chart that cannot be drawn is refused with its path in every form; one that cannot be drawn now is shown."""
    box = {"data": {"values": [{"n": 1}]}, "mark": "boxplot", "encoding": {"y": {"field": "n", "type": "quantitative"}}}
    easel.error = DrawingFailed("The chart cannot be drawn: it is infinite.")
    for form in ("text", "slack", "csv", "png"):
        found = await preview(client, form, kind="chart", payload={"spec": box})
        assert (found.status_code, found.json()["errors"][0]["path"]) == (422, "payload.spec")
    easel.error = DrawingUnavailable("Too many drawings wait already.")
    assert (await preview(client, "text", kind="chart", payload={"spec": box})).status_code == 200

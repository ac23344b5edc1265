"""Charts for Chart.js, and links to pictures of them."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agent_core.charts.draw import QuickChart, chart_js
from agent_core.charts.values import PlainChart, PlainSeries
from agent_core.net.fetch import Fetch
from tests.agent_core.net.stage import PUBLIC, Names, Roads, ok, serving
from tests.cases import for_each

ORDERS = PlainChart(
    "bar", ("W1", "W2"), (PlainSeries("new", (1, 2)), PlainSeries("old", (3, None))), "Orders", "w", "n"
)
LONG = PlainChart("bar", tuple(f"category {n}" for n in range(300)), (PlainSeries("n", tuple(range(300))),))


def of(kind: Any, **more: Any) -> PlainChart:
    return PlainChart(kind, ORDERS.categories, ORDERS.series, **more)


def test_bars_are_bars_with_titles_and_axes():
    """A bar chart keeps its title, labels, series, gaps and the titles of its axes."""
    found = chart_js(ORDERS)
    assert found["type"] == "bar"
    assert found["data"]["labels"] == ["W1", "W2"]
    assert [(each["label"], each["data"]) for each in found["data"]["datasets"]] == [
        ("new", [1, 2]),
        ("old", [3, None]),
    ]
    assert found["options"]["plugins"] == {"title": {"display": True, "text": "Orders"}, "legend": {"display": True}}
    assert found["options"]["scales"] == {
        "x": {"stacked": False, "title": {"display": True, "text": "w"}},
        "y": {"stacked": False, "beginAtZero": True, "title": {"display": True, "text": "n"}},
    }


def test_amounts_have_the_format_of_their_axis():
    """A percentage, a currency and fixed decimals are options of `Intl.NumberFormat` at the axis of amounts."""
    formats = {"percent": {"style": "percent", "maximumFractionDigits": 1}, "number": {}}
    formats["currency:EUR.0"] = {"style": "currency", "currency": "EUR"} | (
        none := {"minimumFractionDigits": 0, "maximumFractionDigits": 0}
    )
    formats["integer"] = none
    for format, options in formats.items():
        ticks = chart_js(of("bar", format=format, horizontal=True))["options"]["scales"]["x"].get("ticks", {})
        assert ticks.get("format", {}) == options


def test_horizontal_and_stacked_bars_have_their_categories_along_the_side():
    """In a horizontal chart the titles of the axes change places, and both axes of a stacked one are stacked."""
    options = chart_js(of("bar", horizontal=True, stacked=True, x="w", y="n"))["options"]
    assert options["indexAxis"] == "y"
    assert [options["scales"][each]["title"]["text"] for each in "xy"] == ["n", "w"]
    assert [options["scales"][each]["stacked"] for each in "xy"] == [True, True]


def test_lines_areas_pies_and_points_have_their_own_forms():
    """Areas are filled lines, stacked ones down to the one below; pies have a colour a slice; points have x and y."""
    assert chart_js(of("line"))["options"]["scales"]["y"]["beginAtZero"] is False
    area = chart_js(of("area", stacked=True))
    assert area["type"] == "line"
    assert [each["fill"] for each in area["data"]["datasets"]] == ["origin", "-1"]
    assert {each["fill"] for each in chart_js(of("area"))["data"]["datasets"]} == {"origin"}
    pie = chart_js(PlainChart("pie", ("a", "b"), (PlainSeries("n", (1, None)),)))
    assert pie["data"]["datasets"][0]["data"] == [1, 0]
    assert len(set(pie["data"]["datasets"][0]["backgroundColor"])) == 2
    assert "scales" not in pie["options"]
    points = chart_js(PlainChart("scatter", (), (PlainSeries("n", points=((1, 2), (3, 4))),)))
    assert points["data"] == {
        "datasets": [
            {"label": "n", "borderColor": "#4c78a8", "backgroundColor": "#4c78a8"} | {"data": points_of(points)}
        ]
    }
    assert points_of(points) == [{"x": 1, "y": 2}, {"x": 3, "y": 4}]


def points_of(config: dict[str, Any]) -> list[dict[str, float]]:
    return config["data"]["datasets"][0]["data"]


async def test_a_short_chart_is_a_link_that_holds_it_and_nothing_is_asked():
    """The link of a chart of up to 3,000 characters has the whole configuration, as JSON, for Chart.js 4."""
    fetch = Fetch(resolve=Names())
    chart = of("bar", title='"); alert(1) // & # ü 日本 \u2028')
    link = await QuickChart("https://charts.example:3400/", fetch).link(chart)
    assert link is not None
    assert link.isascii()
    found = urlsplit(link)
    asked = parse_qs(found.query)
    assert (found.netloc, found.path, asked["v"]) == ("charts.example:3400", "/chart", ["4"])
    assert json.loads(asked["c"][0]) == chart_js(chart)
    await fetch.close()


async def test_a_long_chart_is_stored_at_the_public_service_alone():
    """A chart that is too long for a link gets a short one from the public service; another server has none to give."""
    async with serving() as site:
        fetch = Fetch(resolve=names(), dial=Roads())
        site.answers["/chart/create"] = ok(json.dumps({"success": True, "url": short(site.port)}).encode())
        public = QuickChart(f"http://quickchart.io:{site.port}", fetch)
        assert await public.link(LONG) == short(site.port)
        sent = json.loads(site.requests[0].body)
        assert (sent["version"], sent["chart"]) == ("4", chart_js(LONG))
        assert await QuickChart(f"http://charts.example:{site.port}", fetch).link(LONG) is None
        assert len(site.requests) == 1
        await fetch.close()


@for_each(
    "answer",
    [
        ok(b'{"success": true, "url": "https://elsewhere.example/chart/render/a"}'),
        ok(b'{"success": false, "url": ""}'),
        ok(b"<html>"),
        ok(b'{"success": true}'),
        ok(b'{"success": true, "url": "http://quickchart.io:PORT/chart/render/a"}', status="429 Too Many Requests"),
        ok(b"x" * 20_000),
    ],
)
async def test_an_answer_that_is_no_link_of_the_service_gives_none(answer: bytes):
    """What the service answers is a link to itself or nothing: then the chart is drawn here."""
    async with serving() as site:
        fetch = Fetch(resolve=names(), dial=Roads())
        site.answers["/chart/create"] = answer
        assert await QuickChart(f"http://quickchart.io:{site.port}", fetch).link(LONG) is None
        await fetch.close()


def short(port: int) -> str:
    return f"http://quickchart.io:{port}/chart/render/sf-1"


def names() -> Names:
    found = Names()
    found.known["quickchart.io"] = [[PUBLIC]]
    return found

"""A chart in Slack: Slack's own block where it can be one, else a picture, and the reasons."""

from datetime import date, timedelta
from typing import Any

import pytest

from agent_core.charts.text import chart_text
from agent_core.charts.values import PlainChart, PlainSeries, chart_of
from channels.slack.charts import NativeChart, NotNative, choose, ladder_of, native
from channels.slack.tables import MESSAGE, ChartLink, Form, PngUpload
from channels.slack.testing.blocks import check
from channels.spec import ShownRender
from tests.cases import for_each
from tests.channels.slack.outbound.drawn.renders import chart

SUMS = {"mark": "bar", "encoding": {"x": {"field": "d", "timeUnit": "yearmonthdate"}, "y": {"aggregate": "sum"}}}


def first(render: ShownRender, *, links: bool = False) -> Form:
    """Return the best form of *render*, which Slack takes."""
    ladder = ladder_of(render, links=links)
    assert ladder is not None
    found = ladder.best(MESSAGE).form
    assert check(list(found.with_file("https://charts.example/1"))) == []
    return found


def native_of(render: ShownRender) -> dict[str, Any]:
    """Return the chart of Slack's own block."""
    block = first(render).blocks[0]
    assert block["type"] == "data_visualization"
    return block["chart"]


def reason(render: ShownRender) -> str:
    """Return why *render* is not Slack's own block; its best form is a picture then."""
    plain = chart_of(render.payload)
    assert plain is not None
    found = native(plain, "", render.payload["spec"])
    assert isinstance(found, NotNative)
    assert isinstance(first(render).upload, PngUpload)
    return found.reason


@for_each("type", ["bar", "line", "area"])
def test_series_and_axes(type: str):
    """Bars, lines and areas have one point per category, and the titles of their axes."""
    found = native_of(chart(type, ["Jan", "Feb"], {"2025": [1, -2.5], "2026": [3, 4]}, x="Month", y="Orders"))
    assert found == {
        "type": type,
        "series": [
            {"name": "2025", "data": [{"label": "Jan", "value": 1}, {"label": "Feb", "value": -2.5}]},
            {"name": "2026", "data": [{"label": "Jan", "value": 3}, {"label": "Feb", "value": 4}]},
        ],
        "axis_config": {"categories": ["Jan", "Feb"], "x_label": "Month", "y_label": "Orders"},
    }


@for_each(
    "format, values, y, shown, label",
    [
        ("percent.1", [0.07, 0.1234], "Rate", [7, 12.34], "Rate (%)"),
        ("percent", [0.07, None], "Rate in %", [7, 0], "Rate in %"),
        ("percent", [1, 2], None, [100, 200], "%"),
        ("percent", [1, 2], "r" * 60, [100, 200], "r" * 45 + "… (%)"),
        ("currency:USD.2", [1.5, 2], "Sales", [1.5, 2], "Sales ($)"),
        ("number.2", [1.5, 2], "Sales", [1.5, 2], "Sales"),
    ],
)
def test_signs_of_amounts_are_beside_the_axis(format: str, values: list[Any], y: str, shown: list[float], label: str):
    """Slack's block has no format: percents are hundredths, and the sign of amounts is in the title of their axis."""
    found = native_of(chart("bar", ["a", "b"], {"n": values}, y=y, format=format))
    assert [each["value"] for each in found["series"][0]["data"]] == shown
    assert found["axis_config"]["y_label"] == label
    assert chart_text(PlainChart("bar", ("a",), (PlainSeries("n", (0.5,)),), format="percent.1")).count("50.0%") == 1


def test_horizontal_bars_stand_up():
    """Slack has no horizontal bars: the same bars stand, under the same titles."""
    lying = chart("bar", ["a", "b"], {"n": [1, 2]}, x="Name", y="Count", horizontal=True)
    assert native_of(lying)["axis_config"] == {"categories": ["a", "b"], "x_label": "Name", "y_label": "Count"}


def test_names_are_short_and_differ():
    """Long names are cut to 20 characters; those that are the same then are numbered."""
    long = "International customers "
    labels = native_of(chart("bar", [f"{long}A", f"{long}B", "", " "], {"n": [1, 2, 3, 4]}))["axis_config"][
        "categories"
    ]
    assert labels == ["International custo…", "International cus… 2", "\u2013", "\u2013 2"]
    assert first(chart("bar", ["a"], {"n": [1]}, id="x")).blocks[0]["title"] == "Orders"


def test_a_pie_has_twelve_slices():
    """Slices without a size are left out, and the smallest of too many are one; a note says so."""
    render = chart("pie", [f"c{n}" for n in range(20)], {"n": [*range(19), None]})
    found = first(render)
    segments = found.blocks[0]["chart"]["segments"]
    assert [each["label"] for each in segments] == [*(f"c{n}" for n in range(8, 19)), "Other"]
    assert segments[-1]["value"] == sum(range(8))
    assert found.blocks[1]["elements"][0]["text"] == "Other: the 7 smallest together."
    assert len(native_of(chart("pie", ["a", "b", "c"], {"n": [1, 0, None]}))["segments"]) == 1


def test_gaps():
    """A missing value is 0 for bars and areas; a line loses a category that no series has, else it is a picture."""
    assert native_of(chart("bar", ["a", "b"], {"n": [None, 2]}))["series"][0]["data"][0]["value"] == 0
    line = native_of(chart("line", ["a", "b", "c"], {"n": [1, None, 3], "m": [1, None, 2]}))
    assert line["axis_config"]["categories"] == ["a", "c"]
    assert reason(chart("line", ["a", "b"], {"n": [1, None], "m": [1, 2]})) == "a line has a gap"


def days(count: int) -> list[str]:
    """Return labels of *count* days from Monday, 5 January 2026, as Vega writes them."""
    begin = date(2026, 1, 5)
    return [f"{day:%b} {day.day:02}, {day.year}" for day in (begin + timedelta(days=n) for n in range(count))]


WEEKS = ["Week of Jan 5, 2026", "Week of Jan 12, 2026", "Week of Jan 19, 2026", "Week of Jan 26, 2026"]
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@for_each(
    "labels, unit, shown",
    [
        (days(28), "week", WEEKS),
        ([f"2026-01-{n:02}" for n in range(5, 26)], "week", WEEKS[:3]),
        ([f"{m} {y}" for y in (2024, 2025) for m in MONTHS], "quarter",
            [f"{y} Q{q}" for y in (2024, 2025) for q in (1, 2, 3, 4)]),
        ([f"{2020 + n // 4} Q{n % 4 + 1}" for n in range(24)], "year", [str(2020 + n) for n in range(6)]),
        ([f"{y}-{m:02}-01" for y in (2024, 2025) for m in range(1, 13)], "quarter",
            [f"{y} Q{q}" for y in (2024, 2025) for q in (1, 2, 3, 4)]),
        ([f"{y}-{m:02}-01" for y in range(2020, 2026) for m in (1, 4, 7, 10)], "year",
            [str(2020 + n) for n in range(6)]),
    ],
)  # fmt: skip
def test_too_many_dates_are_added_up(labels: list[str], unit: str, shown: list[str]):
    """Sums and counts of more than 20 dates are those of the shortest longer unit that fits, and a note says so."""
    found = first(chart("bar", labels, {"n": [1] * len(labels)}, SUMS))
    chart_ = found.blocks[0]["chart"]
    assert chart_["axis_config"]["categories"] == shown
    assert {point["value"] for point in chart_["series"][0]["data"]} == {len(labels) / len(shown)}
    assert found.blocks[1]["elements"][0]["text"] == f"Added up by {unit}: Slack's own charts have at most 20 points."


def test_what_may_not_be_added_up_is_a_picture():
    """Averages of days make no average of a week, and 21 names are no dates."""
    assert "28 categories" in reason(chart("line", days(28), {"n": [1] * 28}))
    assert "21 categories" in reason(chart("bar", [f"c{n}" for n in range(21)], {"n": [1] * 21}, SUMS))


@for_each(
    "labels",
    [
        [each for n, each in enumerate(days(182)) if n % 7 == 0],
        [f"{date(2026, 1, 5) + timedelta(days=7 * n)}" for n in range(26)],
        [f"{date(2026, 1, 5) + timedelta(days=n)}" for n in range(35) if n % 7 < 5],
        [f"{y}-{m:02}-01" for y in range(2020, 2024) for m in range(1, 13, 2)],
        [f"{y}-{m:02}-01" for y in range(2020, 2026) for m in (2, 5, 8, 11)],
        [f"2026 W{n:02}" for n in range(26)],
    ],
)
def test_what_does_not_nest_is_a_picture(labels: list[str]):
    """Weeks are not added up to months, in which they do not nest, nor are dates with gaps, whose length is unknown."""
    assert f"{len(labels)} categories" in reason(chart("bar", labels, {"n": [100] * len(labels)}, SUMS))


@for_each(
    "render, why",
    [
        (chart("bar", ["a"], {f"s{n}": [1] for n in range(13)}), "13 series"),
        (chart("pie", ["a", "b"], {"n": [1, -1]}), "negative"),
        (chart("pie", ["a"], {"n": [0]}), "no slice"),
        (chart("bar", [], {"n": []}), "no data"),
        (chart("bar", ["a"], {"n": [float("inf")]}), "no number"),
        (chart("bar", ["a"], {"n": [float("nan")]}), "no number"),
        (chart("scatter", [], {"n": []}), "no scatter"),
    ],
)
def test_other_charts_are_pictures(render: ShownRender, why: str):
    """What the block cannot show is a picture, with a reason."""
    assert why in reason(render)


def test_a_picture():
    """A picture has the specification to draw, a name, a title and a description with the shape and the extremes."""
    found = first(chart("bar", [f"c{n}" for n in range(30)], {"n": list(range(30))}))
    assert isinstance(found.upload, PngUpload)
    assert (found.upload.spec, found.upload.name, found.upload.title) == ({"mark": "bar"}, "orders.png", "Orders")
    assert found.upload.alt == "Orders\nbar chart of 30 categories\nhighest c29 29, lowest c0 0"
    assert found.with_file("F1") == (
        {
            "type": "image",
            "slack_file": {"id": "F1"},
            "alt_text": found.upload.alt,
            "title": {"type": "plain_text", "text": "Orders", "emoji": False},
        },
    )
    assert found.without_file() is None


def test_a_link():
    """With a service for charts a plain one that is not Slack's own is a linked picture, and others are uploaded."""
    found = first(chart("scatter", [], {"n": []}), links=True)
    assert isinstance(found.upload, ChartLink)
    assert isinstance(found.upload.chart, PlainChart)
    assert found.with_file("https://charts.example/c")[0]["image_url"] == "https://charts.example/c"
    layered = ShownRender("ren_1", "chart", {"spec": {"layer": []}}, "text")
    assert isinstance(first(layered, links=True).upload, PngUpload)


def test_the_ladder():
    """A chart that is refused is a picture, then the table of its data, then its text."""
    ladder = ladder_of(chart("bar", ["a", "b"], {"n": [1, 2]}, x="Name"))
    assert ladder is not None
    kinds = [[block["type"] for block in ladder.best(MESSAGE, n).form.with_file("F1")] for n in range(4)]
    assert kinds == [["data_visualization"], ["image"], ["data_table"], []]
    rows = ladder.best(MESSAGE, 2).form.blocks[0]["rows"]
    assert [[cell["text"] for cell in row] for row in rows] == [["Name", "n"], ["a", "1"], ["b", "2"]]


def test_a_chart_that_does_not_reduce_has_its_data():
    """The table of a chart of any specification has the rows that are in it."""
    spec = {"layer": [{"mark": "bar"}], "data": {"values": [{"a": 1}, {"b": "x"}]}}
    ladder = ladder_of(ShownRender("ren_1", "chart", {"spec": spec}, "text", "Layers"))
    assert ladder is not None
    rows = ladder.best(MESSAGE, 1).form.blocks[0]["rows"]
    assert [[cell["text"] for cell in row] for row in rows] == [["a", "b"], ["1", "\u2013"], ["\u2013", "x"]]


def test_the_third_chart_is_a_picture():
    """Slack takes two of its own charts in a message."""
    ladders = [ladder_of(chart("bar", ["a"], {"n": [1]})) for _ in range(3)]
    chosen = choose([each for each in ladders if each], {})
    assert [choice.form.with_file("F1")[0]["type"] for choice in chosen] == ["data_visualization"] * 2 + ["image"]


def test_words_of_a_chart():
    """Notifications and screen readers get the title, the shape and the extremes of a chart."""
    found = first(chart("line", ["Jan", "Feb"], {"A & B": [1, 2_000_000.5], "C": [3, 3]}))
    assert found.text == (
        "Orders: line chart of 2 categories and 2 series: A &amp; B, C\n"
        "A &amp; B: highest Feb 2,000,000.5, lowest Jan 1\nC: 3 throughout"
    )
    untitled = ShownRender("r", "chart", {"spec": {}, "plain": {"type": "bar", "categories": ["a"], "x": "Day",
        "y": "Sum", "series": [{"name": "n", "values": [1]}]}}, "text")  # fmt: skip
    assert first(untitled).text == "Bar chart of Sum by Day: bar chart of 1 category\na 1"


def test_it_is_the_same_each_time():
    """A message that is drawn again has the very same forms, so that nothing of it is sent again."""
    ladder = ladder_of(chart("bar", ["a"], {"n": [1]}))
    assert ladder is not None
    assert choose([ladder], {})[0].form == choose([ladder], {})[0].form
    assert isinstance(native(chart_of(ladder.render.payload) or pytest.fail("no chart"), "t", {}), NativeChart)

"""Which charts reduce to a plain one, and what the plain one says."""

from typing import Any

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from agent_core.charts.values import PlainChart
from tests.agent_core.charts.hostile import hostile
from tests.agent_core.charts.specs import ChartSpec, chart_named, corpus
from tests.cases import for_each

ROWS = [
    {"k": "b", "v": 3, "g": "u", "d": "2026-01-10"},
    {"k": "a", "v": 5, "g": "w", "d": "2026-02-20"},
    {"k": "b", "v": 1, "g": "w", "d": "2026-02-25"},
    {"k": "c", "v": None, "g": "u", "d": "2026-04-01"},
]
K = {"field": "k", "type": "nominal"}
V = {"field": "v", "type": "quantitative"}
SUM = {**V, "aggregate": "sum"}
MONTH = {"field": "d", "timeUnit": "yearmonth", "type": "temporal"}


def chart(mark: Any, rows: list[dict[str, Any]] | None = None, **channels: Any) -> dict[str, Any]:
    return {"data": {"values": rows or ROWS}, "mark": mark, "encoding": channels}


def plain(mark: Any, rows: list[dict[str, Any]] | None = None, **channels: Any) -> PlainChart:
    found = reduced(checked(chart(mark, rows, **channels)))
    assert found is not None
    return found


@for_each("each", corpus())
def test_charts_of_the_corpus_reduce_as_it_says(each: ChartSpec):
    """Each chart of the corpus reduces, or does not, as its file says."""
    assert (reduced(checked(each.spec)) is not None) is each.plain


def test_hostile_specifications_reduce_without_errors():
    """What is refused elsewhere raises nothing here."""
    for case in hostile():
        reduced(case.spec)


@for_each(
    "format, kept",
    [
        (".1%", "percent.1"),
        ("%", "percent"),
        ("$,.2f", "currency:USD.2"),
        ("$,d", "currency:USD.0"),
        ("$.2s", "currency:USD"),
        (",", "number"),
        (".0f", "number.0"),
        (",.1~f", "number"),
        ("~s", "number"),
        ("", None),
        (None, None),
    ],
)
def test_format_of_amounts_is_kept(format: str | None, kept: str | None):
    """How an axis writes its amounts is part of the plain chart, along either axis and for points."""
    axis = {"axis": {"format": format, "formatType": "number"}}
    assert plain("bar", x=K, y={**SUM, **axis}).format == kept
    assert plain("bar", y=K, x={**SUM, **axis}).format == kept
    assert plain("point", x=V, y={**V, **axis}).format == kept


@for_each("format", ["+.1%", "(.2f", ".3g", "e", "$.1%", "08d", "%Y", ".2", 3, {"a": 1}])
def test_other_formats_are_pictures(format: Any):
    """A format that the surfaces cannot write is not dropped: Vega draws it."""
    assert reduced(chart("bar", x=K, y={**SUM, "axis": {"format": format}})) is None
    assert reduced(chart("bar", x=K, y={**SUM, "axis": {"format": ".1%", "formatType": "time"}})) is None
    assert reduced(chart("point", x={**V, "axis": {"format": ".1%"}}, y=V)) is None
    assert reduced({**chart("bar", x=K, y=SUM), "config": {"axisY": {"format": ".1%"}}}) is None


def test_bars_of_sums():
    """Categories are ascending, rows of one category add up, nulls leave a gap, and axes have Vega-Lite's names."""
    found = plain("bar", x=K, y=SUM)
    assert found == PlainChart(
        type="bar",
        categories=("a", "b", "c"),
        series=(found.series[0],),
        x="k",
        y="Sum of v",
    )
    assert (found.series[0].name, found.series[0].values) == ("Sum of v", (5, 4, None))


@for_each(
    "sort, order",
    [
        ("ascending", "abc"),
        ("descending", "cba"),
        (None, "bac"),
        ("-y", "abc"),
        ("y", "cba"),
        ({"encoding": "y", "order": "descending"}, "abc"),
        ({"field": "v", "op": "count", "order": "descending"}, "bac"),
        (["c", "a"], "cab"),
    ],
)
def test_orders_of_categories(sort: Any, order: str):
    """Categories are ordered as `sort` says: by name, by appearance, by total, by another field, by a list."""
    rows = [each | {"v": each["v"] or 2} for each in ROWS]
    assert "".join(plain("bar", rows, x={**K, "sort": sort}, y=SUM).categories) == order


def test_bars_that_lie_down():
    """Horizontal bars keep their categories, and the titles of both axes."""
    found = plain("bar", y=K, x={**SUM, "title": "Total"})
    assert (found.horizontal, found.x, found.y, found.categories) == (True, "k", "Total", ("a", "b", "c"))


def test_stacks_and_groups():
    """A colour stacks bars and areas, an offset groups them, `stack: null` does neither, and lines have series."""
    colour = {"field": "g", "type": "nominal"}
    stacked = plain("bar", x=K, y=SUM, color=colour)
    assert stacked.stacked
    assert [(each.name, each.values) for each in stacked.series] == [("u", (None, 3, None)), ("w", (5, 1, None))]
    assert not plain("bar", x=K, y=SUM, color=colour, xOffset={"field": "g"}).stacked
    assert not plain("bar", x=K, y={**SUM, "stack": None}, color=colour).stacked
    assert not plain("line", x=K, y=SUM, color=colour).stacked
    area = plain("area", x=K, y=SUM, color=colour)
    assert area.stacked
    assert [each.values for each in area.series] == [(0, 3, None), (5, 1, 0)]


def test_details_are_series():
    """A field of `detail`, alone or in a list, splits the marks as a colour does."""
    stacked = plain("bar", x=K, y=SUM, color={"field": "g", "type": "nominal"})
    assert plain("bar", x=K, y=SUM, detail=[{"field": "g"}]) == stacked
    assert plain("bar", x=K, y=SUM, detail={"field": "g"}) == stacked


def test_a_colour_for_each_category_makes_no_series():
    """Bars coloured by their own category are one series."""
    assert [each.name for each in plain("bar", x=K, y=SUM, color=K).series] == ["Sum of v"]


def test_a_line_for_each_category_is_not_plain():
    """Lines coloured by their own category are points, which a plain line is not."""
    assert reduced(chart("line", x=K, y=SUM, color=K)) is None
    assert reduced(chart("line", x=K, y=SUM, tooltip=K)) is not None


def test_slices():
    """A pie has one series whose values are its slices; a slice without a value is left out."""
    found = plain({"type": "arc", "innerRadius": 40}, theta=SUM, color={**K, "title": "Kind"})
    assert (found.type, found.categories, found.series[0].values) == ("pie", ("a", "b"), (5, 4))
    assert (found.x, found.y) == ("Kind", "Sum of v")


def test_points():
    """A scatter chart has the points of each series, without those that lack a number."""
    rows = [{"p": 1, "q": 2.5, "g": "u"}, {"p": None, "q": 1, "g": "u"}, {"p": 0, "q": -1, "g": "w"}]
    found = plain("circle", rows, x={"field": "p", "type": "quantitative"}, y={**V, "field": "q"}, color={"field": "g"})
    assert [(each.name, each.points) for each in found.series] == [("u", ((1, 2.5),)), ("w", ((0, -1),))]
    assert found.categories == ()


def test_time_axis_of_bars_has_its_empty_months():
    """Bars by month have each month from the first to the last, those without rows too."""
    found = plain("bar", x=MONTH, y=SUM)
    assert found.categories == ("Jan 2026", "Feb 2026", "Mar 2026", "Apr 2026")
    assert found.series[0].values == (3, 6, None, None)
    assert found.x == "d (year-month)"


def test_time_axis_of_lines_is_even_or_not_plain():
    """A line over months of which one is missing is not drawn as if it had been there."""
    assert reduced(chart("line", x=MONTH, y=SUM)) is None
    assert plain("line", ROWS[:3], x=MONTH, y=SUM).categories == ("Jan 2026", "Feb 2026")
    ordinal = plain("line", x={**MONTH, "type": "ordinal"}, y=SUM)
    assert ordinal.categories == ("Jan 2026", "Feb 2026", "Apr 2026")


@for_each(
    "days, labels",
    [
        (["2026-01-03", "2026-01-04", "2026-01-05"], ("Jan 03, 2026", "Jan 04, 2026", "Jan 05, 2026")),
        (["2026-06-01", "2026-06-08"], ("Jun 01, 2026", "Jun 08, 2026")),
        (["2026-01-01", "2026-02-01", "2026-03-01"], ("Jan 2026", "Feb 2026", "Mar 2026")),
        (["2025-10-01", "2026-01-01"], ("Oct 2025", "Jan 2026")),
        (["2026-01-15", "2026-02-15", "2026-03-15"], ("Jan 15, 2026", "Feb 15, 2026", "Mar 15, 2026")),
        (["2024", "2025", "2026"], ("2024", "2025", "2026")),
        (["2026-01-03T10:00", "2026-01-03T10:30"], ("Jan 03, 2026 10:00", "Jan 03, 2026 10:30")),
        (["2026-03-29T00:00+02:00", "2026-03-28T23:00Z"], ("Mar 28, 2026 22:00", "Mar 28, 2026 23:00")),
        ([1_767_225_600_000, 1_767_312_000_000], ("Jan 01, 2026", "Jan 02, 2026")),
        (["2026-01-01", "2026-01-02", "2026-01-04"], None),
        (["2026-01-31", "2026-02-28", "2026-03-31"], None),
        (["Jan 1, 2026", "Jan 2, 2026"], None),
        (["2026-01-01", None], None),
        (["2026-02-30", "2026-02-31"], None),
    ],
)
def test_dates_without_a_unit(days: list[Any], labels: tuple[str, ...] | None):
    """Dates that are evenly spaced are labelled by their distance, in UTC; others do not make a plain line."""
    rows = [{"d": day, "v": 1} for day in reversed(days)]
    found = reduced(chart("line", rows, x={"field": "d", "type": "temporal"}, y=V))
    assert (None if found is None else found.categories) == labels


def test_dates_in_a_format():
    """Labels of a time axis are in its format, as long as that keeps them apart."""
    axis = {"axis": {"format": "%B", "title": None}}
    found = plain("bar", x={**MONTH, **axis}, y=SUM)
    assert (found.categories, found.x) == (("January", "February", "March", "April"), None)
    assert plain("bar", x={**MONTH, "axis": {"format": "%Y"}}, y=SUM).categories[0] == "Jan 2026"


def test_titles():
    """Titles are those that the specification gives; the one of an axis wins over the one of its channel."""
    spec = chart("bar", x={**K, "title": "Kind"}, y={**SUM, "title": "A", "axis": {"title": "B"}})
    found = reduced({**spec, "title": {"text": ["Two", "lines"], "subtitle": "x"}})
    assert found is not None
    assert (found.title, found.x, found.y, found.series[0].name) == ("Two lines", "Kind", "B", "B")


def test_histogram_has_its_empty_bins():
    """Bins are those of Vega, empty ones too."""
    rows = [{"v": value} for value in (0, 1, 9.5, 10, 49)]
    found = plain("bar", rows, x={"field": "v", "bin": True}, y={"aggregate": "count"})
    assert found.categories == ("0 – 5", "5 – 10", *(f"{low} – {low + 5}" for low in range(10, 50, 5)))
    assert found.series[0].values == (2, 1, 1, None, None, None, None, None, None, 1)
    assert (found.x, found.y) == ("v (binned)", "Count of Records")


@for_each(
    "spec",
    [
        chart("bar", x=K, y=SUM, color={"field": "g"}, detail={"field": "d", "type": "nominal"}),
        chart("bar", x=K, y=SUM, detail=[{"field": "g"}, {"field": "d"}]),
        chart("bar", x=K, y=SUM, tooltip={"field": "g"}),
        chart("bar", x=K, y=SUM, opacity={"field": "g"}),
        chart("bar", x=K, y={**SUM, "scale": {"reverse": True}}),
        chart("bar", x={**K, "scale": {"domain": ["a"]}}, y=SUM),
        chart("bar", x=K, y={**SUM, "aggregate": "stdev"}),
        chart("bar", x=K, y={"field": "d", "type": "temporal"}),
        chart("line", x=K, y=V),
        chart("area", x=K, y=V),
        chart("bar", x=K, y={**V, "stack": None}),
        chart("bar", [{"k": "a", "v": 2}, {"k": "a", "v": -1}], x=K, y=V),
        chart("bar", [{"k": "1", "v": 2}, {"k": 1, "v": 1}], x=K, y=V),
        chart("bar", [{"k": "a", "v": "2"}], x=K, y=V),
        chart("bar", [{"v": 2}, {"k": "a", "v": 1}], x=K, y=V),
        chart("bar", [{"k": {"x": 1}, "v": 2}], x=K, y=V),
        chart("arc", [{"k": "a", "v": -2}], theta=V, color=K),
        chart("arc", [{"k": "a", "v": 0}], theta=V, color=K),
        chart("arc", theta={**V, "stack": None}, color=K),
        chart({"type": "bar", "orient": "horizontal"}, x=K, y=SUM),
        chart("bar", x=K, y=SUM) | {"config": {"fieldTitle": "functional"}},
        chart("bar", x=K, y=SUM) | {"config": {"line": {}, "scale": {}}},
        chart("line", x=K, y=SUM) | {"config": {"line": {"interpolate": "step"}}},
        chart("bar", x=K, y=SUM) | {"transform": [{"window": [{"op": "rank", "as": "r"}]}]},
        chart("bar", x=K, y=SUM) | {"transform": [{"filter": {"field": "v", "gt": 1}}]},
        chart("bar", [{"k": "a", "v": 1e308}] * 2, x=K, y=SUM),
        chart("bar", x={**K, "axis": {"labelExpr": "upper(datum.label)"}}, y=SUM),
        chart("bar", x=K, y=SUM) | {"title": {"text": "Sums", "subtitle": {"expr": "now()"}}},
        chart("bar", x=K, y=SUM) | {"transform": [{"filter": "datum.v > 1"}]},
    ],
)
def test_charts_in_doubt_are_not_plain(spec: dict[str, Any]):
    """A chart that a plain one would show differently, or that is ambiguous, does not reduce."""
    assert reduced(checked(spec)) is None


def test_series_that_pause_are_not_plain_lines():
    """A line that Vega draws through a category without rows is not drawn with a gap."""
    rows = [{"k": kind, "v": 1, "g": "u"} for kind in "abc"] + [{"k": kind, "v": 2, "g": "w"} for kind in "ac"]
    assert reduced(chart("line", rows, x=K, y=V, color={"field": "g"})) is None
    assert plain("line", rows[:4], x=K, y=V, color={"field": "g"}).series[1].values == (2, None, None)


def test_plain_charts_may_be_large():
    """Hundreds of categories and a hundred series are kept: each surface bounds what it draws."""
    rows = [{"k": f"k{index:04}", "v": index} for index in range(400)]
    assert len(plain("bar", rows, x=K, y=V).categories) == 400
    rows = [{"k": "a", "v": 1, "g": f"g{index}"} for index in range(101)]
    assert reduced(chart("bar", rows, x=K, y=V, color={"field": "g"})) is None
    assert len(plain("bar", rows[:100], x=K, y=V, color={"field": "g"}).series) == 100


def test_lines_over_empty_bins_are_not_plain():
    """An area over bins of which one is empty is not drawn as if it fell to zero there."""
    rows = [{"v": value, "g": group} for value in (0, 1, 12, 21, 30) for group in "uw"]
    x, y = {"field": "v", "bin": {"step": 10}}, {"aggregate": "count"}
    assert reduced(chart("area", rows, x=x, y=y, color={"field": "g"})) is not None
    assert reduced(chart("area", rows[:4] + rows[6:], x=x, y=y, color={"field": "g"})) is None
    assert reduced(chart("bar", rows[:4] + rows[6:], x=x, y=y, color={"field": "g"})) is not None


def test_groups_over_months():
    """Bars beside one another within each month are groups when the axis has months as categories."""
    found = plain("bar", x={**MONTH, "type": "ordinal"}, xOffset={"field": "g"}, y=SUM, color={"field": "g"})
    assert not found.stacked
    assert [each.values for each in found.series] == [(3, None, None), (None, 6, None)]
    assert reduced(chart("bar", x=MONTH, xOffset={"field": "g"}, y=SUM)) is None


def test_named_rows_are_found():
    """A chart of a named data set is the one of the same rows inline."""
    inline = chart_named("bar_simple").spec
    named = {**inline, "datasets": {"f": inline["data"]["values"]}, "data": {"name": "f"}}
    assert reduced(named) == reduced(inline)


ZERO = {"value": 0}
DATED = {"field": "d", "timeUnit": "month", "type": "ordinal"}
TYPED = [{"k": "a", "v": 5, "d": "2026-01-01"}, {"k": "b", "v": "5", "d": "2026-02-01"}]
PIPES = [{"k": "x|y", "g": "z", "v": 1}, {"k": "x", "g": "y|z", "v": 2}]


def filtered(rows: list[dict[str, Any]], test: dict[str, Any], **encoding: Any) -> dict[str, Any]:
    return chart("bar", rows, **({"x": K, "y": {"aggregate": "count"}} | encoding)) | {"transform": [{"filter": test}]}


@for_each(
    "spec",
    [
        filtered(TYPED, {"field": "v", "gt": 2}),
        filtered(TYPED, {"field": "v", "oneOf": ["5"]}),
        filtered(TYPED, {"not": {"field": "v", "equal": 5}}),
        filtered([{"k": "a", "v": True}, {"k": "b", "v": 1}], {"field": "v", "equal": 1}),
        filtered([{"k": "a", "v": "constructor"}], {"field": "v", "equal": "constructor"}),
        filtered([{"k": "a", "d": 1_700_000_000_000}], {"field": "d", "equal": 1_700_000_000_000}, x=DATED),
        chart("bar", x=K, y=SUM, shape={"field": "g"}),
        chart("area", x=K, y=SUM, xOffset={"field": "g"}),
        chart("bar", [{**each, "k": "a"} for each in TYPED], x=K, y={"aggregate": "distinct", "field": "v"}),
        chart(
            "bar", [{"k": "a"}, {"k": "b", "constructor": 1}], x=K, y={"aggregate": "distinct", "field": "constructor"}
        ),
        chart("bar", [{"k": "constructor", "v": 1}], x=K, y=V),
        chart("line", [{"d": "٢٠٢٦-01-01", "v": 1}, {"d": "2026-02-01", "v": 2}], x={**DATED, "type": "temporal"}, y=V),
        chart("bar", x={"field": "v", "bin": True}, y={"aggregate": "count"})
        | {"transform": [{"aggregate": [{"op": "sum", "field": "v", "as": "v"}], "groupby": ["k"]}]},
        chart("bar", x=K, y=V, y2=ZERO),
        chart("bar", PIPES, x=K, y=SUM, color={"field": "g"}),
        chart("bar", PIPES, x=K, y=V)
        | {"transform": [{"aggregate": [{"op": "sum", "field": "v", "as": "v"}], "groupby": ["k", "g"]}]},
        chart("bar", x={**DATED, "sort": ["Feb"]}, y=SUM),
    ],
)
def test_what_vega_reads_in_its_own_way_is_not_plain(spec: dict[str, Any]):
    """Cells that Vega reads as another type, groups that it joins, and channels that it ignores do not reduce."""
    assert reduced(checked(spec)) is None


def test_a_range_may_be_reversed():
    """The ends of a range are in any order, as in Vega."""
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 4}, {"k": "c", "v": 9}]
    found = reduced(checked(filtered(rows, {"field": "v", "range": [5, 2]})))
    assert found is not None
    assert found.categories == ("b",)

"""Renders as plain text."""

import csv
import io
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from agent_core.charts.layout import bars, sparkline
from agent_core.charts.text import MAX_TEXT, chart_text, csv_of, head_of, spec_text, table_text
from agent_core.charts.values import DataTable, PlainChart, PlainSeries, TableColumn, chart_of, table_of
from tests.cases import for_each

CELLS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.lists(st.text(max_size=3))
CELLS |= st.sampled_from(
    ["x" * 10_000, "日本語" * 20, "\u202eabc", "\x1b[2J", "👩\u200d💻", "a\nb", "<!channel>", "e\u0301"]
)
NUMBERS = st.none() | st.floats() | st.integers(-1000, 1000).map(float)


def table(*rows: dict[str, Any], **formats: str) -> DataTable:
    return DataTable(tuple(TableColumn(key, key.title(), format=formats.get(key)) for key in rows[0]), rows)


def test_a_table_is_aligned_by_the_cells_of_a_screen():
    """Wide letters take two cells, numbers are right, and dates and amounts are written out."""
    orders = table(
        {"id": 7, "name": "Zoë 日本語", "amount": 1234.5, "on": "2026-02-15"},
        {"id": 12, "name": "Bo", "amount": -3},
        amount="currency:EUR",
        on="date",
    )
    assert table_text(orders) == (
        "Id  Name           Amount  On\n"
        "--  ----------  ---------  ------------\n"
        " 7  Zoë 日本語  €1,234.50  Feb 15, 2026\n"
        "12  Bo             -€3.00"
    )


def test_a_table_without_room_is_shown_in_groups():
    """Columns that do not fit beside others are below them, each time after the first column."""
    wide = table({"city": "Rome", **{f"sales in {year}": year * 1000 for year in range(2020, 2024)}})
    assert table_text(wide, width=40) == (
        "City  Sales In 2020  Sales In 2021\n"
        "----  -------------  -------------\n"
        "Rome        2020000        2021000\n"
        "\n"
        "City  Sales In 2022  Sales In 2023\n"
        "----  -------------  -------------\n"
        "Rome        2022000        2023000"
    )


def test_a_long_text_continues_on_the_next_line():
    """A column of text shrinks before others do, and its cells are divided at spaces."""
    notes = table({"id": 1, "note": "the quick brown fox jumps"})
    assert table_text(notes, width=20) == "Id  Note\n--  ----------------\n 1  the quick brown\n    fox jumps"


@given(st.lists(st.lists(CELLS, min_size=1, max_size=8), max_size=4), st.none() | st.integers(20, 90))
def test_a_table_keeps_its_width(rows: list[list[Any]], width: int | None):
    """No line is wider than asked for, and no control sign and no sign that turns text is in it."""
    named = tuple({f"c{n}": cell for n, cell in enumerate(row)} for row in rows)
    keys = [f"c{n}" for n in range(max(map(len, rows), default=1))]
    text = table_text(DataTable(tuple(TableColumn(key, key) for key in keys), named), width=width)
    for line in text.split("\n"):
        assert not any(unicodedata.category(sign) in {"Cc", "Cs"} or sign in "\u202e\u2066" for sign in line)
        assert width is None or wcswidth(line) <= width


def test_what_is_left_out_of_a_table_is_said():
    """A table ends before a row that is too many, and says how many rows and columns are missing."""
    rows = [{"n": n, "text": "x" * 999} for n in range(500)]
    text = table_text(table(*rows))
    shown = len([line for line in text.splitlines() if line.strip()[:1].isdigit()])
    assert len(text) < MAX_TEXT + 100
    assert text.endswith(f"… and {500 - shown} more rows")
    assert 0 < shown < 500
    assert table_text(table(*rows), rows=3).endswith("… and 497 more rows")
    assert table_text(table({f"c{n}": 1 for n in range(101)})).endswith("… and 1 more column")
    assert table_text(DataTable((TableColumn("a", "A"),), ())) == "A\n-\n(no rows)"
    assert table_text(DataTable((), ())) == "(no columns)"


def test_a_cell_is_cut_after_a_thousand_characters():
    """A very long cell is cut to a thousand characters, the dots among them."""
    text = table_text(table({"a": "x" * 10_000}))
    assert text.count("x") == 999
    assert text.endswith("…")


def test_a_bar_chart_has_a_bar_for_each_value():
    """Bars have one scale, a gap has none, and the numbers are beside them."""
    chart = PlainChart(
        "bar", ("Jan", "Feb", "Mar"), (PlainSeries("Visitors", (1200, 2400, None)),), x="Month", y="Visits"
    )
    assert chart_text(chart) == (
        "Bar chart of Visits by Month:\n"
        "\n"
        "Month  Visitors\n"
        "-----  --------\n"
        f"Jan       1,200  {'█' * 15}\n"
        f"Feb       2,400  {'█' * 30}\n"
        "Mar"
    )


def test_a_stack_has_a_total():
    """The series of a category are below one another, and below them is what they add up to."""
    chart = PlainChart(
        "bar", ("Jan",), (PlainSeries("A", (1,)), PlainSeries("B", (2,))), x="Month", y="Visits", stacked=True
    )
    assert chart_text(chart).splitlines()[2:] == [
        "Month         Visits",
        "-----         ------",
        f"Jan    A           1  {'█' * 15}",
        f"       B           2  {'█' * 30}",
        "       total       3",
    ]


def test_bars_grow_from_zero_to_both_sides():
    """A negative value is on the left of the line at zero."""
    assert bars([-2, 4, None, 0], 6) == ["██│", "  │████", "", "  │"]
    assert bars([0, 0], 6) == ["", ""]
    assert bars([-1e308, 1e308], 4) == ["██│", "  │██"]
    assert bars([-5], 4) == ["████│"]


def test_a_line_chart_is_a_line_of_signs_and_its_numbers():
    """Each series has a line of signs, and a table has every value."""
    chart = PlainChart("line", ("Q1", "Q2", "Q3"), (PlainSeries("EU", (1, 2, 3)), PlainSeries("US", (5, None, 4))))
    assert chart_text(chart) == (
        "Line chart:\n"
        "\n"
        "    min  max\n"
        "    ---  ---\n"
        "EU    1    3  ▁▅█\n"
        "US    4    5  █ ▁\n"
        "\n"
        "    EU  US\n"
        "    --  --\n"
        "Q1   1   5\n"
        "Q2   2\n"
        "Q3   3   4"
    )


def test_a_long_line_is_shown_by_means():
    """More values than there is room for are averaged, so that the shape remains."""
    assert sparkline([float(n) for n in range(800)], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([None, 3.0, 3.0], 8) == " ▅▅"
    assert sparkline([], 8) == ""


def test_a_pie_has_shares():
    """A slice has its value and its part of the whole."""
    chart = PlainChart("pie", ("Tea", "Coffee"), (PlainSeries("People", (3, 1)),))
    assert [line.split()[:3] for line in chart_text(chart).splitlines()[4:]] == [
        ["Tea", "3", "75%"],
        ["Coffee", "1", "25%"],
    ]


def test_a_scatter_chart_is_its_points():
    """Each point is a row with its series."""
    chart = PlainChart(
        "scatter", (), (PlainSeries("A", points=((1, 2.5),)), PlainSeries("B", points=((3, 4),))), x="cm"
    )
    assert chart_text(chart).splitlines()[2:] == ["   cm    y", "   --  ---", "A   1  2.5", "B   3    4"]


@given(
    st.sampled_from(["bar", "line", "area", "pie"]),
    st.lists(st.tuples(st.text(max_size=60), NUMBERS), min_size=1, max_size=6),
)
def test_every_chart_has_a_text(kind: Any, pairs: list[tuple[str, float | None]]):
    """No value and no label fails, and every number that can be drawn is in the text."""
    series = PlainSeries("s", tuple(value for _, value in pairs))
    text = chart_text(PlainChart(kind, tuple(label for label, _ in pairs), (series, series), stacked=True), width=80)
    assert [line for line in text.split("\n") if wcswidth(line) > 80] == []
    assert [
        (_, value)
        for _, value in pairs
        if value is not None and value.is_integer() and abs(value) < 1e6
        if f"{value or 0.0:,.0f}" not in text
    ] == []


@pytest.mark.whole
def test_a_chart_of_many_values_is_bounded():
    """A chart ends before a line that is too many and says how many values are missing."""
    values = tuple(float(n) for n in range(20_000))
    text = chart_text(PlainChart("bar", tuple(map(str, range(20_000))), (PlainSeries("s", values),)))
    assert len(text) < MAX_TEXT + 200
    assert text.splitlines()[-1].endswith(" more values")


def test_a_chart_without_a_plain_form_is_described():
    """Its marks, fields and rows are there, and not its title, which is shown above it."""
    spec = {
        "title": "Heat",
        "description": "Visits by\x07 hour.",
        "mark": {"type": "rect"},
        "data": {"values": [{"day": "Mo", "hour": 9, "n": 3}]},
        "encoding": {
            "x": {"field": "day"},
            "y": {"field": "hour", "bin": True},
            "color": {"aggregate": "sum", "field": "n"},
            "tooltip": [{"field": "day"}, {"field": "n"}],
        },
    }
    assert spec_text(spec) == (
        "Chart of hour in bins by day:\n"
        "Visits by\\u{7} hour.\n"
        "Marks of the kind rect: x is day, y is hour in bins, color is sum of n, tooltip is day, tooltip is n.\n"
        "\n"
        "day  hour  n\n"
        "---  ----  -\n"
        "Mo      9  3"
    )


def test_views_within_a_view_are_described():
    """Layers, facets and repeats are said, each data set is there once, and what cannot be read is left out."""
    data = {"values": [1, 2]}
    layers = {
        "data": data,
        "layer": [{"mark": "bar", "data": data}, {"mark": "rule", "encoding": {"y": {"datum": 3}}}, 7],
    }
    assert spec_text(layers).splitlines()[:4] == [
        "Chart:",
        "3 layers.",
        "Marks of the kind bar.",
        "Marks of the kind rule: y is 3.",
    ]
    assert spec_text(layers).count("data\n----") == 1
    facets = {
        "facet": {"row": {"field": "site"}},
        "spec": {"mark": "point", "encoding": {"x": {"timeUnit": "month", "field": "d"}}},
    }
    assert (
        spec_text(facets) == "Chart of d by month:\nOne chart for each site.\nMarks of the kind point: x is d by month."
    )
    assert spec_text({"encoding": 5, "layer": None, "data": "x"}) == "Chart:\n0 layers."
    assert spec_text({}) == "Chart:\nA chart."


def test_a_table_of_ones_own_is_read_where_it_is_plain():
    """Columns as names, rows as lists and a missing label are read; what is no table is not."""
    assert table_of({"columns": ["a", {"key": "b"}], "rows": [[1, 2], {"a": 3}, [4]]}) == DataTable(
        (TableColumn("a", "a"), TableColumn("b", "b")), ({"a": 1, "b": 2}, {"a": 3}, {"a": 4})
    )
    assert table_of({"rows": [{"a": 1}, {"b": 2}]}) == DataTable(
        (TableColumn("a", "a"), TableColumn("b", "b")), ({"a": 1}, {"b": 2})
    )
    odd = {"key": "a", "label": 5, "align": "middle", "format": ["x"], "width": 3}
    assert table_of({"columns": [odd], "rows": []}) == DataTable((TableColumn("a", "a"),), ())
    for none in (
        {},
        {"rows": "abc"},
        {"rows": [1]},
        {"columns": [5], "rows": []},
        {"columns": ["a"], "rows": [[1, 2]]},
    ):
        assert table_of(none) is None


def test_of_a_first_row_that_is_too_long_is_shown_what_fits():
    """One row of long cells does not hide itself: the beginning of each group is there, and a line says so."""
    columns = tuple(TableColumn(f"c{n}", f"C{n}") for n in range(20))
    table = DataTable(columns, tuple({f"c{n}": f"{at}-{n} " + "x" * 900 for n in range(20)} for at in range(51)))
    for width in (None, 80, 20, 1):
        text = table_text(table, width=width, limit=8_000)
        assert {f"0-{n}" for n in range(20)} <= set(text.split())
        assert text.endswith("\n… and more of the first row\n… and 50 more rows")
        assert len(text) < 12_000


def test_names_of_any_length_leave_room_for_the_numbers():
    """What is called by thousands of characters is called by its beginning, and the text keeps its bound."""
    name = "👩‍👩‍👧 n" * 2_000
    series = tuple(PlainSeries(name, tuple(map(float, range(20)))) for _ in range(100))
    for type in ("line", "bar"):
        for most in (8_000, MAX_TEXT):
            text = chart_text(PlainChart(type, (name, *map(str, range(19))), series, x=name, y=name), limit=most)
            assert len(text) < 2 * most
            assert re.search(r" 0( |$)", text, re.MULTILINE)
            assert "seriess" not in text
    points = tuple(PlainSeries(name, (), ((1.0, 2.0),) * 50) for _ in range(100))
    assert len(chart_text(PlainChart("scatter", (), points, x=name, y=name))) < 1.1 * MAX_TEXT
    table = DataTable(tuple(TableColumn("a", name) for _ in range(100)), ({"a": "cell"},) * 9)
    assert "cell" in table_text(table, limit=8_000)


def test_a_table_of_many_columns_and_rows_is_read_in_part():
    """Only rows that a text has room for are laid out."""
    table = DataTable(tuple(TableColumn(f"k{n}", "K") for n in range(5_000)), ({},) * 50_000)
    assert "… and 49,000 more rows" in table_text(table)


ROWS = [{"city": "Oslo", "n": 3}, {"city": "Rome", "n": 12}]
PLAIN = {
    "type": "bar",
    "categories": ["Oslo", "Rome"],
    "x": "city",
    "y": "n",
    "series": [{"name": "n", "values": [3, 12]}],
}
BOX = {
    "mark": "boxplot",
    "data": {"values": ROWS},
    "encoding": {"x": {"field": "city"}, "y": {"field": "n", "type": "quantitative"}},
}


def test_a_chart_has_one_name():
    """A chart without a title is called the same in Slack, in a file's name and at the head of its text."""
    head = head_of("chart", {"spec": {}, "plain": PLAIN})
    assert head.heading == "Bar chart of n by city"
    assert head.facts == ("bar chart of 2 categories", "highest Rome 12, lowest Oslo 3")
    chart = chart_of({"plain": PLAIN})
    assert chart is not None
    assert chart_text(chart).startswith(f"{head.heading}:\n")
    head = head_of("chart", {"spec": BOX})
    assert head.heading == "Chart of n by city"
    assert head.facts == (
        "Marks of the kind boxplot: x is city, y is n",
        "drawn from 2 rows",
        "n: highest 12, lowest 3",
    )
    assert spec_text(BOX).startswith(f"{head.heading}:\n")


@for_each(
    "kind, payload, heading",
    [
        ("table", {"columns": ["a"], "rows": []}, "Table of a"),
        ("table", {"columns": list("abcde"), "rows": []}, "Table of a, b, c and 2 more"),
        ("table", {"columns": [], "rows": []}, "Table"),
        ("chart", {"spec": {**BOX, "title": {"text": ["Two", "lines"]}}}, "Two lines"),
        ("chart", {"spec": {"layer": [{"mark": "rule"}]}}, "Chart"),
        ("chart", {"spec": {"mark": "arc", "encoding": {"color": {"field": "who"}}}}, "Chart of who"),
        ("chart", {}, "Chart"),
        ("gauge", {"value": 7}, "Gauge"),
    ],
)
def test_what_has_no_title_is_named_after_what_it_shows(kind: str, payload: dict[str, Any], heading: str):
    """The name is made of columns and fields, or is the kind; a title is taken as it is."""
    assert head_of(kind, payload).heading == heading
    assert head_of(kind, payload, "Own\ntitle").heading == "Own title"


def test_numbers_without_an_end_are_described():
    """Huge numbers and cells of mixed kinds break no description."""
    rows = [{"n": 10**400}, {"n": 1.5}]
    assert head_of("chart", {"spec": {**BOX, "data": {"values": rows}}}).facts[1] == "drawn from 2 rows"
    mixed = {**BOX, "data": {"values": [{"n": 1}, {"n": "x"}]}}
    assert head_of("chart", {"spec": mixed}).facts[1:] == ("drawn from 2 rows",)


FORMULA = re.compile(
    "[\\s\ufeff\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2060]*[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66]|[\t\r\n\0]"
)
GOLDEN = Path(__file__).parents[2] / "golden" / "csv_cells.json"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SIGNS = st.sampled_from(
    ["=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", " =", "\ufeff=", '"', ",", "-1", "1e5", "'"]
)
RAW_CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
RAW_CELLS |= st.builds(str.__add__, SIGNS, TEXTS) | TEXTS


def read(content: bytes | None) -> list[list[str]]:
    """Return the cells of a CSV file as a program that keeps to the standard reads them."""
    assert content is not None
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))


def is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None


def payload_of(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"columns": [{"key": key, "label": key} for key in rows[0]], "rows": list(rows)}


@given(st.lists(st.tuples(RAW_CELLS, RAW_CELLS), max_size=5), TEXTS)
def test_a_table_reads_back_and_no_cell_is_a_formula(rows: list[tuple[Any, Any]], label: str):
    """Every text of a table is in its file, with an apostrophe where a spreadsheet would take it for a formula."""
    columns = [{"key": "a", "label": label}, {"key": "b", "label": "b"}]
    cells = read(csv_of("table", {"columns": columns, "rows": [{"a": a, "b": b} for a, b in rows]}))
    assert len(cells) == len(rows) + 1
    for line, values in zip(cells, [(label, "b"), *rows], strict=True):
        for text, value in zip(line, values, strict=True):
            assert not FORMULA.match(text) or is_number(text)
            if isinstance(value, str):
                assert text in (value, f"'{value}")
            elif isinstance(value, int | float) and not isinstance(value, bool):
                assert float(text) == value


@for_each(
    "value, text",
    [
        ("=1+1", "'=1+1"),
        ("  @SUM(A1)", "'  @SUM(A1)"),
        ("\uff1d1", "'\uff1d1"),
        ("-5", "-5"),
        ("+1.5e3", "+1.5e3"),
        ("-5\n", "'-5\n"),
        ("-٣", "'-٣"),
        (-5, "-5"),
        (3.0, "3"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        (None, ""),
        ({"a": "=1"}, '{"a":"=1"}'),
        ('say "hi", twice', 'say "hi", twice'),
    ],
)
def test_a_cell_of_a_file_is_the_raw_value(value: Any, text: str):
    """Numbers stay numbers, and what begins as a formula does has an apostrophe before it."""
    assert read(csv_of("table", payload_of({"x": value})))[1] == [text]


@for_each("each", json.loads(GOLDEN.read_text()))
def test_a_formula_after_what_is_not_seen_is_text(each: dict[str, str]):
    """The file and the widget, which reads the same cases, write these cells in the same way."""
    assert read(csv_of("table", payload_of({"x": each["text"]})))[1:] == [[each["cell"]]]


def sparse(count: int) -> list[dict[str, int]]:
    """Return rows that have a column each."""
    return [{f"k{n}": 1} for n in range(count)]


@for_each(
    "kind, payload",
    [
        ("table", {"rows": sparse(5_000)}),
        ("table", {"columns": [f"c{n}" for n in range(2_000)], "rows": [{}] * 5_000}),
        ("chart", {"spec": {"data": {"values": sparse(5_000)}}}),
        ("chart", {"plain": {"type": "scatter", "categories": [], "series": [
            {"name": "n" * 100_000, "points": [[1, 1]] * 5_000}, {"name": "m", "points": []}]}}),
    ],
)  # fmt: skip
def test_a_small_payload_makes_no_large_file(kind: str, payload: dict[str, Any]):
    """Rows with columns of their own, empty rows of many columns and long names that repeat give no file, soon."""
    assert csv_of(kind, payload) is None


def test_a_file_as_large_as_may_be_is_made():
    """A thousand rows of a thousand columns are a file."""
    content = csv_of("table", {"rows": sparse(1_000)})
    assert content is not None
    assert content.count(b"\r\n") == 1_001


def test_a_file_is_one_that_spreadsheets_read():
    """It begins with the mark of UTF-8, all cells are quoted, and lines end with a carriage return and a line feed."""
    assert csv_of("table", payload_of({"Größe": 1})) == '\ufeff"Größe"\r\n"1"\r\n'.encode()


def test_a_chart_is_a_table_of_its_series():
    """A plain chart has a line for each category and a column for each series; a gap is an empty cell."""
    series = (PlainSeries("2025", (1.0, None)), PlainSeries("2026", (2.5, 4.0)))
    plain = msgspec.to_builtins(PlainChart("bar", ("Jan", "=Feb"), series, x="Month"))
    assert read(csv_of("chart", {"spec": {}, "plain": plain})) == [
        ["Month", "2025", "2026"],
        ["Jan", "1", "2.5"],
        ["'=Feb", "", "4"],
    ]


def test_a_scatter_chart_is_a_table_of_its_points():
    """Each point has a line, with its series where there are several."""
    plain = msgspec.to_builtins(
        PlainChart("scatter", (), (PlainSeries("A", points=((1, 2),)), PlainSeries("B", points=((3, 4.5),))), x="cm")
    )
    assert read(csv_of("chart", {"plain": plain})) == [["series", "cm", "y"], ["A", "1", "2"], ["B", "3", "4.5"]]


def test_a_chart_without_a_plain_form_has_its_rows():
    """The largest data set of a specification is its file."""
    spec = {
        "layer": [
            {"mark": "rule", "data": {"values": [{"at": 3}]}},
            {"mark": "rect", "data": {"name": "days"}},
        ],
        "datasets": {"days": [{"day": "Mo", "n": 1}, {"day": "Tu", "note": {"a": 1}}]},
    }
    assert read(csv_of("chart", {"spec": spec})) == [["day", "n", "note"], ["Mo", "1", ""], ["Tu", "", '{"a":1}']]


@for_each(
    "kind, payload",
    [("tally_marks", {"rows": [{"a": 1}]}), ("table", {"rows": 5}), ("chart", {"spec": {}}), ("chart", {"spec": 1})],
)
def test_what_has_no_rows_has_no_file(kind: str, payload: dict[str, Any]):
    """An unknown kind and a payload that does not fit its kind have no CSV."""
    assert csv_of(kind, payload) is None

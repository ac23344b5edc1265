"""Renders as CSV."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent_core.renders.files import csv_of
from agent_core.renders.values import PlainChart, PlainSeries
from tests.cases import for_each

FORMULA = re.compile(
    "[\\s\ufeff\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2060]*[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66]|[\t\r\n\0]"
)
GOLDEN = Path(__file__).parents[2] / "golden" / "csv_cells.json"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SIGNS = st.sampled_from(
    ["=", "+", "-", "@", "\t", "\r", "\n", "\0", "\uff1d", " =", "\ufeff=", '"', ",", "-1", "1e5", "'"]
)
CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
CELLS |= st.builds(str.__add__, SIGNS, TEXTS) | TEXTS


def read(content: bytes | None) -> list[list[str]]:
    """Return the cells of a CSV file as a program that keeps to the standard reads them."""
    assert content is not None
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))


def is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII) is not None


def table(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"columns": [{"key": key, "label": key} for key in rows[0]], "rows": list(rows)}


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5), TEXTS)
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
    assert read(csv_of("table", table({"x": value})))[1] == [text]


@for_each("each", json.loads(GOLDEN.read_text()))
def test_a_formula_after_what_is_not_seen_is_text(each: dict[str, str]):
    """The file and the widget, which reads the same cases, write these cells in the same way."""
    assert read(csv_of("table", table({"x": each["text"]})))[1:] == [[each["cell"]]]


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
    assert csv_of("table", table({"Größe": 1})) == '\ufeff"Größe"\r\n"1"\r\n'.encode()


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

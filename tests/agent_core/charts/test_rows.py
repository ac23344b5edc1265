"""Rows of results: where they are found, and how they are filtered, ordered and named."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent_core.charts.rows import (
    MAX_COLUMNS,
    MAX_FOUND,
    HandleOfRows,
    columns_of,
    note_of,
    ordered,
    rows_in,
    select,
    values_of,
    where_equal,
)
from tests.cases import for_each

TEXTS = st.text('aB1ß "\\', max_size=4)
NUMBERS = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXTS, SCALARS, max_size=2)
ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), min_size=1, max_size=12)


@given(ROWS, st.sampled_from(["", "rows", "items", "results", "data"]))
def test_rows_are_found_in_a_list_or_under_a_usual_key(rows, place):
    """A list of objects is found as it is, and under `rows`, `items`, `results` or `data`."""
    text = msgspec.json.encode({"count": 1, place: rows} if place else rows).decode()
    found = rows_in(text)
    assert found is not None
    assert list(found.rows) == msgspec.json.decode(msgspec.json.encode(rows))
    assert set(found.columns) == {key for row in rows for key in row}


@for_each(
    "text",
    [
        "",
        "12 rows were found",
        "[]",
        "{}",
        "[1, 2]",
        '[{"a": 1}, 2]',
        '{"rows": {"a": 1}}',
        '{"other": [{"a": 1}]}',
        '[{"a": 1}',
        '[{"a": "\\ud800"}]',
        "[" * 100_000,
        '["' + "x" * MAX_FOUND + '"]',
    ],
)
def test_other_results_have_no_rows(text):
    """Text, other JSON, broken JSON and what is too long or too deep hold no rows."""
    assert rows_in(text) is None


def test_columns_come_in_order_of_first_sight():
    """The columns are the union of the rows' keys, in the order in which they come, up to a bound."""
    assert columns_of([{"b": 1}, {"a": 1, "b": 2}, {"c": 0}]) == ("b", "a", "c")
    assert len(columns_of([{f"c{n}": n for n in range(MAX_COLUMNS + 5)}])) == MAX_COLUMNS


def test_a_handle_is_one_line_of_bounded_length():
    """The line names the handle, the rows and the columns, however long or strange their names are."""
    assert note_of(HandleOfRows(4, 214, ("id", "name"))) == "[result r4: 214 rows x 2 columns: id, name]"
    assert note_of(HandleOfRows(1, 1, ("id",))) == "[result r1: 1 row x 1 column: id]"
    line = note_of(HandleOfRows(9, 1000, tuple(f"column\n{n} {'x' * 200}" for n in range(200))))
    assert "\n" not in line
    assert len(line) < 500
    assert line.endswith(", …]")


@given(ROWS, st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=3))
def test_ordering_keeps_every_row_and_puts_nulls_last(rows, by):
    """Mixed types raise nothing, no row is lost or made, and rows without a value come last in either direction."""
    found = ordered(rows, by)
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    first = [row.get(by[0][0]) for row in found]
    nulls = [value is None for value in first]
    assert nulls == sorted(nulls)
    assert ordered(found, by) == found


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_several_columns_order_like_tuples(pairs):
    """Rows are ordered by the first column, then by the second one in the other direction."""
    rows = [{"a": a, "b": b} for a, b in pairs]
    wanted = sorted(pairs, key=lambda pair: (pair[0], -pair[1]))
    assert [(row["a"], row["b"]) for row in ordered(rows, [("a", False), ("b", True)])] == wanted


def test_types_are_not_mixed_up():
    """Booleans come before numbers, numbers before texts, which are ordered without regard to case."""
    values = ["b", 10, True, "A", None, 9.5, {"x": 1}, False]
    found = [row["v"] for row in ordered([{"v": value} for value in values], [("v", False)])]
    assert found == [False, True, 9.5, 10, "A", "b", {"x": 1}, None]


@given(ROWS, VALUES)
def test_a_filter_keeps_exactly_the_equal_rows(rows, value):
    """Equal is what has the same JSON: a missing cell is null, 1 is 1.0, and neither is true or a text."""
    found = where_equal(rows, {"a": value})
    assert [row for row in rows if _same(row.get("a"), value)] == found


def test_true_is_no_number_and_a_number_no_text():
    """A filter does not mix types, as Python would."""
    rows = [{"a": 1}, {"a": True}, {"a": "1"}, {"a": None}, {}]
    assert where_equal(rows, {"a": 1.0}) == [{"a": 1}]
    assert where_equal(rows, {"a": True}) == [{"a": True}]
    assert where_equal(rows, {"a": None}) == [{"a": None}, {}]


def test_columns_are_selected_and_missing_cells_stay_missing():
    """A selection keeps the named cells in the order of the names."""
    assert [list(row.items()) for row in select([{"a": 1, "b": 2}, {"b": 3}], ["b", "a"])] == [
        [("b", 2), ("a", 1)],
        [("b", 3)],
    ]


def test_some_values_of_a_column_are_named():
    """What a filter could have named is one line: each value once, the first ten."""
    assert values_of([{"s": "open"}, {"s": "closed"}, {"s": "open"}, {}], "s") == "open, closed, null"
    assert values_of([{"s": n} for n in range(50)], "s").endswith("9, …")


def _same(one, other) -> bool:
    return json.dumps(_plain(one), sort_keys=True) == json.dumps(_plain(other), sort_keys=True)


def _plain(value):
    """Return numbers as floats where that is exact, so that JSON texts compare as numbers do."""
    if isinstance(value, int) and not isinstance(value, bool) and float(value) == value:
        return float(value) + 0.0
    return value + 0.0 if isinstance(value, float) else value

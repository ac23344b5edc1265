"""Cells as text."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_core.charts.values import DataTable, TableColumn, alignments, formatted
from tests.cases import for_each

FORMATS = [None, "text", "number", "integer", "percent", "date", "datetime", "currency:EUR", "currency:CHF", "odd"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@for_each(
    "value, format, text",
    [
        (None, "number", ""),
        (True, "number", "yes"),
        (0.1 + 0.2, None, "0.3"),
        (0.1 + 0.2, "number", "0.3"),
        (2026, None, "2026"),
        (12.0, None, "12"),
        (1234567.8912, "number", "1,234,567.891"),
        (0.00012345, "number", "0.000123"),
        (10**30, "number", "1" + ",000" * 10),
        (10**30, None, "1" + "0" * 30),
        ("1234.50", "number", "1,234.5"),
        ("007", "integer", "007"),
        ("12 apples", "number", "12 apples"),
        (2.5, "integer", "3"),
        (-0.4, "integer", "0"),
        (-0.0, None, "0"),
        (0.12, "percent", "12%"),
        (0.12, "percent.1", "12.0%"),
        (1234.5, "currency:USD.0", "$1,235"),
        (1.5, "number.2", "1.50"),
        (0.1234, "percent", "12.3%"),
        (0.0004, "percent", "0.04%"),
        (1234.5, "currency:EUR", "€1,234.50"),
        (-1234.5, "currency:USD", "-$1,234.50"),
        (1234.5, "currency:JPY", "¥1,235"),
        (1.5, "currency:KWD", "KWD\u00a01.500"),
        (1e300, "number", "1e+300"),
        (5e-324, "number", "4.94e-324"),
        (math.nan, "number", "nan"),
        (math.inf, "currency:EUR", "inf"),
        ("2026-02-15", "date", "Feb 15, 2026"),
        ("2026-02-15", "datetime", "Feb 15, 2026"),
        ("2026-02-15T14:30:00+02:00", "datetime", "Feb 15, 2026, 12:30 UTC"),
        ("2026-02-15T23:30:05-05:00", "date", "Feb 16, 2026"),
        ("2026-02-15 14:30:05", "datetime", "Feb 15, 2026, 14:30:05"),
        ("2026-02-15T14:30:00Z", None, "2026-02-15T14:30:00Z"),
        ("2026-13-45", "date", "2026-13-45"),
        ("0001-01-01T00:00:00+09:00", "datetime", "0001-01-01T00:00:00+09:00"),
        (1771234567000, "date", "Feb 16, 2026"),
        (2026, "date", "2026"),
        ({"a": [1, None]}, "number", '{"a":[1,null]}'),
    ],
)
def test_a_value_is_shown_as_its_column_says(value: Any, format: str | None, text: str):
    """A cell has English signs, no noise of binary fractions, and what does not fit its format is as it is."""
    assert formatted(value, format) == text


def test_a_number_of_many_digits_is_exact():
    """Five thousand digits are shown, although Python converts no more than 4,300 by itself."""
    assert formatted(10**5000) == "1" + "0" * 5000
    assert len(formatted(10**5000, "integer")) == 5001 + 1666


@given(JSON, st.sampled_from(FORMATS))
def test_every_value_has_a_text(value: Any, format: str | None):
    """No value of JSON fails under any format."""
    assert isinstance(formatted(value, format), str)


def test_a_value_that_is_too_deep_has_a_text():
    """A list within a hundred thousand lists is shown as dots."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert formatted(deep) == "…"


@given(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9))
def test_an_amount_reads_back(amount: Any):
    """The digits of an amount of money are those of the value."""
    assert formatted(float(amount), "currency:USD").replace("$", "").replace(",", "") == f"{amount:.2f}".replace(
        "-0.00", "0.00"
    )


def test_numbers_are_aligned_right():
    """A column is aligned as it says, one of numbers right, others left; an empty one is not one of numbers."""
    columns = (
        TableColumn("n", "n"),
        TableColumn("s", "s"),
        TableColumn("e", "e", format="currency:EUR"),
        TableColumn("c", "c", align="center"),
        TableColumn("b", "b"),
        TableColumn("none", "none"),
        TableColumn("t", "t", format="text"),
    )
    rows = ({"n": 1, "s": "x", "e": "3.50", "c": 1, "b": True, "t": 1}, {"n": None, "s": 2})
    assert alignments(DataTable(columns, rows)) == ("right", "left", "right", "center", "left", "left", "left")

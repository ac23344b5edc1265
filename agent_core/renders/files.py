"""Renders as files that are downloaded: CSV that a spreadsheet opens as data, never as formulas; pure."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent_core.renders.formats import as_json, number_of
from agent_core.renders.specs import data_of, object_of
from agent_core.renders.values import DataTable, PlainChart, chart_of, table_of

_IGNORABLE = re.compile(
    "[\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u2800\\u3164\\ufe00-\\ufe0f\\uffa0\\U000e0100-\\U000e01ef]"
)
"""Without ink although letters or marks: Unicode's default ignorable code points, and Braille's blank."""
MAX_CELLS = 1_000_000
"""Cells of a file: rows without most of their columns would make a large one of a small payload."""
MAX_CSV_BYTES = 10_000_000
"""Bytes of a file; what repeats is a long name of a series."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def csv_of(kind: str, payload: Mapping[str, Any]) -> bytes | None:
    """Return the data of a render as CSV (RFC 4180, UTF-8 with its mark, all quoted); None where it has no rows.

    None too where it would have more than `MAX_CELLS`, before any is written, or more than `MAX_CSV_BYTES`.

    Values are raw, not formatted. A text that a spreadsheet would take for a formula has an apostrophe before it. Of a
    chart it has the categories and each series; of one without a plain form the rows of its largest data set.
    """
    lines = _lines(kind, payload)
    if lines is None:
        return None
    file, text = bytearray(b"\xef\xbb\xbf"), io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    for line in lines:
        writer.writerow([_cell(value) for value in line])
        file += text.getvalue().encode("utf-8", "replace")
        if len(file) > MAX_CSV_BYTES:
            return None
        text.seek(0)
        text.truncate()
    return bytes(file)


def _lines(kind: str, payload: Mapping[str, Any]) -> Iterable[Sequence[Any]] | None:
    if kind == "table":
        table = table_of(payload)
        return None if table is None or _is_large(table) else _of_table(table)
    if kind != "chart":
        return None
    if chart := chart_of(payload):
        return _of_chart(chart)
    tables = data_of(object_of(payload.get("spec")))
    largest = max(tables, key=lambda table: len(table.rows), default=None)
    return None if largest is None or _is_large(largest) else _of_table(largest)


def _is_large(table: DataTable) -> bool:
    return len(table.rows) * len(table.columns) > MAX_CELLS


def _of_table(table: DataTable) -> Iterable[Sequence[Any]]:
    yield [column.label for column in table.columns]
    yield from ([row.get(column.key) for column in table.columns] for row in table.rows)


def _of_chart(chart: PlainChart) -> Iterable[Sequence[Any]]:
    if chart.type == "scatter":
        several = len(chart.series) > 1
        yield [*(["series"] if several else []), chart.x or "x", chart.y or "y"]
        yield from ([*([each.name] if several else []), *point] for each in chart.series for point in each.points)
        return
    yield [chart.x or "category", *(series.name for series in chart.series)]
    yield from zip(chart.categories, *(series.values for series in chart.series), strict=True)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else str(value)
    if isinstance(value, int):
        return str(number_of(value))  # digits without a limit
    text = value if isinstance(value, str) else as_json(value)
    return f"'{text}" if _is_formula(text) and not _NUMBER.fullmatch(text) else text


def _is_formula(text: str) -> bool:
    """Return whether a cell of *text* is a formula (OWASP, CSV injection): in any width, after what is not seen."""
    if text.startswith(("\t", "\r", "\n", "\0")):
        return True
    first = next((sign for sign in text if not _is_unseen(sign)), "")
    return unicodedata.normalize("NFKC", first).startswith(("=", "+", "-", "@"))


def _is_unseen(sign: str) -> bool:
    return sign.isspace() or unicodedata.category(sign)[0] in "CZ" or _IGNORABLE.match(sign) is not None

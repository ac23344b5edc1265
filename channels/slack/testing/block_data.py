"""The shapes of tables and charts, and the rules between their parts."""

from collections.abc import Iterator
from typing import Any, cast

from channels.slack.testing.block_parts import RICH_TEXT
from channels.slack.testing.block_shapes import (
    Json,
    ShapeProblem,
    both,
    flag,
    items,
    nullable,
    number,
    record,
    text,
    typed,
)
from channels.slack.web_api import limits

_ID = {"block_id": text(limits.BLOCK_ID.value)}
_RAW = {"raw_text": record({"text": text()}), "raw_number": record({"value": number(), "text": text()})}
_ROW = items(typed({**_RAW, "rich_text": RICH_TEXT}), limits.TABLE_CELLS.value)


def cell_texts(value: Any) -> Iterator[str]:
    """Give every text in the rows of a table."""
    match value:
        case {"rows": list()}:
            for row in cast("list[Any]", value["rows"]):
                yield from cell_texts(row)
        case {"text": str() as text}:
            yield text
        case {"elements": inner}:
            yield from cell_texts(inner)
        case list():
            for each in cast("list[Any]", value):
                yield from cell_texts(each)
        case _:
            return


def _short_enough(limit: int, what: str) -> Any:
    def check(value: Json, at: str) -> Iterator[ShapeProblem]:
        if sum(map(len, cell_texts(value))) > limit:
            yield ShapeProblem(at, "too_long", f"a {what} holds at most {limit} characters")

    return check


def _is_grid(value: Json, at: str) -> Iterator[ShapeProblem]:
    header, *rows = value["rows"]
    for n, row in enumerate(rows, 1):
        if len(row) != len(header):
            yield ShapeProblem(f"{at}/rows/{n}", "bad_value", f"all rows must have {len(header)} cells")
    for n, cell in enumerate(header):
        if cell["type"] == "rich_text":
            yield ShapeProblem(f"{at}/rows/0/{n}", "bad_value", "a header cell may not be rich_text")
    if value.get("row_header_column_index", 0) >= len(header):
        yield ShapeProblem(f"{at}/row_header_column_index", "too_high", f"must be less than {len(header)}")


TABLE = both(
    record(
        {"rows": items(_ROW, limits.TABLE_ROWS.value)},
        {
            **_ID,
            "column_settings": items(
                nullable(record({}, {"align": text(among=("left", "center", "right")), "is_wrapped": flag})),
                limits.TABLE_COLUMN_SETTINGS.value,
            ),
        },
    ),
    _short_enough(limits.TABLE_TEXT.value, "table"),
)

DATA_TABLE = both(
    record(
        {
            "caption": text(),
            "rows": items(
                items(typed({**_RAW, "rich_text": RICH_TEXT}), limits.DATA_TABLE_COLUMNS.value),
                limits.DATA_TABLE_ROWS.value + 1,
                least=2,
            ),
        },
        {
            **_ID,
            "page_size": number(1, limits.DATA_TABLE_PAGE.value, whole=True),
            "row_header_column_index": number(0, whole=True),
        },
    ),
    _is_grid,
    _short_enough(limits.DATA_TABLE_TEXT.value, "data_table"),
)

# ---- charts ---------------------------------------------------------------------------------------

_NAME = text(limits.CHART_NAME.value)
_AXIS = text(limits.CHART_AXIS.value)
_POINT = record({"label": _NAME, "value": number()})


def _fits_its_axis(value: Json, at: str) -> Iterator[ShapeProblem]:
    """Every series has one point per category, and names differ."""
    categories: list[str] = value["axis_config"]["categories"]
    if len(set(categories)) < len(categories):
        yield ShapeProblem(f"{at}/axis_config/categories", "not_unique", "categories must be unique")
    names = [series["name"] for series in value["series"]]
    if len(set(names)) < len(names):
        yield ShapeProblem(f"{at}/series", "not_unique", "names of series must be unique")
    for n, series in enumerate(value["series"]):
        if sorted(point["label"] for point in series["data"]) != sorted(categories):
            yield ShapeProblem(f"{at}/series/{n}/data", "bad_value", "must have exactly one point per category")


_SERIES = both(
    record(
        {
            "series": items(
                record({"name": _NAME, "data": items(_POINT, limits.CHART_POINTS.value)}), limits.CHART_SERIES.value
            ),
            "axis_config": record(
                {"categories": items(_NAME, limits.CHART_POINTS.value)}, {"x_label": _AXIS, "y_label": _AXIS}
            ),
        }
    ),
    _fits_its_axis,
)
_PIE = record(
    {"segments": items(record({"label": _NAME, "value": number(0, above=True)}), limits.CHART_SEGMENTS.value)}
)
DATA_VISUALIZATION = record(
    {
        "title": text(limits.CHART_TITLE.value),
        "chart": typed({"pie": _PIE, "bar": _SERIES, "line": _SERIES, "area": _SERIES}),
    },
    _ID,
)

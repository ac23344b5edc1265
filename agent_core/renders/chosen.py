"""Rows as a call wants them shown: which of them, in which order, how many, and which fields a chart draws; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from agent_core.errors import InvalidInput
from agent_core.renders import rows as r
from agent_core.renders.rows import Row

MAX_TABLE_ROWS = 500
MAX_CHART_ROWS = 5_000


def chosen(rows: Sequence[Row], arguments: Mapping[str, Any], columns: Sequence[str]) -> Sequence[Row]:
    """Return *rows* filtered by `where`, ordered by `order` and cut to `limit`, each if it is in *arguments*.

    *columns* are the columns that may be named. Raises `InvalidInput`, also when a filter leaves no row.
    """
    wanted: Mapping[str, Any] = arguments.get("where") or {}
    for name, value in wanted.items():
        _check_known(f"where.{name}", name, columns)
        left = r.where_equal(rows, {name: value})
        if not left:
            raise InvalidInput(f"where.{name}", f"no row has this value; there are: {r.values_of(rows, name)}.")
        rows = left
    by = [_direction(index, name, columns) for index, name in enumerate(arguments.get("order") or ())]
    ordered = r.ordered(rows, by) if by else rows
    return ordered[: arguments.get("limit") or len(ordered)]


def check_size(count: int, limit: int, *, handle: str | None) -> None:
    """Raise `InvalidInput` when *count* rows are more than *limit*; *handle* is the result that they are of."""
    if count <= limit:
        return
    if handle is not None:
        remedy = f"set `limit` to {limit} or less, or filter with `where`."
        raise InvalidInput("from_result", f"`{handle}` gives {count:,} rows, at most {limit:,} can be shown; {remedy}")
    remedy = "pass the `from_result` of a tool's result with a `limit`, or aggregate them."
    raise InvalidInput("rows", f"{count:,} rows, at most {limit:,} can be shown; {remedy}")


def drawn_columns(spec: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return those of *columns* that *spec* uses, in their order; raises `InvalidInput` for a missing one."""
    there = set(columns)
    if not any(True for _ in _values(spec, "transform")):
        for name in _values(spec, "field"):
            if isinstance(name, str) and name not in there and _root(name) not in there:
                raise InvalidInput("vega_lite_spec", f"the result has no column `{name[:100]}`; {_listed(columns)}")
    texts = {each for each in _texts(spec) if len(each) <= 1_000}  # noqa: PLR2004 - no column's name is longer
    named = texts | {_root(each) for each in texts} | {each.replace("\\", "") for each in texts}
    used = [name for name in columns if name in named]
    if not used:
        raise InvalidInput("vega_lite_spec", f"it uses no column of the result; {_listed(columns)}")
    return used


def _direction(place: int, name: str, columns: Sequence[str]) -> tuple[str, bool]:
    descending = name.startswith("-") and name not in columns
    plain = name[1:] if descending else name
    _check_known(f"order[{place}]", plain, columns)
    return plain, descending


def _check_known(path: str, name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise InvalidInput(path, f"there is no column `{name[:100]}`; {_listed(columns)}")


def _listed(columns: Sequence[str]) -> str:
    return f"the columns are: {r.listed(columns) or 'none'}."


def _root(field: str) -> str:
    """Return the column in which the nested *field* is: `a` of `a.b` and of `a[0]`."""
    return field.partition(".")[0].partition("[")[0]


def _values(part: Any, key: str) -> Iterator[Any]:
    """Yield what is under *key* anywhere in *part* but in its data."""
    if isinstance(part, dict):
        for name, each in cast("Mapping[str, Any]", part).items():
            if name == key:
                yield each
            if name not in ("data", "datasets"):
                yield from _values(each, key)
    elif isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _values(each, key)


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for name, each in cast("Mapping[str, Any]", part).items():
            if name not in ("data", "datasets"):
                yield from _texts(each)
    elif isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _texts(each)

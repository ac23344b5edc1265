"""The transforms of charts that reduce: filters, aggregates, folds and time units."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_core.renders.vega.cells import INHERITED, label_of, plain_name
from agent_core.renders.vega.instants import EPOCH, instant, unit_named
from agent_core.renders.vega.measures import ABSENT, aggregated
from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_list, is_number, is_object

Row = Mapping[str, Any]
Test = Callable[[Row], bool]
MAX_DEPTH = 24
MAX_ROWS = 100_000
"""Rows after a fold."""


def transformed_rows(rows: Sequence[Row], transforms: Any, dated: frozenset[str]) -> Sequence[Row]:
    """Return the rows as a view's transforms leave them; *dated* are the fields that are read as dates.

    Raises `NotPlain` for transforms that are not reduced.
    """
    if not is_list(transforms):
        raise NotPlain
    for each in transforms:
        if not is_object(each):
            raise NotPlain
        keys = set(each)
        if keys == {"filter"}:
            test = _test(each["filter"], rows, dated)
            rows = [row for row in rows if test(row)]
        elif "aggregate" in keys and keys <= {"aggregate", "groupby"}:
            rows = _aggregated(rows, each)
        elif "fold" in keys and keys <= {"fold", "as"}:
            rows = _folded(rows, each)
        elif keys == {"timeUnit", "field", "as"}:
            rows = _floored(rows, each)
        else:
            raise NotPlain
    return rows


def _test(predicate: Any, rows: Sequence[Row], dated: frozenset[str], depth: int = 0) -> Test:
    """Return what tests a row of *rows*; the cells of a field must all be of the type of what they are compared with.

    Vega reads cells of other types as the one of the operand, and so those of *dated* fields, which are dates then.
    """
    if not is_object(predicate) or depth > MAX_DEPTH:
        raise NotPlain
    if len(predicate) == 1:
        ((key, parts),) = predicate.items()
        if key == "not":
            inner = _test(parts, rows, dated, depth + 1)
            return lambda row: not inner(row)
        if key not in ("and", "or") or not is_list(parts):
            raise NotPlain
        tests = [_test(each, rows, dated, depth + 1) for each in parts]
        joined = all if key == "and" else any
        return lambda row: joined(each(row) for each in tests)
    comparisons = predicate.keys() - {"field"}
    if len(predicate) != len(PAIR) or len(comparisons) != 1:
        raise NotPlain
    comparison, column = comparisons.pop(), _column(predicate["field"])
    operands = predicate[comparison] if comparison in ("oneOf", "range") else [predicate[comparison]]
    if column in dated or not is_list(operands) or not operands:
        raise NotPlain
    if any(isinstance(each, str) and each in INHERITED for each in operands):
        raise NotPlain  # Vega refuses these texts
    kinds = {_kind(each) for each in operands} | {_kind(row.get(column)) for row in rows}
    if len(kinds) > 1 or (comparison not in ("equal", "oneOf") and not _is_ordered(kinds, operands, column, rows)):
        raise NotPlain
    compared = _comparison(comparison, operands)
    return lambda row: compared(row[column])


def _comparison(name: str, operands: Sequence[Any]) -> Callable[[Any], bool]:
    match name, operands:
        case "equal" | "oneOf", _:
            wanted = frozenset(operands)
            return lambda cell: cell in wanted
        case "range", [one, other]:
            low, high = min(one, other), max(one, other)
            return lambda cell: low <= cell <= high
        case "gte", [operand]:
            return lambda cell: cell >= operand
        case "lte", [operand]:
            return lambda cell: cell <= operand
        case "gt", [operand]:
            return lambda cell: cell > operand
        case "lt", [operand]:
            return lambda cell: cell < operand
        case _:
            raise NotPlain


def _kind(value: Any) -> str:
    """Return the type of a cell or an operand. Raises `NotPlain` for null, lists and objects."""
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "text"
    raise NotPlain


def _is_ordered(kinds: set[str], operands: Sequence[Any], column: str, rows: Sequence[Row]) -> bool:
    """Return whether all values are numbers, or ASCII texts, whose order is the same anywhere."""
    if kinds == {"text"}:
        return all(each.isascii() for each in operands) and all(row[column].isascii() for row in rows)
    return kinds == {"number"}


def _aggregated(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    by = transform.get("groupby", [])
    ops = transform["aggregate"]
    if not is_list(by) or not is_list(ops) or not all(map(is_object, ops)):
        raise NotPlain
    names = [_column(each) for each in by]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    joined: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        cells = [row.get(name, ABSENT) for name in names]
        if not all(cell is None or isinstance(cell, str | int | float) for cell in cells):
            raise NotPlain
        key = tuple((type(cell) is bool, type(cell) is str, cell) for cell in cells)
        if joined.setdefault("|".join(map(_joined, cells)), key) != key:
            raise NotPlain  # Vega takes these for one group
        groups.setdefault(key, []).append(row)
    result: list[Row] = []
    for key, members in groups.items():
        made = dict(zip(names, (cell for _, _, cell in key), strict=True))
        for each in ops:
            op, field = each.get("op"), each.get("field", "")
            if not isinstance(op, str) or not isinstance(each.get("as"), str):
                raise NotPlain
            column = _column(field)
            made[each["as"]] = aggregated(op, [row.get(column, ABSENT) for row in members])
        result.append(made)
    return result


def _folded(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    fields, names = transform["fold"], transform.get("as", ["key", "value"])
    if not is_list(fields) or not is_list(names) or len(names) != len(PAIR):
        raise NotPlain
    if len(rows) * len(fields) > MAX_ROWS or not all(isinstance(each, str) for each in names):
        raise NotPlain
    columns = [_column(each) for each in fields]
    return [{**row, names[0]: name, names[1]: row.get(name)} for row in rows for name in columns]


PAIR = ("key", "value")


def _floored(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    """Return the rows with the first instant of the unit in a field of its own, in milliseconds."""
    name, unit, field = transform["as"], transform["timeUnit"], _column(transform["field"])
    if not isinstance(name, str) or not isinstance(unit, str):
        raise NotPlain
    floor = unit_named(unit).floor
    return [{**row, name: int((floor(instant(row.get(field))) - EPOCH).total_seconds() * 1000)} for row in rows]


def _joined(cell: Any) -> str:
    return "undefined" if cell is ABSENT else label_of(cell)


def _column(field: Any) -> str:
    if not isinstance(field, str):
        raise NotPlain
    return plain_name(field)

"""The data of a chart: inline rows and nothing else."""

import math
from typing import Any

from agent_core.renders.vega.bad import BadSpec, unknown
from agent_core.renders.vega.shapes import is_list, is_object, is_unicode

MAX_VALUES = 5_000
"""Rows of all data of a chart."""
MAX_CELL = 10_000
"""Characters of a cell."""
MAX_NESTED = 200
"""Values within one cell that is a list or an object."""
MAX_FIELDS = 200
"""Fields of the rows of one source."""
KEYS = frozenset({"values", "name", "format"})
MAX_BITS = 1_000
"""Bits of a whole number that a double can hold."""
MAX_SAFE = 2**53
MAX_FORMAT = 60
INLINE = "put the rows into `data.values`, a list of objects"


def source(value: Any, path: str) -> dict[str, Any] | None:
    """Return a copy of a view's `data`, whose rows are the same objects. Raises `BadSpec`."""
    if value is None:
        return None
    if is_list(value):
        raise BadSpec(path, 'write the rows as `{"values": [...]}`.')
    if not is_object(value):
        raise BadSpec(path, f"this is no object; {INLINE}.")
    for key in value:
        if key == "url":
            raise BadSpec(f"{path}.url", f"nothing is fetched; {INLINE}.")
        if key in ("sequence", "graticule", "sphere"):
            raise BadSpec(f"{path}.{key}", f"rows are not generated; {INLINE}.")
        if key not in KEYS:
            raise unknown(f"{path}.{str(key)[:60]}", "property of data", str(key), KEYS)
    copy = dict(value)
    if "values" in value:
        copy["values"] = rows_of(value["values"], f"{path}.values")
    elif not isinstance(value.get("name"), str):
        raise BadSpec(path, f"this has no rows; {INLINE}.")
    if "name" in value and not isinstance(value["name"], str):
        raise BadSpec(f"{path}.name", "a name is a text.")
    _check_unicode(value.get("name", ""), f"{path}.name")
    if "format" in value:
        copy["format"] = _format(value["format"], f"{path}.format")
    return copy


def sources(value: Any, path: str) -> dict[str, list[Any]]:
    """Return a copy of `datasets`, by name. Raises `BadSpec`."""
    if not is_object(value):
        raise BadSpec(path, "this must be an object: the rows by name.")
    if len(value) > MAX_FIELDS:
        raise BadSpec(path, f"these are {len(value):,} data sets; give at most {MAX_FIELDS}.")
    for name in value:
        _check_unicode(str(name), path)
    return {str(name): rows_of(rows, f"{path}.{str(name)[:60]}") for name, rows in value.items()}


def rows_of(values: Any, path: str) -> list[Any]:
    """Return a list of the rows, each as it is. Raises `BadSpec` when one holds what is no JSON, or too much of it."""
    if isinstance(values, str):
        raise BadSpec(path, "text is not parsed; write the rows as a list of objects.")
    if not is_list(values):
        raise BadSpec(path, "this must be a list of objects, one for each row.")
    if len(values) > MAX_VALUES:
        raise too_many(len(values), path)
    for index, row in enumerate(values):
        if not is_object(row):
            _check_cell(row, f"{path}[{index}]")
            continue
        for key, cell in row.items():
            if not _is_common(cell):
                _check_cell(cell, f"{path}[{index}].{_as_text(key)}")
            if not str(key).isascii():
                _check_unicode(str(key), f"{path}[{index}]")
    return list(values)


def _as_text(key: Any) -> str:
    return str(key)[:60].encode(errors="replace").decode()


def _is_common(cell: Any) -> bool:
    """Return whether a cell is plainly a good one: there are many of them, so this is quick."""
    if isinstance(cell, str):
        return len(cell) <= MAX_CELL and is_unicode(cell)
    return cell is None or (isinstance(cell, int | float) and -MAX_SAFE < cell < MAX_SAFE)


def field_names(values: list[Any], path: str) -> frozenset[str]:
    """Return the fields that any of the rows has; a row that is no object has the field `data`."""
    names: set[Any] = set()
    for row in values:
        if is_object(row):
            names.update(row)
        else:
            names.add("data")
    if not all(isinstance(name, str) for name in names):
        raise BadSpec(path, "a field's name is no text; a specification is JSON.")
    if "__proto__" in names:
        raise BadSpec(path, "`__proto__` is no name for a field; give it another one.")
    if len(names) > MAX_FIELDS:
        raise BadSpec(path, f"the rows have {len(names):,} fields; keep the ones that are drawn, at most {MAX_FIELDS}.")
    return frozenset(names)


def too_many(count: int, path: str) -> BadSpec:
    """Return the error of more rows than are drawn."""
    fix = "aggregate them first, or take fewer"
    return BadSpec(path, f"these are {count:,} values; at most {MAX_VALUES:,} are drawn: {fix}.")


def _format(value: Any, path: str) -> dict[str, Any]:
    """Return how the rows are read: `type` json, and what `parse` makes of fields."""
    if not is_object(value):
        raise BadSpec(path, "this must be an object.")
    for key, each in value.items():
        if key == "type" and each == "json":
            continue
        if key != "parse" or not is_object(each):
            raise BadSpec(f"{path}.{str(key)[:60]}", "rows are objects already; remove it.")
        for field, kind in each.items():
            _check_unicode(f"{field}{kind}", f"{path}.parse")
            if not (kind is None or (isinstance(kind, str) and len(kind) <= MAX_FORMAT)):
                raise BadSpec(f"{path}.parse.{str(field)[:60]}", "use `number`, `boolean`, `date` or `string`.")
    return dict(value)


def _check_cell(cell: Any, path: str) -> None:
    """Raise `BadSpec` when a cell is no JSON, or too large. Lists and objects in it are walked without recursion."""
    waiting, seen = [cell], 0
    while waiting:
        each = waiting.pop()
        seen += 1
        if seen > MAX_NESTED:
            raise BadSpec(path, f"this cell holds more than {MAX_NESTED:,} values; a cell is a number or a text.")
        match each:
            case None | bool():
                continue
            case str():
                _check_text(each, path)
            case float():
                if not math.isfinite(each):
                    raise BadSpec(path, f"{each} is no JSON number; use null where there is none.")
            case int():
                if each.bit_length() > MAX_BITS:
                    raise BadSpec(path, "this number is too large to be drawn.")
            case _ if is_object(each):
                _check_unicode("".join(map(str, each)), path)
                waiting += each.values()
            case _ if is_list(each):
                waiting += each
            case _:
                raise BadSpec(
                    path, f"this is a {type(each).__name__}; a cell is a text, a number, true, false or null."
                )


def _check_unicode(text: str, path: str) -> None:
    if not is_unicode(text):
        raise BadSpec(path, "this holds half of a character (a lone surrogate); write the whole one.")


def _check_text(cell: str, path: str) -> None:
    if len(cell) > MAX_CELL:
        raise BadSpec(path, f"this cell has {len(cell):,} characters; give at most {MAX_CELL:,}.")
    _check_unicode(cell, path)

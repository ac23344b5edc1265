"""Dates outside the rows: Vega-Lite writes them into code, so that each must be a number or a known name."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.instants import NAMES
from agent_core.renders.vega.shapes import is_list, is_number, is_object, words

PARTS = words("year quarter month date day hours minutes seconds milliseconds")
"""Keys of a date; an object that has one is a date wherever it is."""
MONTHS = frozenset(each.lower() for key in "bB" for each in NAMES[key])
DAYS = frozenset(each.lower() for key in "aA" for each in NAMES[key])
NAMED = {"month": MONTHS, "quarter": frozenset[str](), "day": DAYS}
WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
DATE_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 :.,+/-]{0,59}")
"""What is quoted as a date: ISO 8601, or as people write one."""
LITERALS = words("datum domain domainMin domainMax domainMid equal lt lte gt gte oneOf")
"""Keys of a definition or a predicate whose values are in the unit of its `timeUnit`."""
COMPARED = words("equal lt lte gt gte range oneOf")
UNREAD = frozenset({"data", "datasets"})
MAX_ONE_OF = 1_000


def check_dates(view: Mapping[str, Any]) -> None:
    """Raise `BadSpec` for a date that is none, and for a text that is compared with a field of dates.

    Source: `datetime.ts` and `predicate.ts` of Vega-Lite; a field that any channel shows as dates is read as such
    before it is filtered.
    """
    objects = list(_objects(view, "$"))
    dated = {str(each["field"]) for each, _ in objects if _is_dated(each)}
    for each, path in objects:
        if each.keys() & PARTS and ".locale." not in path:
            _check_date(each, path)
        unit = _unit(each.get("timeUnit"))
        if unit is not None:
            for value, at in _literals(each, path):
                _check_literal(value, unit, at)
        if "field" in each and each.keys() & COMPARED:
            _check_compared(each, path, dated)


def _objects(value: Any, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield each object outside the rows with its path; the depth was bounded before."""
    if is_object(value):
        yield value, path
        for key, each in value.items():
            if key not in UNREAD:
                yield from _objects(each, f"{path}.{key}")
    elif is_list(value):
        for index, each in enumerate(value):
            if not isinstance(each, str | int | float):
                yield from _objects(each, f"{path}[{index}]")


def _is_dated(definition: Mapping[str, Any]) -> bool:
    """Return whether a channel, or a transform, makes dates of its field; a predicate with a unit does not."""
    if not isinstance(definition.get("field"), str) or definition.keys() & COMPARED - {"range"}:
        return False
    return definition.get("type") == "temporal" or bool(definition.get("timeUnit"))


def _unit(unit: Any) -> str | None:
    """Return the name of a time unit without its prefixes; the empty text for one that has no name."""
    if not unit:
        return None
    name = unit.get("unit") if is_object(unit) else unit
    return name.removeprefix("utc").removeprefix("binned").removeprefix("utc") if isinstance(name, str) else ""


def _literals(definition: Mapping[str, Any], path: str) -> Iterator[tuple[Any, str]]:
    """Yield the values that a definition or a predicate names in its time unit."""
    scale = definition.get("scale")
    for holder, at in ((definition, path), (scale, f"{path}.scale")):
        if is_object(holder):
            for key in sorted(LITERALS & holder.keys()):
                yield from _each(holder[key], f"{at}.{key}")
    if is_list(sort := definition.get("sort")):
        yield from _each(sort, f"{path}.sort")
    if definition.keys() & {"range"}:
        yield from _each(definition["range"], f"{path}.range")
    for guide in ("axis", "legend", "header"):
        if is_object(part := definition.get(guide)):
            yield from _each(part.get("values"), f"{path}.{guide}.values")


def _each(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    if is_list(value):
        for index, each in enumerate(value):
            yield from _each(each, f"{path}[{index}]")
    elif is_object(value) and "unionWith" in value:
        yield from _each(value["unionWith"], f"{path}.unionWith")
    else:
        yield value, path


def _check_literal(value: Any, unit: str, path: str) -> None:
    if value is None or is_object(value) or isinstance(value, bool | int | float):
        return
    is_single = unit in NAMED or unit in PARTS or unit in ("week", "dayofyear")
    if isinstance(value, str) and (_is_part(value, unit) if is_single else DATE_TEXT.fullmatch(value)):
        return
    raise BadSpec(path, f"this is no `{unit[:60] or 'date'}`; {_fix(unit)}.")


def _check_date(date: Mapping[str, Any], path: str) -> None:
    for key in sorted(date.keys() & PARTS):
        value = date[key]
        if not (is_number(value) or (isinstance(value, str) and _is_part(value, key))):
            raise BadSpec(f"{path}.{key}", f"this is no `{key}` of a date; {_fix(key)}.")


def _is_part(value: str, part: str) -> bool:
    return value.lower() in NAMED.get(part, ()) or WHOLE.fullmatch(value) is not None


def _fix(unit: str) -> str:
    names = {"month": ', or a name such as "March"', "day": ', or a name such as "Monday"'}
    return f"write a number{names.get(unit, '')}" if unit in PARTS else 'write a date, such as "2026-03-01"'


def _check_compared(predicate: Mapping[str, Any], path: str, dated: set[str]) -> None:
    """Raise `BadSpec` where Vega would compare dates with texts, which are never equal and never in order."""
    listed = predicate.get("oneOf")
    if is_list(listed) and len(listed) > MAX_ONE_OF:
        raise BadSpec(f"{path}.oneOf", f"these are more than {MAX_ONE_OF:,} values; filter the rows before.")
    if predicate.get("timeUnit") or str(predicate["field"]) not in dated:
        return
    for key in sorted(predicate.keys() & COMPARED):
        if any(isinstance(value, str) for value, _ in _each(predicate[key], path)):
            field = str(predicate["field"])[:60]
            fix = 'add `"timeUnit": "yearmonthdate"` here, or write it as {"year": 2026, "month": 3, "date": 1}'
            raise BadSpec(f"{path}.{key}", f"`{field}` is shown as dates, so a text is never equal to one; {fix}.")

"""The transforms that a chart may have, and the fields that each one leaves."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_core.renders.vega.bad import BadSpec, unknown
from agent_core.renders.vega.shapes import is_list, is_object
from agent_core.renders.vega.vocabulary import AGGREGATES, REFUSED, TIME_UNIT, TIME_UNITS, WINDOW_OPS

Fields = frozenset[str] | None
"""The fields that rows have; None when that depends on their values."""

KEYS: Mapping[str, set[str]] = {
    "joinaggregate": {"groupby"},
    "aggregate": {"groupby"},
    "window": {"frame", "groupby", "ignorePeers", "sort"},
    "density": {
        "groupby",
        "cumulative",
        "counts",
        "bandwidth",
        "extent",
        "minsteps",
        "maxsteps",
        "steps",
        "as",
        "resolve",
    },
    "flatten": {"as"},
    "fold": {"as"},
    "impute": {"key", "keyvals", "groupby", "frame", "method", "value"},
    "loess": {"on", "groupby", "bandwidth", "as"},
    "regression": {"on", "groupby", "method", "order", "extent", "as"},
    "pivot": {"value", "groupby", "limit", "op"},
    "quantile": {"groupby", "probs", "step", "as"},
    "sample": set[str](),
    "stack": {"groupby", "offset", "sort", "as"},
    "bin": {"field", "as"},
    "timeUnit": {"field", "as"},
    "filter": set[str](),
}
"""Each transform by the key that names it, with its other keys."""

COMPARED = frozenset({"equal", "lt", "lte", "gt", "gte", "range", "oneOf", "valid"})
MAX_TRANSFORMS = 40
COMPUTING = ("joinaggregate", "aggregate", "window")


def transformed(transforms: Any, fields: Fields, path: str) -> Fields:
    """Return the fields that rows with *fields* have after *transforms*. Raises `BadSpec`."""
    if not is_list(transforms) or len(transforms) > MAX_TRANSFORMS:
        raise BadSpec(path, f"this must be a list of at most {MAX_TRANSFORMS} transforms.")
    for index, each in enumerate(transforms):
        fields = _after(each, fields, f"{path}[{index}]")
    return fields


def check_field(name: Any, fields: Fields, path: str) -> None:
    """Raise `BadSpec` when *name* is none of *fields*: nothing would be drawn."""
    if not isinstance(name, str) or not name:
        raise BadSpec(path, "a field is the name of a column of the rows.")
    if fields is None or _first(name) in fields:
        return
    if name in fields:
        fix = f"rename the column, or write `{_escaped(name)[:120]}`"
        raise BadSpec(path, f"a dot or a bracket in `{name[:60]}` means a part of a cell; {fix}.")
    escaped = name.replace("\\.", ".").replace("\\[", "[").replace("\\]", "]")
    if escaped in fields and escaped != name:
        return
    raise unknown(path, "field", name, fields)


def check_predicate(predicate: Any, fields: Fields, path: str) -> None:
    """Raise `BadSpec` unless *predicate* compares a field, or combines such predicates by `and`, `or`, `not`."""
    if not is_object(predicate):
        raise BadSpec(path, 'expressions are not evaluated; use a predicate, such as `{"field": "price", "gt": 5}`.')
    key = next((each for each in ("and", "or", "not") if each in predicate), None)
    if key is not None:
        parts = [predicate[key]] if key == "not" else predicate[key]
        if not is_list(parts):
            raise BadSpec(f"{path}.{key}", "this must be a list of predicates.")
        for index, part in enumerate(parts):
            check_predicate(part, fields, f"{path}.{key}[{index}]")
        return
    check_field(predicate.get("field"), fields, f"{path}.field")
    for key in predicate.keys() - {"field", "timeUnit"} - COMPARED:
        raise unknown(f"{path}.{key}", "comparison", key, COMPARED)
    if not predicate.keys() & COMPARED:
        raise BadSpec(path, f"this compares nothing; use one of {', '.join(sorted(COMPARED))}.")


def check_time_unit(unit: Any, path: str) -> None:
    """Raise `BadSpec` unless *unit* is the name of a time unit, or an object with one."""
    if is_object(unit):
        if unit.get("unit") is None:
            return
        unit, path = unit["unit"], f"{path}.unit"
    if not isinstance(unit, str) or not TIME_UNIT.fullmatch(unit):
        raise unknown(path, "time unit", str(unit), TIME_UNITS)


def check_aggregate(op: Any, fields: Fields, path: str) -> None:
    """Raise `BadSpec` unless *op* is an aggregate."""
    if is_object(op) and len(op) == 1 and set(op) <= {"argmax", "argmin"}:
        check_field(next(iter(op.values())), fields, path)
    elif not isinstance(op, str) or op not in AGGREGATES:
        raise unknown(path, "aggregate", str(op), AGGREGATES)


def _after(transform: Any, fields: Fields, path: str) -> Fields:
    if not is_object(transform):
        raise BadSpec(path, 'a transform is an object, such as `{"filter": {"field": "price", "gt": 5}}`.')
    name = next((each for each in KEYS if each in transform), None)
    if name is None:
        keys = [each for each in KEYS if each not in REFUSED]
        raise unknown(path, "transform", str(next(iter(transform), "")), keys)
    for key in transform.keys() - KEYS[name] - {name}:
        raise unknown(f"{path}.{key}", f"property of `{name}`", key, KEYS[name])
    if name == "filter":
        check_predicate(transform["filter"], fields, f"{path}.filter")
        return fields
    if name == "timeUnit":
        check_time_unit(transform["timeUnit"], f"{path}.timeUnit")
    for read, at in _read(transform, name, path):
        check_field(read, fields, at)
    return _left(transform, name, fields, path)


def _read(transform: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[Any, str]]:
    """Yield each field that a transform reads, with its path."""
    for key in ("groupby", "fold", "flatten"):
        for index, each in enumerate(_list(transform.get(key), f"{path}.{key}")):
            yield each, f"{path}.{key}[{index}]"
    for key in (
        "field",
        "on",
        "key",
        *({"density", "loess", "regression", "pivot", "quantile", "impute", "stack"} & {name}),
    ):
        if key in transform:
            yield transform[key], f"{path}.{key}"
    for key in {*COMPUTING} & {name}:
        ops = WINDOW_OPS if key == "window" else AGGREGATES
        for index, each in enumerate(_list(transform[key], f"{path}.{key}")):
            at = f"{path}.{key}[{index}]"
            if not is_object(each):
                raise BadSpec(at, 'this must be an object, such as `{"op": "sum", "field": "price", "as": "total"}`.')
            if str(each.get("op")) not in ops:
                raise unknown(f"{at}.op", "operation", str(each.get("op")), ops)
            if "field" in each and each["field"] != "*":
                yield each["field"], f"{at}.field"


def _left(transform: Mapping[str, Any], name: str, fields: Fields, path: str) -> Fields:
    """Return the fields after a transform other than a filter."""
    grouped = frozenset(_names(transform.get("groupby")))
    names = frozenset(_names(transform.get("as")))
    computed = frozenset(_computed(_list(transform[name], path))) if name in COMPUTING else frozenset[str]()
    match name:
        case "aggregate":
            return grouped | computed
        case "pivot":
            return None
        case "density":
            return grouped | (names or {"value", "density"})
        case "quantile":
            return grouped | (names or {"prob", "value"})
        case "loess" | "regression":
            return grouped | (names or frozenset(_names([transform.get("on"), transform[name]])))
        case "fold":
            named = _names(transform.get("as"))
            added = frozenset([*named, *("key", "value")[len(named) :]])
        case "bin" | "timeUnit" | "stack":
            if not names:
                raise BadSpec(path, "name the new field by `as`.")
            added = names | {f"{each}_end" for each in names}
        case _:
            added = names | computed
    return None if fields is None else fields | added


def _computed(ops: Any) -> Iterator[str]:
    """Yield the fields that operations add; their names were checked before."""
    for each in ops:
        named = each.get("as")
        yield named if isinstance(named, str) else f"{each['op']}_{each.get('field', '')}".rstrip("_")


def _list(value: Any, path: str) -> Sequence[Any]:
    if value is None:
        return []
    if not is_list(value):
        raise BadSpec(path, "this must be a list.")
    return value


def _names(value: Any) -> list[str]:
    return [each for each in (value if is_list(value) else [value]) if isinstance(each, str)]


def _escaped(name: str) -> str:
    return re.sub(r"([.\[\]])", r"\\\1", name)


def _first(name: str) -> str:
    """Return the column of a nested field such as `user.name` or `tags[0]`."""
    return name.split("[", 1)[0].split(".", 1)[0]

"""The channels of a view: what each shows, in words that Vega-Lite knows and fields that the rows have."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.renders.vega import vocabulary as words
from agent_core.renders.vega.bad import BadSpec, unknown
from agent_core.renders.vega.extents import ViewRows
from agent_core.renders.vega.shapes import is_list, is_object
from agent_core.renders.vega.transforms import Fields, check_aggregate, check_field, check_predicate, check_time_unit

NO_DATA = 'there are no rows; add `"data": {"values": [{...}]}`.'
ORDERS = ("ascending", "descending")


@dataclass(frozen=True)
class ViewScope:
    """What a view gets from those around it: named rows, its rows and their fields, shared channels, its copies."""

    sets: Mapping[str, list[Any]]
    rows: ViewRows | None = None
    fields: Fields = None
    shared: Mapping[str, Any] = field(default_factory=dict[str, Any])
    copies: int = 1
    read: dict[str, ViewRows] = field(default_factory=dict[str, ViewRows])
    """Rows by where they are, so that those which many views name are read once."""


def check_encoding(encoding: Mapping[str, Any], scope: ViewScope, path: str) -> None:
    """Raise `BadSpec` when a channel is unknown, or shows a field that no row has."""
    for channel, definition in encoding.items():
        at = f"{path}.{channel}"
        if channel not in words.CHANNELS:
            raise unknown(at, "channel", channel, words.CHANNELS)
        if is_list(definition):
            if channel not in words.LIST_CHANNELS:
                raise BadSpec(at, "this must be an object; only `tooltip`, `detail` and `order` may be lists.")
            for index, each in enumerate(definition):
                check_definition(each, scope, f"{at}[{index}]")
        elif definition is not None:
            check_definition(definition, scope, at)
    for offset, channel in (("xOffset", "x"), ("yOffset", "y")):
        along = scope.shared.get(channel)
        if offset in encoding and is_object(along) and along.get("type") in ("temporal", "quantitative"):
            fix = f"give `{channel}` the type `ordinal`"
            raise BadSpec(f"{path}.{offset}", f"groups need categories along `{channel}`; {fix}, or leave this out.")


def check_definition(definition: Any, scope: ViewScope, path: str) -> None:
    """Raise `BadSpec` when the definition of a channel is not one of Vega-Lite, or would draw nothing."""
    if not is_object(definition):
        raise BadSpec(path, 'this must be an object, such as `{"field": "price", "type": "quantitative"}`.')
    for key in definition.keys() - words.DEFINITION:
        raise unknown(f"{path}.{key}", "property of a channel", key, words.DEFINITION)
    _check_field(definition, scope, path)
    _check_words(definition, scope, path)
    _check_sort(definition.get("sort"), scope, f"{path}.sort")
    for condition, at in _conditions(definition.get("condition"), f"{path}.condition"):
        check_predicate(condition.get("test"), scope.fields, f"{at}.test")
    if scope.rows is not None:
        scope.rows.check_shown(definition, path)


def _check_field(definition: Mapping[str, Any], scope: ViewScope, path: str) -> None:
    name = definition.get("field")
    if name is None or (is_object(name) and set(name) == {"repeat"}):
        return
    if scope.rows is None:
        raise BadSpec(path, NO_DATA)
    if not (definition.get("aggregate") == "count" and name == "*"):
        check_field(name, scope.fields, f"{path}.field")


def _check_words(definition: Mapping[str, Any], scope: ViewScope, path: str) -> None:
    kind = definition.get("type")
    if kind is not None and str(kind) not in words.TYPES:
        raise unknown(f"{path}.type", "type", str(kind), words.TYPES)
    if (op := definition.get("aggregate")) is not None:
        check_aggregate(op, scope.fields, f"{path}.aggregate")
    if (unit := definition.get("timeUnit")) is not None:
        check_time_unit(unit, f"{path}.timeUnit")
    scale = definition.get("scale")
    name = scale.get("type") if is_object(scale) else None
    if name is not None and str(name) not in words.SCALES:
        raise unknown(f"{path}.scale.type", "scale", str(name), words.SCALES)


def _check_sort(sort: Any, scope: ViewScope, path: str) -> None:
    if isinstance(sort, str) and sort not in ORDERS:
        channel = sort.removeprefix("-")
        if channel not in words.CHANNELS:
            raise unknown(path, "order", sort, (*ORDERS, "x", "-x", "y", "-y"))
        if channel not in scope.shared:
            raise BadSpec(path, f"this orders by the channel `{channel}`, which the view does not have; add it.")
    elif is_object(sort):
        if "field" in sort:
            check_field(sort["field"], scope.fields, f"{path}.field")
        if "op" in sort:
            check_aggregate(sort["op"], scope.fields, f"{path}.op")
        if "encoding" in sort and str(sort["encoding"]) not in scope.shared:
            raise BadSpec(f"{path}.encoding", "this is no channel of the view; add it, or order by a field.")


def _conditions(condition: Any, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    if condition is None:
        return
    listed = condition if is_list(condition) else [condition]
    for index, each in enumerate(listed):
        at = f"{path}[{index}]" if is_list(condition) else path
        if not is_object(each):
            raise BadSpec(at, 'this must be an object with a `test`, such as `{"field": "price", "gt": 5}`.')
        yield each, at

"""Where a condition of a rule looks: the path of a field, and the values at it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

ABSENT: Final = msgspec.UNSET
Values = list[Any]


def path_of(field: str) -> tuple[str, ...]:
    """Return the steps of `arguments.to.0`, or of the JSON Pointer `/arguments/a.b/0` (RFC 6901)."""
    if field.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in field[1:].split("/"))
    return tuple(field.split("."))


def at(fields: Mapping[str, Any], path: Sequence[str]) -> Values:
    """Return all values at *path*: a step that is no index is taken into each item of a list.

    What lacks the step counts as `ABSENT`, once for each place that lacks it.
    """
    values: Values = [fields]
    for step in path:
        values = [inner for value in values for inner in _into(value, step)]
    return values


def inside(value: Any) -> Iterator[Any]:
    """Give every text, number, boolean and null in *value*, names in objects too."""
    waiting: Values = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += [part for pair in cast("dict[str, Any]", each).items() for part in pair]
        elif isinstance(each, list):
            waiting += cast("Values", each)
        else:
            yield each


def items(value: Any) -> Values:
    """Return the items of *value*, those of lists in it too; of what is no list itself."""
    waiting, items = [value], Values()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += cast("Values", each)
        else:
            items.append(each)
    return items


def _into(value: Any, step: str) -> Values:
    if isinstance(value, list) and step.isascii() and step.isdigit():
        list_of, index = cast("Values", value), int(step)
        return [list_of[index] if index < len(list_of) else ABSENT]
    return [_named(each, step) for each in items(value)] or [ABSENT]


def _named(value: Any, step: str) -> Any:
    return cast("dict[str, Any]", value).get(step, ABSENT) if isinstance(value, dict) else ABSENT

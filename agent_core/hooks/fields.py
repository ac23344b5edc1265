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
    """Yield every text, number, boolean and null in *value*, names in objects too."""
    pending: Values = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [part for pair in cast("dict[str, Any]", each).items() for part in pair]
        elif isinstance(each, list):
            pending += cast("Values", each)
        else:
            yield each


def items(value: Any) -> Values:
    """Return the items of *value*, those of lists in it too; *value* itself when it is no list."""
    pending, result = [value], Values()
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += cast("Values", each)
        else:
            result.append(each)
    return result


def _into(value: Any, step: str) -> Values:
    if isinstance(value, list) and step.isascii() and step.isdigit():
        entries, index = cast("Values", value), int(step)
        return [entries[index] if index < len(entries) else ABSENT]
    return [_named(each, step) for each in items(value)] or [ABSENT]


def _named(value: Any, step: str) -> Any:
    return cast("dict[str, Any]", value).get(step, ABSENT) if isinstance(value, dict) else ABSENT

"""What the rows of a view hold: their fields, how many values one has, how far its numbers reach."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.renders.vega.amounts import MAX_COUNT
from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.shapes import is_list, is_number, is_object
from agent_core.renders.vega.sources import field_names

YEARS = range(1_000, 3_000)


@dataclass(frozen=True)
class ViewRows:
    """The rows of a view; *as_given* until a transform changes what fields hold."""

    values: list[Any]
    names: frozenset[str]
    as_given: bool = True
    counted: dict[str, int] = field(default_factory=dict[str, int], repr=False, compare=False)
    """How many values fields have, as far as they were counted: many views show the same rows."""

    def distinct(self, definition: Any) -> int:
        """Return how many values a definition shows at most; 1 when that is not known."""
        if not is_object(definition) or {"bin", "timeUnit", "aggregate"} & definition.keys():
            return 1
        name = definition.get("field")
        return self._count(name) or 1 if self.as_given and isinstance(name, str) else 1

    def values_of(self, name: Any, unknown: int) -> int:
        """Return how many values a field of the rows has with null, *unknown* for one that they do not have."""
        return self._count(name) + 1 if name in self.names else unknown

    def longest(self, name: Any) -> int:
        """Return the length of the longest list in a field of the rows."""
        cells = (row.get(name) for row in self.values if is_object(row))
        return max((len(cell) for cell in cells if is_list(cell)), default=1)

    def _count(self, name: str) -> int:
        if name not in self.counted:
            cells = (row.get(name) for row in self.values if is_object(row))
            self.counted[name] = len({repr(cell) for cell in cells if cell is not None})
        return self.counted[name]

    def check_shown(self, definition: Mapping[str, Any], path: str) -> None:
        """Raise `BadSpec` when a definition makes far too many bins of a field, or dates of plain years."""
        options = definition.get("bin")
        if is_object(options) and is_number(step := options.get("step")):
            extent = options.get("extent")
            ends = list(filter(is_number, extent if is_list(extent) else self._cells(definition.get("field"))))
            if ends and not (max(ends) - min(ends)) / step <= MAX_COUNT:
                raise BadSpec(f"{path}.bin.step", f"these are too many bins; at most {MAX_COUNT:,}: use a larger step.")
        if definition.get("type") == "temporal" and "aggregate" not in definition:
            cells = self._cells(definition.get("field"))
            first = next(cells, None)
            if type(first) is int and first in YEARS and all(type(cell) is int and cell in YEARS for cell in cells):
                fix = 'write it as text, such as "2026", or use the type `ordinal`'
                raise BadSpec(path, f"a number is read as milliseconds since 1970, not as a year; {fix}.")

    def _cells(self, field: Any) -> Iterator[Any]:
        if self.as_given and isinstance(field, str):
            for row in self.values:
                if is_object(row) and (cell := row.get(field)) is not None:
                    yield cell


def rows_at(values: list[Any], path: str) -> ViewRows:
    """Return the rows at *path*. Raises `BadSpec` when there are none, or their fields are no names."""
    if not values:
        raise BadSpec(path, "there are no rows, so there is nothing to draw; say so in words.")
    return ViewRows(values, field_names(values, path))

"""Shapes of JSON values, made of smaller ones; a shape says what is wrong with a value, and where."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

Json = dict[str, Any]


class ShapeProblem(NamedTuple):
    """What Slack would refuse: *pointer* is a JSON pointer into what was checked."""

    pointer: str
    code: str
    message: str


Shape = Callable[[Any, str], Iterator[ShapeProblem]]


def text(limit: int | None = None, *, least: int = 1, among: tuple[str, ...] = ()) -> Shape:
    """Require a string of *least* to *limit* characters, or one *among* a few."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, str):
            yield ShapeProblem(at, "wrong_type", "must provide a string")
        elif among and value not in among:
            yield ShapeProblem(at, "bad_value", f"must be a valid enum value: {', '.join(among)}")
        elif len(value) < least:
            yield ShapeProblem(at, "too_short", f"must be more than {least - 1} characters")
        elif limit is not None and len(value) > limit:
            yield ShapeProblem(at, "too_long", f"must be less than {limit + 1} characters")

    return check


def number(
    least: float | None = None, limit: float | None = None, *, whole: bool = False, above: bool = False
) -> Shape:
    """Require a number from *least* (with *above*: more than it) to *limit*."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            yield ShapeProblem(at, "wrong_type", f"must provide {'an integer' if whole else 'a number'}")
        elif value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 -- only NaN differs from itself
            yield ShapeProblem(at, "bad_value", "must be a finite number")
        elif least is not None and (value <= least if above else value < least):
            yield ShapeProblem(at, "too_low", f"must be {'greater than' if above else 'at least'} {least}")
        elif limit is not None and value > limit:
            yield ShapeProblem(at, "too_high", f"must be at most {limit}")

    return check


def flag(value: Any, at: str) -> Iterator[ShapeProblem]:
    """Require a boolean."""
    if not isinstance(value, bool):
        yield ShapeProblem(at, "wrong_type", "must provide a boolean")


def items(of: Shape, limit: int | None = None, *, least: int = 1) -> Shape:
    """Require an array of *least* to *limit* items."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, list):
            yield ShapeProblem(at, "wrong_type", "must provide an array")
            return
        items = cast("list[Any]", value)
        if len(items) < least:
            yield ShapeProblem(at, "too_few", f"no fewer than {least} items allowed")
        if limit is not None and len(items) > limit:
            yield ShapeProblem(at, "too_many", f"no more than {limit} items allowed")
        for n, item in enumerate(items):
            yield from of(item, f"{at}/{n}")

    return check


def record(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Require an object with all *required* fields, perhaps *optional* ones, and no others."""
    fields = {**required, **(optional or {})}

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, dict):
            yield ShapeProblem(at, "wrong_type", "must provide an object")
            return
        record = cast(Json, value)
        for name in required:
            if name not in record:
                yield ShapeProblem(at, "missing_field", f"missing required field: {name}")
        for name, inner in record.items():
            if name in fields:
                yield from fields[name](inner, f"{at}/{name}")
            elif name != "type":
                yield ShapeProblem(at, "unknown_field", f"invalid additional property: {name}")

    return check


def typed(shapes: Mapping[str, Shape]) -> Shape:
    """Require an object whose `type` says which of *shapes* it has."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if not isinstance(value, dict):
            yield ShapeProblem(at, "wrong_type", "must provide an object")
            return
        fields = cast(Json, value)
        kind = fields.get("type")
        if kind is None:
            yield ShapeProblem(at, "missing_field", "missing required field: type")
        elif not isinstance(kind, str) or kind not in shapes:
            yield ShapeProblem(f"{at}/type", "unknown_type", f"unsupported type: {kind}")
        else:
            yield from shapes[kind](fields, at)

    return check


def both(*shapes: Shape) -> Shape:
    """Require a value that has all *shapes*; those after the first are checked only if it accepts."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        problems = list(shapes[0](value, at))
        yield from problems
        if not problems:
            for shape in shapes[1:]:
                yield from shape(value, at)

    return check


def nullable(shape: Shape) -> Shape:
    """Require a value of *shape*, or null."""
    return lambda value, at: iter(()) if value is None else shape(value, at)


def one_of(*names: str) -> Shape:
    """Require an object with exactly one of the fields *names*."""

    def check(value: Any, at: str) -> Iterator[ShapeProblem]:
        if sum(name in value for name in names) != 1:
            yield ShapeProblem(at, "bad_value", f"must have exactly one of: {', '.join(names)}")

    return check

"""Which Vega-Lite specifications are drawn: those that hold their rows, and reach nothing outside."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent_core.renders.vega.bad import BadSpec
from agent_core.renders.vega.dates import check_dates
from agent_core.renders.vega.inert import inert_view
from agent_core.renders.vega.shapes import is_list, is_object
from agent_core.renders.vega.sources import MAX_VALUES, too_many
from agent_core.renders.vega.views import ViewScope, check_view
from agent_core.renders.vega.vocabulary import COMPOSED

__all__ = ["BadSpec", "checked"]

SCHEMA = "https://vega.github.io/schema/vega-lite/v{}.json"
MAX_VIEWS = 60
"""Views with a mark of their own in a whole specification."""
MAX_BYTES = 512_000
"""As many as a render may have in the log."""
MAX_LENGTH = 100_000
"""Characters outside the rows; a chart of forty views has some ten thousand."""
DIALECT = re.compile(r"https?://vega\.github\.io/schema/vega-lite/v([56])(?:\.\d+){0,2}(?:\.json)?#?", re.ASCII)


def checked(spec: Any) -> dict[str, Any]:
    """Return a copy of a Vega-Lite specification (5 or 6) as it may be drawn and kept; its rows are not copied.

    `usermeta` is left out, and `$schema` names the major version. Raises `BadSpec` with the first thing that
    is refused: no data inside, an address, an expression, markup, an unknown word, a number that would draw forever.
    What is accepted may still be slow, so whatever draws it sets a limit of time and memory.
    """
    if not is_object(spec):
        raise BadSpec("$", 'a specification is an object, such as `{"data": {...}, "mark": "bar", "encoding": {...}}`.')
    _check_size(spec)
    _check_length(spec)
    schema = _schema(spec.get("$schema"))
    copy = inert_view(spec, "$") | {"$schema": schema}
    sources = list(_sources(copy))
    count = sum(len(values) for _, values in sources)
    if count > MAX_VALUES:
        raise too_many(count, "$")
    if (views := _count(copy)) > MAX_VIEWS:
        raise BadSpec("$", f"these are {views:,} views; give at most {MAX_VIEWS}.")
    check_dates(copy)
    check_view(copy, ViewScope({name: values for name, values in sources if name is not None}))
    return copy


def _check_size(spec: Mapping[str, Any]) -> None:
    """Raise `BadSpec` when the specification would be too large to be kept, before all that takes longer."""
    try:
        size = len(msgspec.json.encode(spec))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return  # what JSON cannot hold is found, and named by its path, by the checks that follow
    if size > MAX_BYTES:
        fix = "draw fewer rows (aggregate them first), or leave out the fields that are not drawn"
        raise BadSpec("$", f"this has {size:,} bytes, at most {MAX_BYTES:,} are drawn: {fix}.")


def _check_length(spec: Mapping[Any, Any]) -> None:
    """Raise `BadSpec` when there is far too much text outside the rows; the rows are bounded by their number."""
    waiting: list[tuple[Any, bool]] = [(spec, True)]
    count = 0
    while waiting:
        each, is_view = waiting.pop()
        if isinstance(each, str):
            count += len(each)
        elif is_object(each):
            fields: Mapping[Any, Any] = each
            for key, value in fields.items():
                count += len(key) if isinstance(key, str) else 1
                if not (is_view and key in ("data", "datasets")):
                    waiting.append((value, is_view and (key in COMPOSED or key == "spec")))
        elif is_list(each):
            waiting += [(value, is_view) for value in each]
        if count > MAX_LENGTH or len(waiting) > MAX_LENGTH:
            raise BadSpec("$", f"there are more than {MAX_LENGTH:,} characters outside the rows; write it shorter.")


def _schema(value: object) -> str:
    """Return the address of the schema whose major version *value* names; the newest where there is none."""
    if value is None:
        return SCHEMA.format(6)
    match = DIALECT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadSpec("$.$schema", f"this must be {SCHEMA.format(5)} or {SCHEMA.format(6)}; or leave it out.")
    return SCHEMA.format(match[1])


def _count(view: Mapping[str, Any]) -> int:
    """Return how many views with a mark of their own there are."""
    inner = [each for key in COMPOSED for each in view.get(key, ())] + ([view["spec"]] if "spec" in view else [])
    return sum(map(_count, inner)) or 1


def _sources(view: Mapping[str, Any]) -> Iterator[tuple[str | None, list[Any]]]:
    """Yield the rows of a view and of those within it, with the name that they have."""
    yield from view.get("datasets", {}).items()
    data = view.get("data")
    if data is not None and "values" in data:
        yield data.get("name"), data["values"]
    for key in COMPOSED:
        for each in view.get(key, ()):
            yield from _sources(each)
    if "spec" in view:
        yield from _sources(view["spec"])

"""What a checked Vega-Lite specification says in words, and the rows that are in it; pure."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

from agent_core.renders.cells import one_line
from agent_core.renders.formats import as_json
from agent_core.renders.values import DataTable, table_of_rows

_PARTS = {
    "layer": "layers",
    "hconcat": "charts side by side",
    "vconcat": "charts one below the other",
    "concat": "charts",
}
_DEEPEST = 24
"""Levels of views within views that are read."""
_MAX_VIEWS = 20
"""Views that are described."""
_MAX_TABLES = 100
"""Tables of data that are read: each is compared with those before it."""
_MAX_WORD = 200
"""Characters of a word of a specification that are shown."""
_MAX_DESCRIPTION = 2_000
"""As many as a checked specification may have."""


def described(spec: Mapping[str, Any]) -> list[str]:
    """Return sentences about *spec*: what its marks are and which field each channel shows; not its title."""
    description = spec.get("description")
    sentences = (
        [one_line(description[:_MAX_DESCRIPTION])] if isinstance(description, str) and description.strip() else []
    )
    views = [sentence for view in _walked(spec) if (sentence := _sentence(view))]
    more = ["There are more views."] if len(views) > _MAX_VIEWS else []
    return [*sentences, *views[:_MAX_VIEWS], *more] or ["A chart."]


def data_of(spec: Mapping[str, Any]) -> tuple[DataTable, ...]:
    """Return the tables of rows that are in *spec*, each once, in the order of its views; the first `_MAX_TABLES`."""
    data: list[list[dict[str, Any]]] = []
    named = object_of(spec.get("datasets"))
    for view in _walked(spec):
        rows = _rows(object_of(view.get("data")), named)
        if rows and rows not in data:
            data.append(rows)
        if len(data) == _MAX_TABLES:
            break
    return tuple(table_of_rows(rows) for rows in data)


def channels_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return which field the channels of *spec* show, in words; what several views say is that of the first."""
    channels: dict[str, str] = {}
    for view in islice(_walked(spec), _MAX_VIEWS):
        for name, channel in object_of(view.get("encoding")).items():
            for each in map(object_of, _list(channel) or [channel]):
                if "datum" not in each and (what := _field(each)):
                    channels.setdefault(one_line(name), what)
    return channels


def fields_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the fields that the channels of *spec* show, each once, as they are in its rows."""
    fields: dict[str, None] = {}
    for view in islice(_walked(spec), _MAX_VIEWS):
        for channel in object_of(view.get("encoding")).values():
            for each in _list(channel) or [channel]:
                if isinstance(field := object_of(each).get("field"), str):
                    fields[field] = None
    return list(fields)


def _walked(spec: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield *spec* and the views in it, those around others first."""
    if not spec or depth > _DEEPEST:
        return
    yield spec
    for part in _PARTS:
        for each in _list(spec.get(part)):
            yield from _walked(object_of(each), depth + 1)
    yield from _walked(object_of(spec.get("spec")), depth + 1)


def _rows(data: Mapping[str, Any], named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of *data*; a value that is no object is in the field `data`, as in Vega-Lite."""
    values = data["values"] if "values" in data else named.get(str(data.get("name")))
    return [object_of(row) if isinstance(row, dict) else {"data": row} for row in _list(values)]


def _sentence(view: Mapping[str, Any]) -> str:
    """Return what *view* shows, without what the views in it show; the empty text where that is all."""
    for part, words in _PARTS.items():
        if part in view:
            return f"{len(_list(view[part]))} {words}."
    if "repeat" in view:
        return f"One chart for each of {_word(view['repeat'])}."
    if facet := object_of(view.get("facet")):
        by = [facet] if "field" in facet else [object_of(each) for each in facet.values()]
        return f"One chart for each {' and '.join(filter(None, map(_field, by)))}."
    if "mark" not in view:
        return ""
    mark = object_of(view["mark"]).get("type", view["mark"])
    channels = ", ".join(f"{name} is {what}" for name, what in _channels(view))
    return f"Marks of the kind {_word(mark)}{': ' if channels else ''}{channels}."


def _channels(view: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, channel in object_of(view.get("encoding")).items():
        for each in _list(channel) or [channel]:
            if what := _field(object_of(each)):
                yield one_line(name), what


def _field(channel: Mapping[str, Any]) -> str:
    """Return which field *channel* shows and how it is computed; the empty text where it shows none."""
    field, aggregate = channel.get("field"), channel.get("aggregate")
    if field is None and aggregate is None:
        return _word(channel["datum"]) if "datum" in channel else ""
    name = "records" if field is None else _word(field)
    if channel.get("bin"):
        name = f"{name} in bins"
    if isinstance(unit := channel.get("timeUnit"), str):
        name = f"{name} by {_word(unit)}"
    return name if aggregate is None else f"{_word(aggregate)} of {name}"


def _word(value: Any) -> str:
    return one_line((value if isinstance(value, str) else as_json(value))[:_MAX_WORD])


def object_of(value: Any) -> dict[str, Any]:
    """Return *value* of JSON where it is an object, otherwise one without members."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []

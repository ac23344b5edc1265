"""The views of a chart: their marks, rows, and how much they draw."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_core.renders.vega import vocabulary as words
from agent_core.renders.vega.bad import BadSpec, unknown
from agent_core.renders.vega.channels import NO_DATA, ViewScope, check_definition, check_encoding
from agent_core.renders.vega.extents import rows_at
from agent_core.renders.vega.shapes import is_list, is_object
from agent_core.renders.vega.sizes import MAX_COPIES, check_copies, check_drawing
from agent_core.renders.vega.transforms import check_field, transformed
from agent_core.renders.vega.widening import check_widening


def check_view(view: Mapping[str, Any], scope: ViewScope, path: str = "$") -> None:
    """Raise `BadSpec` when a view, or one within it, would draw nothing, something else, or far too much."""
    scope = _with_rows(view, scope, path)
    encoding = view.get("encoding", {})
    inner = replace(scope, shared={**scope.shared, **encoding})
    check_encoding(encoding, inner, f"{path}.encoding")
    composed = next((key for key in (*words.COMPOSED, "spec") if key in view), None)
    if composed is None:
        check_mark(view.get("mark"), path)
        if scope.rows is None and not any(is_object(each) and "datum" in each for each in inner.shared.values()):
            raise BadSpec(path, NO_DATA)
        check_logarithm(view.get("mark"), inner.shared, f"{path}.encoding")
        check_drawing(view, inner.shared, scope.rows, scope.copies, path)
    elif "mark" in view:
        raise BadSpec(f"{path}.mark", f"a view has a mark or `{composed}`, not both; move one of them.")
    elif composed == "spec":
        check_view(view["spec"], _repeated(view, inner, path), f"{path}.spec")
    else:
        for index, each in enumerate(view[composed]):
            check_view(each, inner, f"{path}.{composed}[{index}]")


def check_mark(mark: Any, path: str) -> None:
    """Raise `BadSpec` unless *mark* is the name of one, or an object with its `type`."""
    at = f"{path}.mark"
    if is_object(mark):
        mark, at = mark.get("type"), f"{at}.type"
    if mark is None:
        raise BadSpec(at, f"there is no mark; use one of {', '.join(sorted(words.MARKS))}.")
    if not isinstance(mark, str):
        raise BadSpec(at, "a mark is a text, such as `bar`.")
    if mark in words.MARKS_REFUSED:
        raise BadSpec(at, f"{words.MARKS_REFUSED[mark]}.")
    if (meant := words.MARK_MEANT.get(mark.lower())) is not None:
        raise BadSpec(at, f"there is no mark `{mark[:60]}` (did you mean `{meant}`?).")
    if mark not in words.MARKS:
        raise unknown(at, "mark", mark, words.MARKS)


def check_logarithm(mark: Any, encoding: Mapping[str, Any], path: str) -> None:
    """Raise `BadSpec` for bars and areas along a logarithmic scale: they begin at zero, so nothing is drawn."""
    name = mark.get("type") if is_object(mark) else mark
    for channel in ("x", "y") if name in ("bar", "area") else ():
        definition = encoding.get(channel)
        scale = definition.get("scale") if is_object(definition) else None
        if not is_object(definition) or definition.get("bin"):  # a binned bar goes from one end of its bin to the other
            continue
        if is_object(scale) and scale.get("type") == "log" and f"{channel}2" not in encoding:
            fix = "use the mark `point`, or the scale `symlog`"
            raise BadSpec(f"{path}.{channel}.scale.type", f"a {name} begins at zero, which a log scale lacks; {fix}.")


def _with_rows(view: Mapping[str, Any], scope: ViewScope, path: str) -> ViewScope:
    """Return the scope with the rows of a view itself, and the fields that its transforms leave."""
    data = view.get("data")
    if data is not None:
        values, at = data.get("values"), f"{path}.data.values"
        if values is None:
            name = data["name"]
            if name not in scope.sets:
                raise unknown(f"{path}.data.name", "data set", name, scope.sets)
            values, at = scope.sets[name], f"$.datasets.{name[:60]}"
        rows = scope.read.get(at) or rows_at(values, at)
        scope.read[at] = rows
        scope = replace(scope, rows=rows, fields=rows.names)
    if "transform" not in view:
        return scope
    if scope.rows is None:
        raise BadSpec(path, NO_DATA)
    fields = transformed(view["transform"], scope.fields, f"{path}.transform")
    check_widening(view["transform"], scope.rows, f"{path}.transform")
    for index, each in enumerate(view["transform"]):
        scope.rows.check_shown(each, f"{path}.transform[{index}]")
    return replace(scope, rows=replace(scope.rows, as_given=False), fields=fields)


def _repeated(view: Mapping[str, Any], scope: ViewScope, path: str) -> ViewScope:
    """Return the scope of the `spec` that is drawn once for each facet or repeated field."""
    if "facet" in view:
        return _faceted(view["facet"], scope, f"{path}.facet")
    if "repeat" not in view:
        raise BadSpec(path, "a view with `spec` has a `facet` or a `repeat`; add one, or write the view itself.")
    repeat, at = view["repeat"], f"{path}.repeat"
    copies = 1
    for key, names in repeat.items() if is_object(repeat) else [("", repeat)]:
        if not is_list(names) or key not in ("", "row", "column", "layer") or len(names) > MAX_COPIES:
            what = f"a list of at most {MAX_COPIES} fields, or an object of such lists: `row`, `column` or `layer`"
            raise BadSpec(at, f"this must be {what}.")
        for index, name in enumerate(names):
            check_field(name, scope.fields, f"{at}{key and '.'}{key}[{index}]")
        copies *= max(1, len(names))
    check_copies(copies, at)
    return replace(scope, copies=scope.copies * copies)


def _faceted(facet: Any, scope: ViewScope, path: str) -> ViewScope:
    if not is_object(facet):
        raise BadSpec(path, "this must be an object with a `field`, or with `row` and `column`.")
    split = {"": facet} if "field" in facet else {f".{key}": each for key, each in facet.items()}
    copies = scope.copies
    for key, each in split.items():
        check_definition(each, scope, f"{path}{key}")
        copies *= scope.rows.distinct(each) if scope.rows else 1
    check_copies(copies, path)
    return replace(scope, copies=copies)

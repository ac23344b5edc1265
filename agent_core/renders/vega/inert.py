"""The walk over everything in a specification that is not data: no address, no expression, no markup, no bomb."""

import math
import re
from collections.abc import Mapping
from typing import Any

from agent_core.renders.markup import MARKUP
from agent_core.renders.vega import amounts
from agent_core.renders.vega.bad import BadSpec, unknown
from agent_core.renders.vega.shapes import is_list, is_number, is_object, is_unicode
from agent_core.renders.vega.sources import source, sources
from agent_core.renders.vega.vocabulary import COMPOSED, EXPRESSION, EXPRESSION_FIX, REFUSED, SCHEMES, VIEW

MAX_DEPTH = 24
MAX_TEXT = 2_000
"""Characters of a text outside data."""
MAX_NAME = 200
"""Characters of a key."""
MAX_ITEMS = 5_000
"""Entries of a list outside data, such as those of a scale's domain."""
MAX_VIEWS = 40
"""Views of a layer or a concatenation."""

ADDRESS = re.compile(
    r"\s*(?:(?:java|vb)script\s*:|data\s*:\s*(?:[\w.+-]+/[\w.+-]+\s*)?[,;]|file\s*:\s*[/\\]|(?:blob|filesystem)\s*:\s*\w+\s*:"
    r"|(?:https?|ftps?|wss?)\s*:\s*//\S*\s*$|//\S+\s*$)",
    re.IGNORECASE,
)
"""A text that is an address as a whole, or one that runs or reads something; `Data: orders` is none."""
EXTENTS = frozenset({"ci", "iqr", "min-max", "stderr", "stdev"})
"""Words for how far a box or an error bar reaches; anything else is written into code."""
ANCHORS = ("start", "middle", "end")
"""Where a title begins; in a `bin` it is a number."""
WINDOW_PARAM = re.compile(r"\.window\[\d+\]\.param\Z")
"""The number of `ntile`, `lag`, `lead` and `nth_value`, which is no parameter of a chart."""
PAINT = re.compile(r"url\s*\(", re.IGNORECASE)


def inert_view(spec: Mapping[Any, Any], path: str, depth: int = 0) -> dict[str, Any]:
    """Return a copy of a view, or of a composition of views, without `usermeta`; the rows of data are not copied.

    Raises `BadSpec`.
    """
    if depth > MAX_DEPTH:
        raise _too_deep(path)
    for key in ("width", "height"):
        amounts.check_side(spec, key, path)
    copy: dict[str, Any] = {}
    for key, value in spec.items():
        at = _at(path, key)
        if key == "usermeta":
            continue
        if key == "data":
            copy[key] = source(value, at)
        elif key == "datasets" and depth == 0:
            copy[key] = sources(value, at)
        elif key in COMPOSED:
            copy[key] = _views(value, at, depth)
        elif key == "spec":
            copy[key] = _view(value, at, depth)
        elif key == "encoding":
            copy[key] = _inert_object(value, at, depth)
        elif key == "$schema":
            copy[key] = value
        else:
            _check_view_key(key, at)
            _check_figure(key, value, at)
            copy[key] = inert(value, at, key, depth + 1)
    return copy


def inert(value: Any, path: str, key: str, depth: int) -> Any:
    """Return a copy of what is at *path*, whose nearest key is *key*. Raises `BadSpec`."""
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case int() | float():
            return _number(value, path, key)
        case _ if is_object(value):
            return _inert_object(value, path, depth)
        case _ if is_list(value):
            if depth > MAX_DEPTH:
                raise _too_deep(path)
            if len(value) > MAX_ITEMS:
                raise BadSpec(path, f"this list has {len(value):,} entries; give at most {MAX_ITEMS:,}.")
            return [inert(each, f"{path}[{index}]", key, depth + 1) for index, each in enumerate(value)]
        case _:
            raise BadSpec(path, f"this is a {type(value).__name__}; a specification is JSON.")


def _inert_object(value: Any, path: str, depth: int) -> dict[str, Any]:
    if not is_object(value):
        raise BadSpec(path, "this must be an object.")
    if depth > MAX_DEPTH:
        raise _too_deep(path)
    amounts.check(value, path)
    copy: dict[str, Any] = {}
    for key, each in value.items():
        at = _at(path, key)
        if key == "usermeta":
            continue
        _check_key(key, each, at)
        copy[key] = inert(each, at, key, depth + 1)
    return copy


def _check_view_key(key: str, path: str) -> None:
    if key in REFUSED:
        raise BadSpec(path, f"{REFUSED[key]}.")
    if key in ("marks", "scales", "axes"):
        raise BadSpec(path, "this is Vega; write Vega-Lite: `mark` and `encoding`.")
    if key not in VIEW:
        raise unknown(path, "property", key, VIEW)


def _check_key(key: str, value: Any, path: str) -> None:
    if key in REFUSED and not (WINDOW_PARAM.search(path) and is_number(value)):
        raise BadSpec(path, f"{REFUSED[key]}.")
    if EXPRESSION.fullmatch(key):
        raise BadSpec(path, f"{EXPRESSION_FIX}.")
    if key in ("test", "filter") and isinstance(value, str):
        fix = 'use a predicate, such as `{"field": "price", "gt": 5}`'
        raise BadSpec(path, f"expressions are not evaluated; {fix}.")
    _check_figure(key, value, path)
    if key == "formatType" and value not in ("number", "time", None):
        raise BadSpec(path, "there are no own formats; use `number` or `time`.")
    if key == "scheme":
        _check_scheme(value, path)
    if key == "encoding" and is_object(value):
        raise BadSpec(path, "only a view has an encoding; use the properties of Vega-Lite here.")


def _check_figure(key: str, value: Any, path: str) -> None:
    """Raise `BadSpec` for a text or a list where Vega-Lite writes the value of *key* into code as it is."""
    if key in amounts.NUMBERS or (key == "anchor" and path.endswith(".bin.anchor")):
        if isinstance(value, str) or is_list(value):
            raise BadSpec(path, "this must be a number.")
    elif key == "anchor" and not (value is None or value in ANCHORS):
        raise BadSpec(path, f"this must be null, or one of {', '.join(ANCHORS)}.")
    elif key == "extent" and isinstance(value, str) and value not in EXTENTS:
        raise BadSpec(path, f"this must be a number, or one of {', '.join(sorted(EXTENTS))}.")
    elif key == "extent" and is_list(value) and not all(map(is_number, value)):
        raise BadSpec(path, "this must be a list of numbers.")


def _check_scheme(value: Any, path: str) -> None:
    """Raise `BadSpec` for a scheme of colours that does not exist: the renderer would stop without saying why."""
    name, at = (value.get("name"), f"{path}.name") if is_object(value) else (value, path)
    if is_list(name):
        return
    if not isinstance(name, str):
        raise BadSpec(at, "this must be the name of a scheme of colours, such as `tableau10` or `blues`.")
    if name.lower() not in SCHEMES:
        raise unknown(at, "scheme of colours", name, SCHEMES)


def _views(value: Any, path: str, depth: int) -> list[dict[str, Any]]:
    if not is_list(value) or not value:
        raise BadSpec(path, "this must be a list of views, with one at least.")
    if len(value) > MAX_VIEWS:
        raise BadSpec(path, f"these are {len(value):,} views; give at most {MAX_VIEWS}.")
    return [_view(each, f"{path}[{index}]", depth + 1) for index, each in enumerate(value)]


def _view(value: Any, path: str, depth: int) -> dict[str, Any]:
    if not is_object(value):
        raise BadSpec(path, "a view must be an object.")
    return inert_view(value, path, depth + 1)


def _at(path: str, key: Any) -> str:
    if not isinstance(key, str):
        raise BadSpec(path, f"the key {str(key)[:60]} is no text; a specification is JSON.")
    if len(key) > MAX_NAME:
        raise BadSpec(path, f"a key has {len(key):,} characters; give at most {MAX_NAME}.")
    if not is_unicode(key):
        raise BadSpec(path, "a key holds half of a character (a lone surrogate); write the whole one.")
    return f"{path}.{key}"


def _text(value: str, path: str) -> str:
    if len(value) > MAX_TEXT:
        raise BadSpec(path, f"this text has {len(value):,} characters; give at most {MAX_TEXT:,}.")
    if not is_unicode(value):
        raise BadSpec(path, "this holds half of a character (a lone surrogate); write the whole one.")
    if ADDRESS.match(value) or (PAINT.search(value) and not path.endswith((".text", ".title"))):
        raise BadSpec(path, "charts have no links and fetch nothing; remove the address.")
    if MARKUP.search(value):
        raise BadSpec(path, "texts are plain; write it without HTML or SVG tags.")
    return value


def _number(value: float, path: str, key: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise BadSpec(path, f"{value} is no JSON number; use a finite one.")
    limit = amounts.largest(key, path)
    if abs(value) > limit:
        raise BadSpec(path, f"this number is too large here; use at most {limit:,.6g}.")
    return value


def _too_deep(path: str) -> BadSpec:
    return BadSpec(path[:200], f"this is nested more than {MAX_DEPTH} levels deep; write it flatter.")

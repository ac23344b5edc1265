"""Which Vega-Lite specifications are drawn: those that hold their rows, have no links, and reach nothing outside.

What may be slow, or is no Vega-Lite, is found by the process that draws: it is killed in time, and names the fault.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from agent_core.controls import hint
from agent_core.errors import InvalidInput


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether *value* is an object of JSON."""
    return type(value) is dict or isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether *value* is a list."""
    return isinstance(value, list | tuple)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether *value* is a finite number that a double holds; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else value.bit_length() < MAX_BITS


MAX_BITS = 1_000


def words(text: str) -> frozenset[str]:
    """Return the words of *text*."""
    return frozenset(text.split())


_ACTIVE = (
    "applet|audio|base|body|embed|foreignobject|frame|frameset|html|iframe|image|img|input|math|meta|object|script"
    "|style|svg|template|video"
)
"""Elements that run or fetch something: refused without an end, and with blanks in front."""
_ELEMENTS = (
    "abbr|address|animate|article|aside|bdi|bdo|blockquote|br|button|canvas|center|circle|code|col|defs|del|details|dialog"
    "|div|dl|dt|dd|em|fieldset|figure|font|footer|form|h[1-6]|head|header|hr|ins|kbd|label|li|link|main|mark|marquee|menu"
    "|nav|noscript|ol|option|output|path|picture|plaintext|pre|rect|ruby|samp|section|select|set|slot|small|source|span"
    "|strike|strong|sub|summary|sup|table|tbody|td|textarea|tfoot|th|thead|time|title|tr|track|tt|ul|use|var|wbr|xmp"
)
"""Elements that only mark a text; those of one letter need an attribute or an end, since `a <b> c` is none."""
MARKUP = re.compile(
    rf"<\s{{0,8}}/?\s{{0,8}}(?:{_ACTIVE})\b|(?:<[a-z][\w-]*>[^<>]*)?</[a-z][^<>]*>|<(?:{_ELEMENTS})(?![\w-])[^<>]*>"
    r"|<[a-z][^<>]*[\s/\"'][\w:.-]+\s*=[^<>]*>|<!|<\?",
    re.IGNORECASE,
)
"""Blanks are bounded: a text of `<` and thousands of them would be read once for each."""


SCHEMA = "https://vega.github.io/schema/vega-lite/v{}.json"
DIALECT = re.compile(r"https?://vega\.github\.io/schema/vega-lite/v([56])(?:\.\d+){0,2}(?:\.json)?#?", re.ASCII)
MAX_BYTES = 512_000
"""As many as a render may have in the log."""
MAX_VALUES = 5_000
"""Rows of all data of a chart."""
MAX_VIEWS = 60
"""Views with a mark of their own."""
MAX_DEPTH = 24
MAX_TEXT = 2_000
"""Characters of a text or a key outside data."""
MAX_LENGTH = 100_000
"""Characters of all of them; a chart of forty views has some ten thousand."""
MAX_SIDE = 2_000
"""Pixels of a given width or height, and of one category."""
MAX_STEP = 200
YEARS = range(1_000, 3_000)
LISTED = 20
"""Names that a message lists at most, each with at most 60 characters."""

MARKS = words("arc area bar boxplot circle errorband errorbar line point rect rule square text tick trail")
MARKS_MEANT = {
    "pie": "arc",
    "donut": "arc",
    "doughnut": "arc",
    "column": "bar",
    "histogram": "bar",
    "heatmap": "rect",
    "scatter": "point",
    "bubble": "circle",
    "dot": "circle",
    "box": "boxplot",
    "box-plot": "boxplot",
    "label": "text",
}
"""Names that other libraries have for a mark."""
MARKS_REFUSED = {
    "image": "images are not drawn; use a point with a `shape`, or the mark `text`",
    "geoshape": "maps are not drawn; show the figures as a bar chart, or points by `longitude` and `latitude`",
}
# What Vega-Lite does not know of these it leaves out without a word, so that the chart would say something else.
CHANNELS = words(
    """x y x2 y2 xError xError2 yError yError2 xOffset yOffset theta theta2 radius radius2 longitude latitude
    longitude2 latitude2 color fill stroke opacity fillOpacity strokeOpacity strokeWidth strokeDash size angle shape
    key text time description tooltip detail order row column facet"""
)
TYPES = words("quantitative temporal ordinal nominal")
AGGREGATES = words(
    """argmax argmin average count distinct max mean median min missing product q1 q3 ci0 ci1 stderr stdev stdevp sum
    valid values variance variancep exponential exponentialb"""
)
COMPOSED = ("layer", "concat", "hconcat", "vconcat")
"""Keys whose value is a list of views."""
VIEW = words(
    """$schema name description title data datasets mark encoding transform width height view spec facet repeat params
    columns resolve config autosize padding background projection align bounds center spacing"""
) | {*COMPOSED}

UNWALKED = frozenset({"$schema", "data", "datasets", "spec", *COMPOSED})
"""Keys of a view that are read in ways of their own."""
_LINK, _LOAD, _NONE = (
    "charts have no links; remove it",
    "nothing is fetched; remove it",
    "this is no Vega-Lite; remove it",
)
INLINE = "put the rows into `data.values`, a list of objects"
REFUSED = {
    "url": f"nothing is fetched; {INLINE}",
    "loader": _LOAD,
    "href": _LINK,
    "cursor": _LINK,
    "__proto__": _NONE,
    "constructor": _NONE,
    "prototype": _NONE,
}
"""Keys that are refused wherever they are outside rows, and what to do instead."""
ADDRESS = re.compile(
    r"\s*(?:(?:java|vb)script\s*:|data\s*:\s*(?:[\w.+-]+/[\w.+-]+\s*)?[,;]|file\s*:\s*[/\\]|(?:blob|filesystem)\s*:\s*\w+\s*:"
    r"|(?:https?|ftps?|wss?)\s*:\s*//\S*\s*$|//\S+\s*$)",
    re.IGNORECASE,
)
"""A text that is an address as a whole, or one that runs or reads something; `Data: orders` is none."""
PAINT = re.compile(r"url\s*\(", re.IGNORECASE)
NO_DATA = 'there are no rows; add `"data": {"values": [{...}]}`.'


class BadSpec(InvalidInput):
    """A specification that is not drawn: its path, such as `$.encoding.x`, and what to write instead."""


class _Source(NamedTuple):
    """The rows of a view, and their fields, None when a transform has changed them."""

    rows: list[Any]
    fields: frozenset[str] | None


def checked(spec: Any) -> dict[str, Any]:
    """Return a copy of a Vega-Lite specification (5 or 6), as JSON, as it may be drawn and kept.

    `usermeta`, which would change the options of a page, is left out, and `$schema` names the major version. Raises
    `BadSpec` with the first thing that is refused: no data inside, an address, a link, markup, an unknown mark, channel
    or field, too much of something. What is accepted may be slow or wrong: what draws it bounds time and memory.
    """
    if not is_object(spec):
        raise BadSpec("$", 'a specification is an object, such as `{"data": {...}, "mark": "bar", "encoding": {...}}`.')
    try:
        text = msgspec.json.encode(spec)
    except RecursionError:
        raise BadSpec("$", f"this is nested more than {MAX_DEPTH} levels deep; write it flatter.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise BadSpec("$", f"JSON cannot hold this: {str(error)[:200]}.") from None
    if len(text) > MAX_BYTES:
        fix = "draw fewer rows (aggregate them first), or leave out the fields that are not drawn"
        raise BadSpec("$", f"this has {len(text):,} bytes, at most {MAX_BYTES:,} are drawn: {fix}.")
    copy: dict[str, Any] = msgspec.json.decode(text)
    copy["$schema"] = _schema(copy.get("$schema"))
    walk = _Walk()
    walk.named(copy.get("datasets", {}))
    walk.view(copy, "$", 0, None, {})
    return copy


def _schema(value: object) -> str:
    """Return the address of the schema whose major version *value* names; the newest where there is none."""
    if value is None:
        return SCHEMA.format(6)
    match = DIALECT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BadSpec("$.$schema", f"this must be {SCHEMA.format(5)} or {SCHEMA.format(6)}; or leave it out.")
    return SCHEMA.format(match[1])


class _Walk:
    """The walk over one specification, of which it counts the rows, the views and the characters."""

    def __init__(self) -> None:
        self._sources: dict[str, _Source] = {}
        self._rows = self._views = self._length = 0

    def named(self, sets: Any) -> None:
        """Read the data that views may name."""
        if not is_object(sets):
            raise BadSpec("$.datasets", "this must be an object: the rows by name.")
        for name, rows in sets.items():
            self._sources[name] = self._source(rows, f"$.datasets.{name[:60]}")

    def view(self, view: Any, path: str, depth: int, source: _Source | None, around: Mapping[str, Any]) -> None:
        """Check a view and those in it; it has the *source* and the channels of the views *around* it."""
        if not is_object(view):
            raise BadSpec(path, "a view must be an object.")
        for key in view:
            if key in ("marks", "scales", "axes", "signals"):
                raise BadSpec(f"{path}.{key}", "this is Vega; write Vega-Lite: `mark` and `encoding`.")
            if key not in VIEW and key not in REFUSED and key != "usermeta":
                raise unknown(f"{path}.{key[:60]}", "property", key, VIEW)
        self._inert(view, path, depth, UNWALKED if depth == 0 else UNWALKED - {"datasets"})
        for key in ("width", "height"):
            _check_side(view.get(key), f"{path}.{key}")
        if view.get("data") is not None:
            source = self._data(view["data"], f"{path}.data")
        if view.get("transform") and source is not None:
            source = _Source(source.rows, None)
        encoding = view.get("encoding", {})
        if not is_object(encoding):
            raise BadSpec(f"{path}.encoding", "this must be an object.")
        _check_encoding(encoding, f"{path}.encoding", source)
        if is_object(facet := view.get("facet")):
            for key, each in ({"": facet} if "field" in facet else facet).items():
                _check_definition(each, f"{path}.facet{key and f'.{key}'}", source)
        self._parts(view, path, depth, source, {**around, **encoding})

    def _parts(
        self, view: Mapping[str, Any], path: str, depth: int, source: _Source | None, encoding: Mapping[str, Any]
    ) -> None:
        """Check the views in a view, or its mark where it has none."""
        inner = [key for key in (*COMPOSED, "spec") if key in view]
        if not inner:
            self._views += 1
            if self._views > MAX_VIEWS:
                raise BadSpec("$", f"these are more than {MAX_VIEWS} views; draw fewer.")
            _check_mark(view.get("mark"), f"{path}.mark")
            if source is None and not any(is_object(each) and "datum" in each for each in encoding.values()):
                raise BadSpec(path, NO_DATA)
        elif "mark" in view:
            raise BadSpec(f"{path}.mark", f"a view has a mark or `{inner[0]}`, not both; move one of them.")
        for key in inner:
            parts = view[key] if key in COMPOSED else [view[key]]
            if not is_list(parts) or not parts:
                raise BadSpec(f"{path}.{key}", "this must be a list of views, with one at least.")
            for index, each in enumerate(parts):
                at = f"{path}.{key}[{index}]" if key in COMPOSED else f"{path}.{key}"
                self.view(each, at, depth + 1, source, encoding)

    def _data(self, data: Any, path: str) -> _Source:
        """Return the source of a view's or a lookup's `data`: rows that are in it, or named before."""
        if not is_object(data):
            raise BadSpec(path, 'write the rows as `{"values": [...]}`.')
        if other := sorted(data.keys() - {"values", "name", "format"}):
            raise BadSpec(f"{path}.{other[0][:60]}", f"nothing is fetched or generated; {INLINE}.")
        self._inert(data, path, 0, ("values",))
        name = data.get("name")
        if "values" in data:
            source = self._source(data["values"], f"{path}.values")
            if isinstance(name, str):
                self._sources[name] = source
            return source
        if not isinstance(name, str):
            raise BadSpec(path, f"this has no rows; {INLINE}.")
        if name not in self._sources:
            raise unknown(f"{path}.name", "data set", name, self._sources)
        return self._sources[name]

    def _source(self, rows: Any, path: str) -> _Source:
        if not is_list(rows):
            raise BadSpec(path, "this must be a list of objects, one for each row.")
        if not rows:
            raise BadSpec(path, "there are no rows, so there is nothing to draw; say so in words.")
        self._rows += len(rows)
        if self._rows > MAX_VALUES:
            fix = "aggregate them first, or take fewer"
            raise BadSpec(path, f"these are {self._rows:,} values; at most {MAX_VALUES:,} are drawn: {fix}.")
        fields: set[str] = set()
        for row in rows:
            fields.update(row if is_object(row) else ("data",))
        if "__proto__" in fields:
            raise BadSpec(path, "`__proto__` is no name for a field; give it another one.")
        return _Source(list(rows), frozenset(fields))

    def _inert(self, value: Any, path: str, depth: int, but: Collection[str] = ()) -> None:
        """Check that what is at *path*, without its keys *but*, links to nothing, and take `usermeta` out of it."""
        if depth > MAX_DEPTH:
            raise BadSpec(path[:200], f"this is nested more than {MAX_DEPTH} levels deep; write it flatter.")
        if isinstance(value, str):
            self._count(value, path)
            _check_text(value, path)
        elif isinstance(value, list):
            for index, each in enumerate(cast("list[Any]", value)):
                self._inert(each, f"{path}[{index}]", depth + 1)
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            fields.pop("usermeta", None)
            for key, each in fields.items():
                at = f"{path}.{key[:60]}"
                self._count(key, at)
                if key in REFUSED:
                    raise BadSpec(at, f"{REFUSED[key]}.")
                if key == "data" and "data" not in but:
                    self._data(each, at)
                elif key not in but:
                    self._inert(each, at, depth + 1)

    def _count(self, text: str, path: str) -> None:
        if len(text) > MAX_TEXT:
            raise BadSpec(path, f"this text has {len(text):,} characters; give at most {MAX_TEXT:,}.")
        self._length += len(text)
        if self._length > MAX_LENGTH:
            raise BadSpec("$", f"there are more than {MAX_LENGTH:,} characters outside the rows; write it shorter.")


def _check_text(text: str, path: str) -> None:
    if ADDRESS.match(text) or (PAINT.search(text) and not path.endswith((".text", ".title"))):
        raise BadSpec(path, "charts have no links and fetch nothing; remove the address.")
    if MARKUP.search(text):
        raise BadSpec(path, "texts are plain; write it without HTML or SVG tags.")


def _check_side(side: Any, path: str) -> None:
    """Raise `BadSpec` when the width or the height of a view is too large, or is none."""
    if is_number(side) and not 1 <= side <= MAX_SIDE:
        raise BadSpec(path, f"{side:,.6g} px is no size to draw; give 1 to {MAX_SIDE:,}.")
    if is_object(side) and is_number(step := side.get("step")) and not 1 <= step <= MAX_STEP:
        raise BadSpec(f"{path}.step", f"{step:,.6g} px is no size of one category; give 1 to {MAX_STEP}.")


def _check_mark(mark: Any, path: str) -> None:
    """Raise `BadSpec` unless *mark* is the name of one, or an object with its `type`."""
    if is_object(mark):
        mark, path = mark.get("type"), f"{path}.type"
    if not isinstance(mark, str):
        raise BadSpec(path, f"there is no mark; use one of {', '.join(sorted(MARKS))}.")
    if mark in MARKS_REFUSED:
        raise BadSpec(path, f"{MARKS_REFUSED[mark]}.")
    if (meant := MARKS_MEANT.get(mark.lower())) is not None:
        raise BadSpec(path, f"there is no mark `{mark[:60]}` (did you mean `{meant}`?).")
    if mark not in MARKS:
        raise unknown(path, "mark", mark, MARKS)


def _check_encoding(encoding: Mapping[str, Any], path: str, source: _Source | None) -> None:
    for channel, listed in encoding.items():
        if channel not in CHANNELS:
            raise unknown(f"{path}.{channel[:60]}", "channel", channel, CHANNELS)
        for index, each in enumerate(listed if is_list(listed) else [listed]):
            at = f"{path}.{channel}[{index}]" if is_list(listed) else f"{path}.{channel}"
            if each is not None:
                _check_definition(each, at, source)


def _check_definition(definition: Any, path: str, source: _Source | None) -> None:
    """Raise `BadSpec` when a channel shows a field that no row has, or in a way that would say something else."""
    if not is_object(definition):
        raise BadSpec(path, 'this must be an object, such as `{"field": "price", "type": "quantitative"}`.')
    for key, names in (("type", TYPES), ("aggregate", AGGREGATES)):
        name = definition.get(key)
        if isinstance(name, str) and name not in names:
            raise unknown(f"{path}.{key}", key, name, names)
    field = definition.get("field")
    if not isinstance(field, str) or (definition.get("aggregate") == "count" and field == "*"):
        return
    if source is None:
        raise BadSpec(path, NO_DATA)
    if source.fields is None:
        return
    _check_field(field, source.fields, f"{path}.field")
    if definition.get("type") == "temporal" and "aggregate" not in definition:
        cells = [row.get(field) for row in source.rows if is_object(row)]
        if cells and all(type(cell) is int and cell in YEARS for cell in cells if cell is not None):
            fix = 'write it as text, such as "2026", or use the type `ordinal`'
            raise BadSpec(path, f"a number is read as milliseconds since 1970, not as a year; {fix}.")


def _check_field(name: str, fields: frozenset[str], path: str) -> None:
    """Raise `BadSpec` when *name* is none of *fields*: nothing would be drawn."""
    if name.split("[", 1)[0].split(".", 1)[0] in fields or re.sub(r"\\([.\[\]])", r"\1", name) in fields - {name}:
        return
    if name in fields:
        escaped = re.sub(r"([.\[\]])", r"\\\1", name)[:120]
        fix = f"rename the column, or write `{escaped}`"
        raise BadSpec(path, f"a dot or a bracket in `{name[:60]}` means a part of a cell; {fix}.")
    raise unknown(path, "field", name, fields)


def unknown(path: str, noun: str, name: str, choices: Iterable[str]) -> BadSpec:
    """Return the error of a *name* that is none of the *choices*, with the one that is probably meant."""
    names = sorted(choices)
    listed = ", ".join(f"`{each[:60]}`" for each in names[:LISTED]) + (", …" if len(names) > LISTED else "")
    return BadSpec(path, f"there is no {noun} `{name[:60]}`{hint(name, names)}; there are {listed or 'none'}.")

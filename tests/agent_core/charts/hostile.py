"""Specifications that reach outside, or would draw forever: each is refused with a word of its error, or bounded.

The process that draws uses the list too: what is `BOUNDED` passes the checks and must end in time.
"""

from typing import Any, NamedTuple

BOUNDED = "bounded"
"""The word of a specification that passes, since it is inert and small, or is bounded by whatever draws it."""

ROWS: list[dict[str, Any]] = [{"a": "x", "b": 1, "t": "2020-01-01"}, {"a": "y", "b": 1_000_000, "t": "2026-01-01"}]
X = {"field": "a", "type": "nominal"}
Y = {"field": "b", "type": "quantitative"}


class HostileSpec(NamedTuple):
    """One specification, and a word of the error that refuses it."""

    name: str
    spec: Any
    word: str

    def __str__(self) -> str:
        return self.name


def bar(**changes: Any) -> dict[str, Any]:
    """Return a harmless chart with some of its keys replaced."""
    return {"data": {"values": ROWS}, "mark": "bar", "encoding": {"x": X, "y": Y}, **changes}


def shown(**channels: Any) -> dict[str, Any]:
    """Return a harmless chart with some of its channels replaced."""
    return bar(encoding={"x": X, "y": Y, **channels})


def nested(depth: int) -> dict[str, Any]:
    """Return a view within layers of layers."""
    view: dict[str, Any] = {"mark": "bar", "encoding": {"x": X, "y": Y}}
    for _ in range(depth):
        view = {"layer": [view]}
    return {"data": {"values": ROWS}, **view}


def deep(depth: int) -> list[Any]:
    """Return lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def hostile() -> tuple[HostileSpec, ...]:
    """Return all of them; none is to be changed."""
    return tuple(HostileSpec(*each) for each in (*ADDRESSES, *EXPRESSIONS, *MARKUP, *BOMBS, *SHAPES, *INERT))


CELLS = [
    {"a": "<script>alert(1)</script>", "b": 1},
    {"a": "javascript:alert(1)", "b": 2},
    {"a": "<!channel> @here", "b": 3},
    {"a": '=HYPERLINK("https://example.org")', "b": 4},
    {"a": "\u202egnp.exe", "b": 5},
    {"a": "x" * 10_000, "b": 6},
    {"a": "file:///etc/passwd", "b": 7},
    {"a": "url(https://example.org/x.png)", "b": 8},
]
"""Texts of data: they are labels, so they pass and are drawn as the text they are."""

ADDRESSES = (
    ("data from an address", bar(data={"url": "https://example.org/data.csv"}), "data.values"),
    ("data from a file", bar(data={"url": "file:///etc/passwd"}), "data.values"),
    ("data of the cloud's metadata", bar(data={"url": "http://169.254.169.254/latest/meta-data"}), "data.values"),
    ("data from an address in a layer", {"layer": [{"data": {"url": "x"}, "mark": "bar"}]}, "data.values"),
    ("lookup in remote rows", bar(transform=[{"lookup": "a", "from": {"data": {"url": "x"}, "key": "a"}}]), "fetched"),
    ("image mark", bar(mark={"type": "image", "url": "https://example.org/x.png"}), "fetched"),
    ("image mark by name", bar(mark="image"), "images are not drawn"),
    ("image of a file", shown(url={"value": "file:///etc/passwd"}), "fetched"),
    ("map from an address", bar(mark="geoshape"), "maps are not drawn"),
    ("link on a mark", bar(mark={"type": "bar", "href": "https://example.org"}), "no links"),
    ("link by a channel", shown(href={"field": "a"}), "no links"),
    ("link in a tooltip", shown(tooltip={"value": "https://example.org/?q=secret"}), "address"),
    ("address of a script in a title", bar(title="javascript:alert(1)"), "address"),
    ("data address in a description", bar(description=" DATA:text/html,x"), "address"),
    ("file address as a colour", bar(mark={"type": "bar", "color": "file:///etc/passwd"}), "address"),
    ("paint from an address", bar(mark={"type": "bar", "fill": "url(https://example.org/x.svg#a)"}), "address"),
    ("paint in a configuration", bar(config={"background": "URL (//example.org)"}), "address"),
    ("font from an address", bar(config={"font": "//example.org/font"}), "address"),
    ("locale from an address", bar(config={"locale": {"url": "x"}}), "fetched"),
    ("options of the page", bar(usermeta={"embedOptions": {"loader": {"http": {}}, "config": "https://x"}}), BOUNDED),
    ("loader", bar(config={"loader": {"baseURL": "https://example.org"}}), "fetched"),
    ("address of a blob", bar(title="blob:https://example.org/1"), "address"),
    ("image of data", shown(shape={"value": "data:image/png;base64,AAAA"}), "address"),
    ("another schema", bar(**{"$schema": "https://example.org/schema.json"}), "vega-lite"),
    ("schema of Vega", bar(**{"$schema": "https://vega.github.io/schema/vega/v5.json"}), "vega-lite"),
)

EXPRESSIONS = (
    ("calculate", bar(transform=[{"calculate": "1+1", "as": "c"}]), BOUNDED),
    ("filter by an expression", bar(transform=[{"filter": "datum.b > sequence(1e9)"}]), BOUNDED),
    ("filter within and", bar(transform=[{"filter": {"and": ["true"]}}]), BOUNDED),
    ("filter by a parameter", bar(transform=[{"filter": {"param": "p"}}]), BOUNDED),
    ("expression in a title", bar(title={"text": {"expr": "'x'"}}), BOUNDED),
    ("expression as a width", bar(width={"expr": "1e9"}), BOUNDED),
    ("expression of a label", shown(x={**X, "axis": {"labelExpr": "datum.label"}}), BOUNDED),
    ("expression in values of an axis", shown(x={**X, "axis": {"values": {"expr": "sequence(1e9)"}}}), BOUNDED),
    ("test by an expression", shown(color={"condition": {"test": "datum.b > 1", "value": "red"}}), BOUNDED),
    ("condition of a parameter", shown(color={"condition": {"param": "p", "value": "red"}}), BOUNDED),
    ("parameters", bar(params=[{"name": "p", "expr": "1"}]), BOUNDED),
    ("signals in a configuration", bar(config={"signals": [{"name": "s", "update": "1"}]}), BOUNDED),
    ("events in a configuration", bar(config={"events": {"bind": "any"}}), BOUNDED),
    ("own format", shown(x={**X, "axis": {"formatType": "alert(1)", "format": "x"}}), BOUNDED),
    ("cursor", bar(mark={"type": "bar", "cursor": "pointer"}), "no links"),
    ("prototype as a key", bar(config={"__proto__": {"x": 1}}), "no Vega-Lite"),
    ("prototype as a field", bar(data={"values": [{"__proto__": {"polluted": 1}, "a": "x", "b": 1}]}), "`__proto__`"),
    ("Vega itself", {"data": [], "marks": [{"type": "rect"}], "signals": []}, "this is Vega"),
)

MARKUP = (
    ("script in a title", bar(title="<script>alert(1)</script>"), "plain"),
    ("svg in a title", bar(title={"text": "x", "subtitle": "<svg onload=alert(1)>"}), "plain"),
    ("broken tag in a title", bar(title="< script src=//x"), "plain"),
    ("image in a label", shown(x={**X, "title": "<img src=x onerror=alert(1)>"}), "plain"),
    ("markup in a text", bar(mark={"type": "text", "text": "<a href='x'>y</a>"}), "plain"),
    ("markup in a tooltip", shown(tooltip={"value": "<iframe src=x>"}), "plain"),
    ("bold in a title", bar(title="<b>New</b>"), "plain"),
    ("one tag in a title", bar(title="New<br>line"), "plain"),
    ("handler of a made-up element", bar(title="<x onclick=alert(1)>"), "plain"),
    ("handler of a bold text", bar(title='<b/onclick="alert(1)">'), "plain"),
    ("element that opens", bar(title="<details open ontoggle=alert(1)>x"), "plain"),
    ("comment in a description", bar(description="<!--"), "plain"),
    ("entity of XML", bar(title='<!DOCTYPE a [<!ENTITY x "y">]>'), "plain"),
)

BOMBS = (
    ("sequence", bar(data={"sequence": {"start": 0, "stop": 1e12}}), "generated"),
    ("graticule", bar(data={"graticule": {"step": [0.001, 0.001]}}), "generated"),
    ("sphere", bar(data={"sphere": True}), "generated"),
    ("5,001 rows", bar(data={"values": [{"a": 1, "b": 2}] * 5_001}), "5,001 values"),
    (
        "5,001 rows in two sets",
        {
            "datasets": {"p": [{"a": 1}] * 2_501, "q": [{"a": 1}] * 2_500},
            "layer": [{"data": {"name": name}, "mark": "bar"} for name in "pq"],
        },
        "5,001 values",
    ),
    ("keys of an impute", bar(transform=[{"impute": "b", "key": "b", "keyvals": {"stop": 1e12}}]), BOUNDED),
    ("bins by a step", shown(x={**Y, "bin": {"step": 1e-9}}), BOUNDED),
    ("bins by their number", shown(x={**Y, "bin": {"maxbins": 1e9}}), BOUNDED),
    ("bins of a scale", shown(color={**Y, "scale": {"bins": {"start": 0, "stop": 1e9, "step": 1}}}), BOUNDED),
    ("steps of a density", bar(transform=[{"density": "b", "steps": 1e9}]), BOUNDED),
    ("ticks", shown(y={**Y, "axis": {"tickCount": 1e9}}), BOUNDED),
    (
        "ticks by the millisecond",
        shown(x={"field": "t", "axis": {"tickCount": {"interval": "millisecond"}}}),
        BOUNDED,
    ),
    (
        "degree of a regression",
        bar(transform=[{"regression": "b", "on": "b", "method": "poly", "order": 1e6}]),
        BOUNDED,
    ),
    ("width", bar(width=2_001), "2,000"),
    ("height", bar(height=1e9), "2,000"),
    ("no width", bar(width=0), "no size"),
    ("size of a step", bar(width={"step": 1e6}), "200"),
    ("width in a layer", {"data": {"values": ROWS}, "hconcat": [bar(width=99_999)]}, "2,000"),
    ("size of a mark", shown(size={"value": 1e12}), BOUNDED),
    ("size of a font", bar(config={"axis": {"labelFontSize": 1e6}}), BOUNDED),
    (
        "steps by rows",
        bar(data={"values": [{"a": f"k{i}", "b": i} for i in range(2_000)]}, height={"step": 100}),
        BOUNDED,
    ),
    (
        "facets",
        bar(data={"values": [{"a": f"k{i}", "b": i} for i in range(61)]}, encoding={"row": X, "y": Y}),
        BOUNDED,
    ),
    (
        "repeats by repeats",
        {"data": {"values": ROWS}, "repeat": {"row": ["b"] * 50, "column": ["b"] * 50}, "spec": {"mark": "bar"}},
        BOUNDED,
    ),
    (
        "series",
        shown(color={"field": "a"}) | {"data": {"values": [{"a": f"k{i}", "b": i} for i in range(101)]}},
        BOUNDED,
    ),
    ("views", {"data": {"values": ROWS}, "hconcat": [{"mark": "bar", "encoding": {"y": Y}}] * 41}, BOUNDED),
    (
        "views within views",
        {"data": {"values": ROWS}, "vconcat": [{"hconcat": [{"mark": "bar", "encoding": {"y": Y}}] * 40}] * 40},
        "more than 60 views",
    ),
    ("layers in layers", nested(40), "levels deep"),
    ("layers in layers in layers", nested(5_000), "levels deep"),
    ("lists in lists", shown(x={**X, "sort": deep(100)}), "levels deep"),
    ("lists in lists in lists", shown(x={**X, "scale": {"domain": deep(50_000)}}), "levels deep"),
    ("lists in a cell", bar(data={"values": [{"a": deep(50_000), "b": 1}]}), "levels deep"),
    ("list in a cell", bar(data={"values": [{"a": [0] * 100_000, "b": 1}]}), BOUNDED),
    ("domain of a scale", shown(x={**X, "scale": {"domain": list(range(5_001))}}), BOUNDED),
    ("long title", bar(title="x" * 2_001), "2,001 characters"),
    ("long cell", bar(data={"values": [{"a": "x" * 10_001, "b": 1}]}), BOUNDED),
    ("regular expression", bar(transform=[{"filter": {"field": "a", "regex": "(a+)+$"}}]), BOUNDED),
)

SHAPES = (
    ("no object", ["bar"], "object"),
    ("a text", '{"mark": "bar"}', "object"),
    ("nothing", {}, "mark"),
    ("no rows", {"mark": "bar", "encoding": {"x": X}}, "no rows"),
    ("empty rows", bar(data={"values": []}), "no rows"),
    ("rows as text", bar(data={"values": "a,b\n1,2"}), "list of objects"),
    ("unknown set", bar(data={"name": "sales"}), "data set `sales`"),
    ("not a number", bar(data={"values": [{"a": "x", "b": float("nan")}]}), BOUNDED),
    ("huge number", bar(data={"values": [{"a": "x", "b": 10**400}]}), BOUNDED),
    ("huge number in a title", bar(title={"text": "x", "offset": 10**400}), BOUNDED),
)

INERT = (
    ("cells that would be code elsewhere", bar(data={"values": CELLS}), BOUNDED),
    ("field with quotes", bar(data={"values": [{"a": "x", "b": 1, "c\"'])": 2}]}), BOUNDED),
    ("pattern of a date", shown(x={**X, "axis": {"format": "%b '%y"}}), BOUNDED),
    ("signs that are no tags", bar(title=["a <b> c", "Latency <p95 and p99>", "rate <x> and n < a, b < use"]), BOUNDED),
    ("smaller than", bar(title="Share of a < b, in % (n > 5)"), BOUNDED),
    ("words with a colon", bar(title="Data: orders", description="File: a.csv; about: https"), BOUNDED),
    ("address within words", bar(title="Source: https://example.org, 2026"), BOUNDED),
    ("slow transform", bar(transform=[{"loess": "b", "on": "b"}], encoding={"x": Y, "y": Y}), BOUNDED),
)

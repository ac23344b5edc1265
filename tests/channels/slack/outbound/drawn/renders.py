"""Renders for the tests of tables and charts in Slack, and strategies for odd ones."""

from typing import Any

from hypothesis import strategies as st

from channels.spec import ShownRender

ODD = (
    "", " ", "\n", "|", "a|b", "\\", "`", "```", "**b**", "<!channel>", "<@UANN>", "@here", "&lt;!everyone&gt;",
    "[a](javascript:alert(1))", "\u202eabc\u202c", "\u200b", "\x00\x1b[2J", "\ud800", "😀👨‍👩‍👧", "שלום", "مرحبا",
    "<script>", "=1+1", "x" * 10_000, "😀" * 3_000, "&" * 500, "<" * 500, "a b " * 700, "@channel " * 300,
)  # fmt: skip
"""Words that break what is careless: empty, very long, of other directions, without width, syntax of all kinds."""
TEXTS = st.one_of(st.text(max_size=30), st.sampled_from(ODD))
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, -0.0, 1e308, 5e-324]),
)
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    TEXTS,
    st.lists(st.integers(), max_size=3),
    st.dictionaries(TEXTS, st.integers(), max_size=2),
)
FORMATS = st.sampled_from([None, "text", "number", "integer", "percent", "date", "datetime", "currency:EUR"])


def table(columns: list[Any], rows: list[dict[str, Any]], **about: Any) -> ShownRender:
    """Return a render of a table; a column is its key, or all of it."""
    full = [each if isinstance(each, dict) else {"key": each, "label": each} for each in columns]
    return ShownRender(
        about.get("id", "ren_1"),
        "table",
        {"columns": full, "rows": rows},
        about.get("text", "a\n1"),
        about.get("title", "Orders"),
    )


def chart(
    type: str, categories: list[str], series: dict[str, list[float | None]], spec: Any = None, **about: Any
) -> ShownRender:
    """Return a render of a chart that reduces to a plain one; *about* has fields of the plain chart."""
    named = [{"name": name, "values": values} for name, values in series.items()]
    plain = {"type": type, "categories": categories, "series": named, **about}
    return ShownRender("ren_1", "chart", {"spec": spec or {"mark": type}, "plain": plain}, "a: 1\nb: 2", "Orders")


HOSTILE_TABLES = tuple(
    table([{"key": "k", "label": odd}, "b"], [{"k": each, "b": n} for n, each in enumerate(ODD)], title=odd)
    for odd in ODD
)
"""A table of all odd words under each of them as its heading and title."""
HOSTILE_CHARTS = tuple(
    ShownRender("ren_1", "chart", {"spec": {"mark": type, "data": {"values": [{odd: odd}]}}, "plain": {
        "type": type,
        "categories": names,
        "series": [{"name": odd, "values": values} for odd in names[:count]],
        "x": names[0],
        "y": names[-1],
    }}, odd, odd)
    for type, count in (("bar", 8), ("line", 8), ("area", 8), ("pie", 1))
    for names in (ODD[:15], ODD[14:], ("same",) * 9, ("a long name that is the same",) * 12)
    for values in [[n + 0.5 for n in range(len(names))]]
    for odd in names[-1:]
)  # fmt: skip
"""Charts whose names are odd, or the same."""


@st.composite
def tables(draw: st.DrawFn) -> ShownRender:
    """Draw a table of any size that the log can hold, with odd cells, which are repeated so that drawing is quick."""
    count = draw(st.sampled_from([1, 2, 3, 20, 21, 30]))
    aligns = st.sampled_from([None, "left", "center", "right"])
    columns = [
        {"key": f"k{n}", "label": draw(TEXTS), "align": draw(aligns), "format": draw(FORMATS)} for n in range(count)
    ]
    cells = draw(st.lists(CELLS, min_size=1, max_size=8))
    gaps = draw(st.integers(2, 9))
    rows = [
        {f"k{n}": cells[(at * count + n) % len(cells)] for n in range(count) if (at + n) % gaps}
        for at in range(draw(st.sampled_from([0, 1, 2, 99, 100, 200, 201, 500])))
    ]
    return table(columns, rows, title=draw(st.none() | TEXTS), text=draw(TEXTS))


@st.composite
def charts(draw: st.DrawFn) -> ShownRender:
    """Draw a chart, plain or not, with odd names and values."""
    type = draw(st.sampled_from(["bar", "line", "area", "pie", "scatter"]))
    finite = st.none() | st.integers(-(10**6), 10**6) | st.floats(-1e9, 1e9)
    values = draw(st.lists(draw(st.sampled_from([finite, finite, st.none() | NUMBERS])), min_size=1, max_size=6))
    names = draw(st.lists(TEXTS, min_size=1, max_size=6))
    count = draw(st.sampled_from([0, 1, 2, 12, 13, 20, 21, 60]))
    series = 1 if type == "pie" else draw(st.sampled_from([1, 2, 12, 13]))
    plain = {
        "type": type,
        "categories": [names[n % len(names)] for n in range(count)],
        "series": [
            {"name": names[n % len(names)], "values": [values[(n + at) % len(values)] for at in range(count)]}
            for n in range(series)
        ],
        "x": draw(st.none() | TEXTS),
        "y": draw(st.none() | TEXTS),
        "horizontal": draw(st.booleans()),
    }
    mark = {"mark": type, "data": {"values": [{draw(TEXTS): draw(CELLS)}]}}
    payload = {"spec": mark, **({"plain": plain} if draw(st.booleans()) else {})}
    return ShownRender("ren_1", "chart", payload, draw(TEXTS), draw(st.none() | TEXTS))

"""The render tools by themselves: what they show, what they refuse, and what the model reads of it."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.charts.draw import DrawingFailed, DrawingUnavailable
from agent_core.charts.made import MAX_RENDER, MadeRender, NewRender
from agent_core.charts.values import chart_of, table_of
from agent_core.errors import NotFound, ParleyError
from agent_core.messages import Text
from agent_core.schemas import problems, uncheckable
from agent_core.testing import FakeClock
from agent_core.tools import render as render_module
from agent_core.tools.base import CallContext, Done, ToolError
from agent_core.tools.render import render_tools
from tests.cases import for_each
from tests.conftest import ANN

ROWS = [{"city": f"C{n}", "n": n, "open": n % 2 == 0, "note": None if n % 3 else "x"} for n in range(12)]
BAR = {
    "mark": "bar",
    "encoding": {"x": {"field": "city", "type": "nominal"}, "y": {"field": "n", "type": "quantitative"}},
}
BOX = {"mark": "boxplot", "encoding": {"y": {"field": "n", "type": "quantitative"}}}


class RefusingDrawer:
    """A drawer that draws nothing; *seen* are the specifications that it was asked about."""

    def __init__(self, error: ParleyError | None = None) -> None:
        self.seen: list[dict[str, Any]] = []
        self.error = error or DrawingFailed("The chart does not compile: Unknown mark.")

    async def check(self, spec: dict[str, Any], /, *, owner: str = "") -> None:
        assert owner == "s"
        self.seen.append(spec)
        raise self.error


def context(**results: list[dict[str, Any]]) -> CallContext:
    async def rows(handle: str) -> list[dict[str, Any]]:
        if handle not in results:
            raise NotFound("result", handle, "There are: `r1`.")
        return results[handle]

    return CallContext(
        call="call_a.1", session="s", run="r", actor=ANN, channel="api", clock=FakeClock(), progress=print, rows=rows
    )


async def use(
    name: str, arguments: dict[str, Any], drawer: RefusingDrawer | None = None, **results: Any
) -> Done | ToolError:
    """Call a render tool as the runtime does: its schema first."""
    tool = render_tools(drawer)[name]
    if faults := problems(tool.spec.parameters, arguments):
        return ToolError("; ".join(map(str, faults)))
    outcome = await tool.call(arguments, context(**results))
    assert isinstance(outcome, Done | ToolError)
    return outcome


async def shown(name: str, arguments: dict[str, Any], **options: Any) -> tuple[NewRender, str]:
    """Return the only render, and what the model reads."""
    outcome = await use(name, arguments, **options)
    assert isinstance(outcome, Done), outcome
    (render,), (text,) = outcome.renders, outcome.parts
    assert isinstance(text, Text)
    return render, text.text


async def refused(name: str, arguments: dict[str, Any], **options: Any) -> str:
    """Return what the model reads of a refusal."""
    outcome = await use(name, arguments, **options)
    assert isinstance(outcome, ToolError), outcome
    return outcome.message


def test_the_schemas_are_closed_and_small():
    """Both tools take what their schemas name and nothing else, and together they add less than 3,500 bytes."""
    tools = render_tools(None)
    assert sorted(tools) == ["render_chart", "render_table"]
    size = 0
    for name, tool in tools.items():
        assert uncheckable(tool.spec.parameters) is None
        assert tool.spec.parameters["additionalProperties"] is False
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(tool.spec.parameters)
        assert (tool.spec.name, tool.spec.effect, tool.spec.concurrency_safe) == (name, "read", True)
        size += len(msgspec.json.encode([name, tool.spec.description, tool.spec.parameters]))
    assert size < 3_500


async def test_a_table_shows_its_rows():
    """A table has the declared columns with their headings and formats; the model reads its id and its shape."""
    columns = ["city", {"key": "n", "label": "Orders", "align": "right", "format": "integer"}]
    render, text = await shown("render_table", {"title": "By  city", "columns": columns, "rows": ROWS})
    assert text == "Shown as table ren_a.1.1: 12 rows x 2 columns."
    assert (render.kind, render.title) == ("table", "By city")
    table = table_of(render.payload)
    assert table is not None
    assert [(each.key, each.label, each.align, each.format) for each in table.columns] == [
        ("city", "city", None, None),
        ("n", "Orders", "right", "integer"),
    ]
    assert table.rows[3] == {"city": "C3", "n": 3}
    assert "C11" in render.text


async def test_cells_are_made_fit_to_be_shown():
    """Nested values and huge numbers become text, long texts are cut, broken characters replaced; markup is text."""
    row = {"a": {"b": [1, "ß"]}, "b": 2**53 + 1, "c": "x" * 10_001, "d": "<script>alert(1)</script>", "e": "\ud800!"}
    render, _ = await shown("render_table", {"columns": list("abcdef"), "rows": [row]})
    table = table_of(render.payload)
    assert table is not None
    assert table.rows == (
        {"a": '{"b":[1,"ß"]}', "b": "9007199254740993", "c": "x" * 9_999 + "…", "d": row["d"], "e": "\ufffd!"},
    )


SIGNS = st.text("a<>&|\"'`=@\u202e\u0000\n \ud83d\U0001f600ß\u4e2d", max_size=6)
CELLS = st.none() | st.booleans() | st.integers() | st.floats() | SIGNS | st.lists(SIGNS, max_size=2)
KEYS = st.sampled_from(["a", "b", "__proto__", "=1+1", "\u202ex", "-a"])


@given(st.lists(st.dictionaries(KEYS, CELLS, max_size=3), min_size=1, max_size=5), st.lists(KEYS, min_size=1))
def test_any_rows_are_shown_or_refused(rows, columns):
    """Whatever cells hold, the payload is JSON that every surface can read, or the call says what is wrong."""
    outcome = asyncio.run(use("render_table", {"columns": columns, "rows": rows, "order": ["-a"][: "a" in columns]}))
    if isinstance(outcome, ToolError):
        assert "columns" in outcome.message or "rows" in outcome.message or "order" in outcome.message
        return
    (render,) = outcome.renders
    table = table_of(msgspec.json.decode(msgspec.json.encode(render.payload)))
    assert table is not None
    assert len(table.rows) == len(rows)
    kinds = {type(value) for row in table.rows for value in row.values()}
    assert kinds <= {type(None), bool, int, float, str}


@for_each(
    "arguments, said",
    [
        ({"rows": ROWS}, ("`columns`", "city, n, open, note")),
        ({"columns": ["city"]}, ("`rows`", "from_result")),
        ({"columns": ["city"], "rows": []}, ("`rows`", "from_result")),
        ({"columns": ["city"], "rows": [ROWS[0], {"town": 1}]}, ("`rows[1]`", "town", "declare")),
        ({"columns": ["a"], "rows": [{"a": 1}] * 501}, ("`rows`", "501 rows", "from_result", "`limit`", "aggregate")),
        ({"columns": ["a", "a"], "rows": [{"a": 1}]}, ("`columns[1]`", "once")),
        (
            {"columns": [{"key": "a", "format": "money"}], "rows": [{"a": 1}]},
            ("`columns[0].format`", "money", "currency:EUR", "percent"),
        ),
        ({"columns": [{"key": "a", "label": "<b>A</b>"}], "rows": [{"a": 1}]}, ("`columns[0].label`", "<b>", "plain")),
        ({"columns": ["<svg onload=x"], "rows": [{"<svg onload=x": 1}]}, ("`columns[0]`", "<svg")),
        ({"title": "<!-- x -->", "columns": ["a"], "rows": [{"a": 1}]}, ("`title`", "plain")),
        ({"columns": ["a"] * 101, "rows": [{"a": 1}]}, ("columns", "101 items", "100")),
        ({"columns": ["a"], "rows": [{"a": 1}], "html": "<b>"}, ("html",)),
        ({"columns": ["a"], "rows": [{"a": 1}], "from_result": "r1"}, ("`rows`", "leave them out")),
        ({"from_result": "r7"}, ("`r7`", "There are: `r1`")),
        ({"from_result": "r1", "columns": ["cities"]}, ("`columns[0]`", "`r1`", "city, n")),
        ({"from_result": "r1", "order": ["-town"]}, ("`order[0]`", "`town`", "city, n")),
        ({"from_result": "r1", "where": {"open": "yes"}}, ("`where.open`", "true, false")),
        ({"from_result": "r2"}, ("`from_result`", "2,000 rows", "500", "`limit`")),
        (
            {"columns": ["a"], "rows": [{"a": "x" * 10_000}] * 60},
            ("`rows`", "bytes", f"{MAX_RENDER:,}", "fewer rows"),
        ),
    ],
)
async def test_a_refusal_names_the_path_and_the_remedy(arguments: dict[str, Any], said: tuple[str, ...]):
    """What cannot be shown is refused in words with which the next call is right."""
    message = await refused("render_table", arguments, r1=ROWS, r2=[{"a": n} for n in range(2_000)])
    for each in said:
        assert each in message


async def test_a_table_by_reference_is_chosen_from_the_rows():
    """`from_result` takes a selection of columns, an order, a filter and a limit; without columns all are shown."""
    chosen = {"from_result": "r1", "columns": ["n", "city"], "where": {"open": True}, "order": ["-n"], "limit": 2}
    render, text = await shown("render_table", chosen, r1=ROWS)
    assert render.payload["rows"] == [{"n": 10, "city": "C10"}, {"n": 8, "city": "C8"}]
    assert text.endswith("2 rows x 2 columns.")
    render, _ = await shown("render_table", {"from_result": "r1"}, r1=[{"<b>": 1}, {"b": 2}])
    assert [column["label"] for column in render.payload["columns"]] == ["<b>", "b"]
    assert render.payload["rows"] == [{"<b>": 1}, {"b": 2}]


async def test_a_chart_that_reduces_needs_no_drawer():
    """A plain chart is its specification and the reduced chart; no process is asked about it."""
    drawer = RefusingDrawer()
    spec = {**BAR, "data": {"values": ROWS}, "usermeta": {"embedOptions": {}}}
    render, text = await shown("render_chart", {"title": "Orders", "vega_lite_spec": spec}, drawer=drawer)
    assert text == "Shown as chart ren_a.1.1: bar, 12 categories x 1 series."
    assert "usermeta" not in render.payload["spec"]
    chart = chart_of(msgspec.json.decode(msgspec.json.encode(render.payload)))
    assert chart is not None
    assert chart.title == render.title == "Orders"
    assert set(chart.series[0].values) == set(range(12))
    assert not drawer.seen


async def test_a_chart_by_reference_has_the_fields_that_it_draws():
    """The rows become the data of the specification, pruned to its fields, filtered, ordered and cut."""
    arguments = {"vega_lite_spec": BAR, "from_result": "r1", "where": {"open": True}, "order": ["-n"], "limit": 3}
    render, _ = await shown("render_chart", arguments, r1=ROWS)
    wanted = [{"city": "C10", "n": 10}, {"city": "C8", "n": 8}, {"city": "C6", "n": 6}]
    assert render.payload["spec"]["data"] == {"values": wanted}
    arguments = {"vega_lite_spec": BAR, "from_result": "r1", "columns": ["city", "n", "note"], "limit": 1}
    render, _ = await shown("render_chart", arguments, r1=ROWS)
    assert render.payload["spec"]["data"]["values"] == [{"city": "C0", "n": 0, "note": "x"}]


async def test_a_chart_that_does_not_compile_is_refused():
    """A specification that does not reduce is drawn once to see that it can be."""
    drawer, spec = RefusingDrawer(), {**BOX, "data": {"values": ROWS}}
    assert "does not compile" in await refused("render_chart", {"vega_lite_spec": spec}, drawer=drawer)
    assert len(drawer.seen) == 1
    render, text = await shown("render_chart", {"vega_lite_spec": spec})
    assert "plain" not in render.payload
    assert text == "Shown as chart ren_a.1.1: drawn as a picture."


@for_each(
    "arguments, said",
    [
        ({}, ("vega_lite_spec", "required")),
        ({"vega_lite_spec": {**BAR, "data": {"url": "https://x.test/a.csv"}}}, ("`vega_lite_spec.data.url`",)),
        ({"vega_lite_spec": {**BAR, "data": {"values": ROWS}}, "from_result": "r1"}, ("`vega_lite_spec.data`",)),
        ({"vega_lite_spec": BAR, "from_result": "r2"}, ("`from_result`", "6,000 rows", "5,000")),
        ({"vega_lite_spec": BOX, "from_result": "r3"}, ("`vega_lite_spec`", "no column `n`", "a, b")),
        ({"vega_lite_spec": BAR, "from_result": "r1", "columns": ["town"]}, ("`columns[0]`", "town", "city, n")),
        ({"title": "<i>x</i>", "vega_lite_spec": {**BAR, "data": {"values": ROWS}}}, ("`title`", "plain")),
    ],
)
async def test_a_refused_chart_names_the_path_and_the_remedy(arguments: dict[str, Any], said: tuple[str, ...]):
    """What cannot be drawn is refused before anything is shown."""
    results = {"r1": ROWS, "r2": [{"city": "x", "n": n} for n in range(6_000)], "r3": [{"a": 1, "b": 2}]}
    message = await refused("render_chart", arguments, **results)
    for each in said:
        assert each in message


async def test_a_busy_drawer_refuses_no_chart():
    """A model cannot wait: a chart that cannot be checked now is shown, and surfaces draw it later."""
    drawer = RefusingDrawer(DrawingUnavailable("Too many drawings wait already; ask again in a few seconds."))
    arguments = {"vega_lite_spec": {**BOX, "data": {"values": ROWS}}}
    _, text = await shown("render_chart", arguments, drawer=drawer)
    assert text.endswith("drawn as a picture.")
    assert len(drawer.seen) == 1


async def test_a_specification_as_text_is_read():
    """Models write it as text at times; a text that is no JSON object is refused with the remedy."""
    spec = msgspec.json.encode({**BAR, "data": {"values": ROWS}}).decode()
    render, _ = await shown("render_chart", {"vega_lite_spec": spec})
    assert "plain" in render.payload
    for wrong in ("bar", "[1]", "[" * 2_000):
        assert "as an object, not as text" in await refused("render_chart", {"vega_lite_spec": wrong})


@pytest.mark.whole
@for_each("name", ["x", "a name of a field"])
async def test_five_thousand_points_fit(name: str):
    """5,000 points with all their digits and the name of a series are shown, in less than the log takes."""
    rows = [{name: -n / 7e-101, "y": -n / 3e101, "s": f"Series {n % 3}"} for n in range(1, 5_001)]
    axes = {"x": {"field": name, "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
    spec = {"mark": "point", "encoding": {**axes, "color": {"field": "s", "type": "nominal"}}}
    render, text = await shown("render_chart", {"vega_lite_spec": {**spec, "data": {"values": rows}}})
    assert len(render.payload["spec"]["data"]["values"]) == 5_000
    assert text.endswith("scatter, 1,667 points x 3 series.")
    assert len(render.text) < 61_000
    assert len(msgspec.json.encode(render)) < MAX_RENDER


@for_each("odd", ["\ud800", 10**5_000])
@for_each("tool", ["render_table", "render_chart"])
async def test_what_the_log_cannot_hold_raises_nothing(tool: str, odd: Any):
    """Half characters and endless numbers, as keys, cells, titles or arguments, end in a render or an error."""
    text = str(odd) if isinstance(odd, str) else "1"
    rows = [{"a": odd, text: odd, "b": {text: [odd]}}]
    mark = {"mark": "bar", "encoding": {"x": {"field": "a"}, "y": {"field": text}}}
    every: list[dict[str, Any]] = [
        {"title": text, "columns": ["a", "b", text], "rows": rows},
        {"from_result": "r1", "where": {text: odd}},
        {"from_result": "r1", "order": [text]},
        {"from_result": "r1", "columns": [text]},
    ]
    if tool == "render_chart":
        every = [{"vega_lite_spec": mark, **each} for each in every[1:]]
        every += [{"title": text, "vega_lite_spec": {**mark, "data": {"values": rows}, "description": odd}}]
        every += [{"vega_lite_spec": {**mark, "data": {"values": rows}}}]
    for arguments in every:
        outcome = await render_tools(None)[tool].call(arguments, context(r1=[{"a": 1}]))
        assert isinstance(outcome, Done | ToolError)
        msgspec.json.encode(outcome)


@for_each(
    "name, arguments, said",
    [
        ("render_chart", {"vega_lite_spec": {**BAR, "data": {"values": [{"n": 10**5_000}]}}}, "`vega_lite_spec`"),
        ("render_table", {"columns": ["n"], "rows": [{"n": 10**5_000}]}, "`rows[0].n`"),
    ],
)
async def test_what_json_cannot_hold_is_refused_by_its_place(name: str, arguments: dict[str, Any], said: str):
    """A number of thousands of digits is an error for the model that says where."""
    tool = render_tools(None)[name]
    found = await tool.call(arguments, context())
    assert isinstance(found, ToolError)
    assert said in found.message


async def test_a_label_is_text():
    """A heading that is an object is refused, rather than shown as Python writes it."""
    tool = render_tools(None)["render_table"]
    found = await tool.call({"columns": [{"key": "n", "label": {"x": 1}}], "rows": [{"n": 1}]}, context())
    assert isinstance(found, ToolError)
    assert "`columns[0].label`: a label is a text" in found.message


async def test_tables_and_charts_are_made_one_after_the_other_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """Calls made at once share one thread, which is not that of the event loop."""
    used: set[int] = set()
    makers = render_module.made_table, render_module.made_chart

    def made(make: Callable[..., MadeRender], *given: Any) -> MadeRender:
        used.add(threading.get_ident())
        return make(*given)

    monkeypatch.setattr(render_module, "made_table", partial(made, makers[0]))
    monkeypatch.setattr(render_module, "made_chart", partial(made, makers[1]))
    tools = render_tools(None)
    table = {"columns": ["city", "n"], "rows": ROWS}
    chart = {"vega_lite_spec": {**BAR, "data": {"values": ROWS}}}
    calls = [tools["render_table"].call(table, context()) for _ in range(4)]
    calls += [tools["render_chart"].call(chart, context()) for _ in range(4)]
    assert [each for each in await asyncio.gather(*calls) if not isinstance(each, Done)] == []
    assert len(used) == 1
    assert threading.get_ident() not in used

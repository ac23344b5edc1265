"""What a specification may not make the checks, or the drawing, do: read for long, run as code, be refused late."""

import re
import time
from typing import Any

import pytest
import vl_convert

from agent_core.renders.vega.lint import BadSpec, checked
from tests.cases import for_each

ROWS = [{"d": "2026-01-05", "k": "a", "n": 1}, {"d": "2026-02-05", "k": "b", "n": 2}]
YEAR = {"field": "d", "timeUnit": "year", "type": "temporal"}
EVIL = "EVIL(1)"
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


def bar(x: Any = None, **more: Any) -> dict[str, Any]:
    encoding = {"x": x or {"field": "k"}, "y": {"field": "n", "type": "quantitative"}}
    return {"data": {"values": ROWS}, "mark": "bar", "encoding": encoding} | more


def where(**test: Any) -> dict[str, Any]:
    return bar(transform=[{"filter": {"field": "d", **test}}])


RUN = [
    bar({**YEAR, "sort": [EVIL]}),
    bar({**YEAR, "sort": [{"year": EVIL}]}),
    bar({**YEAR, "timeUnit": {"unit": "date"}, "scale": {"domain": [EVIL]}}),
    bar({**YEAR, "timeUnit": "utchours", "scale": {"domain": {"unionWith": [EVIL]}}}),
    bar({**YEAR, "scale": {"domainMin": EVIL}}),
    bar({**YEAR, "axis": {"values": [EVIL]}}),
    bar({**YEAR, "bandPosition": EVIL}),
    bar({"datum": {"year": EVIL}, "type": "temporal"}),
    where(timeUnit="year", equal=EVIL),
    where(timeUnit="year", oneOf=[EVIL]),
    where(timeUnit="date", range=[EVIL, 3]),
    where(gt={"year": EVIL}),
    bar({**YEAR, "bandPosition": [EVIL]}),
    bar(mark={"type": "bar", "width": {"band": [EVIL]}}),
    bar(mark={"type": "boxplot", "extent": EVIL}),
    bar(mark={"type": "boxplot", "extent": [EVIL]}),
    bar(columns=EVIL) | {"mark": "bar"},
]
"""Charts in which Vega-Lite writes a text into code without quotes, but the last, which it does when faceted."""


def code(value: Any, key: str = "") -> str:
    """Return all code of a compiled chart without its quoted texts."""
    if isinstance(value, dict):
        return " ".join(code(each, name) for name, each in value.items())
    if isinstance(value, list):
        return " ".join(code(each, key) for each in value)
    return QUOTED.sub("", value) if isinstance(value, str) and key in ("expr", "signal", "test", "update") else ""


@pytest.mark.whole
@for_each("spec", RUN)
def test_texts_that_become_code_are_refused(spec: dict[str, Any]):
    """A text that Vega-Lite writes into an expression is refused, with its path."""
    if spec is not RUN[-1]:
        assert EVIL in code(vl_convert.vegalite_to_vega(spec, vl_version="6.4"))
    with pytest.raises(BadSpec, match=r"write a number|must be a (list of )?number"):
        checked(spec)


@for_each(
    "spec",
    [
        bar({**YEAR, "timeUnit": "month", "sort": ["Feb", "march", 1, "4"]}),
        bar({**YEAR, "timeUnit": "yearmonth", "scale": {"domain": ["2026-01-01", {"year": 2026, "month": "July"}]}}),
        where(timeUnit="yearmonth", equal="2026-02"),
        where(gte={"year": 2026, "month": 2, "date": 1}),
        where(gte="2026-02-01"),
        bar(mark={"type": "boxplot", "extent": "min-max"}),
    ],
)
def test_dates_as_people_write_them_pass(spec: dict[str, Any]):
    """Names of months and days, dates as text or objects, and texts compared with texts, are drawn."""
    checked(spec)


@pytest.mark.whole
@for_each("test", [{"gte": "2026-02-01"}, {"oneOf": ["2026-02-05"]}, {"range": ["2026-01", "2026-02"]}])
def test_texts_are_not_compared_with_dates(test: dict[str, Any]):
    """A filter that would drop all rows, since its field is read as dates, is refused with a filter that works."""
    wrong = where(**test)
    wrong["encoding"]["x"] = YEAR
    with pytest.raises(BadSpec, match=r"`d` is shown as dates.*\"timeUnit\": \"yearmonthdate\""):
        checked(wrong)
    right = where(**test, timeUnit="yearmonthdate")
    right["encoding"]["x"] = YEAR
    assert "graphics-symbol" in vl_convert.vegalite_to_svg(checked(right), vl_version="6.4")


@pytest.mark.whole
def test_checks_are_linear():
    """Blanks after `<` are not read again for each one; too much text is refused before it is read."""
    started = time.process_time()
    checked(bar(title=["<" + " " * 1_999] * 40))
    with pytest.raises(BadSpec, match="characters outside the rows"):
        checked(bar(title=["<" + " " * 1_999] * 100))
    assert time.process_time() - started < 2


@for_each(
    "spec, path",
    [
        (bar(title="\ud800"), "$.title"),
        (bar(data={"values": [{"k": "\ud800", "n": 1}]}), "$.data.values[0].k"),
        (bar(data={"values": [{"k": [{"\ud800": 1}], "n": 1}]}), "$.data.values[0].k"),
        (bar(data={"values": [{"k\ud800": 1, "n": 1}]}), "$.data.values[0]"),
        (bar(datasets={"\ud800": ROWS}), "$.datasets"),
        (bar(description="x", width=10**5_000), "$.width"),
        (bar(data={"values": [{"k": 10**5_000, "n": 1}]}), "$.data.values[0].k"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_place(spec: dict[str, Any], path: str):
    """Half a character and a number of thousands of digits are errors with a path, not crashes."""
    with pytest.raises(BadSpec) as refused:
        checked(spec)
    assert refused.value.path == path


@for_each(
    "transform",
    [
        {"pivot": "k", "value": "n"},
        {"fold": ["n"] * 20},
        {"density": "n", "groupby": ["k"], "steps": 1_000},
        {"impute": "n", "key": "n", "groupby": ["k"]},
        {"quantile": "n", "groupby": ["k"], "step": 0.001},
    ],
)
def test_transforms_make_a_bounded_number_of_rows(transform: dict[str, Any]):
    """A transform that makes far more of the rows than can be drawn is refused before it is drawn."""
    rows = [{"k": f"k{index}", "n": index} for index in range(5_000)]
    with pytest.raises(BadSpec, match=r"this makes (more than|up to)"):
        checked(bar(data={"values": rows}, width=500, transform=[transform]))
    few = bar({"value": 1}, data={"values": ROWS}, transform=[transform])
    del few["encoding"]["y"]
    checked(few)


@for_each("op, frame", [("median", [-2_000, 2_000]), ("ci0", [None, 0])])
def test_moving_frames_are_bounded(op: str, frame: list[Any]):
    """A frame of thousands of rows around each row, or an interval for each row, would be computed for minutes."""
    window = {"window": [{"op": op, "field": "n", "as": "w"}], "frame": frame}
    with pytest.raises(BadSpec, match=r"too wide|confidence intervals"):
        checked(bar(transform=[window]))
    checked(bar(transform=[{"window": [{"op": "mean", "field": "n", "as": "w"}], "frame": [-7, 0]}]))


def test_large_specifications_are_refused_first():
    """A specification that no render could hold is refused by its size, before its rows are read."""
    rows = [{"k": "k" * 9_000, "n": index} for index in range(60)]
    with pytest.raises(BadSpec, match=r"541,.* bytes, at most 512,000"):
        checked(bar(data={"values": rows}))


@pytest.mark.whole
def test_values_are_counted_once():
    """Layers that show the same rows count the values of a field once."""
    rows = [{"k": [index % 7] * 8, "n": index} for index in range(5_000)]
    shown = {channel: {"field": "k"} for channel in ("x", "color", "fill", "stroke", "shape", "strokeDash", "row")}
    layer = {"data": {"name": "p"}, "mark": "bar", "encoding": shown}
    started = time.process_time()
    checked({"datasets": {"p": rows}, "width": 500, "layer": [layer] * 40})
    assert time.process_time() - started < 2


def test_bars_on_a_log_scale_are_refused():
    """Bars begin at zero, so that none would be drawn along a log scale; points are."""
    spec = bar()
    spec["encoding"]["y"] = {**spec["encoding"]["y"], "scale": {"type": "log"}}
    with pytest.raises(BadSpec, match=r"a bar begins at zero.*symlog"):
        checked(spec)
    checked(spec | {"mark": "point"})

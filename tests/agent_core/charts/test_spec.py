"""Which specifications may be drawn, and what an error says about the others."""

import time
from typing import Any

import pytest

from agent_core.charts.spec import BadSpec, checked
from agent_core.errors import InvalidInput
from tests.agent_core.charts.hostile import BOUNDED, CELLS, HostileSpec, bar, hostile, shown
from tests.agent_core.charts.specs import ChartSpec, corpus
from tests.cases import for_each

MARKS = {"arc", "area", "bar", "boxplot", "circle", "errorband", "errorbar", "line", "point", "rect", "rule", "square"}
MARKS |= {"text", "tick", "trail"}


@for_each("chart", corpus())
def test_charts_of_the_corpus_pass_the_checks(chart: ChartSpec):
    """A chart of any mark type keeps all that it says; only its schema is named in one way."""
    found = checked(chart.spec)
    assert {key: value for key, value in found.items() if key != "$schema"} == {
        key: value for key, value in chart.spec.items() if key != "$schema"
    }
    assert found["$schema"] == chart.spec["$schema"]


def test_corpus_is_wide():
    """The corpus has more than 60 charts, all marks, all compositions, both versions, and both kinds of outcome."""
    text = "".join(str(each.spec) for each in corpus())
    assert len(corpus()) >= 60
    assert not {each for each in MARKS if f"'{each}'" not in text}
    assert not {
        each for each in ("layer", "facet", "concat", "hconcat", "vconcat", "repeat") if f"'{each}':" not in text
    }
    assert {each.spec["$schema"][-7:-5] for each in corpus()} == {"v5", "v6"}
    assert 25 < sum(each.plain for each in corpus()) < len(corpus()) - 25


@for_each("case", hostile())
def test_hostile_specifications_are_refused_by_name(case: HostileSpec):
    """A specification that reaches outside is refused, with a path and a word that says why."""
    if case.word == BOUNDED:
        checked(case.spec)
        return
    with pytest.raises(BadSpec) as refused:
        checked(case.spec)
    assert case.word in str(refused.value)
    assert refused.value.path.startswith("$")
    assert len(str(refused.value)) < 2_000


def test_page_options_are_left_out():
    """`usermeta`, which would change the options of the page that draws, is in no checked specification."""
    layered = {"data": bar()["data"], "usermeta": {}, "layer": [{"mark": "bar", "usermeta": {"embedOptions": {}}}]}
    assert "usermeta" not in str(checked(layered))
    assert "usermeta" not in str(checked(bar(title={"text": "x", "usermeta": {"a": 1}})))


def test_given_specification_is_not_changed():
    """The checks change nothing of what they read."""
    spec = bar(usermeta={"a": 1}, title=["One", "line"])
    before = repr(spec)
    found = checked(spec)
    found["title"].append("more")
    found["encoding"]["x"]["type"] = "ordinal"
    assert repr(spec) == before


@for_each(
    "given, kept",
    [
        (None, "v6"),
        ("https://vega.github.io/schema/vega-lite/v5.json", "v5"),
        ("https://vega.github.io/schema/vega-lite/v5.20.1.json", "v5"),
        ("http://vega.github.io/schema/vega-lite/v6.json#", "v6"),
    ],
)
def test_schema_names_the_major_version(given: str | None, kept: str):
    """The schema of a checked specification is that of Vega-Lite 5 or 6, whatever its spelling was."""
    spec = bar() if given is None else bar(**{"$schema": given})
    assert checked(spec)["$schema"] == f"https://vega.github.io/schema/vega-lite/{kept}.json"


@for_each(
    "spec, path, said",
    [
        (bar(mark="pie"), "$.mark", "did you mean `arc`?"),
        (bar(mark="barr"), "$.mark", "did you mean `bar`?"),
        (bar(mark={"type": "scatter"}), "$.mark.type", "did you mean `point`?"),
        (bar(encodings={}), "$.encodings", "did you mean `encoding`?"),
        (shown(colour={"field": "a"}), "$.encoding.colour", "did you mean `color`?"),
        (shown(x={"field": "A1"}), "$.encoding.x.field", "there are `a`, `b`, `t`"),
        (shown(x={"field": "a", "type": "numerical"}), "$.encoding.x.type", "did you mean `nominal`?"),
        (shown(y={"field": "b", "aggregate": "avg"}), "$.encoding.y.aggregate", "did you mean `average`?"),
        (shown(x="a"), "$.encoding.x", '{"field": "price", "type": "quantitative"}'),
        (bar(data=[{"a": 1}]), "$.data", '{"values": [...]}'),
        (bar(layer=[{"mark": "bar"}]), "$.mark", "not both"),
        ({"data": bar()["data"], "layer": [{"mark": "bar"}, {"mark": "lin"}]}, "$.layer[1].mark", "`line`"),
        ({"data": bar()["data"], "facet": {"field": "z"}, "spec": {"mark": "bar"}}, "$.facet.field", "no field `z`"),
        (
            {"data": bar()["data"], "layer": [{"mark": "bar"}], "hconcat": [{"mark": "image"}]},
            "$.hconcat[0].mark",
            "images",
        ),
        (bar(transform=[{"lookup": "a", "from": {"data": {"url": "x"}}}]), "$.transform[0].from.data.url", "fetched"),
        (bar(data={"values": [{"a.b": 1}]}, encoding={"x": {"field": "c.d"}}), "$.encoding.x.field", "there are `a.b`"),
        (bar(data={"values": [{"a.b": 1}]}, encoding={"x": {"field": "a.b"}}), "$.encoding.x.field", "write `a\\.b`"),
    ],
)
def test_errors_name_the_path_and_the_fix(spec: dict[str, Any], path: str, said: str):
    """An error says where it is and what to write, so that the next attempt is right."""
    with pytest.raises(BadSpec) as refused:
        checked(spec)
    assert refused.value.path == path
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"`{path}`: ")
    assert isinstance(refused.value, InvalidInput)


def test_years_as_numbers_are_no_dates():
    """A chart of years as numbers would be drawn at 1970, so its error says how to write a year."""
    spec = bar(
        data={"values": [{"a": 2024, "b": 1}, {"a": 2025, "b": 2}]}, encoding={"x": {"field": "a", "type": "temporal"}}
    )
    with pytest.raises(BadSpec, match="not as a year; write it as text"):
        checked(spec)
    checked(
        bar(data={"values": [{"a": 1_700_000_000_000, "b": 1}]}, encoding={"x": {"field": "a", "type": "temporal"}})
    )


def test_what_transforms_make_may_be_shown():
    """After a transform the fields are its own, also an expression's; without one they are those of the rows."""
    shows = {"encoding": {"x": {"field": "c"}}}
    checked(bar(transform=[{"calculate": "datum.b < 2 && datum.a > 'x'", "as": "c"}], **shows))
    checked({"data": bar()["data"], "transform": [{"pivot": "a", "value": "b"}], "layer": [{"mark": "bar", **shows}]})
    with pytest.raises(BadSpec, match="no field `c`"):
        checked(bar(**shows))


def test_checks_are_linear():
    """Blanks after `<` are not read again for each one; too much text is refused before it is read."""
    started = time.process_time()
    checked(bar(title=["<" + " " * 1_999] * 40))
    with pytest.raises(BadSpec, match="characters outside the rows"):
        checked(bar(title=["<" + " " * 1_999] * 100))
    assert time.process_time() - started < 2


@for_each("spec", [bar(title="\ud800"), bar(width=10**5_000), bar(title=object())])
def test_what_json_cannot_hold_is_refused(spec: dict[str, Any]):
    """Half a character and a number of thousands of digits are errors, not crashes."""
    with pytest.raises(BadSpec, match="JSON cannot hold this"):
        checked(spec)


def test_large_specifications_are_refused_first():
    """A specification that no render could hold is refused by its size, before its rows are read."""
    rows = [{"a": "k" * 9_000, "b": index} for index in range(60)]
    with pytest.raises(BadSpec, match=r"541,.* bytes, at most 512,000"):
        checked(bar(data={"values": rows}))


def test_cells_are_data():
    """Texts of rows pass as they are, whatever they would be elsewhere: they are labels."""
    found = checked(bar(data={"values": CELLS}))
    assert found["data"]["values"] == CELLS


def test_most_rows_pass():
    """5,000 values are drawn, in one set or several, and a name may stand for rows given elsewhere."""
    rows = [{"a": f"k{index % 9}", "b": index} for index in range(2_500)]
    spec = {"datasets": {"p": rows}, "hconcat": [bar(data={"name": "p"}), bar(data={"values": rows, "name": "q"})]}
    assert checked(spec)["datasets"]["p"] == rows

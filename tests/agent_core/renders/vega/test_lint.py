"""Which specifications may be drawn, and what an error says about the others."""

from typing import Any

import pytest

from agent_core.errors import InvalidInput
from agent_core.renders.vega.lint import BadSpec, checked
from tests.agent_core.renders.hostile import BOUNDED, CELLS, HostileSpec, bar, hostile, shown
from tests.agent_core.renders.specs import ChartSpec, corpus
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
    """A specification that reaches outside or would draw forever is refused, with a path and a word that says why."""
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
    """The checks change nothing of what they read, and do not copy the rows."""
    spec = bar(usermeta={"a": 1}, title=["One", "line"])
    before = repr(spec)
    found = checked(spec)
    found["title"].append("more")
    found["encoding"]["x"]["type"] = "ordinal"
    assert repr(spec) == before
    assert found["data"]["values"][0] is spec["data"]["values"][0]


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
        (shown(x={"field": "a", "typ": "nominal"}), "$.encoding.x.typ", "did you mean `type`?"),
        (shown(x={"field": "a", "type": "numerical"}), "$.encoding.x.type", "did you mean `nominal`?"),
        (shown(y={"field": "b", "aggregate": "avg"}), "$.encoding.y.aggregate", "did you mean `average`?"),
        (shown(x={"field": "t", "timeUnit": "monthyear"}), "$.encoding.x.timeUnit", "did you mean"),
        (
            shown(x={"field": "a", "sort": "desc"}),
            "$.encoding.x.sort",
            "there are `-x`, `-y`, `ascending`, `descending`",
        ),
        (shown(x={"field": "a", "sort": "-color"}), "$.encoding.x.sort", "does not have"),
        (shown(x={"field": "a", "scale": {"type": "logs"}}), "$.encoding.x.scale.type", "did you mean `log`?"),
        (shown(x="a"), "$.encoding.x", '{"field": "price", "type": "quantitative"}'),
        (shown(xOffset={"field": "a"}, x={"field": "t", "type": "temporal"}), "$.encoding.xOffset", "`ordinal`"),
        (bar(data=[{"a": 1}]), "$.data", '{"values": [...]}'),
        (bar(transform=[{"flter": {}}]), "$.transform[0]", "did you mean `filter`?"),
        (bar(transform=[{"fold": ["a", "c"]}]), "$.transform[0].fold[1]", "there is no field `c`"),
        (bar(transform=[{"filter": {"field": "b", "gtt": 1}}]), "$.transform[0].filter.gtt", "did you mean `gt`?"),
        (
            bar(transform=[{"aggregate": [{"op": "total", "field": "b"}]}]),
            "$.transform[0].aggregate[0].op",
            "operation",
        ),
        (bar(transform=[{"timeUnit": "month", "field": "t"}]), "$.transform[0]", "by `as`"),
        (bar(title={"text": "t", "anchor": "left"}), "$.title.anchor", "one of start, middle, end"),
        (bar(config={"title": {"anchor": 0}}), "$.config.title.anchor", "one of start, middle, end"),
        (shown(x={"field": "b", "bin": {"anchor": "start"}}), "$.encoding.x.bin.anchor", "must be a number"),
        (shown(x={"field": "b", "bin": {"maxbins": [5]}}), "$.encoding.x.bin.maxbins", "must be a number"),
        (bar(transform=[{"window": [{"op": "lag", "param": "n"}]}]), "$.transform[0].window[0].param", "remove it"),
        (bar(layer=[{"mark": "bar"}]), "$.mark", "not both"),
        ({"data": bar()["data"], "layer": [{"mark": "bar"}, {"mark": "lin"}]}, "$.layer[1].mark", "`line`"),
        ({"data": bar()["data"], "facet": {"field": "z"}, "spec": {"mark": "bar"}}, "$.facet.field", "no field `z`"),
        ({"data": bar()["data"], "repeat": ["z"], "spec": {"mark": "bar"}}, "$.repeat[0]", "no field `z`"),
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


@for_each(
    "spec",
    [
        bar(config={"title": {"anchor": "middle"}}, title={"text": "t", "anchor": None}),
        shown(x={"field": "b", "bin": {"anchor": 0.5}}),
        shown(x={"field": "b", "bin": {"anchor": 20_000}}),
        shown(x={"field": "b", "type": "ordinal", "sort": [30_000, 1]}),
        shown(y={"field": "b", "type": "quantitative", "scale": {"domain": {"unionWith": [0, 90_000]}}}),
        shown(color={"field": "b", "scale": {"type": "bin-ordinal", "bins": [0, 50_000, 90_000]}}),
        bar(transform=[{"window": [{"op": "ntile", "param": 4, "as": "q"}]}]),
    ],
)
def test_keys_with_two_meanings_have_both(spec: dict[str, Any]):
    """A key that is a number in one place and a word, a figure of the data or a count in another is read by its place.

    All keys of the checks were compared with the JSON schema of Vega-Lite 6.
    """
    assert checked(spec)


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


@for_each(
    "transform, field",
    [
        ({"aggregate": [{"op": "sum", "field": "b", "as": "s"}], "groupby": ["a"]}, "s"),
        ({"aggregate": [{"op": "count"}], "groupby": ["a"]}, "count"),
        ({"fold": ["b"]}, "value"),
        ({"density": "b"}, "density"),
        ({"window": [{"op": "rank", "as": "r"}]}, "r"),
        ({"bin": True, "field": "b", "as": ["low", "high"]}, "high"),
        ({"timeUnit": "year", "field": "t", "as": "year"}, "year"),
        ({"quantile": "b", "probs": [0.5]}, "prob"),
        ({"pivot": "a", "value": "b"}, "x"),
        ({"joinaggregate": [{"op": "max", "field": "b", "as": "most"}]}, "most"),
        ({"stack": "b", "groupby": ["a"], "as": ["v0", "v1"]}, "v1"),
    ],
)
def test_fields_of_transforms_are_known(transform: dict[str, Any], field: str):
    """A channel may show what a transform computes, and no field that it has taken away."""
    checked(bar(transform=[transform], encoding={"x": {"field": field}}))
    if transform.keys() & {"aggregate", "density", "quantile"}:
        with pytest.raises(BadSpec, match="there is no field `t`"):
            checked(bar(transform=[transform], encoding={"x": {"field": "t"}}))


def test_cells_are_data():
    """Texts of rows pass as they are, whatever they would be elsewhere: they are labels."""
    found = checked(bar(data={"values": CELLS}))
    assert found["data"]["values"] == CELLS


def test_most_rows_pass():
    """5,000 values are drawn, in one set or several, and a name may stand for rows given elsewhere."""
    rows = [{"a": f"k{index % 9}", "b": index} for index in range(2_500)]
    spec = {"datasets": {"p": rows}, "hconcat": [bar(data={"name": "p"}), bar(data={"values": rows, "name": "q"})]}
    assert checked(spec)["datasets"]["p"] == rows

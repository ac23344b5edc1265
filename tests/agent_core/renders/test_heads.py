"""What a table or a chart is called without a title, and what is said of it in a line or two."""

from typing import Any

from agent_core.renders.heads import head_of
from agent_core.renders.twins import chart_text, spec_text
from agent_core.renders.values import chart_of
from tests.cases import for_each

ROWS = [{"city": "Oslo", "n": 3}, {"city": "Rome", "n": 12}]
PLAIN = {
    "type": "bar",
    "categories": ["Oslo", "Rome"],
    "x": "city",
    "y": "n",
    "series": [{"name": "n", "values": [3, 12]}],
}
BOX = {
    "mark": "boxplot",
    "data": {"values": ROWS},
    "encoding": {"x": {"field": "city"}, "y": {"field": "n", "type": "quantitative"}},
}


def test_a_chart_has_one_name():
    """A chart without a title is called the same in Slack, in a file's name and at the head of its text."""
    head = head_of("chart", {"spec": {}, "plain": PLAIN})
    assert head.heading == "Bar chart of n by city"
    assert head.facts == ("bar chart of 2 categories", "highest Rome 12, lowest Oslo 3")
    chart = chart_of({"plain": PLAIN})
    assert chart is not None
    assert chart_text(chart).startswith(f"{head.heading}:\n")
    head = head_of("chart", {"spec": BOX})
    assert head.heading == "Chart of n by city"
    assert head.facts == (
        "Marks of the kind boxplot: x is city, y is n",
        "drawn from 2 rows",
        "n: highest 12, lowest 3",
    )
    assert spec_text(BOX).startswith(f"{head.heading}:\n")


@for_each(
    "kind, payload, heading",
    [
        ("table", {"columns": ["a"], "rows": []}, "Table of a"),
        ("table", {"columns": list("abcde"), "rows": []}, "Table of a, b, c and 2 more"),
        ("table", {"columns": [], "rows": []}, "Table"),
        ("chart", {"spec": {**BOX, "title": {"text": ["Two", "lines"]}}}, "Two lines"),
        ("chart", {"spec": {"layer": [{"mark": "rule"}]}}, "Chart"),
        ("chart", {"spec": {"mark": "arc", "encoding": {"color": {"field": "who"}}}}, "Chart of who"),
        ("chart", {}, "Chart"),
        ("gauge", {"value": 7}, "Gauge"),
    ],
)
def test_what_has_no_title_is_named_after_what_it_shows(kind: str, payload: dict[str, Any], heading: str):
    """The name is made of columns and fields, or is the kind; a title is taken as it is."""
    assert head_of(kind, payload).heading == heading
    assert head_of(kind, payload, "Own\ntitle").heading == "Own title"


def test_numbers_without_an_end_are_described():
    """Huge numbers and cells of mixed kinds break no description."""
    rows = [{"n": 10**400}, {"n": 1.5}]
    assert head_of("chart", {"spec": {**BOX, "data": {"values": rows}}}).facts[1] == "drawn from 2 rows"
    mixed = {**BOX, "data": {"values": [{"n": 1}, {"n": "x"}]}}
    assert head_of("chart", {"spec": mixed}).facts[1:] == ("drawn from 2 rows",)

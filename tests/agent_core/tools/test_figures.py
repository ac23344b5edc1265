"""Tables and charts that a tool of one's own shows."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from agent_core.errors import InvalidInput, ParleyError
from agent_core.tools.render import chart, table
from tests.cases import for_each


@dataclass
class City:
    name: str
    since: datetime


class FigurePerson(BaseModel):
    id: UUID
    tags: list[str]


def test_rows_may_be_what_python_has():
    """Dataclasses and models are rows, and dates and nested values in them are cells."""
    city = table([City("Oslo", datetime(1050, 1, 1, tzinfo=UTC))])
    assert city.payload["columns"] == [{"key": "name", "label": "name"}, {"key": "since", "label": "since"}]
    assert city.payload["rows"] == [{"name": "Oslo", "since": "1050-01-01T00:00:00Z"}]
    person = table([FigurePerson(id=UUID(int=1), tags=["a"])])
    assert person.payload["rows"] == [{"id": "00000000-0000-0000-0000-000000000001", "tags": '["a"]'}]
    assert table([], ["a"]).text == "a\n-\n(no rows)"


@for_each(
    "rows, columns, path",
    [
        ([1], None, "rows[0]"),
        ([{"a": object()}], None, "rows"),
        ([{"a": 1}], ["a", "a"], "columns[1]"),
        ([{"a": 1}], [{"label": "A"}], "columns[0]"),
        ([{"a": 1}], [{"key": "a", "align": "middle"}], "columns[0].align"),
        ([{"a": 1}], [{"key": "a", "format": "money"}], "columns[0].format"),
        ([{f"c{n}": n for n in range(101)}], None, "columns"),
        ([{"a": "x" * 9_999} for _ in range(60)], None, "rows"),
    ],
)
def test_a_fault_names_its_place(rows: list[Any], columns: Any, path: str):
    """What cannot be a table is refused with the path of the fault."""
    with pytest.raises(InvalidInput, match=path.replace("[", r"\[").replace("]", r"\]")):
        table(rows, columns)


def test_a_chart_without_a_plain_form_has_its_rows_as_text():
    """A heat map has no plain form, and its text names marks and rows; an address in it is refused."""
    spec = {
        "mark": "rect",
        "data": {"values": [{"a": "x", "b": 1}]},
        "encoding": {"x": {"field": "a", "type": "nominal"}},
    }
    shown = chart(spec, title="Heat")
    assert (shown.title, "plain" in shown.payload) == ("Heat", False)
    assert shown.text == "Chart of a:\nMarks of the kind rect: x is a.\n\na  b\n-  -\nx  1"
    with pytest.raises(ParleyError, match=r"data\.url"):
        chart({**spec, "data": {"url": "https://shop.example/orders.csv"}})


def test_a_chart_of_ones_own_is_what_the_tool_makes():
    """The title is in the plain chart too, and one of several lines is read."""
    spec = {"mark": "bar", "data": {"values": [{"a": "x", "b": 1}]}}
    spec["encoding"] = {"x": {"field": "a", "type": "nominal"}, "y": {"field": "b", "type": "quantitative"}}
    assert chart(spec, title="Own").payload["plain"]["title"] == "Own"
    assert chart({**spec, "title": {"text": ["Two", "lines"]}}).title == "Two lines"

"""Every form of every table and chart keeps every limit of Slack's, alone and with all others of a message."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.slack import limits
from channels.slack.charts import Ladders, choose, ladder_of
from channels.slack.tables import MESSAGE, CsvUpload
from channels.slack.testing.blocks import check
from channels.slack.testing.shown import pings
from channels.slack.text import unescape
from channels.spec import ShownRender
from tests.cases import for_each
from tests.channels.slack.outbound.drawn.renders import HOSTILE_CHARTS, HOSTILE_TABLES, charts, table, tables
from tests.channels.slack.outbound.test_text import ACTIVE

_QUIET = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
_HIDDEN = ("\u202e", "\u200f", "\x1b", "\x00")


def is_sent(blocks: tuple[dict[str, Any], ...], text: str) -> None:
    """Assert that Slack takes *blocks* and *text*, that they ping no one, and that they are JSON."""
    assert check(list(blocks)) == []
    assert list(pings(text, list(blocks))) == []
    mrkdwn = [text, *(block["text"]["text"] for block in blocks if block["type"] == "section")]
    assert not [each for each in mrkdwn if ACTIVE.search(unescape(each)) or "<" in each]
    json.dumps(blocks, allow_nan=False).encode()
    text.encode()
    assert len(text) <= limits.DRAWN_TEXT


def strings(part: Any) -> Iterator[str]:
    """Give all texts of a block."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        yield from (text for each in part.values() for text in strings(each))
    elif isinstance(part, list | tuple):
        yield from (text for each in part for text in strings(each))


def is_seen(blocks: tuple[dict[str, Any], ...], text: str) -> None:
    """Assert that *blocks* and *text* have no character that hides or turns what is read."""
    assert not [each for each in (*strings(blocks), text) if any(sign in each for sign in _HIDDEN)]


@pytest.mark.whole
@_QUIET
@given(st.one_of(tables(), charts()))
def test_each_form_is_valid(render: ShownRender):
    """Whatever a render holds, each step of its ladder is a message that Slack takes, down to text alone."""
    each_form_is_valid(render)


@for_each("n", range(len(HOSTILE_TABLES)))
def test_each_form_of_odd_words_is_valid(n: int):
    """Odd words in cells, headings and titles are literal and seen in each form of a table."""
    each_form_is_valid(HOSTILE_TABLES[n])


@for_each("n", range(len(HOSTILE_CHARTS)))
def test_each_form_of_odd_names_is_valid(n: int):
    """Odd, long and equal names are literal, seen, short and different in each form of a chart."""
    each_form_is_valid(HOSTILE_CHARTS[n])


def each_form_is_valid(render: ShownRender) -> None:
    """Assert that Slack takes each step of the ladder of *render*, and that nothing in it is syntax or hidden."""
    ladder = ladder_of(render, links=True)
    assert ladder is not None
    step = 0
    while step <= ladder.last:
        choice = ladder.best(MESSAGE, step)
        assert choice.step >= step
        blocks = choice.form.with_file("https://charts.example/c.png")
        is_sent(blocks, choice.form.text)
        is_seen(blocks, choice.form.text)
        if (bare := choice.form.without_file()) is not None:
            is_sent(bare, choice.form.text)
        step = choice.step + 1
    assert choice.form.blocks == ()


@_QUIET
@given(st.lists(st.one_of(tables(), charts()), max_size=6), st.data())
def test_a_message_is_valid(renders: list[ShownRender], data: st.DataObject):
    """The forms that are chosen for several renders keep the limits together, whichever steps were refused."""
    named = [replace(render, id=f"ren_{n}") for n, render in enumerate(renders)]
    refused = {render.id: data.draw(st.integers(0, 7)) for render in named}
    ladders = Ladders()
    chosen = choose([ladder for each in named if (ladder := ladders.of(each))], refused)
    blocks = tuple(block for choice in chosen for block in choice.form.with_file("F1"))
    is_sent(blocks, "\n".join(choice.form.text for choice in chosen)[: limits.DRAWN_TEXT])
    assert sum(len(choice.form.text) for choice in chosen) <= limits.DRAWN_TEXT
    assert len(blocks) <= limits.DRAWN_BLOCKS


@_QUIET
@given(tables())
def test_no_cell_is_lost(render: ShownRender):
    """A table that is not shown whole comes with a file of all its rows, and a line that says so."""
    ladder = ladder_of(render)
    assert ladder is not None
    form = ladder.best(MESSAGE).form
    rows, columns = len(render.payload["rows"]), len(render.payload["columns"])
    block = next((each for each in form.blocks if each["type"] == "data_table"), None)
    if block is not None and (len(block["rows"]) <= rows or len(block["rows"][0]) < columns):
        assert isinstance(form.upload, CsvUpload)
        assert form.upload.rows == rows
        assert "the whole table is attached" in form.blocks[-1]["elements"][0]["text"]


@for_each("count", [1, 2, 40])
def test_many_tables_in_a_message(count: int):
    """Forty tables of an answer are shown as well as one message can; the first ones best."""
    rows = [{"a": f"cell {n}", "b": n} for n in range(200)]
    ladders = Ladders()
    made = [ladders.of(table(["a", "b"], rows, id=f"ren_{n}")) for n in range(count)]
    chosen = choose([each for each in made if each], {})
    kinds = [choice.form.blocks[0]["type"] if choice.form.blocks else "" for choice in chosen]
    assert kinds[0] == "data_table"
    assert len(chosen) == count
    assert check([block for choice in chosen for block in choice.form.blocks]) == []

"""Tables that a model writes with pipes are tables in Slack however they are sent, also those that it would refuse."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.slack.blocks import payloads, plainer
from channels.slack.parsing import parsed
from channels.slack.testing.blocks import check
from channels.slack.testing.shown import pings
from channels.slack.text import flowing

SMALL = "| Region | Orders |\n| :-- | --: |\n| North | 1,200 |\n| **South** | 900 |\n"
CODE = "| Run | Result |\n|---|---|\n| `echo <!channel>` | ok |\n| b | [c](https://c.example) |\n"


def wide(columns: int = 30, rows: int = 3) -> str:
    """Return a pipe table of *columns*."""
    lines = [[f"c{n}" for n in range(columns)], ["---"] * columns]
    lines += [[f"{row}.{n}" for n in range(columns)] for row in range(rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def sent(markdown: str) -> list[dict[str, Any]]:
    """Return the blocks of the one message that shows *markdown*, which Slack takes."""
    [payload] = payloads(markdown)
    assert check(list(payload.blocks)) == []
    assert list(pings(payload.text, list(payload.blocks))) == []
    return list(payload.blocks)


def test_slack_draws_a_pipe_table():
    """A table that Slack takes stays Markdown, of which Slack makes a table; it streams row by row."""
    assert sent(SMALL) == [{"type": "markdown", "text": SMALL.rstrip()}]
    assert flowing(SMALL[:60]) == "".join(SMALL[:60].splitlines(keepends=True)[:3])


def test_a_table_with_code_that_is_syntax():
    """A table with code that may not be sent as Markdown is rich text, which keeps its code and its links."""
    [block] = sent(CODE)
    assert block["type"] == "rich_text"
    words = "".join(each["text"] for each in block["elements"][0]["elements"])
    assert words == "Run | Result\necho <!channel> | ok\nb | c (c.example)"


def test_a_refused_table_is_lines():
    """A Markdown block that Slack refuses is sent as rich text, its tables as lines."""
    [payload] = payloads(f"Before **it**.\n\n{SMALL}\nAfter.")
    fallback = plainer(payload, "/blocks/0")
    assert fallback is not None
    assert check(list(fallback.blocks)) == []
    words = "".join(each["text"] for each in fallback.blocks[0]["elements"][0]["elements"])
    assert words == "Before it.\nRegion | Orders\nNorth | 1,200\nSouth | 900\n\nAfter."


LINES = ("|a|b|", "|-|-|", "| x | `y` |", "a", "", "> q", "> |a|b|", "> |-|-|", "- l", "  |a|b|", "  |-|-|", "    c")


@given(st.lists(st.sampled_from(LINES), min_size=2, max_size=8))
def test_blocks_are_the_same_with_and_without_their_cells(lines: list[str]):
    """The parser that leaves out the rows of tables finds each block where the whole one does."""
    text = "\n".join(lines)
    quick, whole = (
        [(each.type, each.level, each.map) for each in parsed(text, inline=inline) if each.level == 0 and each.map]
        for inline in (False, True)
    )
    assert quick == whole


def test_the_rows_of_a_growing_table_are_not_parsed():
    """A table of a hundred times the rows gives no more tokens to the one who asks where it begins and ends."""
    assert len(parsed(wide(25, 300))) == len(parsed(wide(25, 3)))

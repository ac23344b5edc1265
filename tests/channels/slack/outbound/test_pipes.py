"""Tables that a model writes with pipes are tables in Slack however they are sent, also those that it would refuse."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.slack.blocks import Figure, payloads, plainer
from channels.slack.parsing import aligned, parsed
from channels.slack.picture import Words
from channels.slack.testing.blocks import check
from channels.slack.testing.shown import pings
from channels.slack.text import flowing, safe
from tests.cases import for_each

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


def grid(block: dict[str, Any]) -> list[list[str]]:
    """Return the words of the cells of a table."""
    return [[_words(cell) for cell in row] for row in block["rows"]]


def _words(part: dict[str, Any]) -> str:
    return part["text"] if "text" in part else "".join(map(_words, part["elements"]))


def streamed(markdown: str, steps: list[int]) -> list[dict[str, Any]]:
    """Return the chunks of a stream in which *markdown* grows to each of *steps* characters, and then ends."""
    shown, chunks = "", []
    for end in sorted(steps):
        text = flowing(markdown[:end])
        assert text.startswith(shown)
        chunks += Words("m", text).chunks(len(shown))
        shown = text
    whole = safe(markdown)
    assert whole.startswith(shown)
    return chunks + Words("m", whole).chunks(len(shown))


def test_slack_draws_a_pipe_table():
    """A table that Slack takes stays Markdown, of which Slack makes a table; it streams row by row."""
    assert sent(SMALL) == [{"type": "markdown", "text": SMALL.rstrip()}]
    assert flowing(SMALL[:60]) == "".join(SMALL[:60].splitlines(keepends=True)[:3])


def test_a_table_with_code_that_is_syntax():
    """A table with code that may not be sent as Markdown is a block whose cells keep their code and their links."""
    [block] = sent(CODE)
    assert block["type"] == "table"
    assert grid(block) == [["Run", "Result"], ["echo <!channel>", "ok"], ["b", "c (c.example)"]]
    assert block["rows"][1][0]["elements"][0]["elements"] == [
        {"type": "text", "text": "echo <!channel>", "style": {"code": True}}
    ]
    assert block["rows"][1][1] == {"type": "raw_text", "text": "ok"}


def test_a_stream_that_has_begun_such_a_table():
    """Rows that were streamed stay; the others follow as a table with the same header."""
    text = CODE.replace("| `echo", "| first | row |\n| `echo")
    [chunk] = Words("m", safe(text)).chunks(text.index("| `echo"))
    assert grid(chunk["blocks"][0]) == [["Run", "Result"], ["echo <!channel>", "ok"], ["b", "c (c.example)"]]


def test_a_wide_table_is_shown_in_parts():
    """Of 30 columns Slack takes 20 in a table: the others follow in another one, after the first column."""
    first, second = sent(wide())
    assert (first["type"], first["caption"], second["caption"]) == (
        "data_table", "Columns 1 to 20 of 30", "Columns 21 to 30 of 30",
    )  # fmt: skip
    assert grid(first)[0] == [f"c{n}" for n in range(20)]
    assert grid(second)[0] == ["c0", *(f"c{n}" for n in range(20, 30))]
    assert [row[0] for row in grid(second)[1:]] == ["0.0", "1.0", "2.0"]


@settings(deadline=None)
@given(st.lists(st.integers(0, 900), max_size=6))
def test_a_wide_table_is_streamed_whole(steps: list[int]):
    """A stream shows what is around a wide table as it comes, and the table once it is whole, wherever it was cut."""
    chunks = streamed(f"Before.\n\n{wide()}\nAfter.", steps)
    texts = "".join(chunk.get("text", "") for chunk in chunks)
    blocks = [block for chunk in chunks for block in chunk.get("blocks", [])]
    assert "c0" not in texts
    assert texts.split() == ["Before.", "After."]
    assert [block["type"] for block in blocks] == ["data_table", "data_table"]


def test_a_refused_table_is_a_block():
    """A Markdown block that Slack refuses is sent as rich text, and its tables as tables."""
    [payload] = payloads(f"Before **it**.\n\n{SMALL}\nAfter.")
    fallback = plainer(payload, "/blocks/0")
    assert fallback is not None
    assert check(list(fallback.blocks)) == []
    assert [block["type"] for block in fallback.blocks] == ["rich_text", "table", "rich_text"]
    assert grid(fallback.blocks[1]) == [["Region", "Orders"], ["North", "1,200"], ["South", "900"]]
    assert fallback.blocks[1]["column_settings"] == [{"align": "left"}, {"align": "right"}]
    assert fallback.blocks[1]["rows"][2][0]["elements"][0]["elements"][0]["style"] == {"bold": True}


def test_a_message_has_one_table():
    """Slack takes one `table` in a message: others are text in columns, also those beside one that a tool showed."""
    [payload] = payloads(f"{SMALL}\nand\n\n{SMALL}")
    fallback = plainer(payload)
    assert fallback is not None
    kinds = [block["type"] for block in fallback.blocks]
    assert (kinds.count("table"), kinds.count("rich_text")) == (1, 2)
    assert check(list(fallback.blocks)) == []
    shown = Figure(({"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]]},), "a")
    [mixed] = payloads([shown, CODE])
    assert check(list(mixed.blocks)) == []
    [text] = mixed.blocks[1]["elements"]
    assert text["elements"][0]["text"].startswith("Run ")


def test_a_table_that_is_too_large_is_text_in_columns():
    """A refused table of more rows than Slack takes loses none of them."""
    long = "| n |\n|---|\n" + "".join(f"| {n} |\n" for n in range(300))
    [payload] = payloads(long)
    fallback = plainer(payload)
    assert fallback is not None
    [text] = fallback.blocks[0]["elements"]
    assert text["type"] == "rich_text_preformatted"
    assert text["elements"][0]["text"].endswith("298\n299")


@for_each("cell", ["<@UANN>", "```", "x" * 400])
def test_what_columns_cannot_show_is_lines(cell: str):
    """Cells that would be lost in code, or leave mostly blanks, are lines with bars."""
    assert aligned([["a", "b"], *[["1", "2"]] * 20, [cell, "3"]]) is None
    assert aligned([["a", "b"], ["日本", "2"]]) == "a     b\n----  -\n日本  2"


def test_many_lines_of_bars_are_read_quickly():
    """A text of such lines is parsed once for each piece that it grows by, whatever its length."""
    bars = f"{'|' * 25} x\n" * 280
    assert flowing(f"a\n\n{bars}") == safe(f"a\n\n{bars}"[: -len(bars) // 280])
    tables = f"{wide(25, 1)}\n" * 20
    assert flowing(tables) == safe(tables[: tables.rindex("| c0")])


def test_a_line_of_bars_is_no_table():
    """Many bars without a line of dashes below them are words."""
    bars = "|" * 60
    assert sent(bars) == [{"type": "markdown", "text": bars}]
    assert flowing(f"a\n\n{bars}\n") == "a\n\n"
    assert flowing(f"a\n\n{bars}\nb c\n").startswith(f"a\n\n{bars}\nb")


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

"""What a terminal makes of markdown."""

import random
import re

import pytest

from app.cli.chat.live import AsWritten, Drawn, Flow, TextStyle
from channels.terminal import aligned_tables
from channels.text import visible
from tests.cases import for_each

CODES = re.compile(r"\x1b\[[\d;]*m")
TEXT = """# Orders &#x202e; today

Two are **late**, see [the list](https://shop.example/orders?day=1) and ![map](https://shop.example/map.png).
<b>Not</b> drawn.

1. First
2. Second
   - nested

```python
def total(prices: list[int]) -> int:
    return sum(prices)  # a comment that goes on far beyond the sixty columns of a narrow terminal
```

| order | state | note |
|-------|:-----:|------|
| A-1001 | late | averyveryveryverylongwordwithoutanyspaceinitthatfitsnowhere |

| a | b | c | d | e | f | g | h | i | j | k | l |
|---|---|---|---|---|---|---|---|---|---|---|---|
| 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 |

> quoted

[1]: https://shop.example/reference

The end
"""


def flowed(drawing: TextStyle, text: str, seed: int) -> str:
    """Return what is printed for good of *text* that comes in pieces."""
    pieces, flow, printed, at = random.Random(seed), Flow(drawing), "", 0  # noqa: S311 - of a test
    while at < len(text):
        at += pieces.randint(1, 40)
        printed += flow.feed(text[:at], 60, is_open=True)[0]
    return printed + flow.feed(text, 60, is_open=False)[0]


@for_each("seed", [1, 2, 3])
def test_a_text_in_pieces_is_drawn_as_the_whole(seed: int):
    """However an answer comes, what stays on the screen is the drawing of all of it, and each part once."""
    assert flowed(Drawn(), TEXT, seed) == f"\n{Drawn().draw(TEXT, 60)}\n"
    assert flowed(AsWritten(), TEXT, seed) == f"\n{aligned_tables(TEXT, 60)}"


def test_nothing_is_lost_in_a_narrow_terminal():
    """Each word, address and line of code is in the drawing; code can be copied as it is; hidden signs are shown."""
    drawn = CODES.sub("", Drawn().draw(TEXT, 60))
    letters = re.sub(r"\s", "", drawn)
    words = re.findall(r"[A-Za-z]{2,}", re.sub("&#x202e;|averyvery.*nowhere", "", TEXT))
    assert [word for word in words if word not in drawn] == []
    assert "averyveryveryverylongword" in letters
    assert "https://shop.example/orders?day=1" in letters
    assert (
        "    return sum(prices)  # a comment that goes on far beyond the sixty columns of a narrow terminal\n" in drawn
    )
    assert "<b>Not</b>" in drawn
    assert "[1]: https://shop.example/reference" in drawn
    assert "| 10 | 11 | 12 |" in drawn
    assert "\\u{202e}" in drawn
    assert visible(drawn) == drawn


def test_an_answer_that_begins_again_is_drawn_again():
    """Text that a newer try replaced is marked, and drawn from its beginning."""
    flow = Flow(Drawn())
    flow.feed("One.\n\nTwo", 60, is_open=True)
    assert flow.feed("Three.", 60, is_open=False)[0] == "\u21bb\n\nThree.\n"


class CountingDrawn(Drawn):
    """Counts the signs that are looked at and drawn, and draws none."""

    def __init__(self) -> None:
        super().__init__()
        self.work, self.widest = 0, 0

    def _begun(self, text: str) -> int:
        self.work += len(text)
        return super()._begun(text)

    def draw(self, text: str, width: int) -> str:
        self.work += len(text)
        self.widest = max(self.widest, len(text))
        return text


LONG = {
    "code": lambda n: "```python\n" + "x = 1  # a comment\n" * n,
    "table": lambda n: "| a | b |\n|---|---|\n" + "| one | two |\n" * n,
    "list": lambda n: "- an item of a list\n" * n,
    "line": lambda n: "word and word " * n,
}


@pytest.mark.whole
@for_each("kind", LONG)
def test_a_redraw_costs_no_more_than_a_screen(kind: str):
    """However long a block grows, a redraw draws a screen of it: twice the redraws are not four times the work."""

    def works(lines: int) -> int:
        text, drawing = LONG[kind](lines), CountingDrawn()
        flow = Flow(drawing)
        for end in range(200, len(text), 200):
            flow.feed(text[:end], 60, is_open=True)
            assert drawing.widest <= 5000
        return drawing.work

    assert works(800) < 2.6 * works(400)


def test_the_end_of_a_long_block_is_what_is_drawn():
    """Of code and of a table that are longer than a screen the latest lines are seen, as what they are."""
    code = Flow(Drawn()).feed(LONG["code"](500) + "last = 2\n", 60, is_open=True)[1]
    table = Flow(Drawn()).feed(LONG["table"](500) + "| the | last |\n", 60, is_open=True)[1]
    assert CODES.sub("", code).startswith("\n```python\n")
    assert CODES.sub("", code).endswith("last = 2\n```")
    assert CODES.sub("", table).split()[:2] == ["a", "b"]
    assert CODES.sub("", table).split()[-2:] == ["the", "last"]


@for_each("columns, rows", [(300, 2000), (20, 2000), (300, 2)])
def test_a_table_that_no_screen_has_room_for_is_shown_as_it_was_written(columns: int, rows: int):
    """Rows of one sign are not made into hundreds of cells each: such a table is text, and what follows is drawn."""
    written = "|a" * columns + "|\n" + "|-" * columns + "|\n" + "|\n" * rows
    drawing = Drawn()
    assert len(drawing._parser.parse(written)) == 1
    drawn = CODES.sub("", drawing.draw(f"Before\n\n{written}\n**After**", 80))
    assert drawn == f"Before\n\n{written}\nAfter"


@for_each("fence", ["```", "~~~~", "  ````"])
def test_closed_code_is_printed_for_good(fence: str):
    """Code is done with the line that closes it, and only that line; what follows it is drawn after it."""
    flow, mark = Flow(Drawn()), fence.strip()
    open_ = f"{fence}text\n" + "a\n" * 2500 + f"{mark[:-1]}\n{mark}x\n"
    assert flow.feed(open_, 60, is_open=True)[0] == ""
    above, live = flow.feed(f"{open_}{mark}\nSo", 60, is_open=True)
    assert CODES.sub("", above).count("a\n") == 2500
    assert live == "\nSo"

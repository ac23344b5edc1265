"""What a terminal makes of markdown."""

import random
import re

import pytest

from app.cli.chat.drawing import AsWritten, Drawn, Flow, TextStyle
from channels.legible import visible

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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_text_in_pieces_is_drawn_as_the_whole(seed: int):
    """However an answer comes, what stays on the screen is the drawing of all of it, and each part once."""
    assert flowed(Drawn(), TEXT, seed) == f"\n{Drawn().draw(TEXT, 60)}\n"
    assert flowed(AsWritten(), TEXT, seed) == f"\n{TEXT}"


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

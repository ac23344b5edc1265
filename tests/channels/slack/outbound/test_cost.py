"""The time that a model's text takes: it is read again with each piece that a streamed answer grows by."""

from collections.abc import Callable
from time import thread_time

import pytest

from channels.slack.parsing import spans, unmasked
from channels.slack.text import flowing, settled_in
from tests.cases import for_each

pytestmark = pytest.mark.whole

SMALL, TIMES = 1_500, 8
LINEAR = 3 * TIMES
"""What a text of `TIMES` the length may take at most, in times of the small one; quadratic work takes `TIMES`²."""


def taken(read: Callable[[str], object], text: str) -> float:
    """Return the least time of this thread that *read* takes of several attempts."""

    def once() -> float:
        began = thread_time()
        read(text)
        return thread_time() - began

    return min(once() for _ in range(5))


@for_each(
    "read, unit",
    [
        (spans, "\\`"),
        (spans, "\\"),
        (settled_in, "["),
        (settled_in, "*["),
        (unmasked, "](javascript:x)"),
        (unmasked, "[a](javascript:x)"),
    ],
)
def test_the_time_grows_with_the_length_alone(read: Callable[[str], object], unit: str):
    """A text of one sign again and again takes as many times as long as it is longer, and not the square of that."""
    small, large = (f"`{unit * (size // len(unit))}" for size in (SMALL, TIMES * SMALL))
    assert taken(read, large) < LINEAR * taken(read, small)


def test_a_wide_table_takes_no_longer_than_a_narrow_one():
    """A growing table of more columns than Slack takes is read in about the time of one that it does take."""
    narrow, wide = (
        "".join(f"|{cell * columns}\n" for cell in ("a|", "-|", *["a|"] * (8_000 // columns))) for columns in (18, 25)
    )
    assert taken(flowing, wide) < 3 * taken(flowing, narrow)

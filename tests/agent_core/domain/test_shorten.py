"""Texts cut to a length."""

from agent_core.messages import shorten
from tests.cases import for_each


@for_each(
    "text, limit, expected",
    [("", 1, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab cd", 4, "ab…"), ("abcd", 1, "…")],
)
def test_a_longer_text_ends_in_an_ellipsis_within_the_limit(text: str, limit: int, expected: str):
    """A text is cut within the limit, without blanks before the ellipsis; one that fits stays."""
    assert shorten(text, limit) == expected

"""Legible text: nothing that people read is hidden, turned round or passes for something else."""

import json
import unicodedata
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from channels.text import as_json, doubt, exact, one_line, unmistakable, visible
from tests.cases import for_each

VECTORS = json.loads((Path(__file__).parents[1] / "golden/legible.json").read_text("utf-8"))
HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"
# Half of the characters are those that hide, turn, join or pass for others.
NASTY = st.text(
    st.characters() | st.sampled_from("\x1b\x07\r\n\x9b\u202e\u2066\u200b\u200d\ufe0f\u034f\u3164\ufeff👩❤1aра")
)


@for_each("vector", VECTORS)
def test_the_vectors_of_all_surfaces_hold(vector: dict[str, str]):
    """The server shows a text just as the widget does."""
    text = vector["text"]
    assert (visible(text), unmistakable(text), doubt(text)) == (
        vector["visible"],
        vector["unmistakable"],
        vector["doubt"],
    )


@given(NASTY)
@example("👩\u200d")
def test_no_hidden_character_is_shown(text: str):
    """Of all that has no ink or commands a terminal, only line ends, tabs and the joiners inside a sign remain."""
    for shown in (visible(text), unmistakable(text)):
        for at, sign in enumerate(shown):
            if sign in JOINERS:
                assert not shown[at - 1].isascii()
                assert not shown[at + 1].isascii()
            else:
                assert unicodedata.category(sign) not in HIDDEN or sign in "\n\t"
        assert visible(shown) == shown
    assert "\n" not in one_line(text)


@given(st.text())
def test_text_that_can_be_seen_stays_as_it_is(text: str):
    """Printable text of one script without blanks of other kinds is shown as it was written."""
    plain = "".join(sign for sign in text if sign.isascii() and sign.isprintable())
    assert (visible(plain), unmistakable(plain), doubt(plain)) == (plain, plain, None)


@given(st.recursive(st.none() | st.booleans() | NASTY, lambda inner: st.lists(inner, max_size=3)))
def test_values_as_json_can_be_read_back(value: object):
    """JSON that a command prints is visible and reads back as the same value."""
    for shown in (as_json(value), as_json(value, indent=2), exact(value)):
        assert visible(shown) == shown
        assert json.loads(shown) == value

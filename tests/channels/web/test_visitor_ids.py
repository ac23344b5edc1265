"""Which ids a visitor may have."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.compose import CHANNELS
from channels.web.identity import RESERVED, fault_of_id, fault_of_name, is_hidden
from channels.web.routes import WEB
from tests.cases import for_each


@for_each(
    "id",
    [
        "ada",
        "user:17",
        "ada@example.com",
        "名前",
        "Ada Lovelace",
        "slacker",
        "operators@example.com",
        "x" * 200,
        "٣",
        "é",
    ],
)
def test_ids_of_sites_are_fine(id: str):
    """Whatever a site calls its people is an id, in any script."""
    assert fault_of_id(id) is None


@for_each(
    "id",
    [
        *sorted(RESERVED),
        "slack:T1:U1",
        "terminal:ann",
        "operator:key_1",
        "service:x",
        "agent:a",
        "SLACK:T1:U1",
        "ｓｌａｃｋ:T1",
        "slack :T1",
        "forgotten:0",
        "",
        "x" * 201,
        " ada",
        "ada\u00a0b",
        "a\nb",
        "a\x1b[31m",
        "a\u202eb",
        "a\u200bb",
        "a\u2066b",
        "a\u3164",
        "a\ufe0f",
        "a\U000e0041",
        "\ud800",
    ],
)
def test_others_and_what_cannot_be_seen_are_refused(id: str):
    """No id means someone of another channel, an operator, or nothing that a person can see."""
    assert fault_of_id(id) is not None


def test_the_names_of_all_channels_are_reserved():
    """A visitor is never taken for someone of another channel."""
    assert {channel.name for channel in CHANNELS} - {WEB.name} <= RESERVED


@given(st.text(max_size=20))
def test_an_accepted_id_can_be_seen_whole(id: str):
    """Every character of an accepted id is drawn, and none is a control."""
    if fault_of_id(id) is None:
        assert [each for each in id if is_hidden(each)] == []
        assert not {unicodedata.category(each) for each in id} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_names_may_have_joiners():
    """A name may join letters as its language does, and turns no text around."""
    assert fault_of_name("علی\u200cرضا") is None
    assert fault_of_name("Ann\u202e") is not None

"""Secrets at rest: what is sealed opens with its key and for its purpose only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.secrets import Secrets, Unreadable
from tests.cases import for_each

KEY, OTHER = b"k" * 32, b"o" * 32


@given(text=st.text())
def test_what_was_sealed_is_opened(text: str):
    """Any text comes back as it was, and nothing of it is in what is kept."""
    sealed = Secrets(KEY).seal(text, "hook")
    assert Secrets(KEY).open(sealed, "hook") == text
    assert len(text) < 4 or text not in sealed


def test_the_same_is_sealed_to_the_same():
    """Sealing a secret again changes nothing; another secret, key or purpose looks different."""
    sealed = Secrets(KEY).seal("secret", "hook")
    assert sealed == Secrets(KEY).seal("secret", "hook")
    others = (Secrets(KEY).seal("secreT", "hook"), Secrets(OTHER).seal("secret", "hook"))
    assert sealed not in (*others, Secrets(KEY).seal("secret", "token"))


@for_each("opener", [Secrets(OTHER), Secrets(OTHER, b"x" * 32)])
def test_another_key_opens_nothing(opener: Secrets):
    """Without its key a secret stays closed, and the error says what to do and nothing of it."""
    sealed = Secrets(KEY).seal("secret", "hook")
    with pytest.raises(Unreadable, match="PARLEY_SECRET_KEY") as caught:
        opener.open(sealed, "hook")
    assert sealed not in str(caught.value)


def test_a_former_key_still_opens():
    """After a change of keys what the former one sealed is still opened, and what is sealed now needs the new one."""
    changed = Secrets(OTHER, KEY)
    assert changed.open(Secrets(KEY).seal("secret", "hook"), "hook") == "secret"
    assert Secrets(OTHER).open(changed.seal("secret", "hook"), "hook") == "secret"


def test_another_purpose_opens_nothing():
    """What was sealed as one thing cannot be passed off as another."""
    with pytest.raises(Unreadable):
        Secrets(KEY).open(Secrets(KEY).seal("secret", "token"), "hook")


@given(data=st.data())
def test_what_was_changed_is_not_opened(data: st.DataObject):
    """One other character anywhere, or one less, and a secret stays closed."""
    sealed = Secrets(KEY).seal("a secret of some length...", "hook")
    place = data.draw(st.integers(0, len(sealed) - 1))
    other = data.draw(st.sampled_from("abcXYZ019-_.= é"))
    for damaged in (sealed[:place] + other + sealed[place + 1 :], sealed[:place], ""):
        if damaged != sealed:
            with pytest.raises(Unreadable):
                Secrets(KEY).open(damaged, "hook")


def test_keys_are_not_shown():
    """What seals does not show what it seals with."""
    assert "kkk" not in repr(Secrets(KEY)) + str(Secrets(KEY))

"""The payloads of the suite have the types that Slack publishes for them; `conftest.py` sees to all that is sent."""

import pytest

from channels.slack.blocks import payloads, plainer
from channels.slack.testing.blocks import check
from tests.channels.slack.block_types import compiled, forms, refused, untyped
from tests.channels.slack.samples import SAMPLES, WITHOUT_TYPE

pytestmark = pytest.mark.whole

MARKDOWN = "# Title\n\nSome **words**, `code` and [a link](https://a.example).\n\n- one\n- two\n\n```py\nx = 1\n```"


def typical() -> list[dict]:
    """Return one block of each kind, and what answers and their plainer forms are made of."""
    [answer] = payloads(MARKDOWN, lines=["looked it up"], notice="AI may be wrong.", feedback="run_1")
    lower = plainer(answer)
    assert lower is not None
    blocks = [*SAMPLES.values(), *answer.blocks, *lower.blocks]
    return [block for block in blocks if block["type"] not in WITHOUT_TYPE]


BROKEN: list[dict] = [
    {"type": "markdown", "txt": "x"},
    {"type": "header", "text": {"type": "mrkdwn", "text": "x"}},
    {"type": "section", "text": "x"},
    {"type": "context_actions", "elements": [{"type": "feedback_buttons", "positive_button": {"value": "x"}}]},
    {"type": "unheard_of"},
]


@pytest.mark.whole
def test_the_payloads_of_the_suite_have_slacks_types():
    """The compiler takes every block that we send, refuses each wrong one, and those that have no type yet.

    The latter are left out for a reason: the day the types know them, this fails. All are compiled at once.
    """
    right = typical()
    assert check([block for block in right if "block_id" not in block]) == []
    wrong = [*BROKEN, *(SAMPLES[kind] for kind in sorted(WITHOUT_TYPE))]
    done = compiled([*wrong, *right], "samples")
    assert refused(done.stdout) == set(range(len(wrong))), done.stdout


def test_a_form_is_what_a_type_distinguishes():
    """Words and numbers are no part of a form, styles are; each item of a list is looked at by itself."""
    button = {"type": "button", "text": {"type": "plain_text", "text": "Allow"}, "style": "primary"}
    image = {"type": "image", "alt_text": "a", "image_url": "https://a.example/a.png"}
    row = {"type": "actions", "block_id": "1", "elements": [button, {**button, "text": "Deny"}, image]}
    found = forms(row)
    assert forms({**row, "block_id": "2"}) == found
    assert [form["elements"] for form in found] == [
        [{"type": "button", "text": {"type": "plain_text", "text": "x"}, "style": "primary"}],
        [{"type": "button", "text": "x", "style": "primary"}],
        [{"type": "image", "alt_text": "x", "image_url": "x"}],
    ]


@pytest.mark.whole
def test_what_a_test_sends_is_held_against_the_types():
    """A form that has no such type is named, however much else was sent with it."""
    wrong = {"type": "markdown", "text": "x", "styled": "boldly"}
    said = untyped([{"type": "divider"}, wrong])
    assert '"styled": "boldly"' in said
    assert "divider" not in said.splitlines()[1]

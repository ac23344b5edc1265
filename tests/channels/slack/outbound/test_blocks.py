"""Payloads: any Markdown gives what Slack takes, within every limit, with all words."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.slack import limits
from channels.slack.blocks import FEEDBACK, Payload, payloads, plainer, twin, voted
from channels.slack.testing.blocks import check
from channels.slack.text import clean, safe
from tests.cases import for_each
from tests.channels.slack.outbound.test_text import ACTIVE, is_within, shown, signs, texts, words


def assert_sound(payload: Payload) -> None:
    """Assert that Slack takes *payload* and that it mentions no one."""
    assert check(list(payload.blocks)) == []
    assert 0 < len(payload.text) <= limits.TEXT
    assert not ACTIVE.search(payload.text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert "<" not in payload.text
    assert not ACTIVE.search(json.dumps(payload.blocks, ensure_ascii=False).replace("\\\\", "\\"))


@given(texts, st.lists(texts, max_size=2), texts)
@settings(deadline=None)
@example("&" * 5000, [], "")
@example("x" * 30_000, ["y" * 9000], "z" * 5000)
def test_any_markdown_gives_sound_payloads(markdown: str, lines: list[str], notice: str):
    """Whatever was written, each message passes Slack's check and together they hold every word."""
    found = payloads(markdown, lines=lines, notice=notice, feedback="run_1")
    for payload in found:
        assert_sound(payload)
    together = signs("".join(payload.text for payload in found))
    assert is_within(signs(clean("".join(lines))) + shown(safe(markdown)) + signs(clean(notice)), together)
    assert bool(found) == bool(safe(markdown + notice + "".join(lines)).strip())


@given(texts, st.none() | st.integers(0, 5).map(lambda n: f"/blocks/{n}/text"))
@settings(deadline=None)
def test_a_refused_payload_becomes_plainer_twice_at_most(markdown: str, pointer: str | None):
    """Each form passes Slack's check and keeps the words; the last one is text alone."""
    for payload in payloads(markdown, notice="note", feedback="run_1"):
        forms = [payload]
        while (lower := plainer(forms[-1], pointer)) is not None:
            assert_sound(lower)
            assert lower.text == payload.text
            forms.append(lower)
        assert len(forms) <= 3
        assert forms[-1].blocks == ()


def test_an_answer_is_a_markdown_block_between_its_rows():
    """The agent's calls are above the answer, the notice and the feedback below it."""
    [payload] = payloads("**Hi**", lines=["looked it up"], notice="AI may be wrong.", feedback="run_7")
    assert [block["type"] for block in payload.blocks] == ["context", "markdown", "context", "context_actions"]
    assert payload.text == "looked it up\n\nHi\n\nAI may be wrong."
    [buttons] = payload.blocks[-1]["elements"]
    assert buttons["action_id"] == FEEDBACK
    assert voted(buttons["positive_button"]["value"]) == ("run_7", True)
    assert voted(buttons["negative_button"]["value"]) == ("run_7", False)
    assert voted("something else") is None


def test_only_the_block_that_was_refused_becomes_plainer():
    """The others stay, and without a pointer none does."""
    [payload] = payloads("**Hi**", lines=["looked"], feedback="run_7")
    kinds = lambda payload: [block["type"] for block in payload.blocks]  # noqa: E731
    assert kinds(plainer(payload, "/blocks/1/text")) == ["context", "rich_text", "context_actions"]
    assert kinds(plainer(payload, "/blocks/2/elements/0")) == ["context", "markdown"]
    assert kinds(plainer(payload)) == ["section", "rich_text"]


def test_a_long_answer_is_split_rather_than_lost():
    """40,000 characters become messages that can each be updated."""
    markdown = "\n\n".join(f"Paragraph {n}: {'word ' * 60}" for n in range(125))
    found = payloads(markdown)
    assert len(markdown) > 39_000
    assert len(found) <= 12
    assert words(" ".join(payload.text for payload in found)) == words(markdown)


def test_a_post_may_hold_more_than_an_update():
    """With the room of a post one message takes 12,000 characters of Markdown."""
    markdown = "\n\n".join("word " * 60 for _ in range(39))
    assert len(payloads(markdown, text_room=limits.TEXT_HARD)) == 1
    assert len(payloads(markdown)) > 1


def test_nothing_to_show_is_no_payload():
    """Blank text is not sent, not even with feedback below it."""
    assert payloads(" \n", feedback="run_1") == []
    assert payloads("---")[0].text == "---"


@for_each("allow", [True, False])
def test_a_mention_is_for_one_user_and_where_it_is_allowed(allow: bool):
    """In blocks and text alike."""
    [payload] = payloads("<@U12345> <!here>", allow_mentions=allow)
    assert ("<@U12345>" in payload.text) is allow
    assert ("<@U12345>" in payload.blocks[0]["text"]) is allow
    assert "<!here>" not in payload.text + payload.blocks[0]["text"]


def test_the_twin_is_escaped():
    """Markers of mrkdwn are literal."""
    assert twin("a < b && *c*") == "a &lt; b &amp;&amp; c"

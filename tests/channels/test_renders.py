"""Renders of a kind that no surface knows: each shows their text, and a renderer of a kind is one function."""

import pytest

from agent_core.events import Event
from channels import text
from channels.slack import charts
from channels.slack.charts import ladder_of
from channels.slack.picture import MAX_RENDER, Words, markdown_of, picture, tail
from channels.slack.tables import MESSAGE, Form, Ladder
from channels.spec import ConversationView, ShownRender
from channels.terminal import spans_of
from channels.view import Segment, cut
from tests.channels.logs import fold, golden

TEXT = "Who drinks what\ntea: 3\ncoffee: 4"


def total(render: ShownRender, width: int | None = None) -> str:
    return f"{sum(row['people'] for row in render.payload['rows'])} people"


def counted(render: ShownRender, _links: bool) -> Ladder:
    return Ladder(render, [lambda _room: Form((), total(render))])


def shown_of(events: list[Event]) -> ConversationView:
    """Return what a message of a channel shows of *events*."""
    return cut(fold(events), Segment())


def on_terminal() -> str:
    """Return the answer in the golden log as a terminal writes it, without notes."""
    return "".join(span.text for span in spans_of(shown_of(golden("rendered")), set()) if not span.note).lstrip()


def in_slack() -> str:
    payload = picture(shown_of(golden("rendered"))).payload(allow_mentions=False)
    assert payload is not None
    assert any("tea: 3" in str(block) for block in payload.blocks)
    return payload.text


def test_a_terminal_shows_the_text():
    """The text of a render is between the answer that called the tool and the one that follows."""
    assert on_terminal() == f"Let me see.\n\n{TEXT}\n\nMost drink coffee.\n"


def test_slack_shows_the_text():
    """The text of a render is in the blocks and in the plain text of the message, before what follows."""
    assert TEXT in in_slack()
    assert in_slack().index(TEXT) < in_slack().index("Most drink coffee.")


def test_a_stream_in_slack_gets_the_text_as_it_comes():
    """A message that streams is extended by the render: nothing that was sent changes."""
    events = golden("rendered")
    shown = next(n for n, event in enumerate(events) if event.type == "render.shown")
    before, after = picture(shown_of(events[:shown])).items, picture(shown_of(events[: shown + 1])).items
    chunks = tail(before, after)
    assert chunks is not None
    assert [chunk["type"] for chunk in chunks] == ["markdown_text"]
    assert TEXT in chunks[0]["text"]


def test_a_renderer_is_one_function(monkeypatch: pytest.MonkeyPatch):
    """A kind that a surface has a renderer for is shown by it, in the place of the text."""
    monkeypatch.setattr(text, "RENDERERS", {"tally_marks": total})
    assert "7 people" in on_terminal()
    assert TEXT not in on_terminal()
    (render,) = (each for said in shown_of(golden("rendered")).messages for call in said.calls for each in call.renders)
    assert ladder_of(render) is None
    monkeypatch.setattr(charts, "RENDERERS", {"tally_marks": counted})
    ladder = ladder_of(render)
    assert ladder is not None
    assert ladder.best(MESSAGE).form.text == "7 people"


def test_no_text_breaks_out_of_its_place():
    """Escape sequences and fences in a render's text are shown as signs."""
    evil = ShownRender("ren_1", "odd", {}, "\x1b[2J```\n<!channel> *bold*")
    assert "\x1b" not in text.drawn([evil])
    tables = (
        {"columns": ["\x1b[2J"], "rows": [["\x1b]0;x\x07"]]},
        {"rows": 1},
        {"plain": {}},
        {"spec": {"mark": "\x1b"}},
    )
    for kind in ("table", "chart"):
        for payload in tables:
            assert "\x1b" not in text.figure(ShownRender("ren_1", kind, dict(payload), "\x1b", "\x1b[2J"), 80)
    markdown = markdown_of(evil)
    assert markdown.count("```") == 2
    words = picture(shown_of(golden("rendered"))).items
    assert [item.key for item in words if isinstance(item, Words)][1] == "ren_1"


def test_a_long_text_leaves_room_for_the_answer():
    """In Slack a render takes a part of a message at most."""
    assert len(markdown_of(ShownRender("ren_1", "odd", {}, "x" * 50_000))) < MAX_RENDER + 20

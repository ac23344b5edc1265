"""What Slack shows of renders: Markdown by kind, and the text of a kind that has none here."""

from collections.abc import Callable, Mapping

from agent_core import shorten
from channels.base import ShownRender
from channels.slack.outbound.text import safe

RENDERERS: Mapping[str, Callable[[ShownRender], str]] = {}
"""Markdown of a render, by kind."""
MAX_TEXT = 2_000
"""Characters of a render: the text of an answer has the rest of a message."""
_MARK = "```"


def markdown_of(render: ShownRender) -> str:
    """Return *render* as Markdown that is safe to send."""
    return safe(RENDERERS.get(render.kind, _fenced)(render))


def _fenced(render: ShownRender) -> str:
    """Return the title and the text as they are, in a fence that nothing in them can close."""
    text = render.plain.replace(_MARK, "'''")
    return f"{_MARK}\n{shorten(text, MAX_TEXT)}\n{_MARK}"

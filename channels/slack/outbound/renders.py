"""The text of a render as Slack shows it, where it draws none."""

from agent_core import shorten
from channels.base import ShownRender
from channels.slack.outbound.text import safe

MAX_TEXT = 2_000
"""Characters of a render: the text of an answer has the rest of a message."""
_MARK = "```"


def markdown_of(render: ShownRender) -> str:
    """Return the title and the text of *render* in a fence that nothing in them can close, safe to send."""
    text = render.plain.replace(_MARK, "'''")
    return safe(f"{_MARK}\n{shorten(text, MAX_TEXT)}\n{_MARK}")

"""The demonstration's summary of a long conversation: what people asked, in their own words."""

from collections.abc import Sequence

from agent_core.context.summaries import ASKED
from agent_core.messages import text_of
from agent_core.providers.base import RequestEntry

HEADING = "People asked, the newest last:"
_MAX_LINES, _LENGTH = 20, 200
_ITEM = "- "


def summary_of(messages: Sequence[RequestEntry], is_note: Sequence[bool]) -> str | None:
    """Return the summary if the newest of *messages* asks for one; *is_note* says which are not of people."""
    if not messages or ASKED not in text_of(messages[-1].message.parts):
        return None
    requests: list[str] = []
    for entry, noted in zip(messages[:-1], is_note, strict=False):
        text = text_of(entry.message.parts).strip()
        if noted and HEADING in text:
            requests += [line.removeprefix(_ITEM) for line in text.split("\n") if line.startswith(_ITEM)]
        elif entry.message.role == "user" and not noted and text:
            requests.append(" ".join(text.split())[:_LENGTH])
    return "\n".join([HEADING, *(f"{_ITEM}{line}" for line in requests[-_MAX_LINES:])])

"""What a person has open in Slack as they write, as Slack's `app_context` says; pure.

It is a hint, and no permission: only ids are read of it.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from agent_core import Context
from channels.slack.web_api.client import Json

MAX_ENTITIES = 5
"""Things that are named, the most relevant first."""
SEEN = "slack_viewing"
"""The field of a session's metadata that holds what the model was shown last."""
_KINDS: Mapping[str, str] = MappingProxyType(
    {f"slack#/types/{kind}_id": kind for kind in ("channel", "canvas", "list")}
)
_MESSAGE = "slack#/types/message_context"
_ID, _TS = re.compile(r"[A-Z][A-Z0-9]{1,40}"), re.compile(r"\d{1,12}\.\d{1,9}")


def viewed(app_context: Json) -> tuple[str, ...]:
    """Return what *app_context* names: `channel C1`, `message 10.000200 of channel C1`, `canvas F1`, `list F2`."""
    entities: Any = app_context.get("entities")
    listed: list[Any] = cast("list[Any]", entities)[:MAX_ENTITIES] if isinstance(entities, list) else []
    return tuple(name for each in listed for name in _named(each))


def _named(entity: Any) -> Iterator[str]:
    match entity:
        case {"type": str(kind), "value": str(id)} if kind in _KINDS and _ID.fullmatch(id):
            yield f"{_KINDS[kind]} {id}"
        case {"type": kind, "value": {"channel_id": str(id), "message_ts": str(ts)}} if kind == _MESSAGE:
            if _ID.fullmatch(id) and _TS.fullmatch(ts):
                yield f"message {ts} of channel {id}"
        case _:
            return


def as_note(viewing: tuple[str, ...], metadata: Mapping[str, Any]) -> tuple[Context, ...]:
    """Return the note by which the model learns of *viewing*, none if the session's *metadata* say that it knows."""
    if not viewing or metadata.get(SEEN) == "; ".join(viewing):
        return ()
    text = f"As its author writes the next message they have open in Slack, by Slack's ids: {'; '.join(viewing)}."
    return (Context(text=text, source="note"),)

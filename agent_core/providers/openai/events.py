"""The events of the Responses stream that we read; a field that a server may send as null is optional."""

from typing import Any

import msgspec

from agent_core.messages import Usage
from agent_core.providers.base import NULL, counted


class Event(msgspec.Struct, gc=False):
    """The fields of the frequent events; `delta` is not a text in some that we do not read."""

    type: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None


class _Why(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """A response as its first and last events describe it."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: _Why | None = None
    usage: msgspec.Raw = NULL
    output: list[msgspec.Raw] | None = None


class Whole(msgspec.Struct):
    """The fields of the other events that we read."""

    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: msgspec.Raw = msgspec.Raw()
    annotation: msgspec.Raw = msgspec.Raw()
    response: Response | None = None


EVENT = msgspec.json.Decoder(Event)
WHOLE = msgspec.json.Decoder(Whole)


def usage_of(usage: Any) -> Usage:
    """Return *usage* with the cached tokens taken out of the total."""
    details = "input_tokens_details"
    written = [counted(usage, details, "cache_write_tokens_details", f"ttl_{life}_tokens") for life in ("30m", "12h")]
    if written == [None, None]:
        written = [counted(usage, details, "cache_write_tokens"), None]
    counts, total = (counted(usage, details, "cached_tokens"), *written), counted(usage, "input_tokens")
    plain = None if total is None else max(0, total - sum(n or 0 for n in counts))
    thought = counted(usage, "output_tokens_details", "reasoning_tokens")
    return Usage(plain, counted(usage, "output_tokens"), thought, *counts)

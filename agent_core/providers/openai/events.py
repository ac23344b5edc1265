"""The events of the Responses stream that we read; a field that a server may send as null is optional."""

from typing import Any

import msgspec

from agent_core.domain.messages import Usage


class Event(msgspec.Struct, gc=False):
    """The fields of the frequent events; `delta` is not a text in some that we do not read."""

    type: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: "_CacheWrites | None" = None
    reasoning_tokens: int | None = None


class _CacheWrites(msgspec.Struct):
    ttl_30m_tokens: int | None = None
    ttl_12h_tokens: int | None = None


class TokenCounts(msgspec.Struct):
    """The usage of a response; *input_tokens* is the total."""

    input_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Why(msgspec.Struct):
    reason: str | None = None


class Response(msgspec.Struct):
    """A response as its first and last events describe it."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: _Why | None = None
    usage: TokenCounts | None = None
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


def usage_of(usage: TokenCounts) -> Usage:
    """Return *usage* with the cached tokens taken out of the total."""
    prompt_details = usage.input_tokens_details or _Details()
    written = prompt_details.cache_write_tokens_details or _CacheWrites(prompt_details.cache_write_tokens)
    counts = (prompt_details.cached_tokens, written.ttl_30m_tokens, written.ttl_12h_tokens)
    plain = None if usage.input_tokens is None else max(0, usage.input_tokens - sum(n or 0 for n in counts))
    details = usage.output_tokens_details
    return Usage(plain, usage.output_tokens, details.reasoning_tokens if details else None, *counts)

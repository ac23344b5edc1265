"""What the three wires send of a request, without cache marks and what a step may do: the bytes that a cache sees."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_core.providers.anthropic import encoder_of, prefix_of
from agent_core.providers.base import Encode, Request
from agent_core.providers.compatible import CompatibleProvider
from agent_core.providers.compatible import compatible as local
from agent_core.providers.openai import OpenAIProvider
from agent_core.providers.openai import openai as made


def wires() -> Sequence[Callable[[Request], bytes]]:
    """Return of each wire what makes the bytes of a request's tools, system text and messages."""
    openai, compatible = made(api_key="key"), local(api_key=None, base_url="http://localhost:1/v1")
    return (
        lambda request: _joined(prefix_of(request.snapshot), encoder_of("anthropic:claude-sonnet-5-5"), request),
        lambda request: _joined(_empty(openai, request), openai.encoder("gpt-6.1-sol"), request),
        lambda request: _joined(_empty(compatible, request), compatible.encoder("llama"), request),
    )


def _joined(head: bytes, encode: Encode, request: Request) -> bytes:
    messages = [encode(entry.message, {}) for entry in request.messages]
    return head + b"".join(b"\n" + message for message in messages if message)


def _empty(provider: OpenAIProvider | CompatibleProvider, request: Request) -> bytes:
    """Return the body of *request* without messages, as far as it is a prefix of the others."""
    body = provider._body(replace(request, messages=(), cache=None))
    return body[: body.rindex(b'],"model"')]

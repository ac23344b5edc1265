"""What particular servers of the Chat wire write, want back, and say when they do not get it.

DeepSeek wants the thinking of answers that called tools (api-docs.deepseek.com/guides/thinking_mode), Gemini's endpoint
a signature on the first call of each step (ai.google.dev/gemini-api/docs/thought-signatures), Mistral its own form of
call ids, and no fields that it does not know.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, cast

import msgspec

from agent_core.testing.models.failing import Reply, RuleBroken
from agent_core.testing.models.prefix import Json, dicts
from agent_core.testing.models.score import encode

Server = Literal["openai", "deepseek", "gemini", "mistral"]
UNSIGNED = "skip_thought_signature_validator"
"""Gemini's own word for a call that it did not write."""
_NINE = re.compile("[a-zA-Z0-9]{9}")
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_MISTRALS = frozenset({"role", "content", "tool_calls", "prefix", "tool_call_id", "name"})


def check(server: Server, model: str, body: Json) -> None:
    """Raise `RuleBroken` for what *server* would refuse of the messages in *body*, which are well-formed."""
    messages = dicts(body["messages"])
    match server:
        case "deepseek":
            _check_thinking(messages)
        case "gemini":
            _check_signatures(model, messages)
        case "mistral":
            _check_ids(messages)
            _check_fields(messages)
        case "openai":
            return


def signature(model: str, name: str, arguments: str) -> str:
    """Return Gemini's signature of a call of *model*."""
    seal = hashlib.sha256(f"{model}/{name}/{arguments.strip() or '{}'}".encode()).digest()
    return base64.b64encode(seal).decode()


def call_id(server: Server, own: str, n: int) -> str:
    """Return the id that *server* gives the call *n* of the answer *own*, 24 hex digits."""
    match server:
        case "deepseek":
            return f"call_{n:02}_{own}"
        case "gemini":
            return f"function-call-{int(own, 16) + n}"
        case "mistral":
            return base64.b32encode(hashlib.sha256(f"{own}{n}".encode()).digest()).decode()[:9]
        case "openai":
            return f"call_{own}{n:02}"


def shaped(server: Server, reply: Reply) -> Reply:
    """Return *reply*, an error in OpenAI's form, in the form of *server*."""
    whole = msgspec.json.decode(reply.body)
    error = cast("Json", whole.get("error", {}))
    if server == "gemini":
        status = _STATUSES.get(reply.status, "UNKNOWN")
        body: object = [{"error": {"code": reply.status, "message": error.get("message"), "status": status}}]
    elif server == "mistral":
        body = {"object": "error", **error, "raw_status_code": reply.status}
    else:
        return reply
    return Reply(reply.status, encode(body), reply.headers)


def too_long(server: Server, tokens: int, most: int) -> str | None:
    """Return how *server* words the refusal of a prompt of *tokens*; None where it does as OpenAI does."""
    if server == "gemini":
        return f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({most})."
    if server == "mistral":
        return f"Prompt contains {tokens} tokens, too large for model with {most} maximum context length"
    return None


def _exchanges(messages: Sequence[Json]) -> Iterator[list[tuple[int, Json]]]:
    """Give the answers between two messages of the user, with their places."""
    answers: list[tuple[int, Json]] = []
    for n, message in enumerate(messages):
        if message["role"] == "user":
            yield answers
            answers = []
        elif message["role"] == "assistant":
            answers.append((n, message))
    yield answers


def _check_thinking(messages: Sequence[Json]) -> None:
    """Where tools were called, every answer up to the next message of the user has its thinking, even if empty."""
    for answers in _exchanges(messages):
        called = any(message.get("tool_calls") for _, message in answers)
        for _, message in answers if called else ():
            if not isinstance(message.get("reasoning_content"), str):
                raise RuleBroken(
                    "The `reasoning_content` in the thinking mode must be passed back to the API.",
                    code="invalid_request_error",
                )


def _check_signatures(model: str, messages: Sequence[Json]) -> None:
    """Each step since the newest message of the user has a signature on its first call, and the right one."""
    *_, answers = _exchanges(messages)
    for place, message in answers:
        for call in dicts(message.get("tool_calls"))[:1]:
            function = cast("Json", call["function"])
            extra = cast("Json", call.get("extra_content") or {})
            thought_signature = cast("Json", extra.get("google") or {}).get("thought_signature")
            if not thought_signature:
                raise RuleBroken(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                    "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                    f"data, function call `default_api:{function['name']}` , position {place + 1}. Please refer to "
                    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                )
            if thought_signature not in (UNSIGNED, signature(model, str(function["name"]), str(function["arguments"]))):
                raise RuleBroken("Thought signature is not valid.")


def _check_ids(messages: Sequence[Json]) -> None:
    for message in messages:
        ids = [call.get("id") for call in dicts(message.get("tool_calls"))]
        ids += [message.get("tool_call_id")] if message["role"] == "tool" else []
        for id_ in ids:
            if not _NINE.fullmatch(str(id_)):
                raise RuleBroken(f"Tool call id was {id_} but must be a-z, A-Z, 0-9, with a length of 9.", code="3280")


def _check_fields(messages: Sequence[Json]) -> None:
    for n, message in enumerate(messages):
        for name in message:
            if name not in _MISTRALS:
                raise RuleBroken(
                    f"body.messages.{n}.{message['role']}.{name}: Extra inputs are not permitted", status=422
                )

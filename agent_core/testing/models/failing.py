"""How each vendor says that a request failed: status, headers and body, or an event within a stream."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from agent_core.messages import FailureKind
from agent_core.providers.base import CallFailed
from agent_core.testing.models.asked import Wire
from agent_core.testing.models.caching import Json, dicts
from agent_core.testing.models.score import encode
from agent_core.testing.scripted import fail

STALE_THINKING = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
FORCED_THINKING = "Thinking may not be enabled when tool_choice forces tool use."
_UNSAID = fail().message

# kind: status, error type, text. Texts are the vendors' own where they are public.
_ANTHROPIC: dict[FailureKind, tuple[int, str, str]] = {
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "rate_limited": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    ),
    "context_overflow": (400, "invalid_request_error", "prompt is too long: 1012345 tokens > 1000000 maximum"),
    "quota": (
        400,
        "invalid_request_error",
        (
            "Your credit balance is too low to access the Anthropic API. "
            "Please go to Plans & Billing to upgrade or purchase credits."
        ),
    ),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "misconfigured": (404, "not_found_error", "model: {model}"),
    "invalid": (400, "invalid_request_error", "messages.0.content.0: Input should be a valid dictionary"),
    "content_refused": (400, "invalid_request_error", "Output blocked by content filtering policy"),
    "file_refused": (400, "invalid_request_error", "messages.0.content.0.image.source.base64: Could not process image"),
    "error": (500, "api_error", "Internal server error"),
    "stale_reasoning": (400, "invalid_request_error", f"messages.1.content.0: {STALE_THINKING}"),
    "controls_refused": (400, "invalid_request_error", FORCED_THINKING),
}
# kind: status, error type, code, param, text.
_OPENAI: dict[FailureKind, tuple[int, str, str | None, str | None, str]] = {
    "overloaded": (
        503,
        "server_error",
        None,
        None,
        (
            "The server is currently overloaded with other requests. Sorry about that! You can retry your request, or "
            "contact us through our help center at help.openai.com if the error persists."
        ),
    ),
    "rate_limited": (
        429,
        "requests",
        "rate_limit_exceeded",
        None,
        (
            "Rate limit reached for {model} in organization org-fake on requests per min (RPM): Limit 500, Used 500, "
            "Requested 1. Please try again in 120ms."
        ),
    ),
    "context_overflow": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "input",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    "quota": (
        429,
        "insufficient_quota",
        "insufficient_quota",
        None,
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "auth": (
        401,
        "invalid_request_error",
        "invalid_api_key",
        None,
        "Incorrect API key provided: ***. You can find your API key at https://platform.openai.com/account/api-keys.",
    ),
    "misconfigured": (
        404,
        "invalid_request_error",
        "model_not_found",
        None,
        "The model `{model}` does not exist or you do not have access to it.",
    ),
    "invalid": (400, "invalid_request_error", "invalid_value", "input", "Invalid value: 'input'."),
    "content_refused": (
        400,
        "invalid_request_error",
        "content_filter",
        "prompt",
        "The response was filtered due to the prompt triggering the content management policy. Please modify it.",
    ),
    "file_refused": (
        400,
        "invalid_request_error",
        "invalid_value",
        "input[1].content[1].image_url",
        "The image data you provided does not represent a valid image.",
    ),
    "error": (
        500,
        "server_error",
        None,
        None,
        "The server had an error while processing your request. Sorry about that!",
    ),
    "stale_reasoning": (
        400,
        "invalid_request_error",
        "invalid_encrypted_content",
        None,
        "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
    ),
    "controls_refused": (
        400,
        "invalid_request_error",
        "unsupported_value",
        "tool_choice",
        "Unsupported value: this value is not supported with this model.",
    ),
}
_CHAT_OVERFLOW = (
    "This model's maximum context length is {most} tokens. However, your messages resulted in {tokens} tokens. "
    "Please reduce the length of the messages."
)
_STREAM_CODES: dict[FailureKind, str] = {"overloaded": "server_is_overloaded", "error": "server_error"}
_RETRY = {"overloaded", "rate_limited", "error"}


class RuleBroken(ValueError):
    """The request breaks a rule of its wire: the text, and what OpenAI adds to it."""

    def __init__(
        self,
        text: str,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: FailureKind = "invalid",
        status: int | None = None,
    ) -> None:
        super().__init__(text)
        self.text, self.param, self.code, self.status = text, param, code, status
        self.kind: FailureKind = kind


def too_long(wire: Wire, tokens: int, most: int, words: str | None = None) -> RuleBroken:
    """Return the refusal of a prompt of so many *tokens*, more than the *most* that its model takes.

    *words* are those of a server with an own form, which names no code.
    """
    if words is not None:
        return RuleBroken(words, status=400)
    if wire == "messages":
        return RuleBroken(f"prompt is too long: {tokens} tokens > {most} maximum", kind="context_overflow")
    text = _OPENAI["context_overflow"][4] if wire == "responses" else _CHAT_OVERFLOW.format(most=most, tokens=tokens)
    return RuleBroken(text, param="input" if wire == "responses" else "messages", kind="context_overflow")


def too_large(wire: Wire) -> RuleBroken:
    """Return the refusal of a request with too many bytes."""
    text = "Request exceeds the maximum size" if wire == "messages" else "Request body too large"
    return RuleBroken(text, kind="context_overflow", code="request_too_large", status=413)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer as JSON."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def refusal(wire: Wire, refused: RuleBroken, request: str) -> Reply:
    """Return the answer to a request that breaks a rule."""
    if wire == "messages":
        status, type_, _ = _ANTHROPIC[refused.kind]
        error = _anthropic(refused.code or type_, refused.text, request)
        return _reply(wire, refused.status or status, error, request)
    status, type_, code, _, _ = _OPENAI[refused.kind]
    error = _openai(type_, refused.text, refused.code or (code if refused.kind != "invalid" else None), refused.param)
    return _reply(wire, refused.status or status, {"error": error}, request)


def failure(wire: Wire, failed: CallFailed, model: str, request: str) -> Reply:
    """Return the HTTP answer for *failed* before any output."""
    status, body = error_of(wire, failed, model, request)
    headers: dict[str, str] = {}
    if failed.retry_after is not None:
        headers["retry-after"] = f"{failed.retry_after:g}"
    if failed.kind in _RETRY:
        headers["x-should-retry"] = "true"
    if failed.kind == "rate_limited":
        headers |= _limits(wire)
    return _reply(wire, status, body, request, headers)


def error_of(wire: Wire, failed: CallFailed, model: str, request: str) -> tuple[int, dict[str, Any]]:
    """Return status and JSON of *failed*; its text is the vendor's own unless the script gave one."""
    message = failed.message if failed.message != _UNSAID else None
    if wire == "messages":
        status, type_, text = _ANTHROPIC[failed.kind]
        return status, _anthropic(type_, message or text.format(model=model), request)
    status, type_, code, param, text = _OPENAI[failed.kind]
    if wire == "chat" and failed.kind == "context_overflow":
        text, param = _CHAT_OVERFLOW.format(most=128000, tokens=130021), "messages"
    return status, {"error": _openai(type_, message or text.format(model=model), code, param)}


def stream_code(failed: CallFailed) -> str:
    """Return the code under which the Responses API breaks off a stream."""
    return _STREAM_CODES.get(failed.kind) or _OPENAI[failed.kind][2] or "server_error"


def _anthropic(type_: str, text: str, request: str) -> dict[str, Any]:
    return {"type": "error", "error": {"details": None, "type": type_, "message": text}, "request_id": request}


def _openai(type_: str, text: str, code: str | None, param: str | None) -> dict[str, Any]:
    return {"message": text, "type": type_, "param": param, "code": code}


def _reply(
    wire: Wire, status: int, body: dict[str, Any], request: str, headers: Mapping[str, str] | None = None
) -> Reply:
    return Reply(status, encode(body), {**request_header(wire, request), **(headers or {})})


def request_header(wire: Wire, request: str) -> dict[str, str]:
    """Return the header under which the vendor names a request."""
    return {"request-id" if wire == "messages" else "x-request-id": request}


def _limits(wire: Wire) -> dict[str, str]:
    if wire == "messages":
        prefix = "anthropic-ratelimit-input-tokens"
        return {f"{prefix}-limit": "50000", f"{prefix}-remaining": "0", f"{prefix}-reset": "2026-01-01T00:00:00Z"}
    return {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "120ms",
    }


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


def servers_too_long(server: Server, tokens: int, most: int) -> str | None:
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

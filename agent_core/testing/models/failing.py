"""How each vendor says that a request failed: status, headers and body, or an event within a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import FailureKind
from agent_core.providers.base import CallFailed
from agent_core.testing.models.asked import Wire
from agent_core.testing.models.score import encode
from agent_core.testing.script import fail

STALE_THINKING = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
MODIFIED_THINKING = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must "
    "remain as they were in the original response."
)
LAST_THINKING = "The final block in an assistant message cannot be `thinking`."
STALE_TEXTS = (
    f"messages.1.content.0: {STALE_THINKING}",
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    f"messages.5.content.1: {MODIFIED_THINKING}",
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    "messages.1.content.0.thinking.signature: Field required",
    (
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is "
        "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks)."
    ),
    (
        "messages.1.content.0: If an assistant message contains any thinking blocks, the first block must be "
        "`thinking` or `redacted_thinking`. Found `text`."
    ),
    f"messages.1: {LAST_THINKING}",
    (
        "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding "
        "`web_search_tool_result` block"
    ),
)
"""How Anthropic refuses what a model wrote itself, as seen by its users until September 2026; for scripts."""
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

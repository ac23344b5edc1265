"""Why a model call failed: one classification for every wire, and the operator's text with what to do."""

import re
import time
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, cast

import msgspec

from agent_core.messages import CONTENT_REFUSED, FILE_REFUSED, FailureKind, shorten
from agent_core.providers.base import CallFailed, knows_no_cache, knows_no_search

RETRYABLE: frozenset[FailureKind] = frozenset({"overloaded", "rate_limited", "network", "error"})
MAX_SAID = 500
"""Characters of what a provider said that are kept."""
SECRETS: ContextVar[tuple[str, ...]] = ContextVar("secrets", default=())
"""The API key in use while a provider's answer is read, and what else is secret: `printable` removes all of it."""
_LOOKED_AT = 8 * MAX_SAID
_MIN_KEY, _MIN_PIECE, _MIN_END = 8, 8, 6
"""No vendor's key is shorter; shorter pieces or ends of a key may be words of the text."""

_REMEDIES: dict[FailureKind, str] = {
    "overloaded": "Usually this passes; an agent with `fallback_models` answers meanwhile.",
    "rate_limited": "Ask the provider for a higher limit, or give the agent `fallback_models`.",
    "network": "Check the way to the provider if this goes on.",
    "error": "See the provider's status page.",
    "context_overflow": "Send less at once, or set the agent's `compaction` to `summary` if it is `off`.",
    "quota": "Add credit or raise the spending limit with the provider, or give the agent `fallback_models`.",
    "auth": "Check the key: is it set, whole, and allowed to use this model?",
    "misconfigured": "Check the model's name, the base URL and the agent's `controls` against the provider's list.",
    "invalid": "The provider refuses this request as it is; its own text says which part.",
    "content_refused": "What it refused is left out from now on, and the call is repeated.",
    "file_refused": "The file is left out from now on, and the call is repeated; `vision` names the models that see.",
    "stale_reasoning": "The earlier thinking is left out from now on, and the call is repeated once.",
    "controls_refused": "The `controls` are passed as text from now on, and the call is repeated once.",
}
_CALL_UNREAD = "tool_use_failed"
"""The code of a call that the server itself could not read: the model wrote it badly, and may do better."""
_UNREAD_PHRASES = ("failed to call a function", "see failed_generation")
_UNREAD_REMEDY = "The model is asked once more; a lower temperature or another model makes this rarer."
_REFUSED_THINKING = tuple(
    f"{field}{words}"
    for field in ("reasoning_content", "reasoning", "reasoning_details")
    for words in (" is unsupported", ": extra inputs are not permitted")
)
"""How servers that take no thinking, which they sent themselves, refuse the field of it."""
_UNSUMMARIZED = ("to generate reasoning summaries", "reasoning.summary is not supported")
_UNSUMMARIZED_REMEDY = "No summaries of its thinking are asked for from now on, and the call is repeated."
# Words of a type or a code that are more specific than the status; the first match decides.
_CODES: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    ("error", (_CALL_UNREAD,)),
    ("stale_reasoning", ("invalid_encrypted_content",)),
    ("quota", ("insufficient_quota", "billing_error", "enforced_spend_limit_reached", "billing_hard_limit_reached")),
    ("context_overflow", ("context_length_exceeded", "exceed_context_size", "model_context_window_exceeded")),
    ("context_overflow", ("request_too_large",)),
    ("content_refused", ("content_filter", "contentfilter", "content_policy", "responsibleai", "data_inspection")),
    ("content_refused", ("sensitive_words", "invalid_prompt")),
    ("overloaded", ("overloaded", "compaction_unavailable", "slow_down", "slow down")),
    ("rate_limited", ("rate_limit_error", "rate_limit_exceeded")),
    ("auth", ("authentication_error", "permission_error", "invalid_api_key")),
    ("misconfigured", ("model_not_found", "not_found_error", "unsupported_parameter", "unsupported_value")),
)
# Types and codes that are less specific than the status and the text.
_GENERAL: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    ("error", ("api_error", "server_error", "timeout_error", "vector_store_timeout")),
    ("file_refused", ("image_", "_image")),
    ("invalid", ("invalid_request_error", "data_residency_mismatch")),
)
# Whole phrases of a text, which may quote anything: they count only where type, code and status do not decide. Without
# the quotation marks around names, which differ by gateway.
_PHRASES: tuple[tuple[FailureKind, tuple[str, ...]], ...] = (
    (
        "stale_reasoning",
        (
            "bound to a different conversation",
            "signature in thinking",
            "data in redacted_thinking",
            "thinking.signature: field required",
            "redacted_thinking.data: field required",
            "blocks in the latest assistant message cannot be modified",
            "expected thinking or redacted_thinking",
            "first block must be thinking",
            "final block in an assistant message cannot be thinking",
            # A paused answer that was not continued: with the thinking its open calls of the server's tools go too.
            "was found without a corresponding",
        ),
    ),
    ("stale_reasoning", ("invalid_encrypted_content", "encrypted content could not be")),
    # OpenAI, of reasoning or the item that it led to without the other, and of reasoning that is no more than an id.
    ("stale_reasoning", ("was provided without its required", "items are not persisted when")),
    # Compatible servers: what they wrote themselves is missing (DeepSeek, Gemini), spoiled, or another server's.
    ("stale_reasoning", ("in the thinking mode must be passed back", "missing reasoning_content field")),
    (
        "stale_reasoning",
        ("is missing a thought_signature", "thought signature is not valid", "corrupted thought signature"),
    ),
    ("stale_reasoning", ("but must be a-z, a-z, 0-9, with a length of 9",)),
    # Others send thinking and take none (Cerebras, Groq, gateways to Mistral).
    ("stale_reasoning", _REFUSED_THINKING),
    ("quota", ("insufficient_quota", "billing_error", "enforced_spend_limit_reached", "credit balance is too low")),
    ("quota", ("billing_hard_limit_reached", "specified api usage limits")),
    (
        "context_overflow",
        (
            "context_length_exceeded",
            "prompt is too long",
            "maximum context length",
            "exceed context limit",
            "exceeds the available context size",
            "exceeds the context",
            "max context length",
            "exceeds the maximum number of tokens allowed",
            "maximum model length",
            "loaded with context length",
            "input is too long",
            "model_context_window_exceeded",
            "request_too_large",
            "maximum prompt length",  # xAI
            "exceeded model token limit",  # Moonshot
            "range of input length",  # DashScope
            "prompt exceeds max length",  # GLM
            "longer than the models context length",  # SGLang
            "context window exceeds",  # MiniMax
            "too many tokens: total number of tokens in the prompt",  # Cohere
            "inputs must have less than",  # TGI
            "inputs tokens + max_new_tokens must be",  # TGI, Together
            # OpenAI, of more messages or items than a request may have.
            "invalid messages: array too long",
            "invalid input: array too long",
        ),
    ),
    (
        "content_refused",
        (
            "content management policy",  # Azure
            "content filter",
            "content filtering policy",  # Anthropic
            "content policy",
            "usage policy",
            "usage policies",
            "usage guidelines",  # xAI
            "safety system",
            "content exists risk",  # DeepSeek
            "input was flagged",  # OpenRouter
            "inappropriate content",  # DashScope
        ),
    ),
    ("file_refused", ("image input", "image inputs", "support images", "support image input")),
    ("error", _UNREAD_PHRASES),
    ("overloaded", ("overloaded", "overloaded_error", "slow down")),
    ("rate_limited", ("rate_limit_error", "rate_limit_exceeded")),
)
_TOO_LARGE = "request too large"
"""How a text begins, of OpenAI's or Groq's, whose request alone is more than a minute's tokens: no wait helps."""
_REFUSALS = (400, 422)
_OF_REQUESTS: tuple[FailureKind, ...] = (
    "stale_reasoning",
    "quota",
    "context_overflow",
    "content_refused",
    "file_refused",
    "error",
)
_STATUSES: dict[int, FailureKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "misconfigured",
    408: "error",
    409: "error",
    425: "error",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
_OF_CONTROLS = re.compile(
    r"tool_choice|allowed_tools|response_format|text\.format|output_config\.format|output_format|json_schema"
)
"""Fields named by a refusal when a model does not support the controls of its tools or of its answer's form."""
_MARKS = re.compile("[`'\"]")
_OF_FILES = re.compile(
    r"(?<![^\W_])(?<!-)(?:images?|pictures?|pdfs?|documents?|media|multimodal|vision|base64|attachments?)(?![^\W_])"
)
"""Words of a refusal that is about a file; whether the request has one is for the window to know."""
_OF_ACCOUNTS = re.compile(r"\b(?:your account|access terminated|organization (?:has|was|is|does))\b")
"""Words of a refusal for what an account did: nothing in the conversation is to blame."""
_PATH = re.compile(r"\b(?:messages|input)\W{1,2}\d+(?:\W{1,2}\w+)*")
"""How errors name a part of the request: `messages.3.content.1.image`, `input[3].content[1]`."""
_SERVER_ERROR = 500
_SECRET = re.compile(r"\b(?:(?:sk|pk|key)[-_]|Bearer )[\w*.…/+=:-]{6,}", re.IGNORECASE)


def classify(status: int | None, named: str | None, text: str | None) -> FailureKind:
    """Return the kind of a provider's failure.

    A request that is too large for a server stays so, whatever it *named*. Then its type and code count, then phrases
    of its *text* where they are reliable, then the status.
    """
    named, wording = (named or "").lower(), _MARKS.sub("", text or "").lower()
    if status == 413 or (status in (None, 429) and wording.startswith(_TOO_LARGE)):  # noqa: PLR2004
        return "context_overflow"
    code: FailureKind | None = next((kind for kind, marks in _CODES if any(mark in named for mark in marks)), None)
    if code and (status != 401 or code == "quota"):  # noqa: PLR2004 - without a valid key there is no other answer
        return code
    if phrase := _phrase(wording, _trusted(status, named)):
        return "auth" if phrase == CONTENT_REFUSED and _OF_ACCOUNTS.search(wording) else phrase
    if status in _STATUSES:
        return _STATUSES[status]
    if status is not None and status >= _SERVER_ERROR:
        return "error"
    general: FailureKind | None = next((kind for kind, marks in _GENERAL if any(mark in named for mark in marks)), None)
    return general or ("error" if status is None else "invalid")


def _trusted(status: int | None, named: str) -> Collection[FailureKind]:
    """Return the kinds that a text may indicate, given this status and the codes *named*."""
    match status:
        case None:
            return (*_OF_REQUESTS, "overloaded", "rate_limited")
        case 400 | 422:
            return _OF_REQUESTS
        case 403:
            return ("quota", "content_refused")
        case 429:
            return ("quota",)
        case _ if status in _STATUSES or re.search("[a-z]", named):
            return ("file_refused",) if status == 404 or status >= _SERVER_ERROR else ()  # noqa: PLR2004
        case _:
            return (*_OF_REQUESTS, "overloaded") if status >= _SERVER_ERROR else _OF_REQUESTS


def _phrase(text: str, kinds: Collection[FailureKind]) -> FailureKind | None:
    return next((kind for kind, phrases in _PHRASES if kind in kinds and _has_one(text, phrases)), None)


def _has_one(text: str, phrases: Collection[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) for phrase in phrases)


def failed(
    kind: FailureKind, message: str, *, retry_after: float | None = None, final: bool = False, remedy: str | None = None
) -> CallFailed:
    """Return a failure of *kind*; *message* is what happened, and the *remedy* is added to it; a *final* one stays."""
    text = f"{printable(message).rstrip('. ')}. {remedy or _REMEDIES[kind]}"
    return CallFailed(kind, text, kind in RETRYABLE and not final, retry_after)


def refused(provider: str, status: int, body: object, headers: Mapping[str, str]) -> CallFailed:
    """Return the failure for an HTTP error answer of *provider*; *body* is its JSON, or its text."""
    type_, code, text = said_in(body)
    kind = classify(status, f"{type_ or ''} {code or ''}", text)
    if kind in ("invalid", "misconfigured") and status in _REFUSALS and _OF_CONTROLS.search(f"{_param(body)} {text}"):
        kind = "controls_refused"
    request = headers.get("request-id") or headers.get("x-request-id")
    named = " ".join(dict.fromkeys(word for word in (str(status), type_, code) if word))
    message = f"`{provider}` answered {named}: {text or 'no text'}" + (f" (request {request})" if request else "")
    if _is_unread(code, text):
        return failed(kind, message, remedy=_UNREAD_REMEDY)
    if status in _REFUSALS and refuses_summaries(text or ""):
        return failed("error", message, retry_after=0.0, remedy=_UNSUMMARIZED_REMEDY)
    failure = failed(kind, message, retry_after=wait_of(headers), final=headers.get("x-should-retry") == "false")
    said = f"{_param(body)} {text}"
    if kind in ("invalid", "misconfigured") and status in _REFUSALS:
        refusal = (_param(body), code, text)
        unknown = {"cache_unknown": knows_no_cache(*refusal), "search_unknown": knows_no_search(*refusal)}
        if any(unknown.values()) or not _OF_FILES.search(said.lower()):
            return replace(failure, **unknown)
        failure = replace(failed(FILE_REFUSED, message), otherwise=failure)
    path = _PATH.search(said) if failure.kind in (CONTENT_REFUSED, FILE_REFUSED) else None
    return replace(failure, path=path[0]) if path else failure


def part_at(body: bytes, path: str) -> bytes:
    """Return the JSON of the part of a request's *body* at *path*, as far as that leads; empty if to no message."""
    part, depth = msgspec.json.decode(body), 0
    for step in re.findall(r"\w+", path):
        try:
            part = part[int(step) if isinstance(part, list) else step]
        except (LookupError, TypeError, ValueError):
            break
        depth += 1
    return msgspec.json.encode(part) if depth > 1 else b""


def in_stream(provider: str, body: object) -> CallFailed:
    """Return the failure for an error event in a stream of *provider*."""
    type_, code, text = said_in(body)
    # Gateways pass the status as the code: that of the HTTP answer was sent before the error occurred.
    status = int(code) if code and re.fullmatch("[45][0-9]{2}", code) else None
    kind = classify(status, f"{type_ or ''} {code or ''}", text)
    named = " ".join(dict.fromkeys(word for word in (type_, code) if word)) or "an error"
    message = f"`{provider}` broke off its answer with {named}: {text or 'no text'}"
    return failed(kind, message, remedy=_UNREAD_REMEDY if _is_unread(code, text) else None)


def refuses_summaries(text: str) -> bool:
    """Return whether *text*, of a failure, says that no summaries of thinking are to be had."""
    return _has_one(_MARKS.sub("", text).lower(), _UNSUMMARIZED)


def refuses_thinking(text: str) -> bool:
    """Return whether *text*, of a failure, says that thinking is not taken at all."""
    return _has_one(_MARKS.sub("", text).lower(), _REFUSED_THINKING)


def _is_unread(code: str | None, text: str | None) -> bool:
    """Return whether the server could not read the call that its model wrote."""
    return code == _CALL_UNREAD or _has_one(_MARKS.sub("", text or "").lower(), _UNREAD_PHRASES)


def said_in(body: object) -> tuple[str | None, str | None, str | None]:
    """Return type, code and text of an error in any of the shapes that servers use."""
    if isinstance(body, str):
        return None, None, body or None
    error = _object(body)
    if error is None:
        return None, None, None
    inner = error.get("error")
    if isinstance(inner, str):
        return _word(error.get("type")), _word(error.get("code")), inner
    if isinstance(inner, dict):
        error = cast("dict[str, Any]", inner)
    details = cast("dict[str, Any]", error.get("details") if isinstance(error.get("details"), dict) else {})
    code = error.get("code") or details.get("error_code")
    return _word(error.get("type") or error.get("status")), _word(code), _text_of(error)


def _object(body: object) -> dict[str, Any] | None:
    """Return the object that describes an error; Gemini's endpoint sends it as the only one of a list."""
    listed = cast("list[object]", body) if isinstance(body, list) else [body]
    return next((cast("dict[str, Any]", each) for each in listed if isinstance(each, dict)), None)


def _text_of(error: dict[str, Any]) -> str | None:
    """Return the text of an error: its message, or the faults that a validation lists under `detail`."""
    text = error.get("message") or error.get("detail")
    if isinstance(text, list):
        text = "; ".join(_fault(each) for each in cast("list[object]", text)) or None
    return text if isinstance(text, str) else None


def _fault(fault: object) -> str:
    """Return one fault of a validation by where it is and what it is."""
    if not isinstance(fault, dict):
        return str(fault)
    fields = cast("dict[str, Any]", fault)
    where = fields.get("loc")
    path = ".".join(map(str, cast("list[object]", where))) if isinstance(where, list) else ""
    return f"{path}: {fields.get('msg')}" if path else str(fields.get("msg"))


def _param(body: object) -> str:
    """Return the field that an error of OpenAI's names."""
    error = _object(body) or {}
    inner = error.get("error")
    error = cast("dict[str, Any]", inner) if isinstance(inner, dict) else error
    return str(error.get("param") or "")


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
    if (ms := _number(headers.get("retry-after-ms"))) is not None:
        return ms / 1000
    value = headers.get("retry-after", "")
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def printable(text: str) -> str:
    """Return *text* short, on one line, and without the key or anything that looks like one."""
    line = " ".join(text.split())[:_LOOKED_AT]
    # What is known is removed first: a text that only looks like a key may be a part of it.
    for secret in SECRETS.get():
        line = _without(line, secret)
    line = _SECRET.sub("[secret]", line)
    return shorten(line, MAX_SAID)


def _without(text: str, key: str) -> str:
    """Return *text* without *key*, nor long pieces of it, nor its beginning or end."""
    if len(key) < _MIN_KEY:
        return text
    lines: list[str] = []
    at = 0
    while at < len(text):
        size = 0
        while at + size < len(text) and text[at : at + size + 1] in key:
            size += 1
        piece = text[at : at + size]
        begins = key.startswith(piece[:_MIN_END]) or key.endswith(piece)
        secret = size >= _MIN_PIECE or (size >= _MIN_END and begins)
        lines.append("[secret]" if secret else text[at])
        at += size if secret else 1
    return "".join(lines)


def _word(value: object) -> str | None:
    return str(value) if value not in (None, "") else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < float("inf") else None

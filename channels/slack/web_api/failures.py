"""The errors of calls to Slack, and their classification."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, cast

import aiohttp
from slack_sdk.errors import SlackApiError

from agent_core import ParleyError
from channels.slack.web_api import limits


class SlackFailure(ParleyError):
    """Root of the errors; *method* was called, *reason* is Slack's code or the network's error."""

    code = "slack_failed"
    template: ClassVar[str] = "Slack refused {method}: {reason}."

    def __init__(self, method: str, reason: str, message: str | None = None) -> None:
        super().__init__(message or self.template.format(method=method, reason=reason))
        self.method, self.reason = method, reason


class Limited(SlackFailure):
    """Not executed: too many calls; retry after *retry_after* seconds."""

    template = "The rate limit of {method} is reached ({reason})."

    def __init__(self, method: str, retry_after: float) -> None:
        super().__init__(method, f"retry in {retry_after:g} s")
        self.retry_after = retry_after


class Uncertain(SlackFailure):
    """It may have been executed: search before repeating it."""

    template = "It is unknown whether Slack executed {method}: {reason}."


class NotSent(SlackFailure):
    """It was not sent, so it was not executed."""

    template = "{method} could not be sent to Slack: {reason}."


class Expired(SlackFailure):
    """The stream has expired; `chat.update` still works."""

    template = "The message of {method} is not streaming any more ({reason})."


class StoppedByUser(SlackFailure):
    """A person pressed Stop."""

    template = "A person stopped the answer before {method} ({reason})."


class Streaming(SlackFailure):
    """The message still streams, so it cannot be updated."""

    template = "The message of {method} is still streaming ({reason})."


class NoStreaming(SlackFailure):
    """This conversation, or with `everywhere` this workspace, has no streams."""

    template = "Slack streams no message here: {method} answered {reason}."

    @property
    def everywhere(self) -> bool:
        """Whether the whole workspace has no streams, and not only this conversation."""
        return self.reason in _NO_STREAMS


class BadBlocks(SlackFailure):
    """Slack refused blocks; *pointers* name them where Slack does."""

    template = "Slack refused the blocks of {method}: {reason}."

    def __init__(self, method: str, reason: str, details: tuple[str, ...] = (), pointers: tuple[str, ...] = ()) -> None:
        text = f"{reason} ({'; '.join(details)[:300]})" if details else reason
        super().__init__(method, reason, self.template.format(method=method, reason=text))
        self.pointers = pointers


class TextTooLong(SlackFailure):
    """More text than one call accepts."""

    template = "The text of {method} is too long for Slack ({reason})."


class TargetMissing(SlackFailure):
    """The message or the conversation is missing, or not accessible to this app."""

    template = "The target of {method} is missing or not accessible to this app ({reason})."


class SlackRefused(SlackFailure):
    """Anything else; `reason` is Slack's code."""


class Unauthorised(SlackFailure):
    """The token is not accepted, or lacks the scope *needed*."""

    template = (
        "Slack does not accept the bot token for {method} ({reason}): "
        "install the app again and set SLACK_BOT_TOKEN to the token that it gives."
    )

    def __init__(self, method: str, reason: str, needed: str | None = None) -> None:
        scope = (
            f"{method} needs the scope `{needed}`, which the app was not given: add it to the app's bot token scopes "
            "(`parley slack manifest` prints a manifest that has it) and install the app again."
        )
        super().__init__(method, reason, scope if needed is not None else None)
        self.needed = needed


_NO_STREAMS = frozenset({"unknown_method", "method_deprecated", "feature_not_enabled"})
_NO_STREAM_HERE = frozenset(
    {
        "channel_type_not_supported",
        "method_not_supported_for_channel_type",
        "messages_tab_disabled",
        "missing_recipient_team_id",
        "missing_recipient_user_id",
        "user_not_found",
    }
)

# Slack documents for most of these that some aspect of the call may have succeeded.
_UNCERTAIN = (
    "fatal_error",
    "internal_error",
    "messaging_processing_failed",
    "request_timeout",
    "service_unavailable",
)
_BAD_BLOCKS = (
    "invalid_attachments",  # as Slack calls a second table
    "invalid_blocks",
    "invalid_blocks_format",
    "invalid_chunks",
    "msg_blocks_too_long",
    "msg_blocks_too_many",
)
_GONE = (
    "account_inactive",
    "channel_not_found",
    "is_archived",
    "message_not_found",
    "message_not_owned_by_app",
    "not_in_channel",
    "thread_not_found",
    "user_not_found",
    "user_not_in_channel",
    "view_not_found",
)
_UNAUTHORISED = (
    "ekm_access_denied",
    "invalid_auth",
    "missing_scope",
    "no_permission",
    "not_allowed_token_type",
    "not_authed",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
)
_CODES: Mapping[str, type[SlackFailure]] = MappingProxyType(
    {
        "message_not_in_streaming_state": Expired,
        "msg_too_long": TextTooLong,
        "stopped_by_user": StoppedByUser,
        "streaming_state_conflict": Streaming,
        "view_too_large": TextTooLong,
    }
    | dict.fromkeys(_UNCERTAIN, Uncertain)
    | dict.fromkeys(_BAD_BLOCKS, BadBlocks)
    | dict.fromkeys(_GONE, TargetMissing)
    | dict.fromkeys(_UNAUTHORISED, Unauthorised)
)
_STREAMS = ("chat.startStream", "chat.appendStream", "chat.stopStream")
_UNSENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    aiohttp.ServerFingerprintMismatch,
)
_POINTER = re.compile(r"\[json-pointer:([^\]]*)\]")
_TOO_MANY = 429
_REQUEST_TIMEOUT = 408
_SERVER = 500
_OK = 200


def classify(method: str, error: SlackApiError) -> SlackFailure:
    """Return what Slack's answer to *method* means; only Slack's own words are kept of *error*."""
    response = cast("Any", error.response)  # the SDK's, or aiohttp's own where the body was no JSON
    status: int = getattr(response, "status_code", None) or getattr(response, "status", 0)
    body = getattr(response, "data", None)
    data = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    reason = str(data.get("error") or "")[:100]
    if status == _TOO_MANY or reason in ("ratelimited", "rate_limited"):
        return Limited(method, _retry_after(response.headers))
    if status >= _SERVER or status == _REQUEST_TIMEOUT:
        return Uncertain(method, reason or f"HTTP {status}")
    if not reason:
        return (
            Uncertain(method, "the answer is not Slack's") if status == _OK else SlackRefused(method, f"HTTP {status}")
        )
    if method in _STREAMS and reason in _NO_STREAMS | _NO_STREAM_HERE:
        return NoStreaming(method, reason)
    kind = _CODES.get(reason, SlackRefused)
    if kind is BadBlocks:
        details = _details(data)
        pointers = dict.fromkeys(pointer for detail in details for pointer in _POINTER.findall(detail))
        return BadBlocks(method, reason, details, tuple(pointers))
    if kind is Unauthorised:
        return Unauthorised(method, reason, str(data["needed"])[:200] if data.get("needed") else None)
    return kind(method, reason)


def classify_upload(method: str, status: int, headers: Mapping[str, str]) -> SlackFailure:
    """Return what an answer to the bytes of a file means that is not 200."""
    if status == _TOO_MANY:
        return Limited(method, _retry_after(headers))
    if status >= _SERVER or status == _REQUEST_TIMEOUT:
        return Uncertain(method, f"HTTP {status}")
    return SlackRefused(method, f"HTTP {status}")


def unsent(method: str, error: Exception) -> NotSent | None:
    """Return the failure if *error* came before anything was sent."""
    if not isinstance(error, _UNSENT):
        return None
    # Only this one's text is known to hold a host and a system error, and no URL with a password.
    return NotSent(method, str(error) if isinstance(error, aiohttp.ClientConnectorError) else type(error).__name__)


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("Retry-After", "").strip()
    return max(1.0, float(value)) if value.isdecimal() else float(limits.RATE_WINDOW.value)


def _details(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return Slack's message on each bad block, with the pointer to it; newer answers have them as objects."""
    metadata: Mapping[str, Any] = data.get("response_metadata") or {}
    lines: list[Any] = [*(data.get("errors") or ()), *(metadata.get("messages") or ())]
    return tuple(dict.fromkeys(_detail(item) for item in lines))


def _detail(item: Any) -> str:
    match item:
        case {"pointer": str(pointer), **rest}:
            return f"{rest.get('message') or rest.get('code') or 'not valid'} [json-pointer:{pointer}]"
        case _:
            return str(item)

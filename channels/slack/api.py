"""Calls of Slack's Web API: their outcomes, and the client."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from agent_core.errors import ParleyError
from channels.slack import limits


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
    return max(1.0, float(value)) if value.isdecimal() else float(limits.RATE_WINDOW)


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


BASE_URL = AsyncWebClient.BASE_URL
FILES_HOST = "files.slack.com"
UPLOAD = "the upload"
"""What sending the bytes of a file is called in errors."""
_BYTES = {"Content-Type": "application/octet-stream"}
TIMEOUT = aiohttp.ClientTimeout(total=20.0, sock_connect=5.0)

Json = Mapping[str, Any]
Blocks = Sequence[Json]

# Slack accepts no JSON body for these.
_FORMS = frozenset({"files.completeUploadExternal", "files.getUploadURLExternal"})
_READS = frozenset(
    {
        "chat.getPermalink",
        "conversations.history",
        "conversations.info",
        "conversations.replies",
        "files.info",
        "users.info",
        "usergroups.users.list",
    }
)
# Of a model's text Slack turns nothing into links, fetches nothing and shows nothing of other sites.
_PLAIN = {"parse": "none", "unfurl_links": False, "unfurl_media": False}


@dataclass(frozen=True, slots=True)
class Identity:
    """The bot that a token belongs to, and its workspace."""

    team: str
    user: str
    bot: str
    enterprise: str | None


@dataclass(frozen=True, slots=True)
class Replies:
    """One page of a thread, its root first, or of a channel; *cursor* asks for the next one, if there is one."""

    messages: tuple[Json, ...]
    cursor: str | None


def open_session() -> aiohttp.ClientSession:
    """Return the one session that all workspaces share; the caller closes it. NO_PROXY is honoured."""
    return aiohttp.ClientSession(timeout=TIMEOUT, trust_env=True)


class SlackApi:
    """The Web API for one installation; every method has its effect or raises a `SlackFailure`.

    Nothing is retried here: a post that may have happened must be searched for first. *team* is needed only for
    installations of a whole organisation.
    """

    def __init__(
        self, token: str, *, session: aiohttp.ClientSession, base_url: str = BASE_URL, team: str | None = None
    ) -> None:
        logger = logging.getLogger("parley.slack.sdk")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)  # at NOTSET the SDK formats every request, whole messages included
        client = AsyncWebClient(
            token, base_url=base_url, session=session, team_id=team, logger=logger, retry_handlers=[]
        )
        client.proxy = None  # the SDK's reading of the environment knows no NO_PROXY; the session's does
        self._session = session
        self._client: Any = client  # its types are bare dictionaries

    async def auth(self) -> Identity:
        """Return the identity of the token."""
        body = await self._ask("auth.test")
        return Identity(body["team_id"], body["user_id"], body.get("bot_id") or "", body.get("enterprise_id"))

    # ---- messages -------------------------------------------------------------------------------

    async def post(
        self,
        channel: str,
        text: str,
        *,
        blocks: Blocks | None = None,
        thread_ts: str | None = None,
        metadata: Json | None = None,
    ) -> str:
        """Post a message and return its `ts`; *text* is for notifications and screen readers."""
        fields = {"channel": channel, "text": text, "blocks": blocks, "thread_ts": thread_ts, "metadata": metadata}
        return (await self._ask("chat.postMessage", **fields, **_PLAIN))["ts"]

    async def update(
        self, channel: str, ts: str, text: str, *, blocks: Blocks | None = None, metadata: Json | None = None
    ) -> None:
        """Replace a message; without *blocks* it has none afterwards."""
        fields = {"channel": channel, "ts": ts, "text": text, "blocks": blocks, "metadata": metadata}
        await self._ask("chat.update", **fields, parse="none")

    async def ephemeral(
        self, channel: str, user: str, text: str, *, blocks: Blocks | None = None, thread_ts: str | None = None
    ) -> None:
        """Show *user* alone a message, which is gone with the next reload."""
        fields = {"channel": channel, "user": user, "text": text, "blocks": blocks, "thread_ts": thread_ts}
        await self._ask("chat.postEphemeral", **fields, parse="none")

    async def replies(
        self, channel: str, ts: str, *, oldest: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> Replies:
        """Read one page of the thread at *ts*, with the metadata of its messages."""
        fields = {"channel": channel, "ts": ts, "oldest": oldest, "cursor": cursor, "limit": limit}
        return _replies(await self._ask("conversations.replies", **fields, include_all_metadata=True))

    async def history(
        self, channel: str, *, oldest: str | None = None, cursor: str | None = None, limit: int = 200
    ) -> Replies:
        """Read one page of the messages of a channel outside threads, the newest first, with their metadata."""
        fields = {"channel": channel, "oldest": oldest, "cursor": cursor, "limit": limit}
        return _replies(await self._ask("conversations.history", **fields, include_all_metadata=True))

    async def permalink(self, channel: str, ts: str) -> str:
        """Return the address of a message, for those who may read it."""
        return (await self._ask("chat.getPermalink", channel=channel, message_ts=ts))["permalink"]

    # ---- streams --------------------------------------------------------------------------------

    async def start_stream(
        self,
        channel: str,
        thread_ts: str,
        chunks: Sequence[Json],
        *,
        recipient_user: str | None = None,
        recipient_team: str | None = None,
    ) -> str:
        """Begin a message that grows and return its `ts`; outside direct messages both recipients are needed."""
        recipient = {"recipient_user_id": recipient_user, "recipient_team_id": recipient_team}
        fields = {"channel": channel, "thread_ts": thread_ts, "chunks": chunks}
        return (await self._ask("chat.startStream", **fields, **recipient))["ts"]

    async def append_stream(self, channel: str, ts: str, chunks: Sequence[Json]) -> None:
        await self._ask("chat.appendStream", channel=channel, ts=ts, chunks=chunks)

    async def stop_stream(
        self,
        channel: str,
        ts: str,
        *,
        chunks: Sequence[Json] | None = None,
        blocks: Blocks | None = None,
        metadata: Json | None = None,
        session_status: str | None = None,
    ) -> None:
        """End a stream with its last words; *blocks* go below all else, *session_status* is `active` by default."""
        fields = {"chunks": chunks, "blocks": blocks, "metadata": metadata, "session_status": session_status}
        await self._ask("chat.stopStream", channel=channel, ts=ts, **fields)

    # ---- sessions -------------------------------------------------------------------------------

    async def set_status(
        self, channel: str, thread_ts: str, status: str, *, title: str | None = None, initiator: str | None = None
    ) -> str | None:
        """Set the status of a session, which the first call creates; return Slack's warning."""
        fields = {"channel_id": channel, "thread_ts": thread_ts, "status": status, "title": title}
        body = await self._ask("agents.sessions.setStatus", **fields, initiator_user_id=initiator)
        return body.get("warning")

    async def set_loading(self, channel: str, thread_ts: str, texts: Sequence[str]) -> None:
        """Show *texts* in rotation while the session is processing."""
        fields = {"channel_id": channel, "thread_ts": thread_ts, "status": texts[0], "loading_messages": list(texts)}
        await self._ask("assistant.threads.setStatus", **fields)

    async def rename(self, channel: str, thread_ts: str, title: str) -> None:
        await self._ask("agents.sessions.rename", channel_id=channel, thread_ts=thread_ts, title=title)

    async def set_prompts(self, channel: str, prompts: Sequence[Json], *, title: str | None = None) -> None:
        """Suggest *prompts* (`title`, `message`) at the top of the Messages tab."""
        # With a thread_ts the call does nothing.
        await self._ask("assistant.threads.setSuggestedPrompts", channel_id=channel, prompts=prompts, title=title)

    # ---- files ----------------------------------------------------------------------------------

    async def upload_url(self, name: str, length: int, *, alt: str = "") -> tuple[str, str]:
        """Return the id of a new file of *length* bytes, and the URL for its bytes."""
        fields = {"filename": name, "length": length, "alt_txt": alt or None}
        body = await self._ask("files.getUploadURLExternal", **fields)
        return body["file_id"], body["upload_url"]

    async def put_bytes(self, url: str, content: bytes) -> None:
        """Send *content* to the URL that `upload_url` gave; without the token, which such a URL does not need."""
        if not self._may_receive(url):
            raise SlackRefused(UPLOAD, "its URL is not of files.slack.com")
        failure: SlackFailure
        try:
            async with self._session.post(url, data=content, headers=_BYTES, allow_redirects=False) as answer:
                if answer.status == _OK:
                    return
                failure = classify_upload(UPLOAD, answer.status, answer.headers)
        except (aiohttp.ClientError, OSError) as error:
            failure = unsent(UPLOAD, error) or Uncertain(UPLOAD, type(error).__name__)
        raise failure

    async def complete_upload(
        self, file: str, title: str, *, channel: str | None = None, thread_ts: str | None = None
    ) -> None:
        """Keep the file whose bytes were sent: for the app alone, or as a message of *channel*. Once per file."""
        files = json.dumps([{"id": file, "title": title}])
        fields = {"files": files, "channel_id": channel, "thread_ts": thread_ts}
        await self._ask("files.completeUploadExternal", **fields)

    async def file(self, id: str) -> Json:
        """Return Slack's file object of a complete upload."""
        return (await self._ask("files.info", file=id))["file"]

    def _may_receive(self, url: str) -> bool:
        """Return whether *url* is Slack's own for files; a stand-in has it on its own host."""
        try:
            parsed = URL(url)
            is_stand_ins = parsed.origin() == URL(self._client.base_url).origin() != URL(BASE_URL).origin()
        except ValueError:
            return False
        if parsed.scheme == "https" and parsed.host == FILES_HOST and parsed.explicit_port in (None, 443):
            return parsed.user is None
        return is_stand_ins

    # ---- people and views -----------------------------------------------------------------------

    async def user(self, id: str) -> Json:
        """Return Slack's user object."""
        return (await self._ask("users.info", user=id))["user"]

    async def usergroup_users(self, id: str) -> tuple[str, ...]:
        """Return the user ids of a user group."""
        return tuple((await self._ask("usergroups.users.list", usergroup=id))["users"])

    async def channel(self, id: str) -> Json:
        """Return Slack's conversation object."""
        return (await self._ask("conversations.info", channel=id))["channel"]

    async def open_dm(self, user: str) -> str:
        """Return the channel of the conversation with *user*."""
        return (await self._ask("conversations.open", users=user))["channel"]["id"]

    async def views_open(self, trigger_id: str, view: Json) -> str:
        """Show a modal and return its view id; a trigger serves once, within three seconds."""
        return (await self._ask("views.open", trigger_id=trigger_id, view=view))["view"]["id"]

    async def _ask(self, method: str, **fields: Any) -> dict[str, Any]:
        """Call *method*, without fields that are None. Errors are raised outside of `except`, with nothing chained."""
        arguments = {name: value for name, value in fields.items() if value is not None}
        failure: SlackFailure
        try:
            if method in _READS:
                response = await self._client.api_call(method, http_verb="GET", params=arguments)
            elif method in _FORMS:
                response = await self._client.api_call(method, params=arguments)
            else:
                response = await self._client.api_call(method, json=arguments)
            return response.data
        except SlackApiError as error:
            failure = classify(method, error)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            failure = unsent(method, error) or Uncertain(method, type(error).__name__)
        except (ValueError, LookupError, AttributeError):  # the SDK reading an answer that is not Slack's
            failure = Uncertain(method, "the answer is not Slack's")
        raise failure


def _replies(body: Json) -> Replies:
    metadata: Json = body.get("response_metadata") or {}
    return Replies(tuple(body.get("messages") or ()), metadata.get("next_cursor") or None)

"""The client of one MCP server: its session, a call and its result, and what failed of it."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar, cast

import httpx2
import mcp_types as wire
import msgspec
import structlog
from mcp import Client
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.subscriptions import listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from agent_core.agent.strategy import UNKNOWN
from agent_core.clock import Clock, within
from agent_core.listings import strings_of
from agent_core.mcp.http_client import check_headers
from agent_core.mcp.listing import described, listed, readable_lists, relist
from agent_core.mcp.port import McpUnavailable, changed_outcome, masked
from agent_core.mcp.questions import (
    CURRENT,
    MAX_HELD_SECONDS,
    AskedSoFar,
    CallMark,
    HeldCall,
    HeldCalls,
    LiveQuestions,
    Progress,
    Unanswerable,
    asked_by,
    taken_up,
)
from agent_core.mcp.stdio import ChildCarrier, HttpCarrier
from agent_core.messages import File, Part, Text, visible
from agent_core.net.targets import FetchRefused
from agent_core.secrets import scrubbed
from agent_core.servers import McpListing, McpServer, remedy_of, uses_login
from agent_core.tools.base import CallContext, Done, Outcome, ToolError

_MAX_TEXT = 2_000
_STATUSES = {
    401: "refuses the credentials (HTTP 401); look at its `headers` or `oauth`",
    403: "does not allow this (HTTP 403); its credentials lack a permission",
    404: "has no MCP endpoint at this URL (HTTP 404); look at its `url`",
    405: "has no MCP endpoint at this URL (HTTP 405); look at its `url`",
    429: "has had too many requests (HTTP 429); try again later",
}
_UNAUTHORIZED = 401
_CREDENTIALS = (401, 403)
_NOT_SENT = (
    McpUnavailable,
    FetchRefused,
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.LocalProtocolError,
)
_SERVER_FAULT = 500
_BEFORE_WORK = frozenset({401, 403, 405, 406, 413, 415, 429})
"""Statuses by which a request is refused before anything is done for it, by whatever gateway."""
_LOST = ("Connection closed", "SSE stream ended", "SSE stream failed")
_LATE = re.compile(r"Request '[^']*' timed out")
NOT_RUN = frozenset({wire.UNSUPPORTED_PROTOCOL_VERSION, wire.METHOD_NOT_FOUND, wire.INVALID_REQUEST})
"""Errors by which a server says that it did not understand the request; tools may end with them as well."""
_UNREADABLE = ("Unexpected content type: ", "Failed to parse ", "Redirect to ", "server answered a request with 202")


def leaf(error: BaseException) -> BaseException:
    """Return the first error in the groups that task groups make."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def may_have_run(error: BaseException, mark: CallMark) -> bool:
    """Return whether a call that failed so may have done on the server what it was to do."""
    error = leaf(error)
    if not mark.sent or isinstance(mark.failure, _NOT_SENT):
        return False
    if mark.failure is not None or (mark.status or 0) >= _SERVER_FAULT:
        return True
    if is_lost(error) or is_late(error) or is_unreadable(error):
        return True
    return not (is_own(error) or mark.status in _BEFORE_WORK)


def is_lost(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as the connection or the stream ended; servers use its code for theirs."""
    return isinstance(error, MCPError) and error.code == wire.CONNECTION_CLOSED and error.message.startswith(_LOST)


def is_unreadable(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as what came is no answer: another type, a redirect, broken JSON."""
    return (
        isinstance(error, MCPError)
        and error.code in (wire.PARSE_ERROR, wire.INVALID_REQUEST)
        and error.message.startswith(_UNREADABLE)
    )


def is_late(error: BaseException) -> bool:
    """Return whether the SDK made *error*, as no answer came in time; servers use its code for their own."""
    return (
        isinstance(error, MCPError)
        and error.code == wire.REQUEST_TIMEOUT
        and _LATE.fullmatch(error.message) is not None
    )


def failure(server: McpServer, error: BaseException, mark: CallMark, words: str = "") -> McpUnavailable:
    """Return *error* as it is shown; *words* are the last that a child process wrote."""
    error = leaf(error)
    if isinstance(error, McpUnavailable):
        return McpUnavailable(masked(server, str(error))[:_MAX_TEXT], error.status)
    said = masked(server, visible(f"The MCP server `{server.name}` {_said(server, error, mark, words)}."))
    return McpUnavailable(said[:_MAX_TEXT], mark.status)


def _said(server: McpServer, error: BaseException, mark: CallMark, words: str) -> str:
    refusal = mark.failure
    if isinstance(refusal, McpUnavailable):
        return str(refusal).removesuffix(".")
    if isinstance(refusal, FetchRefused):
        return f"may not be reached: {str(refusal).removesuffix('.')}"
    if refusal is not None:
        return f"cannot be reached ({type(refusal).__name__}: {refusal})"
    if mark.remedy is not None:
        return f"does not allow this (HTTP 403): its credentials lack a scope; {mark.remedy}"
    if mark.status == _UNAUTHORIZED and uses_login(server):
        return f"refuses the credentials (HTTP 401); {remedy_of(server.name)}, or look at its `headers` or `oauth`"
    if mark.status is not None and (mark.status in _CREDENTIALS or not is_own(error)):
        known = _STATUSES.get(mark.status)
        return known or f"answered with HTTP {mark.status}" + (
            ", its own fault" if mark.status >= _SERVER_FAULT else ""
        )
    last = f"; its last words: {words}" if words else ""
    match error:
        case _ if isinstance(error, TimeoutError) or is_late(error):
            return f"did not answer in time{last}"
        case MCPError():
            return _answered(error, last)
        case FileNotFoundError() | PermissionError() if server.transport == "stdio":
            return f"cannot be started: {error.strerror} (`{server.command}`)"
        case ValidationError():
            places = ", ".join(".".join(map(str, each["loc"])) for each in error.errors()[:3])
            return f"answered what the protocol does not allow ({places or error.title})"
        case _:
            return f"cannot be used ({type(error).__name__}: {error}){last}"


def _answered(error: MCPError, last: str) -> str:
    if is_lost(error):
        return f"ended the connection before it answered ({error.message}){last}"
    if is_unreadable(error):
        return f"gave an answer that cannot be read ({error.message.splitlines()[0]})"
    return f"answered with the error {error.code}: {error.message}"


def is_own(error: BaseException) -> bool:
    """Return whether *error* is a JSON-RPC error that the server itself worded, at whatever HTTP status."""
    return isinstance(error, MCPError) and error.message not in {
        "Server returned an error response",
        "Session terminated",
        "Not Found",
    }


_OPENING = 30.0
"""Seconds within which a connection opens; a server that is silent to the first question takes ten of them."""
_CLOSING = 10.0


class ClientOwner:
    """Opens a client at once, and keeps it until it is retired, unused for *idle* seconds, or dead.

    *lost* is set once it is of no more use.
    """

    def __init__(
        self, open_client: Callable[[], AbstractAsyncContextManager[Client]], clock: Clock, idle: float
    ) -> None:
        self._open, self._clock, self._idle = open_client, clock, idle
        self.mark, self.lost = CallMark(), asyncio.Event()
        self._stop, self._users, self._used = asyncio.Event(), 0, clock.now()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    @property
    def usable(self) -> bool:
        """Return whether new calls may use it, also while it is being opened."""
        return not self.lost.is_set() and not self._stop.is_set()

    @property
    def open(self) -> bool:
        """Return whether it is usable and open."""
        return self.usable and self._opened.done()

    @property
    def finished(self) -> bool:
        """Return whether nothing of it is left."""
        return self._task.done()

    async def client(self) -> Client:
        """Return the client once it is open; raises what went wrong."""
        return await asyncio.shield(self._opened)

    @asynccontextmanager
    async def using(self) -> AsyncGenerator[Client]:
        """Give the client, which stays open meanwhile unless the server ends it."""
        client = await self.client()
        self._users += 1
        try:
            yield client
        finally:
            self._users -= 1
            self._used = self._clock.now()
            if self.lost.is_set() and not self._users:
                self._stop.set()

    def retire(self) -> None:
        """Give it to no new call, and close it when the last one has ended."""
        self.lost.set()
        if not self._users:
            self._stop.set()

    async def close(self) -> None:
        """Close the client; return when nothing of it is left."""
        self._stop.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.wait((self._task,), timeout=_CLOSING)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        self._fail(
            TimeoutError("closed before it was opened")
        )  # a task that was cancelled before it began says nothing

    async def _run(self) -> None:
        CURRENT.set(self.mark)  # the task began with the context of the call that needed it first
        idle = asyncio.create_task(self._retire_idle())
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(_OPENING):
                    client = await stack.enter_async_context(self._open())
                self._used = self._clock.now()
                if not self._opened.done():
                    self._opened.set_result(client)
                await self._stop.wait()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - raised where it is waited for
            self._fail(leaf(error))
        except asyncio.CancelledError:
            self._fail(TimeoutError("closed while it was being opened"))
            raise
        finally:
            self.lost.set()
            idle.cancel()
            with suppress(asyncio.CancelledError):
                await idle

    def _fail(self, error: BaseException) -> None:
        if not self._opened.done():
            self._opened.set_exception(error if isinstance(error, Exception) else ConnectionError(str(error)))
            self._opened.exception()  # no one may be waiting for it

    async def _retire_idle(self) -> None:
        while not self.lost.is_set():
            await self._clock.sleep(self._idle)
            if self._opened.done() and not self._users and self._clock.now() - self._used >= self._idle * 1000:
                self.retire()


MAX_BYTES = 5_000_000
"""Bytes of one image or recording."""
MAX_FILES = 10
_SHORTEST_MAGIC = 12
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (b"GIF87a", "image/gif", "gif"),
    (b"GIF89a", "image/gif", "gif"),
    (b"%PDF-", "application/pdf", "pdf"),
    (b"OggS", "audio/ogg", "ogg"),
    (b"ID3", "audio/mpeg", "mp3"),
    (b"\xff\xfb", "audio/mpeg", "mp3"),
)
_RIFF = {b"WEBP": ("image/webp", "webp"), b"WAVE": ("audio/wav", "wav")}


async def outcome_of(
    result: wire.CallToolResult, server: McpServer, tool: str, context: CallContext, notes: Sequence[str]
) -> Outcome:
    """Return *result* as an outcome; *notes* are sentences of ours, which come last."""
    reader = _ResultReader(tool, context)
    for block in result.content:
        await reader.read(block)
    said, data = reader.texts, None
    if "structured_content" in result.model_fields_set:  # in a thread: of a large one it may take a tenth of a second
        said, data = await asyncio.to_thread(_with_structured, reader, result.structured_content)
    texts = [text for text in (*said, *(f"[{note}]" for note in notes)) if text]
    if result.is_error:
        return ToolError("\n\n".join(texts) or f"The MCP server `{server.name}` says only that `{tool}` failed.")
    return Done((*(Text(text) for text in texts), *reader.files), data=data)


def _with_structured(reader: "_ResultReader", found: Any) -> tuple[list[str], str | None]:
    """Return the texts of a result with its structured content *found*, and that as JSON if it is none of them.

    What the texts say already is not there twice. A text stays that says all of it; several, as the SDKs give for a
    list, become the structured content.
    """
    if reader.spoken and not found:
        return reader.texts, None
    structured = json.dumps(found, ensure_ascii=False)
    if not reader.spoken:
        return [*reader.texts, structured], structured
    spoken = [reader.texts[place] for place in reader.spoken]
    value = _unwrapped(found)
    if len(spoken) == 1 and (_is_json_of(spoken[0], found) or _is_json_of(spoken[0], value)):
        return reader.texts, None
    if spoken == [value]:
        return reader.texts, structured
    values = cast("list[Any]", value) if isinstance(value, list) else []
    if len(values) == len(spoken) and all(map(_says, spoken, values)):
        first, *more = reader.spoken
        kept = {place: text for place, text in enumerate(reader.texts) if place not in more}
        return list({**kept, first: structured}.values()), structured
    return [*reader.texts, structured], structured


def _unwrapped(structured: Any) -> Any:
    """Return what a tool gave that the SDKs wrap in an object, as structured content must be one."""
    if not isinstance(structured, dict):
        return structured
    found = cast("dict[str, Any]", structured)
    return found["result"] if found.keys() == {"result"} else found


def _says(text: str, value: Any) -> bool:
    return text == value or _is_json_of(text, value)


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return msgspec.json.decode(text) == value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


class _ResultReader:
    """Reads the blocks of a result into texts and files."""

    def __init__(self, tool: str, context: CallContext) -> None:
        self._tool, self._context = tool, context
        self.texts: list[str] = []
        self.files: list[Part] = []
        self.spoken: list[int] = []
        """Where in the texts what the server itself says stands, and not a file's name or a link."""

    async def read(self, block: wire.ContentBlock) -> None:
        match block:
            case wire.TextContent(text=text):
                if text:
                    self.spoken.append(len(self.texts))
                self.texts.append(text)
            case wire.ImageContent() | wire.AudioContent():
                await self._file(block.data, block.mime_type, "")
            case wire.ResourceLink():
                title, about = block.title or block.name, f": {block.description}" if block.description else ""
                self.texts.append(f"[{title}]({block.uri}){about}")
            case wire.EmbeddedResource():
                await self._resource(block.resource)

    async def _resource(self, resource: wire.TextResourceContents | wire.BlobResourceContents) -> None:
        if isinstance(resource, wire.TextResourceContents):
            self.texts.append(f"{resource.uri}\n{resource.text}")
        else:
            await self._file(resource.blob, resource.mime_type or "", f" of {resource.uri}")

    async def _file(self, data: str, mime: str, source: str) -> None:
        """Keep a file, and say in the text what there is, or why it was not kept."""
        what = f"a file{source} ({mime or 'of no type'})"
        if len(data) > MAX_BYTES * 4 // 3 + 4:
            self.texts.append(f"[Left out: {what}, larger than {MAX_BYTES // 1_000_000} MB.]")
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[Left out: {what}, not in base64.]")
            return
        found = sniffed(content)
        if found is None:
            self.texts.append(f"[Left out: {what}, {len(content)} bytes that are no image, recording or PDF.]")
        elif self._context.keep_file is None or len(self.files) >= MAX_FILES:
            self.texts.append(f"[Left out: {what}, {len(content)} bytes; it cannot be kept here.]")
        else:
            known, ending = found
            name = f"{self._tool.replace('/', '-')}-{len(self.files) + 1}.{ending}"
            kept: File = await self._context.keep_file(content, known, name)
            self.files.append(kept)
            self.texts.append(f"[File `{name}`{source}: {known}, {len(content)} bytes.]")


def sniffed(content: bytes) -> tuple[str, str] | None:
    """Return type and ending of an image, a recording or a PDF by its first bytes, whatever its sender says."""
    if len(content) < _SHORTEST_MAGIC:
        return None
    if content.startswith(b"RIFF"):
        return _RIFF.get(content[8:12])
    return next(((mime, ending) for magic, mime, ending in _MAGIC if content.startswith(magic)), None)


_EVERY = 100
"""Milliseconds between two lines: a server may report as often as it likes."""
_PROGRESS_MAX_TEXT = 300


def shown_by(server: McpServer, context: CallContext) -> ProgressFnT:
    """Return what shows the reports of *server* as `3 of 10: text`."""
    last = 0

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = context.clock.now()
        if last and now - last < _EVERY and progress != total:
            return
        last = now
        count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        said = masked(server, visible(message or "")).strip()[:_PROGRESS_MAX_TEXT]
        context.progress(f"{count}: {said}" if said else count)

    return report


_ROUNDS = 5
"""How often one call may ask what is declined without a person."""
SPARE = 5.0
"""Seconds beyond a call's own timeout, which its caller counts, after which the client gives up too."""
_ANSWERS: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)


class ToolUse:
    """One call of a tool, made with any session."""

    def __init__(
        self,
        server: McpServer,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        mark: CallMark,
        *,
        repeatable: bool,
    ) -> None:
        self._server, self._tool, self._arguments = server, tool, arguments
        self._context, self._mark, self._repeatable = context, mark, repeatable
        self.questions = mark.questions = LiveQuestions(taken_up(context.answer), context.clock, repeatable=repeatable)

    async def __call__(self, session: ClientSession) -> Outcome:
        asked = taken_up(self._context.answer)
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._modern(session, asked)
        return await self._legacy(session, asked)

    async def _modern(self, session: ClientSession, asked: AskedSoFar) -> Outcome:
        for _ in range(_ROUNDS):
            if (following := asked.next()) is not None:
                return following.elicitation(self._server.name)
            result = await self._send(session, asked)
            if isinstance(result, wire.CallToolResult):
                return await self._outcome(result, asked.notes)
            asked = asked_by(result, asked)
        raise Unanswerable(f"it asks again and again what is declined ({'; '.join(asked.notes)})")

    async def _legacy(self, session: ClientSession, asked: AskedSoFar) -> Outcome:
        questions = self.questions
        if not self._repeatable:
            result = await self._send(session, asked, MAX_HELD_SECONDS)
            assert isinstance(result, wire.CallToolResult), "A result of the legacy era asks nothing."
            return await self._outcome(result, questions.notes)
        work = asyncio.ensure_future(self._send(session, asked))
        try:
            await asyncio.wait((work, questions.open), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return questions.asked().elicitation(self._server.name)
            result = work.result()
            assert isinstance(result, wire.CallToolResult), "A result of the legacy era asks nothing."
            return await self._outcome(result, questions.notes)
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work
            questions.over.set()

    async def _send(
        self, session: ClientSession, asked: AskedSoFar, held: float = 0.0
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        request = wire.CallToolRequest(
            params=wire.CallToolRequestParams(
                name=self._tool,
                arguments=self._arguments,
                input_responses=asked.responses or None,
                request_state=asked.request_state,
            )
        )
        seconds, progress = self._server.timeout_s + SPARE + held, shown_by(self._server, self._context)
        self._mark.sent = True
        try:
            return await session.send_request(request, _ANSWERS, seconds, progress_callback=progress)
        except MCPError as error:
            # A write is made again only where HTTP said too that the request was refused for its headers.
            if error.code != wire.HEADER_MISMATCH or (self._mark.status is None and not self._repeatable):
                raise
        await relist(session, self._tool)
        return await session.send_request(request, _ANSWERS, seconds, progress_callback=progress)

    async def _outcome(self, result: wire.CallToolResult, notes: Sequence[str]) -> Outcome:
        return await outcome_of(result, self._server, self._tool, self._context, notes)


DISCOVERY = 10.0
"""Seconds for a whole discovery over HTTP."""
CHILD_DISCOVERY = 30.0
"""Seconds for one of a child process: it starts first, and may be silent for ten seconds to what it does not know."""
_GONE = 404
_STEADY = 60_000
_MAX_PAUSE = 300.0
_LISTEN_CHECK = 15.0
_INFO = wire.Implementation(name="parley", version="1")
R = TypeVar("R")
_log = structlog.get_logger("parley.mcp")


Carrier = ChildCarrier | HttpCarrier
"""What carries messages to one server, over HTTP or to a child process."""


class Link:
    """The connection to *server*, for any task; opened on demand and again after it was lost."""

    def __init__(self, server: McpServer, carrier: Carrier, clock: Clock, idle: float) -> None:
        self.server, self._carrier, self._clock, self._idle = server, carrier, clock, idle
        self._owner: ClientOwner | None = None
        self._old: set[ClientOwner] = set()
        self._modern: wire.DiscoverResult | None = None
        self._opening = asyncio.Lock()
        self._calls: set[CallMark] = set()
        self._changed: Callable[[], None] | None = None
        self._closed = False
        self._held = HeldCalls(server.name)

    async def discover(self) -> McpListing:
        """Return what the server lists; raises `McpUnavailable`, within ten seconds, or thirty of a child process."""
        mark = CallMark()
        CURRENT.set(mark)
        try:
            async with within(self._clock, DISCOVERY if self._carrier.per_call else CHILD_DISCOVERY):
                listing = await self._again(mark, self._listing, fresh=True)
            if not self._carrier.tokens:
                return listing
            return msgspec.convert(strings_of(msgspec.to_builtins(listing), self._plain), McpListing)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's server does is one kind of failure
            raise self._failure(error, mark) from None

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        context: CallContext,
        headers: Mapping[str, str],
        *,
        repeatable: bool,
    ) -> Outcome:
        """Call a tool; what goes wrong is a `ToolError` that names the server."""
        seconds = self.server.timeout_s + SPARE
        try:
            if taken_up(context.answer).held:
                ended = await self._held.resumed(context.call, context.answer, context.progress, seconds)
            else:
                mark, progress = CallMark(headers=headers), Progress(context.progress, self._plain)
                CURRENT.set(mark)
                shown = replace(context, progress=progress)
                use = ToolUse(self.server, tool, arguments, shown, mark, repeatable=repeatable)
                work = self._ended(mark, use, repeatable=repeatable)
                if repeatable:  # it ends with its question
                    ended = await work
                else:
                    task = asyncio.create_task(work)
                    held = HeldCall(use.questions, task, progress, context.actor.id)
                    ended = await self._held.begun(context.call, held, seconds)
        except Unanswerable as error:
            return ToolError(f"The MCP server `{self.server.name}` cannot be answered: {error}.")
        if ended is None:
            late = failure(self.server, TimeoutError(), CallMark(), self._carrier.words)
            return ToolError(f"{late} {UNKNOWN}", unknown=True)
        return await asyncio.to_thread(changed_outcome, ended, self._plain) if self._carrier.tokens else ended

    async def _ended(self, mark: CallMark, use: ToolUse, *, repeatable: bool) -> Outcome:
        """Return how a call ends, or what it asks; errors are outcomes."""
        self._calls.add(mark)
        try:
            check_headers(self.server.name, mark.headers)
            return await self._again(mark, use, once=not repeatable)
        except Unanswerable as error:
            return ToolError(f"The MCP server `{self.server.name}` cannot be answered: {error}.")
        except Exception as error:  # noqa: BLE001 - as above
            text = str(self._failure(error, mark))
            if repeatable or not may_have_run(error, mark):
                return ToolError(text)
            return ToolError(f"{text} {UNKNOWN}", unknown=True)
        finally:
            self._calls.discard(mark)

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call *changed* at each news of the list, and whenever news may have been missed; return if there is none.

        It ends with `close`.
        """
        self._changed, pause, again = changed, 1.0, False
        while not self._closed:
            began, mark = self._clock.now(), CallMark()
            CURRENT.set(mark)
            try:
                if not await self._news(changed, again=again):
                    return
            except Exception as error:  # noqa: BLE001 - as above
                _log.info("mcp.news_lost", server=self.server.name, error=str(self._failure(error, mark)))
            again = True
            if self._carrier.per_call:
                self._modern = None  # the server may come back as another one
            pause = 1.0 if self._clock.now() - began >= _STEADY else pause
            await self._clock.sleep(pause)
            pause = min(_MAX_PAUSE, 2 * pause)

    async def close(self) -> None:
        """Close what is open, for good; nothing of it is left."""
        self._closed = True
        await self._held.close()
        self._retire()
        await asyncio.gather(*(owner.close() for owner in self._old))
        self._old.clear()
        await self._carrier.close()

    # Sessions.

    async def _again(
        self,
        mark: CallMark,
        work: Callable[[ClientSession], Awaitable[R]],
        *,
        fresh: bool = False,
        once: bool = False,
    ) -> R:
        """Return what *work* does with a session; once more with a new one where the server had forgotten the first.

        With *fresh* an era that needs no session is found again. A call that may run *once* alone is not made again
        for an error, which the tool may have had after it ran: a server that forgot a session says so at HTTP 404.
        """
        if fresh and self._carrier.per_call:
            self._modern = None
        had_session = self._modern is None and self._owner is not None
        had_one = self._modern is not None or had_session
        try:
            return await self._with_session(work)
        except Exception as error:
            if not (had_one and self._is_forgotten(leaf(error), mark)):
                raise
            self._retire()
            if once and mark.sent and not (had_session and mark.status == _GONE and is_own(leaf(error))):
                raise
        mark.sent, mark.status, mark.remedy, mark.failure = False, None, None, None
        return await self._with_session(work)

    async def _with_session(self, work: Callable[[ClientSession], Awaitable[R]]) -> R:
        """Return what *work* does; its errors come out as they are, and not in groups."""
        async with self._session() as session:
            try:
                return await work(session)
            except Exception as error:  # noqa: BLE001 - raised below, outside the client's task group
                failed = error
        raise failed

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[ClientSession]:
        owner = await self._prepared()
        if owner is None:
            async with self._client("modern") as client:
                yield client.session
            return
        async with owner.using() as client:
            try:
                yield client.session
            except MCPError as error:
                if is_lost(error) and not self._carrier.per_call:
                    owner.retire()
                raise

    async def _prepared(self) -> ClientOwner | None:
        """Return the owner of the open client, opened if need be; None when each call has its own."""
        if self._modern is not None:
            return None
        if self._owner is not None and self._owner.open:
            return self._owner
        async with self._opening:
            if self._modern is None and (self._owner is None or not self._owner.open):
                await self._open()
        return None if self._modern is not None else self._owner

    async def _open(self) -> None:
        """Open a client and find out which era the server speaks.

        A child process goes on starting when what needed it first gives up, for what needs it next.
        """
        owner = self._owner if self._owner is not None and self._owner.usable else await self._begun()
        try:
            client = await owner.client()
        except Exception:
            mark = CURRENT.get()
            if mark is not None:
                mark.status, mark.remedy, mark.failure = owner.mark.status, owner.mark.remedy, owner.mark.failure
            self._retire()
            self._old.discard(owner)
            raise
        except BaseException:
            if self._carrier.per_call:
                self._retire()
            raise
        if self._carrier.per_call and client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._owner, self._modern = None, client.session.discover_result
            await owner.close()
            self._old.discard(owner)

    async def _begun(self) -> ClientOwner:
        """Begin to open a client."""
        self._retire()
        await self._carrier.ready()
        if self._closed:
            raise McpUnavailable(f"The connection to the MCP server `{self.server.name}` was closed.")
        owner = ClientOwner(lambda: self._client("auto"), self._clock, self._idle)
        self._carrier.opens(owner.retire)
        self._old.add(owner)
        self._owner = owner
        return owner

    def _retire(self) -> None:
        """Use what is open for no new call."""
        self._modern = None
        if self._owner is not None:
            self._owner.retire()
            self._owner = None
        self._old = {each for each in self._old if not each.finished}

    def _client(self, mode: str) -> Client:
        modern = mode == "modern"
        return Client(
            readable_lists(self._carrier.streams()),
            mode=MODERN_PROTOCOL_VERSIONS[-1] if modern else mode,
            prior_discover=self._modern if modern else None,
            cache=None,
            client_info=_INFO,
            elicitation_callback=self._asked,
            message_handler=self._notified_in_call if modern else self._notified,
        )

    def _is_forgotten(self, error: BaseException, mark: CallMark) -> bool:
        """Return whether the server seems not to know the session or the era that it had before."""
        if not isinstance(error, MCPError) or is_unreadable(error):
            return False
        return mark.status == _GONE or error.code in NOT_RUN

    def _failure(self, error: BaseException, mark: CallMark) -> McpUnavailable:
        found = failure(self.server, error, mark, self._carrier.words)
        return McpUnavailable(self._plain(str(found)), found.status)

    def _plain(self, text: str) -> str:
        """Return *text* of the server without access tokens."""
        return reduce(lambda said, token: scrubbed(said, {"access token": token}), self._carrier.tokens, text)

    # What servers say by themselves.

    async def _notified(self, message: IncomingMessage) -> None:
        if isinstance(message, wire.ToolListChangedNotification) and self._changed is not None:
            self._changed()

    async def _notified_in_call(self, message: IncomingMessage) -> None:
        """Take news from the stream of a call, where servers without a session may send it; a listing is no call."""
        if CURRENT.get() in self._calls:
            await self._notified(message)

    async def _asked(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK passes it
        params: wire.ElicitRequestParams,
    ) -> wire.ElicitResult | wire.ErrorData:
        """Answer a question of the legacy era; it belongs to the call on whose stream it came, or to the only one."""
        mark = CURRENT.get()
        if mark is None or mark.questions is None:
            mark = next(iter(self._calls)) if len(self._calls) == 1 else None
        if mark is not None and mark.questions is not None:
            return await mark.questions.answer(params)
        for each in self._calls:
            if each.questions is not None:
                each.questions.declined(
                    "The server asked the person something while several calls ran; that was declined, since it did "
                    "not say which call it is about."
                )
        return wire.ElicitResult(action="decline")

    async def _news(self, changed: Callable[[], None], *, again: bool) -> bool:
        """Follow the news until they end; return False if the server has none."""
        owner = await self._prepared()
        if owner is not None:
            async with owner.using() as client:
                if not _has_news(client.session):
                    return False
                if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                    if again:
                        changed()
                    await self._until_deaf(owner)
                    return True
        return await self._with_session(lambda session: self._listened(session, changed, again=again))

    async def _until_deaf(self, owner: ClientOwner) -> None:
        """Return when *owner* is lost, or gets no news any more; then it is retired."""
        deaf = False
        while not owner.lost.is_set():
            with suppress(TimeoutError):
                async with within(self._clock, _LISTEN_CHECK):
                    await owner.lost.wait()
            if deaf and self._carrier.deaf:
                owner.retire()
            deaf = self._carrier.deaf

    async def _listened(self, session: ClientSession, changed: Callable[[], None], *, again: bool) -> bool:
        if not _has_news(session):
            return False
        try:
            async with listen(session, tools_list_changed=True) as news:
                if again:
                    changed()
                async for _ in news:
                    changed()
        except MCPError as error:
            if error.code == wire.METHOD_NOT_FOUND:
                return False
            raise
        return True

    async def _listing(self, session: ClientSession) -> McpListing:
        tools, left_out = await listed(session, self.server)
        found = described(session, self.server, tools, session.protocol_version or "")
        return msgspec.structs.replace(found, left_out=left_out)


def _has_news(session: ClientSession) -> bool:
    capabilities = session.server_capabilities
    return bool(capabilities and capabilities.tools and capabilities.tools.list_changed)

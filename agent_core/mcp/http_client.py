"""The HTTP client of one MCP server: guarded, bounded, and with a failed request staying that request's own."""

import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Protocol

import httpx2

from agent_core.mcp.oauth import error_in, scope_in
from agent_core.mcp.port import McpUnavailable
from agent_core.mcp.questions import CURRENT
from agent_core.net.sse import legible
from agent_core.net.targets import FetchFailed
from agent_core.servers import McpServer

MAX_BODY = 4_000_000
"""Bytes of one answer, unpacked, and of one event of a stream."""
_UNAUTHORIZED, _FORBIDDEN, _UNREACHED = 401, 403, 502
_REMEMBERED = 4
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LENGTHS = (b"content-encoding", b"content-length", b"transfer-encoding")
_CALLS = httpx2.Timeout(connect=10.0, read=None, write=30.0, pool=10.0)
"""A stream of news may be silent for hours; calls have limits of their own."""
_FAREWELL = {"connect": 2.0, "read": 2.0, "write": 2.0, "pool": 2.0}

# It logs each URL, which may hold a secret; the SDK logs what servers send, with tracebacks.
for _name, _level in (("httpx2", logging.WARNING), ("mcp", logging.CRITICAL), ("client", logging.CRITICAL)):
    logging.getLogger(_name).setLevel(_level)


class Tokens(Protocol):
    """Gives the access tokens of a server; they raise `McpUnavailable`."""

    async def token(self) -> str | None:
        """Return a token that has not expired; None when a request is sent without one."""
        ...

    async def renewed(self, refused: str) -> str | None:
        """Return another token than *refused*, which the server did not take; None when there is none."""
        ...

    async def lacking(self, scope: str | None) -> str:
        """Note that the server refused a request that needs *scope*; return what an operator is to do."""
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...


class Soft(httpx2.AsyncBaseTransport):
    """Passes requests to *inner*, which it does not close; a request that fails gets an answer that says so.

    The SDK ends the whole client, and all its calls, when the transport raises. *news* is called when the stream
    of an answer to a GET begins (True) and ends (False): there a server of the legacy era says what is new.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, news: Callable[[bool], None]) -> None:
        self._inner, self._news = inner, news

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            request.extensions = {**request.extensions, "timeout": _FAREWELL}
        mark = CURRENT.get()
        try:
            answer = await self._bounded(await self._inner.handle_async_request(request))
        except (httpx2.TransportError, FetchFailed, OSError) as error:
            if mark is not None:
                mark.failure = error
            answer = httpx2.Response(_UNREACHED, json=_error("no answer"))
        else:
            if mark is not None and answer.status_code >= 400:  # noqa: PLR2004 - the errors of HTTP begin there
                mark.status = answer.status_code
        if request.method == "GET" and answer.is_success:
            return self._watched(answer)
        return answer

    def _watched(self, answer: httpx2.Response) -> httpx2.Response:
        self._news(True)
        return _with(answer, _Watched(_stream(answer), lambda: self._news(False)))

    async def _bounded(self, answer: httpx2.Response) -> httpx2.Response:
        """Return *answer* whole, unless it is a stream of events, whose reader bounds each; raises `ReadError`."""
        if answer.headers.get("content-type", "").lower().startswith("text/event-stream"):
            return answer if "content-encoding" in answer.headers else _with(answer, _Legible(_stream(answer)))
        body = bytearray()
        async with aclosing(answer):
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MAX_BODY:
                    raise httpx2.ReadError(f"the answer is larger than {MAX_BODY // 1_000_000} MB")
        head = [(key, value) for key, value in answer.headers.raw if key.lower() not in _LENGTHS]
        return httpx2.Response(answer.status_code, headers=head, content=legible(bytes(body)))


class _Watched(httpx2.AsyncByteStream):
    """A stream that says when it has ended."""

    def __init__(self, inner: httpx2.AsyncByteStream, ended: Callable[[], None]) -> None:
        self._inner, self._ended, self._closed = inner, ended, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            yield part

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._ended()
        await self._inner.aclose()


class _Legible(httpx2.AsyncByteStream):
    """A stream of events without halves of characters, line by line; a line that is too long passes as it comes."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for part in self._inner:
            held += part
            end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1 if len(held) <= MAX_BODY else len(held)
            if end:
                yield legible(bytes(held[:end]))
                del held[:end]
        yield legible(bytes(held))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _stream(answer: httpx2.Response) -> httpx2.AsyncByteStream:
    assert isinstance(answer.stream, httpx2.AsyncByteStream), "The client is asynchronous."
    return answer.stream


def _with(answer: httpx2.Response, stream: httpx2.AsyncByteStream) -> httpx2.Response:
    return httpx2.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)


class ServerAuth(httpx2.Auth):
    """Adds the headers of the call that a request belongs to and, with *tokens*, the access token.

    *sent* are the newest tokens that went to the server: it may repeat one in what it says.
    """

    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens
        self.sent: deque[str] = deque(maxlen=_REMEMBERED)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        mark = CURRENT.get()
        for name, value in mark.headers.items() if mark is not None else ():
            request.headers[name] = value
        if self._tokens is None:
            yield request
            return
        token = await self._tokens.token()
        if token is not None:
            request.headers["Authorization"] = f"Bearer {self._noted(token)}"
        answer = yield request
        if token is not None and answer.status_code == _UNAUTHORIZED:  # it has been revoked, or is of before
            if (other := await self._tokens.renewed(token)) is None:
                return
            request.headers["Authorization"] = f"Bearer {self._noted(other)}"
            answer = yield request
        challenge = answer.headers.get("www-authenticate", "") if answer.status_code == _FORBIDDEN else ""
        if error_in(challenge) == "insufficient_scope" and mark is not None:
            mark.remedy = await self._tokens.lacking(scope_in(challenge))

    def _noted(self, token: str) -> str:
        if token not in self.sent:
            self.sent.append(token)
        return token


def http_client(
    server: McpServer, transport: httpx2.AsyncBaseTransport, auth: ServerAuth, news: Callable[[bool], None]
) -> httpx2.AsyncClient:
    """Return the client for *server*; raises `McpUnavailable` for headers that cannot be sent."""
    check_headers(server.name, server.headers)
    return httpx2.AsyncClient(
        transport=Soft(transport, news),
        headers=server.headers,
        auth=auth,
        timeout=_CALLS,
        trust_env=False,
        follow_redirects=False,
    )


def check_headers(server: str, headers: Mapping[str, str]) -> None:
    """Raise `McpUnavailable` when a header cannot be sent; its value is not named."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise McpUnavailable(f"The header `{name[:50]}` of the MCP server `{server}` has characters that none may.")


def _error(message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}

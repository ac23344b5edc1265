"""Guarded HTTP: connections to checked addresses only, and exchanges that follow the redirects that they may."""

import asyncio
import os
import re
import socket
import ssl
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from agent_core.clock import Clock, within
from agent_core.net.fetch import Bounds, Fetched, header_fault
from agent_core.net.targets import (
    PORTS,
    FetchFailed,
    FetchRefused,
    FetchTimedOut,
    FetchTooLarge,
    FetchUnreachable,
    Resolve,
    Target,
    TargetGuard,
    check_text,
)


def trusted() -> ssl.SSLContext:
    """Return whom clients trust, as the environment says now; all that say the same share it, so it is not changed."""
    return _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _trusted(*_environment: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()


_CONNECTIONS = 500
_IDLE_CONNECTIONS = 20
_IDLE_SECONDS = 5.0
_ATTEMPTS = 4
"""Addresses of one name that are tried, one after the other."""
_ATTEMPT_SECONDS = 3.0
_LOOKUPS = 32


class SystemResolver:
    """Asks the machine's own resolver, in threads of its own: a slow name server holds up no other lookup."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, "parley-lookup")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        addresses = await asyncio.get_running_loop().run_in_executor(self._threads, look)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in addresses))

    def close(self) -> None:
        """Drop the lookups that have not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class CheckedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses that the guard lets through; what *dial* is given is never a name."""

    def __init__(self, guard: TargetGuard, resolve: Resolve, dial: httpcore2.AsyncNetworkBackend, clock: Clock) -> None:
        self._guard, self._resolve, self._dial, self._clock = guard, resolve, dial, clock

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        target = self._guard.target("http", host, port)
        addresses = await self._addresses(target)
        self._guard.admit(target, addresses)
        failed = "it has no address"
        for address in addresses[:_ATTEMPTS]:
            try:
                async with within(self._clock, _ATTEMPT_SECONDS):
                    stream = await self._dial.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout, TimeoutError) as error:
                failed = str(error) or "no connection in time"
            else:
                return await self._checked(target, address, stream)
        raise httpcore2.ConnectError(failed)

    async def _addresses(self, target: Target) -> Sequence[str]:
        if target.literal:
            return (target.host,)
        try:
            return await self._resolve(target.host, target.port)
        except (OSError, UnicodeError):
            raise httpcore2.ConnectError("its name is not known") from None

    async def _checked(
        self, target: Target, address: str, stream: httpcore2.AsyncNetworkStream
    ) -> httpcore2.AsyncNetworkStream:
        """Return *stream* unless it leads to this machine itself, at a public address that it has.

        A connection to an own address comes from that address: what listens there need not be open to others.
        """
        came_from = stream.get_extra_info("client_addr")
        if came_from and target not in self._guard.allow and ip_address(came_from[0]) == ip_address(address):
            await stream.aclose()
            raise self._guard.refusal(target, "local")
        return stream


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends what the guard lets through; every request is checked, also those of a client that follows redirects.

    Connections are kept for a few seconds and belong to a scheme, a name and a port; TLS, its certificates and the
    Host header go by the name. No proxy is used, whatever the environment says.
    """

    def __init__(
        self,
        guard: TargetGuard,
        clock: Clock,
        *,
        resolve: Resolve | None = None,
        dial: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._guard, self._resolver = guard, SystemResolver()
        outward: Any = dial or httpcore2.AnyIOBackend()
        backend = CheckedBackend(guard, resolve or self._resolver, outward, clock)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted(),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        if url.userinfo:
            raise FetchRefused("The address holds a name or password before an @; send it in a header.")
        self._guard.target(url.scheme, url.raw_host.decode(), url.port)
        outgoing = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,  # pyright: ignore[reportArgumentType] - httpx2's own transport does the same
            extensions=request.extensions,
        )
        with _raised_as_httpx2():
            answer = await self._pool.handle_async_request(outgoing)
        fields: dict[str, Any] = {"extensions": answer.extensions}  # pyright: ignore[reportUnknownMemberType]
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer.stream), **fields)

    async def aclose(self) -> None:
        await self._pool.aclose()
        self._resolver.close()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer as it comes."""

    def __init__(self, stream: Any) -> None:
        self._stream: AsyncIterable[bytes] = stream
        self._close: Callable[[], Awaitable[None]] = stream.aclose

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Any = aiter(self._stream)
        with _raised_as_httpx2():
            async with aclosing(pieces):
                async for piece in pieces:
                    yield piece

    async def aclose(self) -> None:
        await self._close()


@contextmanager
def _raised_as_httpx2() -> Generator[None]:
    """Raise what httpcore2 raises as the error of that name of httpx2: clients look for those."""
    try:
        yield
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
        raise getattr(httpx2, type(error).__name__)(str(error)) from error
    except OSError as error:  # TLS that breaks off within the answer
        raise httpx2.ReadError(str(error)) from error


_REDIRECTS = (301, 302, 303, 307, 308)
_METHOD = re.compile("(?!CONNECT|TRACE)[A-Z]{1,20}")
_ABSOLUTE = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_TELLS_NOTHING = ("accept", "accept-language", "user-agent")
"""What another host is sent after a redirect; all else may be a key or a signature."""
_OF_THE_BODY = "content-"
_DEFAULTS = {"accept": "*/*", "user-agent": "Parley"}
_GZIP = zlib.MAX_WBITS | 16
_PIECE = 2**18
_HEAD = 2**16


@dataclass(frozen=True, slots=True)
class HostRequest:
    """A request as it is sent to one host."""

    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    body: bytes

    @property
    def target(self) -> Target:
        return Target(self.url.raw_host.decode(), self.url.port or PORTS.get(self.url.scheme, 0))

    @classmethod
    def of(cls, method: str, url: str, headers: Mapping[str, str], body: bytes) -> "HostRequest":
        """Check and read what a caller wants sent; raise FetchRefused."""
        if not _METHOD.fullmatch(method):
            raise FetchRefused("The method is none that is sent; write it in capital letters.")
        named = {name.lower(): value for name, value in headers.items()}
        for name, value in named.items():
            if fault := header_fault(name, value):
                raise FetchRefused(fault)
        return cls(method, _read(url), {**_DEFAULTS, **named, "accept-encoding": "gzip"}, body)

    def onward(self, status: int, location: str) -> "HostRequest":
        """Return the request that a redirect asks for; raise FetchRefused for one that is not followed."""
        url = _joined(self.url, location)
        if self.url.scheme == "https" and url.scheme != "https":
            raise FetchRefused(f"`{self.target}` sends the request on without encryption; this is not followed.")
        onward = replace(self, url=url)
        if (status == 303 and self.method != "HEAD") or (status in (301, 302) and self.method == "POST"):  # noqa: PLR2004
            headers = {name: value for name, value in self.headers.items() if not name.startswith(_OF_THE_BODY)}
            onward = replace(onward, method="GET", headers=headers, body=b"")
        if self._same_origin(url):
            return onward
        if onward.body:
            raise FetchRefused(f"`{self.target}` sends the request on to another host; a body is not sent there.")
        remaining = {
            name: value for name, value in onward.headers.items() if name in (*_TELLS_NOTHING, "accept-encoding")
        }
        return replace(onward, headers=remaining)

    def _same_origin(self, url: httpx2.URL) -> bool:
        """Return whether *url* is of the same origin, or the same host now with encryption, at the usual ports."""
        if url.raw_host != self.url.raw_host:
            return False
        upgraded = (self.url.scheme, url.scheme) == ("http", "https") and self.url.port is None
        return url.port == self.url.port and (url.scheme == self.url.scheme or upgraded)


class Exchange:
    """Sends requests by a transport, and follows the redirects that it may follow."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, clock: Clock) -> None:
        self._transport, self._clock = transport, clock

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, redirects: int, bounds: Bounds
    ) -> Fetched:
        """Return the answer; with no *redirects* one that is a redirect is an answer like others."""
        request = HostRequest.of(method, url, headers, body)
        try:
            async with within(self._clock, bounds.seconds):
                return await self._follow(request, redirects, bounds)
        except TimeoutError:
            raise FetchTimedOut(f"`{request.target}` did not answer in full within {bounds.seconds:g} s.") from None

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def _follow(self, request: HostRequest, redirects: int, bounds: Bounds) -> Fetched:
        for left in range(redirects, -1, -1):
            response = await self._head(request, bounds)
            try:
                _check_head(response, request.target)
                location = response.headers.get("location")
                if response.status_code not in _REDIRECTS or location is None or not redirects:
                    body = await _body(response, request.target, bounds.size)
                    return Fetched(response.status_code, dict(response.headers), body, _without_fragment(request.url))
            except (httpx2.HTTPError, zlib.error) as error:
                raise _failure(request.target, error) from None
            finally:
                await response.aclose()
            if left:
                request = request.onward(response.status_code, location)
        raise FetchRefused(
            f"`{request.target}` sends the request on, and so did {redirects} before it; this is enough."
        )

    async def _head(self, sent: HostRequest, bounds: Bounds) -> httpx2.Response:
        # The host is written here: for some names httpx2 would fail on the way to it.
        headers = {"host": sent.url.netloc.decode(), **sent.headers}
        request = httpx2.Request(sent.method, sent.url, headers=headers, content=sent.body or None)
        try:
            async with within(self._clock, bounds.first_byte):
                return await self._transport.handle_async_request(request)
        except TimeoutError:
            raise FetchTimedOut(f"`{sent.target}` did not answer within {bounds.first_byte:g} s.") from None
        except httpx2.HTTPError as error:
            raise _failure(sent.target, error) from None


def _failure(target: Target, error: Exception) -> FetchFailed:
    """Say how asking *target* failed; only what is said of a connection holds nothing of the request or the answer."""
    match error:
        case httpx2.ConnectError():
            return FetchUnreachable(f"`{target}` cannot be reached: {error}.")
        case httpx2.ProtocolError():
            return FetchFailed(f"`{target}` answered with what is no HTTP, or not to its end.")
        case zlib.error():
            return FetchFailed(f"`{target}` says that its answer is gzip, and it is not.")
        case _:
            return FetchFailed(f"The connection to `{target}` broke.")


def _check_head(response: httpx2.Response, target: Target) -> None:
    """Bound what was taken in whole: h11 lets up to two and a half times as much through."""
    if sum(len(name) + len(value) for name, value in response.headers.raw) > _HEAD:
        raise FetchTooLarge(f"`{target}` answered with a head of more than {_HEAD} bytes.")


async def _body(response: httpx2.Response, target: Target, size: int) -> bytes:
    """Return the body, unpacked; raise FetchTooLarge as soon as it is larger than *size*, packed or not."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        # Encodings inside each other, too: a bomb in a bomb can keep a processor busy and come to nothing.
        raise FetchFailed(f"`{target}` answered in an encoding that it was not asked for.")
    body = bytearray()
    wire = response.aiter_raw()
    async with aclosing(wire), aclosing(_unpacked(wire) if encoding == "gzip" else wire) as pieces:
        async for piece in pieces:
            body += piece
            if max(len(body), response.num_bytes_downloaded) > size:
                raise FetchTooLarge(f"`{target}` answered with more than {size} bytes.")
    return bytes(body)


async def _unpacked(wire: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Unpack gzip, of one or more members, in pieces of bounded size; a piece may be empty."""
    unpack, has_output = zlib.decompressobj(_GZIP), False
    async for piece in wire:
        rest = piece
        while rest:
            if unpack.eof:
                unpack = zlib.decompressobj(_GZIP)
            yield unpack.decompress(rest, _PIECE)
            has_output, rest = True, unpack.unconsumed_tail or unpack.unused_data
            await asyncio.sleep(0)
    if has_output and not unpack.eof:
        raise zlib.error("cut short")


def _read(url: str) -> httpx2.URL:
    check_text(url)
    try:
        return httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        raise FetchRefused("The address cannot be read; write it as https://example.com/path.") from None


def _joined(base: httpx2.URL, location: str) -> httpx2.URL:
    """Return where a redirect leads; what names a host is read as it is, and nothing is guessed into it."""
    plain = location.isprintable() and not location.startswith(":") and " " not in location and "\\" not in location
    if not plain:
        raise FetchRefused("A redirect leads to an address that cannot be read.")
    named = f"{base.scheme}:{location}" if location.startswith("//") else location
    try:
        return _read(named if _ABSOLUTE.match(named) else str(base.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise FetchRefused("A redirect leads to an address that cannot be read.") from None


def _without_fragment(url: httpx2.URL) -> str:
    return str(url.copy_with(fragment=None))

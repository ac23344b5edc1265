"""A transport for httpx2 that looks names up once, checks every address, and connects to what it checked."""

import asyncio
import socket
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from agent_core.clock import Clock, within
from agent_core.net.errors import FetchRefused
from agent_core.net.targets import Resolve, Target, TargetGuard
from agent_core.net.trust import trusted

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

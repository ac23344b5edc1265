"""The bounds of a fetch, what it returns, and its port."""

import asyncio
import re
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_core.clock import Clock, SystemClock
from agent_core.net.targets import FetchFailed, FetchRefused, FetchTimedOut, FetchTooLarge, Resolve, TargetGuard

if TYPE_CHECKING:
    import httpcore2
    import httpx2

    from agent_core.net.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long an answer may take and how large it may be.

    *seconds* is for everything; *first_byte* for the head of each answer, with lookup, connection and sending before
    it; *size* in bytes is that of the body as it comes and once it is unpacked. A head has 64 KiB at most.
    """

    seconds: float = 30.0
    first_byte: float = 15.0
    size: int = 5_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer: header names are in lower case, `url` is where it came from in the end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str


class FetchPort(Protocol):
    """Asks another host, as `Fetch` does; raises FetchFailed, whose message may be shown."""

    def __call__(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes, redirects: int, bounds: Bounds
    ) -> Awaitable[Fetched]: ...


_NAME = re.compile("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_VALUE = re.compile("[ -~]*")
# What belongs to a connection or to the framing of a message; two opinions on these are how requests are smuggled.
_OURS = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip


def header_fault(name: str, value: str) -> str | None:
    """Return why the header cannot be sent, without its value; None when it can."""
    if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
        return f"The header `{name[:100]!a}` is none: a name and a value are of plain characters."
    if name.lower() in _OURS or name.lower().startswith("proxy-"):
        return f"The header `{name}` is not the caller's to set."
    return None


__all__ = ["BOUNDS", "Bounds", "Fetch", "FetchFailed", "FetchRefused", "FetchTimedOut", "FetchTooLarge", "Fetched"]
_REDIRECTS = 5


BOUNDS = Bounds()


class Fetch:
    """Asks other hosts, public ones and those that *allow* names as `host:port`.

    It belongs to one event loop. Tests pass a *resolve* of their own, a *dial* that is given checked addresses, and a
    clock that they move. Raises ValueError for an entry of *allow* that is no `host:port`.
    """

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        resolve: Resolve | None = None,
        dial: "httpcore2.AsyncNetworkBackend | None" = None,
        clock: Clock | None = None,
    ) -> None:
        self.guard = TargetGuard.of(allow)
        self._resolve, self._dial, self._clock = resolve, dial, clock or SystemClock()
        self._making: asyncio.Future[Exchange] | None = None

    async def __call__(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        redirects: int | None = None,
        bounds: Bounds = BOUNDS,
    ) -> Fetched:
        """Return the answer to a request; raise FetchFailed, or one of its kinds, when there is none.

        GET and HEAD follow five *redirects* and other methods none, unless the caller says otherwise; with none, an
        answer that is a redirect is returned like any other. Another host is not sent a body, nor any header that
        could be a key. A status of 400 and more is an answer.
        """
        exchange = await self.prepare()
        limit = redirects if redirects is not None else _REDIRECTS if method in ("GET", "HEAD") else 0
        return await exchange.ask(method, url, headers or {}, body, limit, bounds)

    async def transport(self) -> "httpx2.AsyncBaseTransport":
        """Return a guarded transport of its own, for an `httpx2.AsyncClient(transport=…)`, which closes it.

        It checks what it connects to, at each redirect too. Time, size and what a redirect takes along are the
        client's business.
        """
        return await asyncio.to_thread(self._transport)

    async def prepare(self) -> "Exchange":
        """Import the HTTP client and read the certificates, once and in a thread: a fifth of a second."""
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        try:
            return await asyncio.shield(self._making)
        except OSError as error:
            self._making = None
            raise FetchFailed(f"Nothing can be fetched: the certificates cannot be read ({error}).") from None

    async def close(self) -> None:
        """Close every connection."""
        if self._making is not None:
            await (await self.prepare()).close()

    def _make(self) -> "Exchange":
        from agent_core.net.exchange import Exchange  # noqa: PLC0415 - brings the HTTP client

        return Exchange(self._transport(), self._clock)

    def _transport(self) -> "httpx2.AsyncBaseTransport":
        from agent_core.net.exchange import GuardedTransport  # noqa: PLC0415 - as above

        return GuardedTransport(self.guard, self._clock, resolve=self._resolve, dial=self._dial)

"""The connections of this process: how many there may be, from where, and which of them are too slow."""

import asyncio
from collections import Counter as Counts
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog
from prometheus_client import Counter

from app.settings import Network, is_shared, place_of, within

Reason = Literal[
    "full",
    "address",
    "head_size",
    "head_time",
    "body_time",
    "trailers",
    "not_http",
    "pipeline",
    "unread",
    "reader",
]
"""Why a connection was refused or closed, as the log and `parley_connections_refused_total` name it."""
REFUSED = 256
"""Refused connections that are kept open at once, for their clients to read why; more are closed unanswered."""
TRY_AGAIN = 10
"""Seconds after which a refused client may try again."""
EVERY = 1.0
"""Seconds between two looks at all connections."""
_log = structlog.get_logger("parley.connections")


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """What connections may take: numbers of them, bytes, and seconds."""

    connections: int = 4096
    per_address: int = 256
    head_bytes: int = 32_768
    """Of the request line and the headers; and of what is between and after the chunks of a body."""
    head_fields: int = 128
    """Of headers; and of trailers."""
    head_seconds: float = 10.0
    body_grace: float = 10.0
    """Seconds after which a body must have come at `body_rate`, averaged."""
    body_rate: float = 1_000.0
    """Bytes a second."""
    pipelined: int = 16
    """Requests that are sent before the answer to an earlier one."""
    idle_seconds: float = 75.0
    """Between two requests: longer than proxies (nginx: 60) keep theirs for the next one."""
    reader_seconds: float = 30.0
    """For which an answer may wait for a reader that takes nothing of it."""
    unread_bytes: int = 250_000_000
    """That are read and passed over after an answer that came early: clients read it only when they have sent all.

    And for how long: a connection that was closed at once would be reset, and the answer lost.
    """
    unread_seconds: float = 10.0
    refused_bytes: int = 1_000_000
    """That are read and passed over after a refusal, for as long."""


class Bounded(Protocol):
    """A connection that can be looked at."""

    def look(self, now: float) -> None:
        """Close it if it is too slow at *now*."""
        ...


class Connections:
    """Counts connections, in all and per address, and looks at each once a second.

    *trusted* are the proxies of this server: they bring the connections of many, as do this machine itself and private
    networks, so the bound per address is not for them. *clock* returns seconds.
    """

    def __init__(
        self,
        bounds: ConnectionBounds | None = None,
        *,
        trusted: Collection[Network] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.bounds = bounds or ConnectionBounds()
        self._trusted, self._clock = tuple(trusted), clock
        self._open: dict[Bounded, str] = {}
        self._refused: set[Bounded] = set()
        self._by_address: Counts[str] = Counts()
        self.refused = Counter(
            "parley_connections_refused", "Connections that were refused or closed.", ("reason",), registry=None
        )
        self._since: Counts[Reason] = Counts()
        self._latest: dict[Reason, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """How many are open, without the refused ones."""
        return len(self._open)

    def now(self) -> float:
        """Return the seconds of the clock, by default the event loop's."""
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def enter(self, connection: Bounded, address: str) -> Reason | None:
        """Count *connection*, from *address*, in; return why it must be refused, which leaves it uncounted."""
        place = place_of(address)
        if self._by_address[place] >= self.bounds.per_address and not self._exempt(place):
            return "address"
        if len(self._open) >= self.bounds.connections:
            return "full"
        self._open[connection] = place
        self._by_address[place] += 1
        return None

    def keep(self, connection: Bounded) -> bool:
        """Look at a refused *connection* too; return whether there is room for it, else it must be closed at once."""
        if len(self._refused) >= REFUSED:
            return False
        self._refused.add(connection)
        return True

    def leave(self, connection: Bounded) -> None:
        """Count *connection* out."""
        self._refused.discard(connection)
        place = self._open.pop(connection, None)
        if place is None:
            return
        self._by_address[place] -= 1
        if not self._by_address[place]:
            del self._by_address[place]

    def note(self, reason: Reason, address: str) -> None:
        """Count a connection that is refused or closed; the log has one line a second for each *reason*."""
        self.refused.labels(reason).inc()
        self._since[reason] += 1
        self._latest[reason] = address

    def start(self) -> None:
        """Look at all connections once a second from now on."""
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._tick)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Close what is too slow, and write the log's lines."""
        now = self.now()
        for connection in (*self._open, *self._refused):
            connection.look(now)
        for reason, count in self._since.items():
            _log.warning("connections.refused", reason=reason, count=count, latest=self._latest[reason])
        self._since.clear()
        self._latest.clear()

    def _tick(self) -> None:
        try:
            self.look()
        finally:
            self.start()

    def _exempt(self, place: str) -> bool:
        return is_shared(place) or within(place, self._trusted)

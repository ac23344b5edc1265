"""The open streams of this process, so that they can be ended at once, and whether it is ready."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from sqlalchemy import Connection, Row, text

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.errors import RateLimited, Unavailable
from agent_core.quotas import DEFAULT_STREAMS
from agent_core.store.database import Database
from app.storage import newest, revision_of
from channels.web.identity import Principal


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Open streams of one visitor, of all at one address, and of all visitors, of an agent; None sets no bound."""

    visitor: int | None = None
    address: int | None = None
    everyone: int | None = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads, and of which session; *address* is the one that the stream counts towards, *bounds* the agent's."""

    principal: Principal
    session: str
    address: str | None = None
    bounds: StreamBounds | None = None


MAX_OF_ONE = DEFAULT_STREAMS
MAX_OF_ADDRESS = 256
"""Open streams of all visitors at one address, however many connections they share: a large office's."""
RETRY_AFTER = 5
"""Seconds after which one more is worth a try."""


class Seats(Protocol):
    """Where a stream is registered while it is open."""

    def check(self) -> None:
        """Raise `RateLimited` when there is no room for one more."""
        ...

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Return a context in which *task* is known."""
        ...


class Readers:
    """Tasks that only pass on what happens; ending one loses nothing, its reader comes back with a cursor.

    A task ends with what its reader sent as a credential, at the latest; *now* returns milliseconds since the epoch.
    """

    def __init__(
        self,
        *,
        most_of_one: int = MAX_OF_ONE,
        most_of_address: int = MAX_OF_ADDRESS,
        now: Callable[[], int] | None = None,
    ) -> None:
        self._open: dict[asyncio.Task[Any], Reader | None] = {}
        self._now = now or SystemClock().now
        self._default, self._of_address = StreamBounds(most_of_one), most_of_address
        self._counts = Counter[_Counted]()
        self._is_refused: Callable[[Reader], bool] = lambda _: False
        self.closed = False

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._open)

    def close(self) -> None:
        """End every open task, and every later one as soon as it begins."""
        self.closed = True
        for task in tuple(self._open):
            task.cancel()

    def refuse(self, is_refused: Callable[[Reader], bool]) -> None:
        """Ask *is_refused* about every reader that begins, and at each `end_refused`."""
        self._is_refused = is_refused

    def end_refused(self) -> None:
        """End the open tasks of the readers that are refused from now on."""
        for task, reader in tuple(self._open.items()):
            if reader is not None and self._is_refused(reader):
                task.cancel()

    def of(
        self, principal: Principal, session: str, *, address: str | None = None, bounds: StreamBounds | None = None
    ) -> "Seat":
        """Return what holds the tasks that serve *principal*, at the *address*, with the events of *session*."""
        return Seat(self, Reader(principal, session, address, bounds))

    def check(self) -> None:
        """Let any number by: an operator's streams are not counted."""

    def check_one(self, reader: Reader) -> None:
        """Raise `RateLimited` if *reader*, or its address, has as many streams as visitors may have open."""
        for counted, who in _counted(reader):
            if (most := self._most(reader, counted)) is not None and self._counts[counted] >= most:
                text = f"{who} {most} open stream{'' if most == 1 else 's'}, as many as are allowed"
                raise RateLimited(f"{text}; close one first, or try again in a moment.", RETRY_AFTER, limit="streams")

    def _most(self, reader: Reader, counted: "_Counted") -> int | None:
        """Return how many streams there may be of *counted*."""
        bounds = reader.bounds or self._default
        match counted[0]:
            case "visitor":
                return bounds.visitor
            case "address" if counted[1] is None:
                return self._of_address
            case "address":
                return bounds.address
            case "everyone":
                return bounds.everyone

    @contextmanager
    def holding(self, task: asyncio.Task[Any], reader: Reader | None = None) -> Iterator[None]:
        """Keep *task*, which serves *reader*, known while the block runs."""
        self._open[task] = reader
        counted = [] if reader is None else [each for each, _ in _counted(reader)]
        self._counts.update(counted)
        if self.closed or (reader is not None and self._is_refused(reader)):
            task.cancel()
        expiry = None if reader is None else self._expiry(reader.principal, task)
        try:
            yield
        finally:
            if expiry is not None:
                expiry.cancel()
            self._open.pop(task, None)
            self._counts.subtract(counted)
            for each in counted:
                if not self._counts[each]:
                    del self._counts[each]
            task.cancel()

    def _expiry(self, principal: Principal, task: asyncio.Task[Any]) -> asyncio.TimerHandle | None:
        """Return the timer that ends *task* when what *principal* sent expires; None if it never does."""
        if principal.expires is None:
            return None
        return asyncio.get_running_loop().call_later((principal.expires - self._now()) / 1000, task.cancel)


@dataclass(frozen=True, slots=True)
class Seat:
    """Holds the tasks of one reader."""

    readers: Readers
    reader: Reader

    def check(self) -> None:
        """Raise `RateLimited` if this reader has as many streams as one may have."""
        self.readers.check_one(self.reader)

    def holding(self, task: asyncio.Task[Any]) -> AbstractContextManager[None]:
        """Keep *task* known while the block runs."""
        return self.readers.holding(task, self.reader)


_Counted = tuple[Literal["visitor", "address", "everyone"], str | None, str]
"""Whose streams are counted: of which agent, None for all of them, and whose."""


def _counted(reader: Reader) -> list[tuple[_Counted, str]]:
    """Return what a stream of *reader* counts towards, and how a refusal calls it; an operator's counts nowhere."""
    principal = reader.principal
    if not principal.visitor:
        return []
    agent, address, here = principal.agent, reader.address, "Your network address has"
    at: list[tuple[_Counted, str]] = []
    if address is not None:
        at = [(("address", agent, address), here), (("address", None, address), here)]
    own: _Counted = ("visitor", agent, principal.actor.id)
    return [(own, "You have"), *at, (("everyone", agent, ""), "The people who use this assistant have")]


TIMEOUT = 5
"""Seconds for the database to answer."""
WARNING_AGE = 30
LATE = 7_000
"""Milliseconds without a heartbeat after which a process is not ready: the others take over its runs soon after."""
_HEARTBEAT = text(
    "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) - beat_at AS age FROM worker "
    "WHERE id = :worker"
)
Look = Callable[[], Awaitable[str | None]]


class Ready:
    """Checks what a process depends on; *readers* are closed when it is asked to stop, *look* checks the database."""

    def __init__(self, core: Core, readers: Readers, look: Look | None = None) -> None:
        self._core, self._readers = core, readers
        self._look = look or self._ping
        self._warning: str | None = None
        self._warned_until = 0.0

    async def fault(self) -> str | None:
        """Return why requests cannot be served now, None when they can."""
        if self._readers.closed:
            return "The server is stopping."
        if not self._core.is_working:
            return "The engine has stopped; start the server again."
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._look()
        except TimeoutError:
            return f"The database did not answer within {TIMEOUT} seconds."
        except Unavailable as error:
            return str(error)

    async def warning(self) -> str | None:
        """Return what is not as it should be although requests are served, None if nothing is.

        It names no agent: anyone may ask. All agents are looked at, so once in `WARNING_AGE` seconds, whatever comes of
        it; meanwhile the last answer stands.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._warned_until:
            self._warned_until = now + WARNING_AGE  # before the first await: others do not look beside this one
            with suppress(Unavailable, TimeoutError):  # the database was there just now: then the last answer stands
                async with asyncio.timeout(TIMEOUT):
                    count = len(await self._core.agents.unavailable())
                text = f"Agents without a model that can be asked: {count}. `parley doctor` names them."
                self._warning = text if count else None
        return self._warning

    async def _ping(self) -> None:
        await self._core.health.ping()


class Starting:
    """The readiness of a process that is starting."""

    async def fault(self) -> str:
        return "The process is starting."

    async def warning(self) -> None:
        return None


def look_at(database: Database, worker: str) -> Look:
    """Return the check of a Postgres that several processes share: *worker* is this one's name in it."""
    wanted = newest()

    def work(connection: Connection) -> tuple[str | None, Row[tuple[int]] | None]:
        return revision_of(connection), connection.execute(_HEARTBEAT, {"worker": worker}).first()

    async def look() -> str | None:
        revision, heartbeat = await database.read(work)
        if revision is None or revision < wanted:
            return f"The database is at revision {revision or 'none'}, not {wanted}; run `parley migrate`."
        if heartbeat is None:
            return "This process is not registered as alive; its heartbeats do not arrive."
        if heartbeat.age > LATE:
            return f"The last heartbeat of this process arrived {heartbeat.age // 1000} seconds ago."
        return None

    return look

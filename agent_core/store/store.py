"""Store: the one writer of the log, for the event loop. Facts are published as they are committed."""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection

from agent_core.agent.state import NO_CARRY_OVER, CarryOver
from agent_core.clock import Clock
from agent_core.counters import Counters
from agent_core.errors import NewerRun
from agent_core.events import Fact, FactBody, Live, LiveBody
from agent_core.store import runs
from agent_core.store.database import Database
from agent_core.store.hub import Bus, Hub, Subscriber
from agent_core.store.log import Appended, RunRef

T = TypeVar("T")
P = ParamSpec("P")
C = TypeVar("C", bound="Committed")
Listener = Callable[[Fact], None]
Then = Callable[[C], None] | None


class Committed(Protocol):
    """The result of a transaction: the *facts* that it wrote, to be published at its commit."""

    @property
    def facts(self) -> Sequence[Fact]: ...


class Store:
    """The log, the other tables, and the hub of this process.

    A method that writes returns what happened; facts are published as they are committed, before it returns. *then* is
    called with the result right after that, in the same step of the event loop and also when the caller was cancelled
    meanwhile: it dispatches the runs that a commit started or woke, so that none waits for the sweep.
    """

    def __init__(
        self, database: Database, hub: Hub, clock: Clock, bus: Bus | None = None, counters: Counters | None = None
    ) -> None:
        self.database, self.hub, self.clock, self.bus = database, hub, clock, bus
        self.counters = counters or Counters(clock)
        self._listeners: dict[str, list[Listener]] = {}

    def subscribe(self, types: Iterable[type[FactBody]], callback: Listener) -> None:
        """Call *callback* with each fact of these *types* that is committed in this process, after the readers."""
        for kind in types:
            self._listeners.setdefault(kind.type, []).append(callback)

    async def read(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **named: P.kwargs) -> T:
        """Return what *work* reads, called with a connection and the arguments."""
        return await self.database.read(lambda connection: work(connection, *args, **named))

    async def peek(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **named: P.kwargs) -> T:
        """Return what *work* reads, see `Database.peek`."""
        return await self.database.peek(lambda connection: work(connection, *args, **named))

    async def write(self, work: Callable[Concatenate[Connection, P], T], /, *args: P.args, **named: P.kwargs) -> T:
        """Return what *work* does, in one transaction, in which it writes no facts."""
        return await self.database.write(lambda connection: work(connection, *args, **named))

    async def commit(
        self, then: Then[C], work: Callable[Concatenate[Connection, P], C], /, *args: P.args, **named: P.kwargs
    ) -> C:
        """Return what *work* does; its facts are published at the commit: readers get them in the order of commits."""

        def committed(done: C) -> None:
            try:
                self.publish(done.facts)
            finally:  # a reader that fails keeps no run from being dispatched
                if then is not None:
                    then(done)

        return await self.database.write(lambda connection: work(connection, *args, **named), committed)

    async def append(
        self,
        run: RunRef,
        record: Sequence[FactBody],
        announcement: Sequence[FactBody],
        *,
        after: int,
        left: CarryOver = NO_CARRY_OVER,
        owner: str | None = None,
        then: Then[Appended] = None,
    ) -> Appended:
        """Append for the driver of *run*, see `runs.append`; raises `LostRun`, `NewerRun`."""
        now = self.clock.now()

        def work(connection: Connection) -> Appended:
            return runs.append(connection, run, record, announcement, after=after, now=now, left=left, owner=owner)

        def committed(done: Appended) -> None:
            self.publish(done.fresh)
            if then is not None:
                then(done)

        began = perf_counter()
        appended = await self.database.write(work, committed)
        self.counters.appends.observe(perf_counter() - began)
        if not appended.whole:
            raise NewerRun(run.id)
        return appended

    def show(self, run: RunRef, body: LiveBody) -> None:
        """Publish a live event of *run*: no await, nothing stored."""
        event = Live(session=run.session_id, run=run.id, parent_run=run.parent, time=self.clock.now(), body=body)
        if self.bus is None or self.bus.live(run, event):
            self.hub.show(event)

    def release(self, run: RunRef) -> None:
        """Note that this process no longer drives *run*."""
        if self.bus is not None:
            self.bus.release(run)

    def publish(self, facts: Sequence[Fact]) -> None:
        """Publish *facts*, just committed, to the readers and subscribers here and to other processes."""
        self.hub.publish(facts)
        for fact in facts:
            for callback in self._listeners.get(fact.type, ()):
                callback(fact)
        if self.bus is not None and facts:
            self.bus.facts(facts)
        self.counters.facts(facts)

    def add_reader(self, session: str) -> Subscriber:
        """Return a reader of the events of *session*, of all processes; end it with `remove_reader`."""
        if self.bus is not None:
            self.bus.join(session)
        return self.hub.subscribe(session)

    def remove_reader(self, session: str, subscriber: Subscriber) -> None:
        self.hub.unsubscribe(session, subscriber)
        if self.bus is not None:
            self.bus.leave(session)

    async def reach(self, session: str, seq: int) -> None:
        """Return once the hub has received the facts up to *seq*, from any process; raises `Unavailable`."""
        if self.bus is not None:
            await self.bus.reach(session, seq)

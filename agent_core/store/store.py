"""Store: the one writer of the log, for the event loop. Facts are published as they are committed."""

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from agent_core.agent.waiting import NO_CARRY_OVER, CarryOver
from agent_core.agents import Snapshot
from agent_core.channels import Context
from agent_core.charts.rows import FoundRows, HandleOfRows
from agent_core.clock import Clock
from agent_core.counters import Counters
from agent_core.errors import NewerRun
from agent_core.events import Fact, FactBody, Live, LiveBody, MessageCompleted, RunCancelling
from agent_core.messages import Actor, Part
from agent_core.objects import Decision
from agent_core.store import changes, deciding, files, intake, quotas, runs, sessions
from agent_core.store import changes as stopping
from agent_core.store import intake as refreezing
from agent_core.store.changes import Also, Changed, StopResult
from agent_core.store.database import Database
from agent_core.store.deciding import Ruled, Submitted
from agent_core.store.hub import Bus, Hub, Subscriber
from agent_core.store.intake import Intake, Received, Refreeze, Refrozen
from agent_core.store.log import Appended, RunRef
from agent_core.store.runs import Cancelled, Ended, Finish
from agent_core.store.sessions import NewSession, OpenedSession

T = TypeVar("T")
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

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.database.peek(work)

    async def write(self, work: Callable[[Connection], T], committed: Callable[[T], None] | None = None) -> T:
        return await self.database.write(work, committed)

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

    async def open_session(self, opening: NewSession, snapshot: Snapshot) -> OpenedSession:
        """Open a session, or find the one at its address (no facts then); raises `StaleAgent`."""
        return await self._write(lambda connection: sessions.open_or_find(connection, opening, snapshot))

    async def receive(self, session: str, wanted: Intake, finish: Finish, then: Then[Received] = None) -> Received:
        """Take a message in, see `intake.receive`; *then* drives the run that it started."""
        return await self._write(lambda connection: intake.receive(connection, session, wanted, finish), then)

    async def receive_first(
        self, opening: NewSession, snapshot: Snapshot, wanted: Intake, then: Then[Received] = None
    ) -> Received:
        """Open a session with its first message, see `intake.receive_first`; *then* drives its run."""
        return await self._write(lambda connection: intake.receive_first(connection, opening, snapshot, wanted), then)

    async def refreeze(self, session: str, wanted: Refreeze) -> Refrozen:
        """Freeze a session again, see `refreezing.ask`."""
        now = self.clock.now()
        return await self._write(lambda connection: refreezing.ask_to_refreeze(connection, session, wanted, now=now))

    async def resume(self, run: int, cause: str, *, owner: str, expire_after: int, epoch: int | None = None) -> Ended:
        """Take a run for the worker *owner*, see `runs.resume`."""
        now = self.clock.now()
        return await self._write(
            lambda connection: runs.resume(
                connection, run, owner=owner, cause=cause, expire_after=expire_after, epoch=epoch, now=now
            )
        )

    async def cancel(
        self,
        run: str,
        *,
        by: Actor,
        reason: str | None,
        finish: Finish,
        owner: str | None = None,
        then: Then[Cancelled] = None,
    ) -> Cancelled:
        """Cancel a run, see `runs.cancel`; raises `NotFound`."""
        now, request = self.clock.now(), RunCancelling(by=by, reason=reason)

        def work(connection: Connection) -> Cancelled:
            held, status = runs.hold(connection, run)
            return runs.cancel(connection, held, status, request, finish=finish, owner=owner, now=now)

        return await self._write(work, then)

    async def stop(
        self, session: str, *, by: Actor, reason: str | None, finish: Finish, then: Then[StopResult] = None
    ) -> StopResult:
        """Cancel the active run of a session and all queued ones, see `stopping.stop`; raises `NotFound`."""
        now = self.clock.now()
        return await self._write(
            lambda connection: stopping.stop(connection, session, by=by, reason=reason, finish=finish, now=now), then
        )

    async def correct(
        self, session: str, message: str, parts: tuple[Part, ...], *, key: str | None, order: int | None
    ) -> Changed:
        """Correct a message, see `changes.correct`; raises `NotFound`."""
        now = self.clock.now()
        return await self._write(
            lambda connection: changes.correct(connection, session, message, parts, key=key, order=order, now=now)
        )

    async def retract(
        self,
        session: str,
        message: str,
        *,
        by: Actor,
        key: str | None,
        finish: Finish,
        owner: str | None = None,
        then: Then[Changed] = None,
    ) -> Changed:
        """Delete a message, see `changes.retract`; raises `NotFound`."""
        now = self.clock.now()

        def work(connection: Connection) -> Changed:
            return changes.retract(connection, session, message, by=by, key=key, finish=finish, owner=owner, now=now)

        return await self._write(work, then)

    async def add_context(self, session: str, context: Sequence[Context], *, key: str | None) -> Changed:
        """Add context for the next run, see `changes.add_context`; raises `NotFound`, `SessionClosed`."""
        now = self.clock.now()
        return await self._write(lambda connection: changes.add_context(connection, session, context, key=key, now=now))

    async def reply(self, session: str, message: MessageCompleted, *, key: str | None, also: Also | None) -> Changed:
        """Write a person's reply, see `changes.reply`; raises `NotFound`, `SessionClosed`, `IdempotencyMismatch`."""
        now = self.clock.now()
        return await self._write(
            lambda connection: changes.reply(connection, session, message, key=key, also=also, now=now)
        )

    async def decide(self, decision: Decision, then: Then[Ruled] = None) -> Ruled:
        """Count a vote, see `deciding.decide`."""
        now = self.clock.now()
        return await self._write(lambda connection: deciding.decide(connection, decision, now), then)

    async def submit(
        self,
        run: str,
        ends: Sequence[Sequence[FactBody]],
        also: Sequence[FactBody],
        tool_context: dict[str, Any] | None,
        then: Then[Submitted] = None,
    ) -> Submitted:
        """Take outputs of client calls, see `deciding.submit`."""
        now = self.clock.now()
        return await self._write(
            lambda connection: deciding.submit(connection, run, ends, also, tool_context, now=now), then
        )

    async def _write(self, work: Callable[[Connection], C], then: Then[C] = None) -> C:
        """Run *work*, and publish its facts at the commit: readers get them in the order of their commits."""

        def committed(done: C) -> None:
            try:
                self.publish(done.facts)
            finally:  # a reader that fails keeps no run from being dispatched
                if then is not None:
                    then(done)

        return await self.database.write(work, committed)

    async def put(self, session: int, mime: str, data: bytes, run: int | None = None) -> str:
        """Store bytes, which count as stored by *run*, and return their blob id."""
        return await self.database.write(lambda connection: quotas.put_blob(connection, session, mime, data, run))

    async def get(self, blob: str) -> tuple[str, bytes]:
        """Return mime type and bytes of a blob; raises `NotFound`."""
        return await self.database.read(lambda connection: quotas.get_blob(connection, blob))

    async def keep_rows(self, run: RunRef, call: str, rows: FoundRows, data: bytes) -> HandleOfRows:
        """Keep rows that a call returned, see `results.keep`."""
        return await self.database.write(lambda connection: files.keep_rows(connection, run, call, rows, data))

    async def rows(self, session: int, handle: str) -> bytes:
        """Return kept rows as JSON, see `results.rows`; raises `NotFound`."""
        return await self.database.read(lambda connection: files.rows(connection, session, handle))

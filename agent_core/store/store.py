"""Store: the one writer of the log, for the event loop. Facts reach the hub as they are committed."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from sqlalchemy import Connection

from agent_core.clock import Clock
from agent_core.domain.agents import Snapshot
from agent_core.domain.approvals import Decision
from agent_core.domain.events import Fact, FactBody, Live, LiveBody, RunCancelling
from agent_core.domain.inbound import Context
from agent_core.domain.messages import Actor, Part
from agent_core.errors import NewerRun
from agent_core.loop.state import NOTHING, Left
from agent_core.store.bus import Bus
from agent_core.store.database import Database
from agent_core.store.hub import Hub, Subscriber
from agent_core.store.log import Appended, RunRef
from agent_core.store.work import blobs, catalog, changes, deciding, intake, runs, sessions, stopping
from agent_core.store.work.changes import Changed
from agent_core.store.work.deciding import Ruled, Submitted
from agent_core.store.work.intake import Intake, Received
from agent_core.store.work.runs import Cancelled, Ended, Finish
from agent_core.store.work.sessions import Opening, SessionRef
from agent_core.store.work.stopping import Stopped
from agent_core.tally import Tally

T = TypeVar("T")


class Store:
    """Everything that is kept, and everything that happens now."""

    def __init__(
        self, database: Database, hub: Hub, clock: Clock, bus: Bus | None = None, tally: Tally | None = None
    ) -> None:
        self.database, self.hub, self.clock, self.bus = database, hub, clock, bus
        self.tally = tally or Tally(clock)
        self.worker = ""
        self.has_room: Callable[[], bool] = lambda: False
        self._ring: Callable[[int], None] = lambda _: None
        self.heard: dict[str, Callable[[Fact], None]] = {}
        """Who is told of facts of a type that were committed here."""

    def serve(self, worker: str, has_room: Callable[[], bool], ring: Callable[[int], None]) -> None:
        """Let runs start in the name of *worker* while it has room; *ring* gets those that an end made room for."""
        self.worker, self.has_room, self._ring = worker, has_room, ring

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self.database.read(work)

    async def peek(self, work: Callable[[Connection], T]) -> T:
        return await self.database.peek(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self.database.write(work)

    async def append(
        self,
        run: RunRef,
        record: Sequence[FactBody],
        announcement: Sequence[FactBody],
        *,
        after: int,
        left: Left = NOTHING,
    ) -> Appended:
        """Append for the driver of *run*, see `runs.append`; raises `LostRun`."""
        now, owner = self.clock.now(), self.worker if self.has_room() else None

        def work(connection: Connection) -> Appended:
            return runs.append(connection, run, record, announcement, after=after, now=now, left=left, owner=owner)

        began = perf_counter()
        appended = await self.database.write(work, lambda done: self._tell(done.fresh, done.freed))
        self.tally.appends.observe(perf_counter() - began)
        if not appended.whole:
            raise NewerRun(run.id)
        return appended

    def _tell(self, facts: Sequence[Fact], freed: int | None) -> None:
        """Pass on *facts*, and have the run started that they made room for."""
        self.publish(facts)
        if freed is not None:
            self._ring(freed)

    def show(self, run: RunRef, body: LiveBody) -> None:
        """Show a live event of *run*: no await, nothing kept."""
        event = Live(session=run.session_id, run=run.id, parent_run=run.parent, time=self.clock.now(), body=body)
        if self.bus is None or self.bus.live(run, event):
            self.hub.show(event)

    def release(self, run: RunRef) -> None:
        """Note that nobody here drives *run* any more, whatever became of it."""
        if self.bus is not None:
            self.bus.release(run)

    def publish(self, facts: Sequence[Fact]) -> None:
        """Pass on *facts*, just committed, to the readers here and at other processes."""
        self.hub.publish(facts)
        for fact in facts:
            if fact.type in self.heard:
                self.heard[fact.type](fact)
        if self.bus is not None and facts:
            self.bus.facts(facts)
        self.tally.facts(facts)

    def subscribe(self, session: str) -> Subscriber:
        """Hear of what happens in *session*, here and at other processes; answered by one `unsubscribe`."""
        if self.bus is not None:
            self.bus.join(session)
        return self.hub.subscribe(session)

    def unsubscribe(self, session: str, subscriber: Subscriber) -> None:
        self.hub.unsubscribe(session, subscriber)
        if self.bus is not None:
            self.bus.leave(session)

    async def reach(self, session: str, seq: int) -> None:
        """Return once the hub has heard of the facts up to *seq*, whoever wrote them; raises `Unavailable`."""
        if self.bus is not None:
            await self.bus.reach(session, seq)

    async def open_session(self, opening: Opening, snapshot: Snapshot) -> tuple[SessionRef, list[Fact]]:
        """Open a session, or find the one at its address (no facts then)."""

        def work(connection: Connection) -> tuple[SessionRef, list[Fact]]:
            known = opening.address and sessions.by_address(connection, opening.address)
            if known:
                return sessions.find(connection, known), []
            catalog.keep_snapshot(connection, snapshot)
            return sessions.open_session(connection, opening)

        return await self.database.write(work, lambda done: self.publish(done[1]))

    async def receive(self, session: str, wanted: Intake, finish: Finish, then: Callable[[Received], None]) -> Received:
        """Take a message in, see `intake.receive`; *then* runs at the commit, before anybody else hears of it."""

        def committed(done: Received) -> None:
            then(done)
            self.publish(done.facts)

        return await self.database.write(
            lambda connection: intake.receive(connection, session, wanted, finish), committed
        )

    async def resume(self, run: int, cause: str, *, patience: int, epoch: int | None = None) -> Ended:
        """Take a run for this worker, see `runs.resume`."""
        now, owner = self.clock.now(), self.worker

        def work(connection: Connection) -> Ended:
            return runs.resume(connection, run, owner=owner, cause=cause, patience=patience, epoch=epoch, now=now)

        return await self.database.write(work, lambda done: self.publish(done.facts))

    async def cancel(self, run: str, *, by: Actor, reason: str | None, finish: Finish) -> Cancelled:
        now, owner = self.clock.now(), self.worker if self.has_room() else None

        def work(connection: Connection) -> Cancelled:
            found = runs.hold(connection, run)
            return runs.cancel(
                connection, *found, RunCancelling(by=by, reason=reason), finish=finish, owner=owner, now=now
            )

        return await self.database.write(work, lambda done: self._tell(done.facts, done.freed))

    async def stop(self, session: str, *, by: Actor, reason: str | None, finish: Finish) -> Stopped:
        now = self.clock.now()

        def work(connection: Connection) -> Stopped:
            return stopping.stop(connection, session, by=by, reason=reason, finish=finish, now=now)

        def committed(done: Stopped) -> None:
            self.publish(done.facts)
            for freed in done.freed:
                self._ring(freed)

        return await self.database.write(work, committed)

    async def correct(
        self, session: str, message: str, parts: tuple[Part, ...], *, key: str | None, order: int | None
    ) -> Changed:
        now = self.clock.now()
        return await self.database.write(
            lambda connection: changes.correct(connection, session, message, parts, key=key, order=order, now=now),
            self._changed,
        )

    async def retract(self, session: str, message: str, *, by: Actor, key: str | None, finish: Finish) -> Changed:
        now, owner = self.clock.now(), self.worker if self.has_room() else None

        def work(connection: Connection) -> Changed:
            return changes.retract(connection, session, message, by=by, key=key, finish=finish, owner=owner, now=now)

        return await self.database.write(work, self._changed)

    async def add_context(self, session: str, context: Sequence[Context], *, key: str | None) -> Changed:
        now = self.clock.now()
        return await self.database.write(
            lambda connection: changes.add_context(connection, session, context, key=key, now=now), self._changed
        )

    async def decide(self, decision: Decision) -> Ruled:
        """Count a vote, see `deciding.decide`."""
        now = self.clock.now()
        return await self.database.write(
            lambda connection: deciding.decide(connection, decision, now),
            lambda done: self._tell(done.facts, done.run),
        )

    async def submit(
        self,
        run: str,
        ends: Sequence[Sequence[FactBody]],
        also: Sequence[FactBody],
        tool_context: dict[str, Any] | None,
    ) -> Submitted:
        """Take outputs of client calls, see `deciding.submit`."""
        now = self.clock.now()
        return await self.database.write(
            lambda connection: deciding.submit(connection, run, ends, also, tool_context, now=now),
            lambda done: self._tell(done.facts, done.run),
        )

    def _changed(self, done: Changed) -> None:
        self._tell(done.facts, done.cancelled.freed if done.cancelled else None)

    async def put(self, session: int, mime: str, data: bytes) -> str:
        """Keep bytes whole and return their blob id."""
        return await self.database.write(lambda connection: blobs.put(connection, session, mime, data))

    async def get(self, blob: str) -> tuple[str, bytes]:
        """Return mime type and bytes of a blob; raises `NotFound`."""
        return await self.database.read(lambda connection: blobs.get(connection, blob))

"""Decisions of people on calls, and the runs that go on after them."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_core import events as e
from agent_core.agents import ApprovalConfig, ToolSpec
from agent_core.channels import channel_of
from agent_core.engine.pool import Engine, Segment
from agent_core.errors import AlreadyDecided, Fault, InvalidInput, NotAnApprover, NotFound, Unavailable
from agent_core.events import Fact
from agent_core.hooks.chain import RunContext
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, ApprovalStatus, AuditEntry, Decision, Page, described, may_respond
from agent_core.runtime.roster import cursor_key
from agent_core.schemas import problems
from agent_core.store import approvals, catalog, deciding, reading, runs
from agent_core.store.changes import Changed, StopResult
from agent_core.store.deciding import Ruled, Submitted
from agent_core.store.hub import Bus
from agent_core.store.log import Appended, RunRef
from agent_core.store.runs import Cancelled
from agent_core.store.store import Store
from agent_core.traces import trace_of

_log = structlog.get_logger("parley.core")


class Dispatcher:
    """Begins, wakes and interrupts runs.

    Correctness never depends on it: a run that is committed and not dispatched is found by the next sweep.
    """

    _engine: Engine

    def __init__(self, bus: Bus | None) -> None:
        self._bus = bus
        self.pending: set[asyncio.Future[object]] = set()
        """Wake-ups that are under way."""

    def connect(self, engine: Engine) -> None:
        """Use *engine*; the runs that it drives dispatch others as they end, so neither it nor this can come first."""
        self._engine = engine

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for the wake-ups that are under way, then cancel them."""
        if self.pending:
            await asyncio.wait(self.pending, timeout=grace)
        if left := tuple(self.pending):
            for waking in left:
                waking.cancel()
            await asyncio.wait(left)

    @property
    def worker(self) -> str:
        """Return the name of this worker, new at every start."""
        return self._engine.worker

    @property
    def owner(self) -> str | None:
        """Return the name of this worker while it has room for another run."""
        return self._engine.worker if self._engine.pool.has_capacity() else None

    def reserve(self) -> AbstractContextManager[bool]:
        """Keep room for a run that is about to begin here; False when there is none."""
        return self._engine.pool.reserve()

    def begin(self, run: RunRef, segment: Segment) -> None:
        """Drive a run that this worker owns already."""
        self._engine.pool.begin(run, segment)

    def interrupt(self, run: int) -> bool:
        """Interrupt the driver of a run, here or elsewhere, so that it reads the news; return whether it is here."""
        here = self._engine.pool.interrupt(run)
        if not here and self._bus is not None:
            self._bus.interrupt(run)
        return here

    def follow_end(self, done: Appended) -> None:
        """Dispatch the run that may have waited for the end that a driver wrote."""
        self.dispatch(done.freed)

    def follow_change(self, done: Changed) -> None:
        """Follow up the cancel that a deleted message led to, if it led to one."""
        if done.cancelled is not None:
            self.follow_up(done.cancelled)

    def follow_up(self, done: Cancelled) -> None:
        """Interrupt a cancelled run's driver, and begin or dispatch the runs that its end made room for."""
        self.dispatch(done.freed)
        if done.started is not None:
            self._engine.pool.begin(done.started)
        if done.running is not None:
            self._interrupt_or_dispatch(done.running.key)

    def follow_stop(self, done: StopResult) -> None:
        """Interrupt the driver of a stopped session, and dispatch the runs of others that may have waited for room."""
        for run in done.freed:
            self.dispatch(run)
        if done.running is not None:
            self._interrupt_or_dispatch(done.running.key)

    def go_on(self, done: Ruled | Submitted) -> None:
        """Wake the run that a vote, or outputs, let go on."""
        self.dispatch(done.run)

    def dispatch(self, run: int | None) -> None:
        """Wake a run, if there is one, here if there is capacity, else ask the other processes to.

        Where others wait the sweep chooses.
        """
        if run is None:
            return
        if self._engine.pool.has_capacity():
            self._spawn(self._wake_somewhere(run))
            return
        self._engine.pool.hurry()
        self._wake_elsewhere(run)

    def wake(self, run: int) -> None:
        """Have this worker look at a run, and drive it if it can go on; another process may ask for that."""
        self._spawn(self._wake(run))

    def _spawn(self, wake_up: Coroutine[Any, Any, object]) -> None:
        waking = asyncio.ensure_future(wake_up)
        self.pending.add(waking)
        waking.add_done_callback(self.pending.discard)

    async def _wake_somewhere(self, run: int) -> None:
        """Wake a run here, or elsewhere if the capacity that was here is gone."""
        if not await self._wake(run):
            self._wake_elsewhere(run)

    def _wake_elsewhere(self, run: int) -> None:
        if self._bus is not None:
            self._bus.wake(run)

    def _interrupt_or_dispatch(self, run: int) -> None:
        """Interrupt a cancelled run's driver; the run is looked at too when that is not here, and may be dead."""
        if not self.interrupt(run):
            self.dispatch(run)

    async def _wake(self, run: int) -> bool:
        """Return False if this worker has no capacity for the run."""
        try:
            with suppress(Unavailable):  # the sweep finds the run once the database is back
                return await self._engine.wake(run)
        except Exception as error:  # noqa: BLE001 - the boundary: a bug of ours must be logged; the sweep finds the run
            _log.error("wake.failed", run=run, exception=trace_of(error))
        return True


MAX_REASON = 2_000
MAX_FAULTS = 50
"""Faults of corrected arguments that are reported at once."""


class RunDesk:
    """What the hooks of one run ask of the store."""

    def __init__(self, store: Store, run: RunRef) -> None:
        self._store, self._run = store, run

    async def about(self) -> RunContext:
        """Return the person who asked for the run and those who have joined it so far."""
        address, speakers, question = await self._store.read(reading.run_context, self._run)
        asker = speakers[-1] if speakers else None
        return RunContext(channel_of(address, asker), asker, question, speakers)

    async def is_granted(self, hook: str, tool: str, config: ApprovalConfig) -> bool:
        """Return whether people who may decide now have allowed *tool* for the rest of the conversation."""
        if not config.remember:
            return False
        speakers, session = (await self.about()).speakers, self._run.session
        return await self._store.read(deciding.is_granted, session, (hook, tool), config, speakers)


class Approvals:
    """Approvals: listed, decided, and recorded in the audit log."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store, self._dispatcher = store, dispatcher

    def listen(self, callback: Callable[[Fact], None]) -> None:
        """Call *callback* with each fact of an approval that this process commits; `versions` shows all others.

        Also with each correction or deletion of a message, since `question` may be another one after it.
        """
        self._store.subscribe((e.ApprovalRequested, e.ApprovalVoted, e.ApprovalDecided, e.MessageCorrected), callback)

    async def versions(self) -> dict[str, str]:
        """Return every open approval by its id, each with a text that changes with every vote."""
        return await self._store.read(approvals.versions)

    async def question(self, id: str) -> str:
        """Return what was asked of the agent that an approval is about, as it is now; raises `NotFound`."""

        def work(connection: Connection) -> str:
            return reading.question(connection, approvals.find(connection, id).object.run)

        return await self._store.read(work)

    async def tool(self, id: str) -> ToolSpec | None:
        """Return the tool that an approval is about, as its run was offered it; raises `NotFound`.

        If the tool itself asks, its parameters are those of the form.
        """

        def work(connection: Connection) -> ToolSpec | None:
            seen = approvals.find(connection, id).object
            frozen = catalog.snapshot(connection, runs.find(connection, seen.run)[0].snapshot)
            tool = next((spec for spec in frozen.frozen if spec.name == seen.tool), None)
            if seen.form is None:
                return tool
            return replace(tool or ToolSpec(name=seen.tool, description="", parameters={}), parameters=seen.form)

        return await self._store.read(work)

    async def list(
        self,
        *,
        status: ApprovalStatus | None = None,
        session: str | None = None,
        run: str | None = None,
        owner: approvals.Owner | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[ApprovalObject]:
        """Return approvals, oldest first, of an *owner's* sessions only when one is given."""
        after = cursor_key(cursor)
        return await self._store.read(
            approvals.listed, status=status, session=session, run=run, owner=owner, limit=limit, after=after
        )

    async def get(self, id: str) -> ApprovalObject:
        """Return an approval; raises `NotFound`."""
        return await self._store.read(lambda connection: approvals.find(connection, id).object)

    async def decide(self, decision: Decision) -> ApprovalObject:
        """Count a vote and return the approval, still open while its quorum is not met.

        Raises `NotFound`, `AlreadyDecided` (with the outcome), `NotAnApprover`, and `InvalidInput` for corrected
        arguments that do not fit the tool's schema, and for a form that is not filled in: then nothing is written.
        """
        if decision.reason is not None and len(decision.reason) > MAX_REASON:
            raise InvalidInput("reason", f"at most {MAX_REASON} characters.")
        if decision.approved:
            await self._check(decision)
        now = self._store.clock.now()
        ruled = await self._store.commit(self._dispatcher.go_on, deciding.decide, decision, now)
        if ruled.late:
            raise AlreadyDecided(outcome(ruled.approval), ruled.approval)
        if ruled.refused:
            responders = described(ruled.approval.responders)
            raise NotAnApprover(f"`{decision.by.actor.id}` may not decide this; it is for: {responders}.")
        return ruled.approval

    async def note(
        self, id: str, kind: approvals.Seen, *, surface: str, place: str | None = None, by: Actor | None = None
    ) -> None:
        """Record where an approval was `delivered` or `opened`; raises `NotFound`."""
        now = self._store.clock.now()
        await self._store.write(approvals.seen, id, kind, now=now, surface=surface, place=place, by=by)

    async def note_opened(self, ids: Collection[str], *, surface: str, by: Actor) -> None:
        """Record that *by* is shown the approvals *ids*: once each, and only while they are open."""
        unseen = await self._store.read(approvals.unopened, ids, surface=surface, by=by)
        for id in unseen:
            with suppress(NotFound):  # its session was deleted just now
                await self.note(id, "opened", surface=surface, by=by)

    async def audit(self, *, after: int = 0, limit: int = 500, approval: str | None = None) -> Sequence[AuditEntry]:
        """Return lines of the audit log after the line *after*, in order."""
        return await self._store.read(approvals.audit_entries, after=after, limit=limit, approval=approval)

    async def _check(self, decision: Decision) -> None:
        """Check corrected arguments, and what fills a form in, by their schema, unless the vote counts for nothing."""

        def work(connection: Any) -> tuple[ApprovalObject, dict[str, Any] | None]:
            seen = approvals.find(connection, decision.approval).object
            run, _ = runs.find(connection, seen.run)
            frozen = catalog.snapshot(connection, run.snapshot)
            return seen, next((spec.parameters for spec in frozen.frozen if spec.name == seen.tool), None)

        seen, schema = await self._store.read(work)
        arguments = decision.arguments if seen.form is None or decision.arguments is not None else seen.arguments
        if arguments is None or seen.status != "open":
            return
        if not may_respond(seen.responders, seen.asker, decision.by, seen.speakers):
            return
        why = f"does not fit the {'form' if seen.form is not None else 'schema'} of `{seen.tool}`"
        # In a thread: up to a second of work for arguments that are written to take as long as they can.
        faults = await asyncio.to_thread(problems, seen.form or schema or {}, arguments, MAX_FAULTS)
        if faults:
            within = [fault.within("arguments") for fault in faults]
            remedy = ""
            if decision.arguments is None:
                remedy = f" Answer it with `arguments` that have {', '.join(f'`{fault.path}`' for fault in within)}."
            first, *more = (Fault(fault.path, f"{why}: {fault.message}{remedy}") for fault in within)
            raise InvalidInput(first.path, first.message, *more)


def outcome(approval: ApprovalObject) -> str:
    """Return a sentence on the outcome of an approval."""
    by = f" by {approval.decided_by.name or approval.decided_by.id}" if approval.decided_by else ""
    says = f"This was {approval.status} already{by}"
    return f"{says}: {approval.reason}" if approval.reason else f"{says}."

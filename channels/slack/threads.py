"""Sessions are shown in their threads, with the status and the title of each in Slack."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog

from agent_core.clock import Clock
from agent_core.core import Core
from agent_core.errors import NotFound, ParleyError, Unavailable
from agent_core.events import Event, Fact, RunCancelled, RunCompleted, RunFailed, RunResumed
from agent_core.traces import trace_of
from channels.delivery import Delivery, PeriodicTask, set_or_timeout
from channels.ledger import LEASE, Ledger, LostPlace, OwnedPlace
from channels.slack import api as f
from channels.slack.figures import NO_CHARTS, ChartPorts
from channels.slack.outbox import GaveUp, SlackOutbox
from channels.slack.pace import Workspace
from channels.slack.settings import Thread

METHOD = "agents.sessions.setStatus"
TITLE = "agents.sessions.rename"
LOADING = "assistant.threads.setStatus"
TRIES = 5
"""Attempts to set a final status, which expires in Slack after an hour, or a title."""
_log = structlog.get_logger("parley.slack")


class ThreadStatus:
    """The status of one thread while an answer is shown. No answer fails because its status cannot be set.

    The first answer of a thread *names* its session: a title that is given with a status counts only for the call that
    happens to open the session, which may as well be that of a stream.
    """

    def __init__(self, space: Workspace, thread: Thread, *, names: bool = False) -> None:
        self._space, self._thread, self._names = space, thread, names
        self._naming: asyncio.Task[None] | None = None
        self._admission: asyncio.Task[None] | None = None
        self._setting: asyncio.Task[None] | None = None
        self._current: str | None = None
        self._begun = False

    @property
    def _is_active(self) -> bool:
        return self._current == "active"

    def note(self, status: str) -> None:
        """Record that a stream has set *status* by itself."""
        self._current, self._begun = status, True

    def begin(self) -> None:
        """Set `processing` in the background, as soon as the workspace's budget allows it."""
        self._begun = True
        if self._setting is not None and not self._setting.done():
            return
        self._admission = asyncio.create_task(self._admit())
        self._setting = asyncio.create_task(self._set_when(self._admission))
        if self._names and self._thread.title:
            self._names = False
            self._naming = asyncio.create_task(self._name(self._setting, self._thread.title))

    async def end(self, status: str) -> None:
        """Set the final *status* once all is shown, unless a stream has set it; cancel pending older calls first."""
        await self._drop_status()
        if status != self._current and self._begun:
            for n in range(TRIES):
                await self._admit()
                if await self._set(status, again=2.0**n):
                    break
        if self._naming is not None:
            await self._naming

    async def drop(self) -> None:
        """Cancel the calls that wait for admission, and wait for one that was sent."""
        await self._drop_status()
        if self._naming is not None:
            self._naming.cancel()
            await asyncio.gather(self._naming, return_exceptions=True)

    async def _drop_status(self) -> None:
        if self._admission is not None and self._setting is not None:
            self._admission.cancel()
            await asyncio.gather(self._setting, return_exceptions=True)

    async def _set_when(self, admission: asyncio.Task[None]) -> None:
        with suppress(asyncio.CancelledError):
            await admission
            self._current = None
            await self._set("processing")
            if not self._is_active:
                await self._load()
            self._current = None  # a stream may have set a status meanwhile, and which call came first is unknown

    async def _name(self, setting: asyncio.Task[None], title: str) -> None:
        """Give the session its title, once its first status is set or given up."""
        await asyncio.wait((setting,))
        space, thread = self._space, self._thread
        for n in range(TRIES):
            try:
                await space.call(TITLE, thread.channel, space.api.rename, thread.channel, thread.root, title)
            except f.Limited:
                continue
            except (f.NotSent, f.Uncertain):  # to repeat it does no harm
                space.pacer.penalty(TITLE, space.team, 2.0**n)
            except f.SlackFailure as error:
                _log.info("slack.no_title", team=space.team, reason=error.reason)
                return
            else:
                return

    async def _load(self) -> None:
        """Show the agent's loading texts, unless Slack refuses them or the budget is nearly spent."""
        space, thread = self._space, self._thread
        if not thread.loading or space.pacer.nearly_spent(LOADING, space.team):
            return
        try:
            where = (thread.channel, thread.root)
            await space.call(LOADING, thread.channel, space.api.set_loading, *where, thread.loading)
        except f.SlackFailure as error:
            _log.info("slack.no_loading", team=space.team, reason=error.reason)

    async def _admit(self) -> None:
        await self._space.pacer.admit(METHOD, self._space.team, self._thread.channel)

    async def _set(self, status: str, *, again: float = 1.0) -> bool:
        """Return whether *status* is set or never can be; else block the method for Slack's Retry-After or *again*."""
        space, thread = self._space, self._thread
        try:
            warning = await space.api.set_status(thread.channel, thread.root, status)
        except f.SlackFailure as error:
            _log.info("slack.no_status", team=space.team, status=status, reason=error.reason)
            if not isinstance(error, (f.Limited, f.NotSent, f.Uncertain)):
                return True
            space.pacer.penalty(METHOD, space.team, error.retry_after if isinstance(error, f.Limited) else again)
            return False
        if warning:
            _log.info("slack.status_warning", team=space.team, warning=warning)
        return True


SWEEP = 2.0
"""Seconds between two sweeps for places without an owner: their process was killed, or ended."""
MAX_THREADS = 500
"""Sessions that one process shows at once; others wait, or are shown by another process."""
SETTLE = 3.0
"""Timeout in seconds for a call to Slack that is pending when this process stops."""
PENDING = 5_000
"""Milliseconds for which the message that a place was requested for may still be pending."""
PAUSE, MAX_PAUSE, MAX_PAUSE_AFTER_BUG = 15.0, 60.0, 3_600.0
"""Backoff in seconds after a session could not be shown: initial, and maximal."""
_ENDS_WAIT = frozenset(cls.type for cls in (RunResumed, RunCompleted, RunFailed, RunCancelled))


@dataclass(frozen=True, slots=True)
class _UntilIdle:
    """The events of a session until no run of it is active; the first of a run begin its *status*.

    Of a thread that rested at seq *waits_at* while its run waited, only those that end the wait do: a message that is
    queued after that run changes nothing.
    """

    core: Core
    status: ThreadStatus
    waits_at: int | None

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        has_begun = False
        async with aclosing(self.core.follow(session, after=after, until_idle=True)) as batches:
            async for batch in batches:
                if not has_begun and any(map(self._begins, batch)):
                    has_begun = True
                    self.status.begin()
                yield batch

    def _begins(self, event: Event) -> bool:
        if self.waits_at is None:  # what is of no run, such as a person's answer, is no work of the agent's
            return event.run is not None
        is_new = isinstance(event, Fact) and event.seq > self.waits_at
        return is_new and event.parent_run is None and event.type in _ENDS_WAIT


class Threads:
    """Shows sessions in their threads; *workspace* looks one up by its id, and raises `NotFound`.

    *share* is called with this process's part of every rate limit: the processes that show something have equal parts.
    *rested* is called whenever a session is completely shown. *charts* draws what Slack cannot draw itself.
    """

    def __init__(
        self,
        core: Core,
        ledger: Ledger,
        workspace: Callable[[str], Awaitable[Workspace]],
        clock: Clock,
        *,
        share: Callable[[float], None],
        rested: Callable[[], None] = lambda: None,
        charts: ChartPorts = NO_CHARTS,
    ) -> None:
        self._core, self._ledger, self._workspace, self._clock = core, ledger, workspace, clock
        self._share, self._rested, self._charts = share, rested, charts
        self._showing: dict[str, asyncio.Task[None]] = {}
        self._signals: dict[str, asyncio.Event] = {}
        self._failed: dict[str, int] = {}
        self._resumed: set[str] = set()
        self._sweep = PeriodicTask("threads", self._look, clock, SWEEP)

    async def start(self, *, alone: bool = False) -> None:
        """Start the sweep for places without an owner.

        A process that is *alone* on the database does not wait for the lease of one that was killed.
        """
        if alone:
            await self._ledger.expire_all()
        self._sweep.start()

    async def stop(self) -> None:
        """Stop, and release all places, so that another process, or the next start, continues at once."""
        await self._sweep.stop(self._showing.values())
        with suppress(Unavailable):  # the leases expire
            await self._ledger.release()

    async def want(self, session: str, thread: Thread) -> None:
        """Record that *session* is to be answered in *thread*, before its message is received."""
        await self._ledger.want(session, thread.address, thread.data())

    def show(self, session: str) -> None:
        """Show *session* from now on, unless another process does; call it once what is to be shown is received."""
        task = self._showing.get(session)
        if task is not None and not task.done():
            self._signals[session].set()  # it may be about to rest, without having seen what this is about
        elif len(self._showing) < MAX_THREADS:
            self._begin(session, None)

    def resumed(self, session: str) -> None:
        """Sweep at once for *session*, which resumes after a wait, and again if it is about to rest only now."""
        if session in self._showing:
            self._resumed.add(session)
        self._sweep.news.set()

    def _begin(self, session: str, place: OwnedPlace | None) -> None:
        before, signal = self._showing.get(session), asyncio.Event()
        task = asyncio.create_task(self._guarded(session, place, before, signal), name=f"parley-slack-{session}")
        self._showing[session], self._signals[session] = task, signal
        task.add_done_callback(partial(self._forget, session))

    def _forget(self, session: str, task: asyncio.Task[None]) -> None:
        self._rested()
        if self._showing.get(session) is task:
            del self._showing[session], self._signals[session]
            if session in self._resumed:
                self._resumed.discard(session)
                self._sweep.news.set()

    async def _look(self) -> None:
        """Claim places without an owner, show waiting sessions that have new events, and update the share."""
        room = MAX_THREADS - len(self._showing)
        for place in await self._ledger.claim(limit=room, without=self._showing) if room > 0 else []:
            self._begin(place.session, place)
        if waiting := await self._ledger.waiting():  # another process may have resumed them
            for session in await self._core.updated_since(waiting):
                self.show(session)
        self._share(1 / await self._ledger.processes())

    async def _guarded(
        self, session: str, place: OwnedPlace | None, before: asyncio.Task[None] | None, signal: asyncio.Event
    ) -> None:
        """Show a session, after *before*; after any failure the sweep of some process retries it.

        *signal* is set whenever it was requested again.
        """
        if before is not None:  # both claimed the place at the same moment
            await asyncio.wait((before,))
        try:
            if place is None:
                place = await self._ledger.claim_session(session)
            while place is not None:
                signal.clear()
                place, seq = await self._show(place, signal)
                while place is None and signal.is_set():
                    signal.clear()
                    if await self._core.updated_since({session: seq}):
                        place = await self._ledger.claim_session(session)
            self._failed.pop(session, None)
        except LostPlace:
            _log.info("slack.shown_elsewhere", session=session)
        except Exception as error:  # noqa: BLE001 - the boundary of a task: one thread's failure affects no other
            await self._postpone(session, place, error)

    async def _postpone(self, session: str, place: OwnedPlace | None, error: Exception) -> None:
        """Retry later, with exponential backoff: the cause may be permanent."""
        tries = self._failed[session] = self._failed.get(session, 0) + 1
        is_bug = not isinstance(error, ParleyError)
        pause = min(PAUSE * 2.0 ** (tries - 1), MAX_PAUSE_AFTER_BUG if is_bug else MAX_PAUSE)
        write = _log.error if is_bug else _log.warning
        trace = {"exception": trace_of(error)} if is_bug and tries == 1 else {}
        write("slack.not_shown", session=session, error=repr(error), tries=tries, again_in=pause, **trace)
        if place is not None:
            with suppress(LostPlace, Unavailable):  # else its lease expires
                await self._ledger.postpone(place, pause)

    async def _show(self, place: OwnedPlace, signal: asyncio.Event) -> tuple[OwnedPlace | None, int]:
        """Show the session until no run of it is active; return the place if more was requested meanwhile, and how far.

        How far is the seq up to which it was seen.
        """
        thread = Thread.read(place.data)
        space = await self._workspace(thread.team)
        status = ThreadStatus(space, thread, names=place.shown_seq == 0 and place.waits_at is None)
        outbox = SlackOutbox(
            space, thread, self._ledger, place, self._clock, status=status, runs=self._core, charts=self._charts
        )
        delivery = Delivery(_UntilIdle(self._core, status, place.waits_at), outbox, self._clock, session=place.session)
        async with self._renewing(place):
            try:
                await delivery.run(after=place.shown_seq)
            except (GaveUp, NotFound) as error:  # the thread or the session is gone, or Slack refuses all messages
                _log.warning("slack.given_up", session=place.session, reason=str(error))
            except BaseException:
                await outbox.settle(SETTLE)
                await status.drop()
                raise
            finally:
                await outbox.close()
            waits = any(run.status in ("waiting", "requires_action") for run in delivery.body.runs)
            await status.end("suspended" if waits else "active")
            seq = max(delivery.body.seq, place.shown_seq)
            if delivery.body.seq <= place.shown_seq and self._is_fresh(place):
                await set_or_timeout(signal, self._clock, 1.0)
                return await self._ledger.reload(place), seq
            return await self._ledger.rest(place, None if waits else seq, seen=seq), seq

    def _is_fresh(self, place: OwnedPlace) -> bool:
        """Return whether the message that *place* was requested for may still be pending."""
        return place.wanted_at is not None and self._clock.now() - place.wanted_at < PENDING

    @asynccontextmanager
    async def _renewing(self, place: OwnedPlace) -> AsyncGenerator[None]:
        """Renew the lease of *place* while it is shown; raises `LostPlace` when another process owns it."""
        lost = False
        shower = asyncio.current_task()
        assert shower is not None

        async def renew() -> None:
            nonlocal lost
            with suppress(LostPlace):
                while True:
                    await self._clock.sleep(LEASE / 3000)
                    with suppress(Unavailable):
                        await self._ledger.renew(place)
            lost = True
            shower.cancel()

        beats = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if not lost:
                raise
            raise LostPlace(f"Session `{place.session}` is shown by another process now.") from None
        finally:
            beats.cancel()

"""threads: which sessions this process shows in Slack, from the message that wants an answer to the last edit."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog

from agent_core import Clock, Core, Event, NotFound, ParleyError, Unavailable
from channels.delivery import Delivery
from channels.ledger import LEASE, Ledger, LostPlace, Place
from channels.slack.outbound.outbox import GaveUp, SlackOutbox
from channels.slack.outbound.status import ThreadStatus
from channels.slack.thread import Thread
from channels.slack.web_api.workspaces import Workspace
from channels.sweep import Sweep

SWEEP = 2.0
"""Seconds between two looks for what nobody shows: a process that was killed, or that ended."""
MOST = 500
"""Sessions that one process shows at once; others wait, or are shown elsewhere."""
SETTLE = 3.0
"""Seconds that a call to Slack has which is on its way when this process ends."""
ON_ITS_WAY = 5_000
"""Milliseconds for which a message may be on its way that a place is wanted for."""
PAUSE, LONGEST, LONGEST_AFTER_BUG = 15.0, 60.0, 3_600.0
"""Seconds for which a session is left alone that could not be shown: at first, and at the most."""
_log = structlog.get_logger("parley.slack")


@dataclass(frozen=True, slots=True)
class _UntilIdle:
    """The events of a session until no run of it is active; the first of them begin its *status*."""

    core: Core
    status: ThreadStatus

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        has_begun = False
        async with aclosing(self.core.follow(session, after=after, until_idle=True)) as batches:
            async for batch in batches:
                if batch and not has_begun:
                    has_begun = True
                    self.status.begin()
                yield batch


class Threads:
    """Shows sessions in their threads; *workspace* gives what is known of one, and raises `NotFound`.

    *share* hears which part of every rate is this process's: as many as show something have equal parts. *rested* is
    called when all is shown of a session for now.
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
    ) -> None:
        self._core, self._ledger, self._workspace, self._clock = core, ledger, workspace, clock
        self._share, self._rested = share, rested
        self._showing: dict[str, asyncio.Task[None]] = {}
        self._failed: dict[str, int] = {}
        self._resumed: set[str] = set()
        self._sweep = Sweep("threads", self._look, clock, SWEEP)

    async def start(self, *, alone: bool = False) -> None:
        """Take up what an earlier process left, and go on looking for it.

        Who is *alone* on the database does not wait for the lease of a process that was killed.
        """
        if alone:
            await self._ledger.vacate()
        self._sweep.start()

    async def stop(self) -> None:
        """Show no more; another process, or the next start, goes on at once where this one was."""
        await self._sweep.stop(self._showing.values())
        with suppress(Unavailable):  # the lease ends by itself
            await self._ledger.leave()

    async def want(self, session: str, thread: Thread) -> None:
        """Note that *session* is to be answered in *thread*, before its message is taken in."""
        await self._ledger.want(session, thread.address, thread.data())

    def show(self, session: str) -> None:
        """Show *session* from now on, unless another process does."""
        if session not in self._showing and len(self._showing) < MOST:
            self._begin(session, None)

    def resumed(self, session: str) -> None:
        """Look at once for *session*, which goes on after a wait, and again if it is about to rest only now."""
        if session in self._showing:
            self._resumed.add(session)
        self._sweep.news.set()

    def _begin(self, session: str, place: Place | None) -> None:
        before = self._showing.get(session)
        task = asyncio.create_task(self._guarded(session, place, before), name=f"parley-slack-{session}")
        self._showing[session] = task
        task.add_done_callback(partial(self._forget, session))

    def _forget(self, session: str, task: asyncio.Task[None]) -> None:
        self._rested()
        if self._showing.get(session) is task:
            del self._showing[session]
            if session in self._resumed:
                self._resumed.discard(session)
                self._sweep.news.set()

    async def _look(self) -> None:
        """Take up what nobody shows, and see who else shows something."""
        room = MOST - len(self._showing)
        for place in await self._ledger.claim(most=room, without=self._showing) if room > 0 else []:
            self._begin(place.session, place)
        if waiting := await self._ledger.waiting():  # somebody elsewhere may have let them go on
            for session in await self._core.beyond(waiting):
                self.show(session)
        self._share(1 / await self._ledger.processes())

    async def _guarded(self, session: str, place: Place | None, before: asyncio.Task[None] | None) -> None:
        """Show a session, after *before*; whatever goes wrong, the sweep of some process takes it up again."""
        if before is not None:  # which asked for the place in the moment in which the sweep took it
            await asyncio.wait((before,))
        try:
            if place is None:
                place = await self._ledger.claim_again(session)
            while place is not None:
                place = await self._show(place)
            self._failed.pop(session, None)
        except LostPlace:
            _log.info("slack.shown_elsewhere", session=session)
        except Exception as error:  # noqa: BLE001 - the boundary of a task: one thread's fault is no other's
            await self._postpone(session, place, error)

    async def _postpone(self, session: str, place: Place | None, error: Exception) -> None:
        """Try again later, and the later the oftener it failed: what is wrong may be there to stay."""
        tries = self._failed[session] = self._failed.get(session, 0) + 1
        is_bug = not isinstance(error, ParleyError)
        pause = min(PAUSE * 2.0 ** (tries - 1), LONGEST_AFTER_BUG if is_bug else LONGEST)
        write = _log.error if is_bug else _log.warning
        trace = error if is_bug and tries == 1 else None
        write("slack.not_shown", session=session, error=repr(error), tries=tries, again_in=pause, exc_info=trace)
        if place is not None:
            with suppress(LostPlace, Unavailable):  # else its lease ends by itself
                await self._ledger.postpone(place, pause)

    async def _show(self, place: Place) -> Place | None:
        """Show what there is until nothing works in the session; return the place if more is wanted by then."""
        thread = Thread.read(place.data)
        space = await self._workspace(thread.team)
        status = ThreadStatus(space, thread)
        outbox = SlackOutbox(space, thread, self._ledger, place, self._clock, status=status, runs=self._core)
        delivery = Delivery(_UntilIdle(self._core, status), outbox, self._clock, session=place.session)
        async with self._renewing(place):
            try:
                await delivery.run(after=place.shown)
            except (GaveUp, NotFound) as error:  # the thread or the session is gone, or Slack refuses all messages
                _log.warning("slack.given_up", session=place.session, reason=str(error))
            except BaseException:
                await outbox.settle(SETTLE)
                await status.drop()
                raise
            waits = any(run.status in ("waiting", "requires_action") for run in delivery.body.runs)
            await status.end("suspended" if waits else "active")
            if delivery.body.seq <= place.shown and self._is_fresh(place):
                await self._clock.sleep(1.0)
                return await self._ledger.again(place)
            seq = max(delivery.body.seq, place.shown)
            return await self._ledger.rest(place, None if waits else seq, seen=seq)

    def _is_fresh(self, place: Place) -> bool:
        """Tell whether the message that *place* was wanted for may be on its way still."""
        return place.wanted_at is not None and self._clock.now() - place.wanted_at < ON_ITS_WAY

    @asynccontextmanager
    async def _renewing(self, place: Place) -> AsyncGenerator[None]:
        """Keep *place* while it is shown; raises `LostPlace` when another process has it."""
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

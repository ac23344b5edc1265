"""A session is shown at a place, and periodic work."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.events import Event
from agent_core.ids import new_id
from agent_core.traces import trace_of
from channels.spec import ConversationView, LedgerEntry, MessageLimits, NotShown, Ref, Screen
from channels.view import EMPTY, Border, Segment, border, cut, is_visible, length, rollover, view

_log = structlog.get_logger("parley.slack")


class PeriodicTask:
    """Calls *look* every so many *seconds*, and at once when *news* is set, from `start` to `stop`.

    A failed look does not end the sweep; a database that is unavailable is logged once.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], Awaitable[None]],
        clock: Clock,
        seconds: float,
        *,
        news: asyncio.Event | None = None,
    ) -> None:
        self._name, self._look, self._clock, self._seconds = name, look, clock, seconds
        self.news = news or asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._forever(), name=f"parley-slack-{self._name}")

    async def stop(self, working: Iterable[asyncio.Task[None]] = ()) -> None:
        """Stop looking, and cancel the tasks *working* on what was found."""
        tasks = [*working, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forever(self) -> None:
        away = False
        while True:
            self.news.clear()
            try:
                await self._look()
                away = False
            except ParleyError as error:  # the database or Slack is unavailable
                if not away:
                    _log.warning("slack.sweep_failed", sweep=self._name, error=str(error))
                away = True
            except Exception as error:  # noqa: BLE001 - the boundary of a task: without sweeps a killed process loses answers
                _log.error("slack.failed", sweep=self._name, exception=trace_of(error))
            await set_or_timeout(self.news, self._clock, self._seconds)


async def set_or_timeout(event: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when *event* is set, or after *seconds*."""
    timeout = asyncio.create_task(clock.sleep(seconds))
    is_set = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((timeout, is_set), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timeout.cancel()
        is_set.cancel()


_ENDS = frozenset({"run.waiting", "run.completed", "run.failed", "run.cancelled"})


class Deferred(NotShown):
    """An edit was postponed in favour of others; the end of a run is shown without waiting for its retry."""


class Unfinished(Deferred):
    """All but a part of a message is shown; that comes later, and no other message waits for it."""


class PartTooLong(NotShown):
    """A message cannot take all of its text: only this *part* of it fits. The rest continues in further messages."""

    def __init__(self, message: str, *, part: float) -> None:
        super().__init__(message)
        self.part = part


class EventSource(Protocol):
    """Where a session's events come from."""

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*."""
        ...


class Outbox(Protocol):
    """The messages of one session at one place, and how far each of them got.

    A `LedgerEntry` is the row of one message. The delivery sets its borders, *begins* and *ends*; the outbox the rest.
    """

    @property
    def limits(self) -> MessageLimits: ...

    async def entries(self) -> list[LedgerEntry]:
        """Return the rows that an earlier delivery left, in their order."""
        ...

    async def plan(self, *entries: LedgerEntry) -> None:
        """Persist *entries* as they are now, all of them or none."""
        ...

    async def show(self, entry: LedgerEntry, picture: ConversationView, /) -> None:
        """Make the message of *entry*, which is posted if it has no *ref*, show *picture* only; raises `NotShown`."""
        ...


class NullOutbox:
    """The outbox of a screen that does not outlive the process: it keeps no rows."""

    def __init__(self, screen: Screen, address: str) -> None:
        self._screen, self._address = screen, address

    @property
    def limits(self) -> MessageLimits:
        return self._screen.limits

    async def entries(self) -> list[LedgerEntry]:
        return []

    async def plan(self, *entries: LedgerEntry) -> None:
        """Keep nothing: *entries* end with the process."""

    async def show(self, entry: LedgerEntry, picture: ConversationView, /) -> None:
        if entry.ref is None:
            entry.ref = await self._screen.post(self._address, picture)
        else:
            await self._screen.edit(Ref(entry.ref), picture)


@dataclass(slots=True)
class _Slot:
    """One message: the *segment* it shows, its row, and the picture that was last shown."""

    segment: Segment
    entry: LedgerEntry
    displayed: ConversationView | None = None


class Delivery:
    """Shows one session at one place. *body* is the picture so far."""

    def __init__(self, source: EventSource, outbox: Outbox, clock: Clock, *, session: str) -> None:
        self.body: ConversationView = EMPTY
        self._source, self._outbox, self._clock, self._session = source, outbox, clock, session
        self._slots = [_slot(LedgerEntry(new_id("dlv"), 0))]
        self._changed, self._urgent, self._up_to_date = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._over = False
        self._reading: asyncio.Task[None]

    async def run(self, *, after: int = 0) -> None:
        """Show what follows seq *after* until the events end, and return once the last state is shown.

        Messages that an earlier delivery to the same place began are completed.
        """
        if begun := await self._outbox.entries():
            self._slots = [_slot(entry) for entry in begun if entry.state != "closed"]
            last = begun[-1]
            if last.ends is not None:
                self._slots.append(_slot(LedgerEntry(new_id("dlv"), last.n + 1, begins=last.ends)))
        self._begin_reading(after)
        try:
            await self._write()
            await self._reading
        finally:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def shown(self) -> None:
        """Return once all that was read is shown."""
        await self._up_to_date.wait()

    def _begin_reading(self, after: int) -> None:
        self._over = False
        self._reading = asyncio.create_task(self._read(after))

    async def _read(self, after: int) -> None:
        """Fold the events; the end of a run is urgent."""
        try:
            async with aclosing(self._source.follow(self._session, after=after)) as batches:
                async for batch in batches:
                    self._fold(batch)
        finally:
            self._over = True
            self._changed.set()
            self._urgent.set()

    def _fold(self, batch: Iterable[Event]) -> None:
        for event in batch:
            self.body = view(self.body, event)
            if event.parent_run is None and event.type in _ENDS:
                self._urgent.set()
        self._up_to_date.clear()
        self._changed.set()

    async def _write(self) -> None:
        """Show the latest state, wait `edit_every` seconds unless a run ends, and repeat."""
        while True:
            await self._wait(self._changed, self._until_old())
            self._changed.clear()
            self._urgent.clear()
            over = self._over
            failed = await self._show()
            if failed is None and not self._changed.is_set():
                self._up_to_date.set()
            if over and failed is None:
                return
            beat = self._outbox.limits.edit_every
            if failed is not None:
                self._changed.set()
                pause = max(failed.retry_after, beat)
                await (self._wait(self._urgent, pause) if isinstance(failed, Deferred) else self._clock.sleep(pause))
                if over and isinstance(failed, Unfinished):  # what begins meanwhile does not wait for the rest
                    await self._reading
                    self._begin_reading(self.body.seq)
            elif not over:
                await self._wait(self._urgent, beat)

    async def _wait(self, event: asyncio.Event, seconds: float | None) -> None:
        """Return when *event* is set, or after *seconds*."""
        if seconds is None or event.is_set():
            await event.wait()
        else:
            await set_or_timeout(event, self._clock, seconds)

    def _until_old(self) -> float | None:
        """Return the seconds until the last message reaches its maximal age; None when it does not age, or has."""
        age, last = self._outbox.limits.age, self._slots[-1]
        if age is None or last.entry.began_at is None:
            return None
        left = age - (self._clock.now() - last.entry.began_at) / 1000
        return left if left > 0 else None

    async def _show(self) -> NotShown | None:
        """Bring every message up to date, in order; return why one of them was not."""
        body, unfinished = self.body, None
        await self._plan(body)
        for slot in self._slots:
            picture = cut(body, slot.segment)
            if picture == slot.displayed or not (slot.entry.ref or is_visible(picture)):
                continue
            try:
                await self._outbox.show(slot.entry, picture)
            except PartTooLong as error:
                await self._divide(body, slot, error.part)
                return await self._show()
            except Unfinished as error:
                unfinished = error
                continue
            except NotShown as error:
                return error
            slot.displayed = picture
        if unfinished is None:
            self._forget(body)
        return unfinished

    async def _plan(self, body: ConversationView) -> None:
        """Draw the borders that are due."""
        while (end := self._due(body, self._slots[-1])) is not None:
            last = self._slots[-1]
            last.segment = replace(last.segment, end=end)
            last.entry.ends = str(end)
            await self._outbox.plan(last.entry)
            self._slots.append(_slot(LedgerEntry(new_id("dlv"), last.entry.n + 1, begins=str(end))))

    async def _divide(self, body: ConversationView, overfull: _Slot, part: float) -> None:
        """End *overfull* where *part* of its text ends; each later message shows what the one before it showed.

        The order stays, though borders move that were drawn: one more message comes at the end.
        """
        slots = self._slots[self._slots.index(overfull) :]
        begin, end = overfull.segment.start, overfull.segment.end
        room = max(1, int(length(body, overfull.segment) * part))
        cut_at = border(body, overfull.segment, MessageLimits(edit_every=0.0, text=room))
        segments = [Segment(begin, cut_at), Segment(cut_at, end), *(each.segment for each in slots[1:])]
        slots.append(_slot(LedgerEntry(new_id("dlv"), slots[-1].entry.n + 1)))
        for slot, segment in zip(slots, segments, strict=True):
            slot.segment = segment
            slot.entry.begins, slot.entry.ends = segment.names
        self._slots.append(slots[-1])
        await self._outbox.plan(*(slot.entry for slot in slots))

    def _due(self, body: ConversationView, slot: _Slot) -> Border | None:
        limits, began = self._outbox.limits, slot.entry.began_at
        if (end := border(body, slot.segment, limits)) is not None:
            return end
        old = began is not None and limits.age is not None and self._clock.now() - began >= 1000 * limits.age
        return rollover(body, slot.segment) if old else None

    def _forget(self, body: ConversationView) -> None:
        """Drop the messages that change no more: those whose runs ended."""

        def may_change(slot: _Slot) -> bool:
            picture = slot.displayed or cut(body, slot.segment)
            return any(not run.ended for run in picture.runs)

        *closed, last = self._slots
        self._slots = [*(slot for slot in closed if may_change(slot)), last]


def _slot(entry: LedgerEntry) -> _Slot:
    return _Slot(Segment(Border.read(entry.begins), Border.read(entry.ends)), entry)

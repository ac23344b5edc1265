"""relay: follow a session and keep a place showing it, at the place's own pace and in messages it can take.

A conversation is shown in *segments*, one message of the channel each. A border stays where it was once drawn, whatever
the messages around it become, unless one of them cannot take its text any more. Each message has its entry in the
ledger before it is sent.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from agent_core import Clock, Event, new_id
from channels.base import Body, Entry, Limits, NotShown, Ref, Screen
from channels.segments import Border, Segment, border, cut, is_visible, length, rollover
from channels.view import EMPTY, view
from channels.waiting import told_or_after

_ENDS = frozenset({"run.waiting", "run.completed", "run.failed", "run.cancelled"})


class Deferred(NotShown):
    """An edit lets others go first; the end of a run, which does not, need not wait for the next one."""


class TooLong(NotShown):
    """A message cannot take all of its text: only this *part* of it fits. The rest goes on in further messages."""

    def __init__(self, message: str, *, part: float) -> None:
        super().__init__(message)
        self.part = part


class Port(Protocol):
    """Where a session's events come from."""

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*."""
        ...


class LedgerPort(Protocol):
    """The ledger of one session at one address."""

    async def entries(self) -> list[Entry]:
        """Return the messages since all was shown for good, in their order."""
        ...

    async def put(self, *entries: Entry) -> None:
        """Keep *entries* as they are now, all of them or none."""
        ...


class NullLedger:
    """The ledger of a place that is gone with the process."""

    async def entries(self) -> list[Entry]:
        return []

    async def put(self, *entries: Entry) -> None:
        pass


@dataclass(slots=True)
class _Delivery:
    """How far a segment got; *entry* is its row in the ledger."""

    segment: Segment
    entry: Entry
    shown: Body | None = None

    @property
    def ref(self) -> Ref | None:
        return None if self.entry.ref is None else Ref(self.entry.ref)


class Relay:
    """Shows one session at one address. *body* is the picture so far."""

    def __init__(
        self,
        port: Port,
        screen: Screen,
        clock: Clock,
        *,
        session: str,
        address: str,
        sheet: LedgerPort | None = None,
    ) -> None:
        self.body: Body = EMPTY
        self._port, self._screen, self._clock = port, screen, clock
        self._session, self._address = session, address
        self._sheet = sheet or NullLedger()
        self._deliveries = [_delivery(Entry(new_id("dlv"), 0))]
        self._news, self._hurry = asyncio.Event(), asyncio.Event()
        self._over = False

    async def run(self, *, after: int = 0) -> None:
        """Show what follows seq *after* until the events end, and return once the last state is shown.

        What an earlier run of the same place had begun is brought to its end.
        """
        if begun := await self._sheet.entries():
            self._deliveries = [_delivery(entry) for entry in begun if entry.state != "closed"]
            last = begun[-1]
            if last.ends is not None:
                self._deliveries.append(_delivery(Entry(new_id("dlv"), last.n + 1, begins=last.ends)))
        reading = asyncio.create_task(self._read(after))
        try:
            await self._write()
            await reading
        finally:
            reading.cancel()
            await asyncio.wait((reading,))

    async def _read(self, after: int) -> None:
        """Fold what comes; an end does not wait for the next beat."""
        try:
            async with aclosing(self._port.follow(self._session, after=after)) as batches:
                async for batch in batches:
                    self._take(batch)
        finally:
            self._over = True
            self._news.set()
            self._hurry.set()

    def _take(self, batch: Iterable[Event]) -> None:
        for event in batch:
            self.body = view(self.body, event)
            if event.parent_run is None and event.type in _ENDS:
                self._hurry.set()
        self._news.set()

    async def _write(self) -> None:
        """Show the latest state, then let `edit_every` seconds pass unless an end comes; and again."""
        while True:
            await self._within(self._news, self._to_live())
            self._news.clear()
            self._hurry.clear()
            over = self._over
            failed = await self._show()
            if over and failed is None:
                return
            if failed is not None:
                self._news.set()
                pause = max(failed.retry_after, self._screen.limits.edit_every)
                await (self._within(self._hurry, pause) if isinstance(failed, Deferred) else self._clock.sleep(pause))
            elif not over:
                await self._pause()

    async def _pause(self) -> None:
        await self._within(self._hurry, self._screen.limits.edit_every)

    async def _within(self, event: asyncio.Event, seconds: float | None) -> None:
        """Return when *event* is set, or after *seconds*."""
        if seconds is None or event.is_set():
            await event.wait()
        else:
            await told_or_after(event, self._clock, seconds)

    def _to_live(self) -> float | None:
        """Return the seconds until the last message has grown as old as it may; None when it does not age, or has."""
        age, last = self._screen.limits.age, self._deliveries[-1]
        if age is None or last.entry.began_at is None:
            return None
        left = age - (self._clock.now() - last.entry.began_at) / 1000
        return left if left > 0 else None

    async def _show(self) -> NotShown | None:
        """Bring every message up to date, in order; return why one of them was not."""
        body = self.body
        await self._plan(body)
        for delivery in self._deliveries:
            picture = cut(body, delivery.segment)
            if picture == delivery.shown or not (delivery.ref or is_visible(picture)):
                continue
            try:
                await self._deliver(delivery, picture)
            except TooLong as error:
                await self._divide(body, delivery, error.part)
                return await self._show()
            except NotShown as error:
                return error
            delivery.shown = picture
        self._forget(body)
        return None

    async def _deliver(self, delivery: _Delivery, picture: Body) -> None:
        """Show *picture* as a new message or as an edit of the one it has; raises `NotShown`."""
        entry = delivery.entry
        if delivery.ref is not None:
            await self._screen.edit(delivery.ref, picture, entry)
        else:
            await self._sheet.put(entry)
            entry.ref = await self._screen.post(self._address, picture, entry)
        if picture.closed and all(run.ended for run in picture.runs):
            entry.state = "closed"
            await self._sheet.put(entry)

    async def _plan(self, body: Body) -> None:
        """Draw the borders that are due."""
        while (end := self._due(body, self._deliveries[-1])) is not None:
            last = self._deliveries[-1]
            last.segment = replace(last.segment, end=end)
            last.entry.ends = str(end)
            await self._sheet.put(last.entry)
            self._deliveries.append(_delivery(Entry(new_id("dlv"), last.entry.n + 1, begins=str(end))))

    async def _divide(self, body: Body, crowded: _Delivery, part: float) -> None:
        """End *crowded* where *part* of its text ends; each message behind it shows what stood in the one before it.

        So the order stays, though borders move that were drawn: one more message comes at the end.
        """
        slots = self._deliveries[self._deliveries.index(crowded) :]
        begin, end = crowded.segment.start, crowded.segment.end
        room = max(1, int(length(body, crowded.segment) * part))
        cut_at = border(body, crowded.segment, Limits(edit_every=0.0, text=room))
        segments = [Segment(begin, cut_at), Segment(cut_at, end), *(each.segment for each in slots[1:])]
        slots.append(_delivery(Entry(new_id("dlv"), slots[-1].entry.n + 1)))
        for slot, segment in zip(slots, segments, strict=True):
            slot.segment = segment
            slot.entry.begins, slot.entry.ends = segment.names
        self._deliveries.append(slots[-1])
        await self._sheet.put(*(slot.entry for slot in slots))

    def _due(self, body: Body, delivery: _Delivery) -> Border | None:
        limits, began = self._screen.limits, delivery.entry.began_at
        if (end := border(body, delivery.segment, limits)) is not None:
            return end
        old = began is not None and limits.age is not None and self._clock.now() - began >= 1000 * limits.age
        return rollover(body, delivery.segment) if old else None

    def _forget(self, body: Body) -> None:
        """Leave alone what changes no more: segments of runs that ended."""

        def may_change(delivery: _Delivery) -> bool:
            picture = delivery.shown or cut(body, delivery.segment)
            return any(not run.ended for run in picture.runs)

        *closed, last = self._deliveries
        self._deliveries = [*(delivery for delivery in closed if may_change(delivery)), last]


def _delivery(entry: Entry) -> _Delivery:
    return _Delivery(Segment(Border.read(entry.begins), Border.read(entry.ends)), entry)

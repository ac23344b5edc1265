"""relay: follow a session and keep a place showing it, at the place's own pace and in messages it can take.

A conversation is shown in *segments*, one message of the channel each. A wait, the end of a run and rollover past
`Limits.text` or `Limits.age` end a segment; the next text opens a new one. A border stays where it was once drawn,
whatever the messages around it become. Each message has its entry in the ledger before it is sent.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent_core import Clock, Event, new_id
from channels.base import Body, Entry, Grown, Limits, NotShown, Piece, Ref, Run, Said, Screen
from channels.fences import fence_at
from channels.view import EMPTY, view
from channels.waiting import told_or_after

_LINE_END = "\n"
_SPLITS = ("\n\n", _LINE_END, " ")
_ENDS = frozenset({"run.waiting", "run.completed", "run.failed", "run.cancelled"})


class Passed(NotShown):
    """An edit lets others go first; the end of a run, which does not, need not wait for the next one."""


class Port(Protocol):
    """Where a session's events come from."""

    def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*."""
        ...


class Sheet(Protocol):
    """The ledger of one session at one address."""

    async def entries(self) -> list[Entry]:
        """Return the messages since all was shown for good, in their order."""
        ...

    async def put(self, entry: Entry) -> None:
        """Keep *entry* as it is now."""
        ...


class Unkept:
    """The ledger of a place that is gone with the process."""

    async def entries(self) -> list[Entry]:
        return []

    async def put(self, entry: Entry) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Border:
    """A place in a conversation: before code point *offset* of a message's text, None is behind all of the message.

    *at* is where to look for the message: its index when the border was drawn, which later grows at most.
    """

    message: str
    offset: int | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.message if self.offset is None else f"{self.message} {self.offset}"

    @classmethod
    def read(cls, text: str | None) -> "Border | None":
        """Return the border that was written as *text*."""
        if text is None:
            return None
        message, _, offset = text.partition(" ")
        return cls(message, int(offset) if offset else None)


@dataclass(frozen=True, slots=True)
class Segment:
    """What one message of a channel shows: all from *start* (None: the beginning) to *end* (None: it still grows)."""

    start: Border | None = None
    end: Border | None = None


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
        sheet: Sheet | None = None,
    ) -> None:
        self.body: Body = EMPTY
        self._port, self._screen, self._clock = port, screen, clock
        self._session, self._address = session, address
        self._sheet = sheet or Unkept()
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
                await (self._within(self._hurry, pause) if isinstance(failed, Passed) else self._clock.sleep(pause))
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


def cut(body: Body, segment: Segment) -> Body:
    """Return the picture of *segment*: its messages, the runs they belong to, and whether it is closed.

    It reaches no further than the first border that the view drew.
    """
    taken = body.past + body.recent
    kept = tuple(_fenced(taken[at], said, _begin(taken[at], segment.start)) for at, said in _cut(body, segment))
    return Body(recent=kept, runs=_runs(body, kept), closed=segment.end is not None)


def border(body: Body, segment: Segment, limits: Limits) -> Border | None:
    """Return where *segment*, which still grows, has to end; None when it may go on."""
    room = limits.text
    last: Border | None = None
    for at, said in _cut(body, segment):
        if room is not None and said.role == "assistant":
            text = said.text
            if len(text) > room:
                offset = _begin(said, segment.start) + _split(text[:room], required=room == limits.text)
                return Border(said.id, offset, at)
            room -= len(text)
        last = Border(said.id, None, at) if said.border else None
    return last


def rollover(body: Body, segment: Segment) -> Border | None:
    """Return the end of the words that *segment* shows by now, or behind tools that work; None while it has neither."""
    last: Border | None = None
    for at, said in _cut(body, segment):
        if said.role != "assistant" or said.border:
            last = None
        elif said.open:
            words = _words(said.text)
            last = Border(said.id, _begin(said, segment.start) + words, at) if words else last
        else:
            last = Border(said.id, None, at) if said.calls else None
    return last


def _words(text: str) -> int:
    """Return the length of *text* up to the end of its last whole word."""
    return max(text.rfind(" "), text.rfind("\n")) + 1


def _cut(body: Body, segment: Segment) -> Iterator[tuple[int, Said]]:
    """Give the messages of *segment*, the first and the last with their part of the text, and their places."""
    for at, said in _from(body, segment.start):
        begin = _begin(said, segment.start)
        end = segment.end if segment.end is not None and segment.end.message == said.id else None
        if end is not None and end.offset is not None:
            yield at, _part(said, begin, end.offset)
            return
        yield at, _part(said, begin, None) if begin else said
        if said.border or end is not None:
            return


def _begin(said: Said, start: Border | None) -> int:
    """Return the offset in *said* at which a segment from *start* on begins."""
    return start.offset or 0 if start is not None and start.message == said.id else 0


def is_visible(picture: Body) -> bool:
    """Tell whether there is anything of an agent to show: text, a call, or an end that is worth a word."""
    if any(said.role == "assistant" and (said.calls or said.text.strip()) for said in picture.recent):
        return True
    ends = [run for run in picture.runs if run.status in ("failed", "cancelled", "waiting", "requires_action")]
    refused = [run for run in picture.runs if run.reason not in (None, "end_turn")]
    return bool(ends or refused) and any(said.border for said in picture.recent)


def _from(body: Body, start: Border | None) -> Iterator[tuple[int, Said]]:
    """Give the messages from *start* on, and their places; those that no step has taken yet are left out."""
    taken = body.past + body.recent
    at = 0
    if start is not None:
        at = next((n for n in range(start.at, len(taken)) if taken[n].id == start.message), len(taken))
        at += start.offset is None
    return ((n, taken[n]) for n in range(at, len(taken)))


def _runs(body: Body, messages: Iterable[Said]) -> tuple[Run, ...]:
    """Return the runs that *messages* belong to; those of new messages are found at once."""
    names = {said.run for said in messages}
    found: list[Run] = []
    for run in reversed(body.runs):
        if len(found) == len(names):
            break
        if run.id in names:
            found.append(run)
    return tuple(reversed(found))


def _part(said: Said, begin: int, end: int | None) -> Said:
    """Return *said* with a part of its text; what stands below its text goes with the last part."""
    parts = (Piece("text", Grown.of(said.text[begin:end])),)
    if end is None:
        return replace(said, parts=parts)
    return replace(said, parts=parts, calls=(), border=False)


def _fenced(whole: Said, part: Said, begin: int) -> Said:
    """Return *part* of *whole*, from *begin* on, with a code fence that the cut went through closed and opened anew."""
    if whole is part:
        return part
    text, end = part.text, begin + len(part.text)
    if end < len(whole.text) and (inside := fence_at(whole.text[:end])) is not None:
        text = f"{text.removesuffix(_LINE_END)}{_LINE_END}{inside.mark}"
    if begin and (before := fence_at(whole.text[:begin])) is not None:
        text = f"{before.opening}{_LINE_END}{text}"
    return replace(part, parts=(Piece("text", Grown.of(text)),))


def _split(text: str, *, required: bool) -> int:
    """Return where to cut *text*: at the end of a paragraph, a line or a word in its second half, else at its end.

    Where no text has to fit (not *required*) a bad place is none: then 0.
    """
    for mark in _SPLITS:
        at = text.rfind(mark, len(text) // 2)
        if at > 0:
            return at + len(mark)
    return len(text) if required else 0

"""Outgoing: what this process drives, and what of it was not yet published to the other processes. No I/O."""

from collections.abc import Sequence
from itertools import count

import msgspec

from agent_core import events as e
from agent_core.events import Fact, Live, LiveBody
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef

NOTES = 120
"""Entries of one notification: Postgres takes less than 8,000 bytes, and an entry has 64 at most."""
SETTLED = frozenset(cls.type for cls in (*e.TERMINAL, e.RunWaiting))
TAKEN = frozenset((e.RunStarted.type, e.RunResumed.type))
TEXTS = (e.TextDelta, e.ReasoningDelta)
Entry = tuple[str, str | int, int]
"""What a notification says: `fact` session seq, `live` run, `ring` run (wake it), `interrupt` run."""


class Row(msgspec.Struct, frozen=True):
    """A row of the table `live`."""

    session: int
    run: int
    epoch: int
    n: int
    data: bytes


class Over(msgspec.Struct, frozen=True):
    """The rows of a message that is complete: those of a run and epoch up to *n*."""

    session: int
    run: int
    epoch: int
    n: int


class Batch(msgspec.Struct, frozen=True):
    """What one flush writes, in one transaction."""

    rows: list[Row]
    over: list[Over]
    entries: list[Entry]

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.over or self.entries)

    def notes(self, sender: str) -> list[str]:
        """Return the notifications, each short enough for Postgres."""
        parts = (self.entries[start : start + NOTES] for start in range(0, len(self.entries), NOTES))
        return [sender + msgspec.json.encode(part).decode() for part in parts]


class _Piece:
    """A live event, or several adjacent pieces of one part as one."""

    __slots__ = ("first", "texts")

    def __init__(self, first: Live, text: str) -> None:
        self.first, self.texts = first, [text]

    def item(self) -> tuple[str, int, LiveBody]:
        first = self.first
        body = first.body
        if len(self.texts) > 1 and isinstance(body, TEXTS):
            body = msgspec.structs.replace(body, text="".join(self.texts))
        return first.type, first.time, body


class LocalRun:
    """A run in the hands of this process.

    *seq* is its newest fact and *step* the one that opened *message* (empty between steps). *n* is its newest row. When
    it is *whole* the open message is published from its beginning.
    """

    __slots__ = ("epoch", "message", "n", "pieces", "run", "seq", "session", "step", "whole")

    def __init__(self, session: str, epoch: int) -> None:
        self.session, self.epoch = session, epoch
        self.run: RunRef | None = None
        self.seq = self.step = self.n = 0
        self.message = ""
        self.whole = False
        self.pieces: list[_Piece] = []

    def add(self, event: Live) -> None:
        body = event.body
        if not isinstance(body, TEXTS):
            self.pieces.append(_Piece(event, ""))
        elif not self.whole:
            last = self.pieces[-1] if self.pieces else None
            before = last.first.body if last else None
            if last and isinstance(before, TEXTS) and type(before) is type(body) and before.part == body.part:
                last.texts.append(body.text)
            else:
                self.pieces.append(_Piece(event, body.text))

    def take(self, hub: Hub, n: int) -> Row | None:
        """Return the next row, the run's *n*-th or so, of what was not published."""
        run, pieces, self.pieces = self.run, self.pieces, []
        if run is None:
            return None
        if self.whole:
            text = [_Piece(x, "") for x in hub.open_messages(self.session) if x.run == run.id]
            pieces = [*text, *(x for x in pieces if not isinstance(x.first.body, TEXTS))]
            self.whole = False
        if not pieces:
            return None
        self.n = n
        data = msgspec.json.encode((self.step, [piece.item() for piece in pieces]))
        return Row(run.session, run.key, run.epoch, n, data)


class Outgoing:
    """Gathers until the next flush; *has_listeners* is whether any other process listens."""

    def __init__(self) -> None:
        self.has_listeners = False
        self._driven: dict[str, LocalRun] = {}
        self._fresh: dict[str, LocalRun] = {}
        self._facts: dict[str, int] = {}
        self._requests: dict[Entry, None] = {}
        self._over: list[Over] = []
        self._rows = count(1)

    def facts(self, facts: Sequence[Fact]) -> bool:
        """Note what was committed here; return whether there is something to flush."""
        for fact in facts:
            if self.has_listeners:
                self._facts[fact.session] = max(fact.seq, self._facts.get(fact.session, 0))
            if fact.run is not None and fact.type in TAKEN:
                body = fact.body
                assert isinstance(body, (e.RunStarted, e.RunResumed))
                self._driven[fact.run] = LocalRun(fact.session, body.epoch)
            driven = self._driven.get(fact.run or "")
            if driven is not None:
                self._follow(driven, fact)
        return self.has_listeners or bool(self._over)

    def live(self, run: RunRef, event: Live) -> tuple[bool, bool]:
        """Note a live event; return whether this process still has the run, and whether there is something to flush."""
        driven = self._driven.get(run.id)
        if driven is None or driven.epoch != run.epoch:
            return False, False
        driven.run = run
        if not self.has_listeners:
            return True, False
        driven.add(event)
        self._fresh[run.id] = driven
        return True, True

    def ask(self, kind: str, run: int) -> None:
        """Ask the other processes to wake or interrupt *run*."""
        self._requests[kind, run, 0] = None

    def listen(self, *, has_listeners: bool) -> bool:
        """Note whether other processes listen; return whether there is something to flush: new ones get everything."""
        came = has_listeners and not self.has_listeners
        self.has_listeners = has_listeners
        if came:
            self.publish_again()
        return came

    def take(self, hub: Hub) -> Batch:
        """Return what is to be flushed."""
        fresh, self._fresh = self._fresh, {}
        facts, self._facts = self._facts, {}
        requested, self._requests = self._requests, {}
        over, self._over = self._over, []
        if not self.has_listeners:
            return Batch([], over, [])
        rows = [row for driven in fresh.values() if (row := driven.take(hub, next(self._rows)))]
        entries: list[Entry] = [("fact", session, seq) for session, seq in facts.items()]
        entries += [("live", row.run, 0) for row in rows]
        return Batch(rows, over, [*entries, *requested])

    def failed(self, batch: Batch) -> None:
        """Note that *batch* came to nothing: its text is dropped, open messages start again from their beginning."""
        self._over = [*batch.over, *self._over]
        self.publish_again()

    def drives(self, session: str) -> int:
        """Return the newest seq of those runs of *session* that this process drives, 0 without one."""
        return max((x.seq for x in self._driven.values() if x.session == session), default=0)

    def drives_run(self, run: str) -> bool:
        """Return whether this process drives *run*."""
        return run in self._driven

    def release(self, run: str, epoch: int) -> bool:
        """Forget a run that this process held up to *epoch*, and return whether it did.

        What it still says of the run is not shown: another process has it, or will.
        """
        driven = self._driven.get(run)
        if driven is None or driven.epoch > epoch:
            return False
        del self._driven[run]
        self._fresh.pop(run, None)
        return True

    def _follow(self, driven: LocalRun, fact: Fact) -> None:
        driven.seq = fact.seq
        if fact.type == e.StepStarted.type:
            body = fact.body
            assert isinstance(body, e.StepStarted)
            driven.step, driven.message, driven.whole, driven.pieces = fact.seq, body.message, False, []
        elif fact.type == e.MessageCompleted.type:
            self._close(driven)
        elif fact.type in SETTLED:
            self._close(driven)
            self._driven.pop(fact.run or "", None)
            self._fresh.pop(fact.run or "", None)

    def _close(self, driven: LocalRun) -> None:
        """Delete the rows of a completed message; what was not published of it need not be."""
        driven.message, driven.whole, driven.pieces = "", False, []
        if driven.n and driven.run is not None:
            run = driven.run
            self._over.append(Over(run.session, run.key, run.epoch, driven.n))
            driven.n = 0

    def publish_again(self) -> None:
        """Publish the open messages from their beginning: what the others have of them is unknown."""
        for name, driven in self._driven.items():
            self._facts[driven.session] = max(driven.seq, self._facts.get(driven.session, 0))
            if driven.message:
                driven.whole = True
                driven.pieces = [x for x in driven.pieces if not isinstance(x.first.body, TEXTS)]
                self._fresh[name] = driven

"""What processes tell each other over Postgres: live events and wakes, sent in batches and read again."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs] - it has none
import msgspec
import structlog
from sqlalchemy import Connection, TextClause, text

from agent_core import events as e
from agent_core.counters import histogram
from agent_core.errors import ParleyError, Unavailable
from agent_core.events import Fact, Live, LiveBody
from agent_core.ids import new_id
from agent_core.messages import Reasoning, Text
from agent_core.store.codes import CODES, TYPES
from agent_core.store.database import Database
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef
from agent_core.store.postgres import for_asyncpg

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


_ROW = msgspec.json.Decoder(tuple[int, list[tuple[str, int, msgspec.Raw]]])
_BODIES: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(cls) for name, cls in e.LIVE.items()}


class _RemoteRun:
    """A run that another process drives, and how far its rows were read: to *n* of *epoch*.

    *step* is the seq of the fact that opened *message* (empty between steps), *lengths* what was shown of its parts.
    """

    __slots__ = (
        *("epoch", "has_gap", "id", "is_new", "key", "lengths"),
        *("message", "n", "parent", "place", "session", "step"),
    )

    def __init__(self, key: int, place: int, fact: Fact) -> None:
        self.key, self.place = key, place
        self.session, self.id, self.parent = fact.session, fact.run, fact.parent_run
        self.epoch = self.n = self.step = 0
        self.message = ""
        self.lengths: dict[int, int] = {}
        self.has_gap = self.is_new = False

    def open(self, fact: Fact) -> None:
        body = fact.body
        assert isinstance(body, e.StepStarted)
        self.step, self.message, self.lengths, self.has_gap = fact.seq, body.message, {}, False

    def close(self) -> None:
        self.message, self.lengths, self.has_gap = "", {}, False

    def unshown_part(self, body: e.Delta) -> e.Delta | None:
        """Return what of *body* was not shown; a hole heals when the rows are read once more."""
        start, end = self.lengths.get(body.part, 0), body.offset + len(body.text)
        if body.offset > start:
            self.has_gap = True
        if body.offset > start or end <= start:
            return None
        self.lengths[body.part] = end
        if body.offset == start:
            return body
        return msgspec.structs.replace(body, offset=start, text=body.text[start - body.offset :])


class _Watch:
    """A session that is read here: the hub has its facts up to *seq* (None: not asked yet), and *ahead*."""

    __slots__ = ("ahead", "gone", "readers", "runs", "seq", "waiting")

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        self.ahead: set[int] = set()
        self.readers, self.gone = 0, False
        self.runs: dict[int, _RemoteRun] = {}
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    def has(self, seq: int) -> bool:
        return self.gone or (self.seq is not None and self.seq >= seq)

    def wake(self) -> None:
        """Let those go on who waited for what the hub has now."""
        left: list[tuple[int, asyncio.Future[None]]] = []
        for seq, future in self.waiting:
            if not self.has(seq):
                left.append((seq, future))
            elif not future.done():
                future.set_result(None)
        self.waiting = left


class Incoming:
    """Passes on to the hub what the log and the live rows have of the watched sessions."""

    hub: Hub

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._watches: dict[str, _Watch] = {}
        self._runs: dict[int, _RemoteRun] = {}
        self._new: set[str] = set()
        self._stale: set[str] = set()
        self._requested: set[int] = set()

    @property
    def is_behind(self) -> bool:
        """Return whether there is something to read."""
        return bool(self._new or self._stale or self._requested)

    def join(self, session: str) -> None:
        watch = self._watches.get(session)
        if watch is None:
            # What this process drives the hub has in memory: nothing is read for it.
            watch = self._watches[session] = _Watch(self._outgoing.drives(session) or None)
            if watch.seq is None:
                self._new.add(session)
        watch.readers += 1

    def leave(self, session: str) -> None:
        watch = self._watches[session]
        watch.readers -= 1
        if not watch.readers:
            for run in list(watch.runs.values()):
                self.hub.close(session, run.message)
                self._drop(watch, run)
            self._new.discard(session)
            self._stale.discard(session)
            del self._watches[session]

    def reached(self, session: str, seq: int) -> asyncio.Future[None] | None:
        """Return a future that is done once the hub has the facts up to *seq*; None when it has them."""
        watch = self._watches[session]
        if watch.has(seq):
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watch.waiting.append((seq, future))
        self.notified_of_facts(session, seq)
        return future

    def notified_of_facts(self, session: str, seq: int) -> None:
        """Note that the log of *session* goes to *seq* at least."""
        watch = self._watches.get(session)
        if watch is not None and watch.seq is not None and not watch.has(seq):
            self._stale.add(session)

    def notified_of_rows(self, run: int) -> None:
        """Note that there are new rows of *run*."""
        if run in self._runs:
            self._requested.add(run)

    def facts(self, facts: Iterable[Fact]) -> None:
        """Note what was committed here: the hub has it."""
        for fact in facts:
            watch = self._watches.get(fact.session)
            if watch is None:
                continue
            if self._outgoing.drives_run(fact.run or ""):
                for run in [run for run in watch.runs.values() if run.id == fact.run]:
                    self._drop(watch, run)
            if watch.seq is not None and fact.seq == watch.seq + 1:
                watch.seq = fact.seq
            elif watch.seq is None or fact.seq > watch.seq:
                watch.ahead.add(fact.seq)
            watch.wake()

    def read_all(self) -> None:
        """Have everything read that is watched: something may have been missed."""
        for session, watch in self._watches.items():
            if not watch.gone:
                (self._new if watch.seq is None else self._stale).add(session)
        for run in self._runs.values():
            if run.has_gap:
                run.epoch = run.n = 0
                run.has_gap = False
        self._requested = set(self._runs)

    def take_new(self) -> list[str]:
        """Return the sessions of which nothing is known yet."""
        taken, self._new = self._new, set()
        return list(taken)

    def take_stale(self) -> tuple[list[str], list[int]]:
        """Return the sessions whose log went on, and from where."""
        taken, self._stale = self._stale, set()
        stale = [(session, watch.seq) for session in taken if (watch := self._watches.get(session)) and not watch.gone]
        positions = [(session, seq) for session, seq in stale if seq is not None]
        return [session for session, _ in positions], [seq for _, seq in positions]

    def take_runs(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return the runs that have new rows, and from where: sessions, runs, epochs, numbers."""
        taken, self._requested = self._requested, set()
        runs = [self._runs[key] for key in taken if key in self._runs]
        return [x.place for x in runs], [x.key for x in runs], [x.epoch for x in runs], [x.n for x in runs]

    def begin(self, requested: Collection[str], rows: Sequence[Sequence[Any]]) -> None:
        """Begin with the sessions *requested*, a row for each that is there and run in it that is being driven."""
        newest: dict[str, int] = {}
        for session, place, seq, *open_step in rows:
            newest[session] = seq
            self._begin_run(session, place, *open_step)
        for session in requested:
            watch = self._watches.get(session)
            if watch is None or watch.seq is not None:
                continue
            watch.seq = newest.get(session)
            if watch.seq is None:
                self._end(session, watch)
            else:
                watch.ahead = {seq for seq in watch.ahead if seq > newest[session]}
            watch.wake()

    def _begin_run(self, session: str, place: int, key: int | None, *fields: Any) -> None:
        watch = self._watches.get(session)
        if watch is None or watch.seq is not None or key is None:
            return
        name, parent, seq, kind, time, data = fields
        if seq is None or self._outgoing.drives_run(name):
            return
        fact = _fact(session, seq, kind, time, data, name, parent)
        run = self._add(watch, _RemoteRun(key, place, fact))
        run.is_new = True
        if fact.type == e.StepStarted.type:
            run.open(fact)
            self.hub.note(fact)

    def learn(self, rows: Sequence[Sequence[Any]]) -> None:
        """Pass on the facts of *rows*, those of a session in order; a session that is gone has a row without a key."""
        for session, place, seq, kind, time, data, key, name, parent in rows:
            watch = self._watches.get(session)
            if watch is None or watch.seq is None:
                continue
            if place is None:
                self._end(session, watch)
            elif seq is not None and seq > watch.seq:
                watch.seq = seq
                if seq in watch.ahead:
                    watch.ahead.discard(seq)
                elif kind in TYPES:  # else a newer version's, which works beside this one
                    self._pass_on(watch, _fact(session, seq, kind, time, data, name, parent), key, place)
            watch.wake()

    def show(self, requested: Iterable[int], rows: Iterable[Sequence[Any]]) -> None:
        """Show the live events of *rows*, those of a run in order; what belongs to facts unread waits for them."""
        waiting: set[int] = set()
        for key, epoch, n, data in rows:
            run = self._runs.get(key)
            if run is None or key in waiting:
                continue
            step, items = _decoded(data)
            if not self._watches[run.session].has(step):
                waiting.add(key)
                self._stale.add(run.session)
                continue
            run.epoch, run.n = epoch, n
            for time, body in items:
                self._show(run, step, time, body)
        for key in requested:
            if key in self._runs and key not in waiting:
                self._runs[key].is_new = False
        self._requested |= waiting

    def _show(self, run: _RemoteRun, step: int, time: int, body: LiveBody) -> None:
        """Show *body* if it is news: text of the open message, and other live events while there is a reader."""
        if isinstance(body, TEXTS):
            unshown = run.unshown_part(body) if run.message and step == run.step else None
        else:
            unshown = None if run.is_new else body
        if unshown is not None:
            self.hub.show(Live(session=run.session, run=run.id, parent_run=run.parent, time=time, body=unshown))

    def _pass_on(self, watch: _Watch, fact: Fact, key: int | None, place: int) -> None:
        """Pass on a fact that was committed elsewhere, and follow the run that it is of."""
        run = watch.runs.get(key or 0)
        if fact.type == e.RunResumed.type:
            body = fact.body
            assert isinstance(body, e.RunResumed)
            self._outgoing.release(fact.run or "", body.epoch - 1)
            if run is not None:
                run.close()
        elif fact.type == e.StepStarted.type and key is not None:
            if self._outgoing.drives_run(fact.run or ""):
                return  # our own, read before its commit was reported: the store passes it on
            (run or self._add(watch, _RemoteRun(key, place, fact))).open(fact)
        elif fact.type == e.MessageCompleted.type and run is not None:
            self._show_rest(run, fact)
            run.close()
        elif fact.type in SETTLED and run is not None:
            self._drop(watch, run)
        self.hub.publish((fact,))

    def _show_rest(self, run: _RemoteRun, end: Fact) -> None:
        """Show the rest of a completed message, if its parts continue what was shown."""
        body = end.body
        assert isinstance(body, e.MessageCompleted)
        bodies = [live.body for live in self.hub.open_messages(run.session) if live.run == run.id]
        shown = {body.part: body for body in bodies if isinstance(body, TEXTS)}
        parts = {n: part for n, part in enumerate(body.parts) if isinstance(part, (Text, Reasoning))}
        if not shown or not all(n in parts and parts[n].text.startswith(body.text) for n, body in shown.items()):
            return
        first = next(iter(shown.values()))
        for n, part in parts.items():
            kind = e.TextDelta if isinstance(part, Text) else e.ReasoningDelta
            whole = kind(
                message=first.message, part=n, epoch=first.epoch, attempt=first.attempt, offset=0, text=part.text
            )
            self._show(run, run.step, end.time, whole)

    def _add(self, watch: _Watch, run: _RemoteRun) -> _RemoteRun:
        watch.runs[run.key] = self._runs[run.key] = run
        self._requested.add(run.key)
        return run

    def _drop(self, watch: _Watch, run: _RemoteRun) -> None:
        watch.runs.pop(run.key, None)
        self._runs.pop(run.key, None)
        self._requested.discard(run.key)

    def _end(self, session: str, watch: _Watch) -> None:
        """End the readers of a session that is not there any more."""
        watch.gone = True
        for run in list(watch.runs.values()):
            self._drop(watch, run)
        self.hub.forget(session)


def _decoded(data: bytes) -> tuple[int, list[tuple[int, LiveBody]]]:
    """Return the step of a row and its live events, without what only a newer version understands."""
    items: list[tuple[int, LiveBody]] = []
    try:
        step, entries = _ROW.decode(data)
    except msgspec.DecodeError:
        return 0, items
    for kind, time, raw in entries:
        with suppress(KeyError, msgspec.DecodeError):
            items.append((time, _BODIES[kind].decode(raw)))
    return step, items


def _fact(session: str, seq: int, kind: int, time: int, data: bytes, run: str | None, parent: str | None) -> Fact:
    return Fact(seq=seq, type=TYPES[kind], session=session, run=run, parent_run=parent, time=time, raw=data)


CHANNEL = "parley"
NAMES = {"read": "parley-bus", "write": "parley-bus-write"}
"""What the connections call themselves: the listening ones of the others are counted."""
GAP = 0.015
"""Seconds between two flushes, at least; one and a half times what a flush takes, if that is more."""
BREATH = 0.005
"""Seconds between two readings, at least: what several processes publish in that time is read at once."""
POLL = 1.5
"""Seconds after which everything watched is read without a notification: one may be lost."""
TIDY = 30.0
TIMEOUT = 5.0
LAST = 2.0
_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)

_log = structlog.get_logger("parley.bus")
_ENTRIES = msgspec.json.Decoder(list[Any])

# One statement is one transaction: the notifications go out with the rows that they speak of.
_FLUSH = f"""
WITH over AS (
    DELETE FROM live USING unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[]) AS o(session, run, epoch, n)
    WHERE live.session = o.session AND live.run = o.run AND live.epoch = o.epoch AND live.n <= o.n
), kept AS (
    INSERT INTO live (session, run, epoch, n, data)
    SELECT * FROM unnest($5::bigint[], $6::bigint[], $7::int[], $8::bigint[], $9::bytea[])
)
SELECT pg_notify('{CHANNEL}', note) FROM unnest($10::text[]) AS note
"""  # noqa: S608 - the channel is our own word
# The subqueries are sorted so that Postgres looks each session up by the key of its log.
_BEGIN = f"""
SELECT w.id, s.key, s.next_seq - 1, r.key, r.id, p.id, e.seq, e.type, e.time, e.data
FROM unnest($1::text[]) AS w(id) JOIN session s ON s.id = w.id
LEFT JOIN run r ON r.session = s.key AND r.status = 'running'
LEFT JOIN run p ON p.key = r.parent
LEFT JOIN LATERAL (
    SELECT seq, type, time, data FROM event
    WHERE session = s.key AND run = r.key AND type IN ({CODES["step.started"]}, {CODES["message.completed"]})
    ORDER BY seq DESC LIMIT 1
) e ON true
"""  # noqa: S608 - the codes are our own numbers
_LEARN = """
SELECT w.id, s.key, e.seq, e.type, e.time, e.data, e.run, r.id, p.id
FROM unnest($1::text[], $2::bigint[]) AS w(id, seq) LEFT JOIN session s ON s.id = w.id
LEFT JOIN LATERAL (
    SELECT seq, type, time, data, run FROM event WHERE session = s.key AND seq > w.seq ORDER BY seq
) e ON true
LEFT JOIN run r ON r.key = e.run LEFT JOIN run p ON p.key = r.parent
ORDER BY w.id, e.seq
"""
_SHOW = """
SELECT c.run, l.epoch, l.n, l.data
FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::bigint[]) AS c(session, run, epoch, n)
CROSS JOIN LATERAL (
    SELECT epoch, n, data FROM live
    WHERE session = c.session AND run = c.run AND (live.epoch, live.n) > (c.epoch, c.n) ORDER BY epoch, n
) l
ORDER BY c.run, l.epoch, l.n
"""
_OTHERS = f"""
SELECT count(*) FROM pg_stat_activity
WHERE application_name = '{NAMES["read"]}' AND datname = current_database() AND pid <> pg_backend_pid()
"""  # noqa: S608 - the name is our own word
# A flush may be deleting the same rows: what is locked is left to it, so that neither waits for the other.
_TIDY = text("""
DELETE FROM live WHERE ctid IN (
    SELECT ctid FROM live WHERE (run, epoch) IN (
        SELECT DISTINCT run, epoch FROM live EXCEPT SELECT key, epoch FROM run WHERE status = 'running'
    ) FOR UPDATE SKIP LOCKED
)
""")


class _Outage:
    """Says once that the database is away, and once that it is back."""

    def __init__(self) -> None:
        self._away: dict[str, int] = {}

    def begin(self, who: str, error: BaseException) -> float:
        """Return how many seconds to wait before the next try."""
        if not self._away:
            _log.warning("bus.lost", error=type(error).__name__)
        tries = self._away[who] = self._away.get(who, 0) + 1
        return _PAUSES[min(tries, len(_PAUSES)) - 1]

    def end(self, who: str) -> None:
        if self._away.pop(who, 0) and not self._away:
            _log.info("bus.back")


class PostgresBus:
    """Publishes what happens here to the other processes on the Postgres at *url*, and receives what happens there.

    *database* is the same, for what is cleared away now and then. Two connections besides those of *database*.
    *flushes* are the seconds that each flush took, and *rows* what they wrote of text, for those who watch.
    """

    def __init__(self, url: str, database: Database) -> None:
        self._url, self._database = for_asyncpg(url), database
        self._name = new_id("bus")
        self._outgoing = Outgoing()
        self._incoming = Incoming(self._outgoing)
        self._flush_wanted, self._read_wanted, self._listening, self._ended = (asyncio.Event() for _ in range(4))
        self._outage = _Outage()
        self.flushes, self.rows = histogram("parley_bus_flush_seconds", "Flushes to the other processes."), 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, hub: Hub, wake: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        """Begin to listen; raises `Unavailable` when the database does not let us."""
        self._hub, self._wake, self._interrupt = hub, wake, interrupt
        self._incoming.hub = hub
        works = (self._forever("write", self._write), self._forever("read", self._read), self._tidy_up())
        self._tasks = [asyncio.create_task(work, name="parley-bus") for work in works]
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._listening.wait()
        except TimeoutError:
            await self.stop()
            raise Unavailable(
                "The database does not let this process listen; connect to it without a pooler."
            ) from None

    async def stop(self) -> None:
        """Flush what is pending, and stop listening."""
        self._ended.set()
        self._flush_wanted.set()
        self._read_wanted.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def facts(self, facts: Sequence[Fact]) -> None:
        if self._outgoing.facts(facts):
            self._flush_wanted.set()
        self._incoming.facts(facts)

    def live(self, run: RunRef, event: Live) -> bool:
        ours, tells = self._outgoing.live(run, event)
        if tells:
            self._flush_wanted.set()
        return ours

    def release(self, run: RunRef) -> None:
        if self._outgoing.release(run.id, run.epoch):
            self._hub.release(run.session_id, run.id)

    def wake(self, run: int) -> None:
        self._outgoing.ask("ring", run)
        self._flush_wanted.set()

    def interrupt(self, run: int) -> None:
        self._outgoing.ask("interrupt", run)
        self._flush_wanted.set()

    def join(self, session: str) -> None:
        self._incoming.join(session)

    async def reach(self, session: str, seq: int) -> None:
        reached = self._incoming.reached(session, seq)
        if reached is None:
            return
        self._read_wanted.set()
        try:
            async with asyncio.timeout(TIMEOUT):
                await reached
        except TimeoutError:
            raise Unavailable("The database does not answer; try again in a moment.") from None

    def leave(self, session: str) -> None:
        self._incoming.leave(session)

    async def _forever(self, who: str, work: Callable[[Any], Awaitable[None]]) -> None:
        """Have *work* use a connection, and another one when that is lost."""
        while not self._ended.is_set():
            try:
                connection = await _connected(self._url, NAMES[who])
                try:
                    await work(connection)
                finally:
                    await connection.close(timeout=LAST / 2)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next connection may do better
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._outage.begin(who, error)):
                        await self._ended.wait()

    async def _write(self, connection: Any) -> None:
        """Flush what there is: at once, or a gap after the last flush began; longer when the database is slow."""
        await connection.execute("SET synchronous_commit TO off")
        while True:
            await self._flush_wanted.wait()
            if connection.is_closed():
                return
            self._flush_wanted.clear()
            began = _now()
            batch = self._outgoing.take(self._hub)
            if not batch.is_empty:
                await self._flush(connection, batch)
                self.flushes.observe(_now() - began)
                self.rows += len(batch.rows)
            self._outage.end("write")
            if self._ended.is_set():
                return
            duration = _now() - began
            await asyncio.sleep(max(GAP - duration, duration / 2))

    async def _flush(self, connection: Any, batch: Batch) -> None:
        over, rows = batch.over, batch.rows
        try:
            await connection.execute(
                _FLUSH,
                *([getattr(each, name) for each in over] for name in ("session", "run", "epoch", "n")),
                *([getattr(each, name) for each in rows] for name in ("session", "run", "epoch", "n", "data")),
                batch.notes(self._name),
            )
        except BaseException:
            self._outgoing.failed(batch)
            self._flush_wanted.set()
            raise

    async def _read(self, connection: Any) -> None:
        """Read what notifications name, and everything watched from time to time."""
        await connection.add_listener(CHANNEL, self._on_notification)
        connection.add_termination_listener(self._cut)
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, f"{self._name}[]")
        self._outgoing.publish_again()
        look = _now()
        while not self._ended.is_set():
            if _now() >= look:
                self._listen(has_listeners=await connection.fetchval(_OTHERS) > 0)
                self._incoming.read_all()
                look = _now() + POLL
            began = _now()
            self._read_wanted.clear()
            await self._catch_up(connection)
            self._outage.end("read")
            self._listening.set()
            await asyncio.sleep(BREATH - (_now() - began))
            if not self._incoming.is_behind:
                with suppress(TimeoutError):
                    async with asyncio.timeout(look - _now()):
                        await self._read_wanted.wait()
            if connection.is_closed():
                raise ConnectionError

    async def _catch_up(self, connection: Any) -> None:
        """Read what the watched sessions have that was not passed on: facts first, then live rows."""
        if new := self._incoming.take_new():
            self._incoming.begin(new, await connection.fetch(_BEGIN, new))
        stale = self._incoming.take_stale()
        if stale[0]:
            self._incoming.learn(await connection.fetch(_LEARN, *stale))
        events = self._incoming.take_runs()
        if events[0]:
            self._incoming.show(events[1], await connection.fetch(_SHOW, *events))

    def _on_notification(self, _connection: Any, _process: int, _channel: str, payload: str) -> None:
        sender, bracket, rest = payload.partition("[")
        if sender == self._name:
            return
        self._listen(has_listeners=True)
        for entry in _entries(bracket + rest):
            match entry:
                case ["fact", str(session), int(seq), *_]:
                    self._incoming.notified_of_facts(session, seq)
                case ["live", int(run), *_]:
                    self._incoming.notified_of_rows(run)
                case ["ring", int(run), *_]:
                    self._wake(run)
                case ["interrupt", int(run), *_]:
                    self._interrupt(run)
                case _:
                    continue  # a newer version's word
        if self._incoming.is_behind:
            self._read_wanted.set()

    def _cut(self, _connection: Any) -> None:
        self._read_wanted.set()

    def _listen(self, *, has_listeners: bool) -> None:
        if self._outgoing.listen(has_listeners=has_listeners):
            self._flush_wanted.set()

    async def _tidy_up(self) -> None:
        """Clear away the rows that a crash left: of runs that ended, or that another process drives now."""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(TIDY):
                    await self._ended.wait()
                    return
            with suppress(ParleyError):  # away: the next time will do
                await self._database.write(lambda connection: _run(connection, _TIDY))


async def _connected(url: str, name: str) -> Any:
    driver = cast("Any", asyncpg)
    names = {"application_name": name}
    return await driver.connect(url, timeout=TIMEOUT, command_timeout=TIMEOUT, server_settings=names)


def _entries(payload: str) -> list[Any]:
    try:
        return _ENTRIES.decode(payload)
    except msgspec.DecodeError:
        return []  # a newer version's words


def _now() -> float:
    return asyncio.get_running_loop().time()


def _run(connection: Connection, statement: TextClause) -> None:
    connection.execute(statement)

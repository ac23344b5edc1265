"""Incoming: the sessions that are read here while others drive them, and what those have published. No I/O."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from agent_core import events as e
from agent_core.events import Fact, Live, LiveBody
from agent_core.messages import Reasoning, Text
from agent_core.store.codes import TYPES
from agent_core.store.hub import Hub
from agent_core.store.postgres.outgoing import SETTLED, TEXTS, Outgoing

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

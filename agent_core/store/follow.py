"""The one reader. From any cursor: the later facts once, the open messages whole, then new events."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from sqlalchemy import Connection

from agent_core import events as e
from agent_core.errors import UnknownCursor
from agent_core.events import Event, Fact, Live
from agent_core.objects import Receipt
from agent_core.store import log, runs, sessions
from agent_core.store.database import Statement
from agent_core.store.log import RUN
from agent_core.store.store import Store

_PAGE = 500
_OPEN = Statement(runs.open_roots(RUN.c.id, RUN.c.status))
_SETTLED = (*e.TERMINAL, e.RunWaiting)
_ENDED_TYPES = frozenset(cls.type for cls in e.TERMINAL)
_SETTLED_TYPES = frozenset(cls.type for cls in _SETTLED)
_STATUS = {
    e.RunQueued.type: "queued",
    e.RunStarted.type: "running",
    e.RunResumed.type: "running",
    e.RunWaiting.type: "waiting",
}
_WAITING = ("waiting", "requires_action")


class Watch(Protocol):
    """Which events of a session a reader wants, and when it is done."""

    @property
    def done(self) -> bool: ...

    def sync(self, open_runs: dict[str, str]) -> None:
        """Note the open root runs and their status as of the last fact that was seen."""
        ...

    def see(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the wanted ones of *events*, up to the one after which the reader is done."""
        ...


class WatchAll:
    """Everything, without end."""

    done = False

    def sync(self, open_runs: dict[str, str]) -> None: ...

    def see(self, events: Sequence[Event]) -> Sequence[Event]:
        return events


class WatchUntilIdle:
    """Everything, until no root run is running or about to: one that waits is idle, and all that is queued after it."""

    def __init__(self) -> None:
        self._open: dict[str, str] | None = None

    @property
    def done(self) -> bool:
        return self._open is not None and self._is_idle(self._open)

    def sync(self, open_runs: dict[str, str]) -> None:
        self._open = dict(open_runs)

    def see(self, events: Sequence[Event]) -> Sequence[Event]:
        if self._open is None:
            return events
        for index, event in enumerate(events):
            if event.parent_run is not None or event.run is None or event.live:
                continue
            if event.type in _ENDED_TYPES:
                self._open.pop(event.run, None)
            elif event.type in _STATUS:
                self._open[event.run] = _STATUS[event.type]
            if self._is_idle(self._open) and not _more_runs(events[index + 1 :]):
                return events[: index + 1]
        return events

    @staticmethod
    def _is_idle(open_runs: dict[str, str]) -> bool:
        """Return whether nothing runs or is about to: runs are taken in turn, and one that waits keeps its turn."""
        statuses = set(open_runs.values())
        return "running" not in statuses and ("queued" not in statuses or not statuses.isdisjoint(_WAITING))


class WatchRun:
    """A root run and its descendants, until the root ends or waits; an earlier wait that was answered ends nothing."""

    def __init__(self, run: str) -> None:
        self._root = run
        self._family = {run}
        self._live = False
        self.done = False

    def sync(self, open_runs: dict[str, str]) -> None:
        self._live = True
        self.done = open_runs.get(self._root) not in ("queued", "running")

    def see(self, events: Sequence[Event]) -> Sequence[Event]:
        wanted: list[Event] = []
        for event in events:
            if event.run is None or (event.run not in self._family and event.parent_run not in self._family):
                continue
            self._family.add(event.run)
            wanted.append(event)
            if event.run == self._root and event.type in (_SETTLED_TYPES if self._live else _ENDED_TYPES):
                self.done = True
                break
        return wanted


async def follow(
    store: Store, session: str, *, after: int, watch: Watch, is_short: bool = False
) -> AsyncGenerator[list[Event]]:
    """Yield batches of events for *watch*, beginning after the seq *after*.

    Once the reader has caught up there is a batch, which may be empty: after the first batch a caller misses nothing.
    It ends when the session is deleted. Raises `NotFound`, and `UnknownCursor` when *after* is beyond the
    newest fact, before the first batch. *is_short* says that few facts follow *after*.
    """
    subscriber = store.add_reader(session)
    try:
        reader = _Reader(store, session, after, is_short=is_short)
        while not watch.done:
            subscriber.begin()
            await store.reach(session, 0)
            async for page in reader.history(watch):
                yield page
            if not watch.done:
                await store.reach(session, reader.seq)
            if subscriber.behind:
                continue
            # From here to the first `wait` nothing is awaited, so that no event is lost between the log and the hub.
            news = reader.unread(subscriber.take())
            if news is None:
                continue
            held = [*news, *reader.still_open(store.hub.open_messages(session))]
            yield [] if watch.done else list(watch.see(held))
            # If the reader was too slow, its buffer was dropped: it reads the log again, from where it is.
            while not watch.done and not subscriber.behind:
                await subscriber.wait()
                if subscriber.over:
                    return
                events = subscriber.take()
                if reader.overtook or not all(event.live for event in events):
                    events = await reader.whole(events)
                if batch := list(watch.see(events)):
                    yield batch
    finally:
        store.remove_reader(session, subscriber)


def follow_answer(store: Store, receipt: Receipt) -> AsyncGenerator[list[Event]]:
    """Yield batches of the events of the run that takes a received message, as `follow_run` does."""
    watch, is_short = WatchRun(receipt.run), not receipt.repeated
    return follow(store, receipt.session, after=receipt.before, watch=watch, is_short=is_short)


async def follow_run(store: Store, run: str, *, after: int) -> AsyncGenerator[list[Event]]:
    """Yield batches of the events of a root run and its descendants, until it ends or waits. Raises `NotFound`."""
    ref, _ = await store.read(runs.find, run)
    async for batch in follow(store, ref.session_id, after=max(after, ref.first_seq - 1), watch=WatchRun(run)):
        yield batch


class _Reader:
    """A cursor in one session's log."""

    def __init__(self, store: Store, session: str, after: int, *, is_short: bool) -> None:
        self._store, self._session, self.seq, self._is_short = store, session, after, is_short
        self._page_read: list[Fact] = []
        self._ended: set[str] = set()

    async def history(self, watch: Watch) -> AsyncGenerator[list[Event]]:
        """Yield the facts that are in the log, page by page; *watch* gets the open runs with the last page."""
        more = True
        while more and not watch.done:
            read, self._is_short = self._store.peek if self._is_short else self._store.read, False
            facts, self.seq, open_runs = await read(self._page)
            more = open_runs is None
            self._page_read = facts or self._page_read
            wanted = list(watch.see(facts))
            if open_runs is not None and not watch.done:
                watch.sync(open_runs)
            if wanted:
                yield wanted

    def unread(self, events: Sequence[Event]) -> Sequence[Event] | None:
        """Return the facts of *events* beyond the cursor, and move it; live events are outdated and left out.

        None when a fact is missing between them, which can happen with several processes: the log has it.
        """
        facts = {x.seq: x for x in events if isinstance(x, Fact) and x.seq > self.seq}
        newest = max(facts, default=self.seq)
        if newest - self.seq != len(facts):
            return None
        self.seq = newest
        return [facts[seq] for seq in sorted(facts)]

    def still_open(self, messages: list[Live]) -> list[Live]:
        """Return *messages* without those whose end was read: a commit is in the log before the hub has it."""
        if not messages:
            return messages
        ends = (fact.body for fact in self._page_read if fact.type == e.MessageCompleted.type)
        ended = {body.message for body in ends if isinstance(body, e.MessageCompleted)}
        return [live for live in messages if not (isinstance(live.body, e.Delta) and live.body.message in ended)]

    @property
    def overtook(self) -> bool:
        """Return whether the hub may still show live events of messages or runs whose end was read from the log."""
        return bool(self._ended)

    async def whole(self, events: list[Event]) -> list[Event]:
        """Return *events* without those passed on before or outdated; a gap is filled from the log."""
        facts: list[Event] = []
        for event in events:
            if isinstance(event, Fact):
                if event.seq <= self.seq:
                    self._ended -= _ends((event,))
                    continue
                if event.seq > self.seq + 1:
                    missing = await self._store.read(self._gap, event.seq)
                    self._ended |= _ends(missing)
                    facts += missing
                self.seq = event.seq
            elif event.run in self._ended or getattr(event.body, "message", None) in self._ended:
                continue
            facts.append(event)
        return facts

    def _page(self, connection: Connection) -> tuple[list[Fact], int, dict[str, str] | None]:
        """Return the next facts, how far they reach, and the open runs once that is the end."""
        ref = sessions.find(connection, self._session)
        if self.seq > ref.newest:
            raise UnknownCursor("after", f"the newest seq of session `{ref.id}` is {ref.newest}, not {self.seq}.")
        facts, reached = log.facts_page(connection, ref.session_key, self.seq, _PAGE)
        if reached < ref.newest:
            return facts, reached, None
        return facts, reached, {row.id: row.status for row in _OPEN.run(connection, b_session=ref.key)}

    def _gap(self, connection: Connection, before: int) -> list[Fact]:
        place = sessions.find(connection, self._session).session_key
        return log.facts_between(connection, place, self.seq, before)


def _ends(facts: Sequence[Fact]) -> set[str]:
    """Return the messages and runs that *facts* end."""
    runs = {fact.run or "" for fact in facts if fact.type in _ENDED_TYPES}
    bodies = [fact.body for fact in facts if fact.type == e.MessageCompleted.type]
    return runs | {body.message for body in bodies if isinstance(body, e.MessageCompleted)}


def _more_runs(events: Sequence[Event]) -> bool:
    """Return whether another run begins in *events*: the end of one starts the next in the same transaction."""
    return any(event.type == e.RunQueued.type for event in events)

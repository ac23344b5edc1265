"""Who waits for the facts of a session in this process, and how other processes hear of them."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from agent_core import events as e
from agent_core.counters import Histogram
from agent_core.events import Event, Fact, Live
from agent_core.store.log import RunRef

MAX_PENDING = 4_096
"""Events that are buffered for a slow reader: over a minute of text at the pace of a fast model."""


class Subscriber:
    """One reader of a session: what came since it last looked, and a future to wait on.

    It buffers a bounded number of events. On overflow it drops them all and is `behind`, buffering nothing until the
    reader calls `begin` and reads the log again.
    """

    __slots__ = ("_waiter", "behind", "events", "over")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.behind = self.over = False
        self._waiter: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Buffer what comes from here on."""
        self.events, self.behind = [], False

    def push(self, event: Event) -> None:
        if self.behind:
            return
        self.events.append(event)
        if len(self.events) > MAX_PENDING:
            self.events, self.behind = [], True
        self._wake()

    def end(self) -> None:
        """End the subscription: nothing more will come."""
        self.over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    async def wait(self) -> None:
        """Return once there is something to take, the buffer overflowed, or the subscription ended."""
        if not self.events and not self.behind and not self.over:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


class _OpenMessage:
    """The text so far of a message that a model is writing."""

    __slots__ = ("first_text", "parts", "started")

    def __init__(self, started: Fact, first_text: Callable[[str | None], None] | None) -> None:
        self.started, self.first_text = started, first_text
        self.parts: dict[int, tuple[type[e.Delta], list[str], e.Delta]] = {}

    def add(self, delta: e.Delta) -> None:
        part = self.parts.get(delta.part)
        if part is None:
            self.parts[delta.part] = (type(delta), [delta.text], delta)
            if self.first_text is not None and isinstance(delta, e.TextDelta):
                self.first_text(self.started.run)
        else:
            part[1].append(delta.text)


class Hub:
    """Subscribers and open messages per session; *first_text* is called with a run whose message gets its first."""

    def __init__(self, first_text: Callable[[str | None], None] | None = None) -> None:
        self._first_text = first_text
        self._readers: dict[str, set[Subscriber]] = defaultdict(set)
        self._open: dict[str, dict[str, _OpenMessage]] = defaultdict(dict)

    def subscribe(self, session: str) -> Subscriber:
        subscriber = Subscriber()
        self._readers[session].add(subscriber)
        return subscriber

    def unsubscribe(self, session: str, subscriber: Subscriber) -> None:
        readers = self._readers.get(session)
        if readers is not None:
            readers.discard(subscriber)
            if not readers:
                del self._readers[session]

    def forget(self, session: str) -> None:
        """End the readers of a session that is gone."""
        self._open.pop(session, None)
        for reader in self._readers.get(session, ()):
            reader.end()

    def publish(self, facts: Iterable[Fact]) -> None:
        """Publish *facts*, just committed, in order."""
        for fact in facts:
            self.note(fact)
            for reader in self._readers.get(fact.session, ()):
                reader.push(fact)

    def show(self, event: Live) -> None:
        """Publish a live event; the text of an open message is kept for readers who join."""
        body = event.body
        if isinstance(body, (e.TextDelta, e.ReasoningDelta)):
            message = self._open.get(event.session, {}).get(body.message)
            if message is not None:
                message.add(body)
        for reader in self._readers.get(event.session, ()):
            reader.push(event)

    def open_messages(self, session: str) -> list[Live]:
        """Return every part of the session's open messages as one delta from offset 0."""
        events: list[Live] = []
        for message in self._open.get(session, {}).values():
            fact = message.started
            for kind, texts, first in message.parts.values():
                body = kind(
                    message=first.message,
                    part=first.part,
                    epoch=first.epoch,
                    attempt=first.attempt,
                    offset=0,
                    text="".join(texts),
                )
                events.append(
                    Live(session=session, run=fact.run, parent_run=fact.parent_run, time=fact.time, body=body)
                )
        return events

    def note(self, fact: Fact) -> None:
        """Open a message with its step, close it with its end or a resume of its run; no reader gets it."""
        if fact.type == e.StepStarted.type:
            body = fact.body
            assert isinstance(body, e.StepStarted)
            self._open[fact.session][body.message] = _OpenMessage(fact, self._first_text)
        elif fact.type == e.MessageCompleted.type:
            body = fact.body
            assert isinstance(body, e.MessageCompleted)
            self.close(fact.session, body.message)
        elif fact.type == e.RunResumed.type:
            self.release(fact.session, fact.run, before=fact.seq)

    def release(self, session: str, run: str | None, *, before: int | None = None) -> None:
        """Close a run's open messages, those of steps *before* a seq: its next driver repeats the step."""
        for name, message in list(self._open.get(session, {}).items()):
            if message.started.run == run and (before is None or message.started.seq < before):
                self.close(session, name)

    def close(self, session: str, message: str) -> None:
        """Close an open message: it is complete, or has no reader here any more."""
        open_here = self._open.get(session)
        if open_here is not None:
            open_here.pop(message, None)
            if not open_here:
                del self._open[session]


class Bus(Protocol):
    """Publishes to the other processes what happens here, and receives what happens there.

    Correctness never depends on it: a fact is in the log before it is published, and a lost wake-up or interrupt is
    found by the sweep. What other processes publish reaches the hub.
    """

    async def start(self, hub: Hub, wake: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        """Begin to listen: *hub* receives what happens elsewhere, *wake* and *interrupt* get the keys of runs."""
        ...

    async def stop(self) -> None:
        """Flush what is pending, and stop listening."""
        ...

    def facts(self, facts: Sequence[Fact]) -> None:
        """Publish *facts*, committed here and published to the hub: no await."""
        ...

    def live(self, run: RunRef, event: Live) -> bool:
        """Publish a live event of *run*, before the hub: no await.

        Return False when another process has taken the run: then the event is not to be shown.
        """
        ...

    def release(self, run: RunRef) -> None:
        """Note that this process no longer drives *run*: no await."""
        ...

    def wake(self, run: int) -> None:
        """Ask for a worker with room to drive *run*: no await."""
        ...

    def interrupt(self, run: int) -> None:
        """Ask the driver of *run* to stop and read the news: no await."""
        ...

    def join(self, session: str) -> None:
        """Receive *session*'s events from here on; end each `join` with one `leave`."""
        ...

    async def reach(self, session: str, seq: int) -> None:
        """Return once the hub has received a joined session's facts up to *seq*, and its open messages.

        Raises `Unavailable` when the database does not answer.
        """
        ...

    def leave(self, session: str) -> None:
        """End one `join` of *session*."""
        ...


@runtime_checkable
class Flushing(Protocol):
    """A bus that counts the seconds of its flushes, and the rows that they wrote."""

    flushes: Histogram
    rows: int

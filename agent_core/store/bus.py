"""The bus port: what passes between the processes of one database. One process alone needs none."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from agent_core.counters import Histogram
from agent_core.events import Fact, Live
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef


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

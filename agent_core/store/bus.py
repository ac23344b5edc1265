"""The bus port: what passes between the processes of one database. One process alone needs none."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.domain.events import Fact, Live
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef


class Bus(Protocol):
    """Passes on to the other processes what happens here, and to this one what happens there.

    Nothing rests on it: a fact is in the log before anybody hears of it, and what a ring or an interrupt loses the
    sweep finds. What other processes tell reaches the hub.
    """

    async def start(self, hub: Hub, ring: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        """Begin to listen: *hub* hears what happens elsewhere, *ring* and *interrupt* get the keys of runs."""
        ...

    async def stop(self) -> None:
        """Tell what is left to tell, and listen no more."""
        ...

    def facts(self, facts: Sequence[Fact]) -> None:
        """Tell the others that *facts* were committed here, behind the hub: no await."""
        ...

    def live(self, run: RunRef, event: Live) -> bool:
        """Tell the others of a live event of *run*, before the hub: no await.

        False says that another process has taken the run: then it is not to be shown.
        """
        ...

    def release(self, run: RunRef) -> None:
        """Note that this process drives *run* no more, whatever became of it: no await."""
        ...

    def ring(self, run: int) -> None:
        """Ask for a worker with room to drive *run*: no await."""
        ...

    def interrupt(self, run: int) -> None:
        """Ask whoever drives *run* to stop and read the news: no await."""
        ...

    def join(self, session: str) -> None:
        """Have the hub hear of *session* from here on; each `join` is answered by one `leave`."""
        ...

    async def reach(self, session: str, seq: int) -> None:
        """Return once the hub has heard of a joined session's facts up to *seq*, and of its open messages.

        Raises `Unavailable` when the database does not answer.
        """
        ...

    def leave(self, session: str) -> None:
        """Say that a reader who had joined *session* is gone."""
        ...

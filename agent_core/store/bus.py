"""The bus port: what passes between the processes of one database. One process alone needs none."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.events import Fact, Live
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef


class Bus(Protocol):
    """Passes on to the other processes what happens here, and to this one what happens there.

    Nothing rests on it: a fact is in the log before anybody hears of it, and what a ring or a call loses the sweep
    finds. What other processes tell reaches the hub.
    """

    async def start(self, hub: Hub, ring: Callable[[int], None], interrupt: Callable[[int], object]) -> None:
        """Begin to listen: *hub* hears what happens elsewhere, *ring* and *interrupt* get the keys of runs."""
        ...

    async def stop(self) -> None: ...

    def facts(self, facts: Sequence[Fact]) -> None:
        """Tell the others that *facts* were committed here: no await."""
        ...

    def live(self, run: RunRef, event: Live) -> None:
        """Tell the others of a live event of *run*, which this process drives: no await."""
        ...

    def ring(self, run: int) -> None:
        """Ask for a worker with room to drive *run*: no await."""
        ...

    def interrupt(self, run: int) -> None:
        """Ask whoever drives *run* to stop and read the news: no await."""
        ...

    async def join(self, session: str) -> None:
        """Have the hub hold the open messages of *session* as far as they are told, and what comes after.

        Raises `NotFound`. Each `join` is answered by one `leave`.
        """
        ...

    def leave(self, session: str) -> None:
        """Say that a reader who had joined *session* is gone."""
        ...

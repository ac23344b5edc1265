"""Work that visitors wait for: one, and one address, has little of it at once, and all together leave room."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agent_core import RateLimited
from app.serving.readers import leave
from channels.web.identity import Principal

MAX_OF_ONE, MAX_OF_ADDRESS, MAX_OF_VISITORS = 2, 4, 16
"""Drawings of one visitor, of all visitors at one address, and of all visitors of this process, at once: half of what
may wait for the renderer."""
RETRY_AFTER = 5
"""Seconds after which one more is worth a try: the longest that a drawing takes."""
DRAWINGS, SEARCHES = "drawings", "searches"
_SAID = {
    DRAWINGS: "Too many charts are drawn for visitors now; ask again.",
    SEARCHES: "Too many searches are under way now; search again in a moment.",
}


class Drawings:
    """Counts the drawings that visitors wait for, or other work of one kind; what operators ask for is not counted."""

    def __init__(
        self,
        *,
        most_of_one: int = MAX_OF_ONE,
        most_of_address: int = MAX_OF_ADDRESS,
        most_of_visitors: int = MAX_OF_VISITORS,
        kind: str = DRAWINGS,
    ) -> None:
        self._of_one, self._of_address, self._of_visitors = most_of_one, most_of_address, most_of_visitors
        self._kind = kind
        self._open = Counter[tuple[str | None, str]]()
        self._at = Counter[str]()

    @contextmanager
    def turn(self, principal: Principal, share: str | None) -> Iterator[None]:
        """Count one more piece of work of *principal*, at the address *share*, while the block lasts.

        Raises `RateLimited`.
        """
        if not principal.visitor:
            yield
            return
        name = (principal.agent, principal.actor.id)
        here = 0 if share is None else self._at[share]
        if self._open[name] >= self._of_one or here >= self._of_address or self._open.total() >= self._of_visitors:
            raise RateLimited(_SAID[self._kind], RETRY_AFTER, limit=self._kind)
        self._open[name] += 1
        if share is not None:
            self._at[share] += 1
        try:
            yield
        finally:
            leave(self._open, name)
            if share is not None:
                leave(self._at, share)

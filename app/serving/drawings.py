"""The drawings that callers wait for: a visitor has few at once, and all visitors together leave room for others."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from agent_core import RateLimited
from channels.web.identity import Principal

MOST_OF_ONE, MOST_OF_VISITORS = 2, 16
"""Drawings of one visitor, and of all visitors of this process, at once: half of what may wait for the renderer."""
RETRY_AFTER = 5
"""Seconds after which one more is worth a try: the longest that a drawing takes."""


class Drawings:
    """Counts the drawings that visitors wait for; an operator's are bounded by the renderer's own queue."""

    def __init__(self, *, most_of_one: int = MOST_OF_ONE, most_of_visitors: int = MOST_OF_VISITORS) -> None:
        self._of_one, self._of_visitors = most_of_one, most_of_visitors
        self._open = Counter[tuple[str | None, str]]()

    @contextmanager
    def turn(self, principal: Principal) -> Iterator[None]:
        """Count one more drawing of *principal* while the block lasts; raises `RateLimited`."""
        if not principal.visitor:
            yield
            return
        name = (principal.agent, principal.actor.id)
        if self._open[name] >= self._of_one or self._open.total() >= self._of_visitors:
            raise RateLimited("Too many charts are drawn for visitors now; ask again.", RETRY_AFTER, limit="drawings")
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

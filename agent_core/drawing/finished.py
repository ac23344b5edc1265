"""Drawings that are finished, so that what many people look at is drawn once."""

from collections import OrderedDict

from agent_core.clock import Clock
from agent_core.drawing.errors import DrawingFailed

_OVERHEAD = 200
_FAILED_FOR = 60_000
"""Milliseconds for which a chart that failed is not tried again: it would hold the process from others each time."""


class FinishedDrawings:
    """The drawings used last, by the digest of their job, up to *size* bytes; failures for a minute."""

    def __init__(self, size: int, clock: Clock) -> None:
        self._size, self._clock = size, clock
        self._kept: OrderedDict[bytes, bytes | tuple[str, int]] = OrderedDict()
        self._used = 0

    @property
    def used(self) -> int:
        """Return how many bytes are kept."""
        return self._used

    def get(self, digest: bytes) -> bytes | None:
        """Return a drawing, None when there is none; raise DrawingFailed for one that failed lately."""
        match self._kept.get(digest):
            case None:
                return None
            case bytes(drawing):
                self._kept.move_to_end(digest)
                return drawing
            case (message, until):
                if until > self._clock.now():
                    raise DrawingFailed(message)
                self._drop(digest)
                return None

    def put(self, digest: bytes, drawing: bytes) -> None:
        """Keep a *drawing*, unless it alone would take half of the space."""
        if len(drawing) * 2 <= self._size:
            self._keep(digest, drawing)

    def put_failure(self, digest: bytes, error: DrawingFailed) -> None:
        """Keep that a drawing failed, and why."""
        self._keep(digest, (str(error), self._clock.now() + _FAILED_FOR))

    def _keep(self, digest: bytes, entry: bytes | tuple[str, int]) -> None:
        if digest in self._kept:
            self._drop(digest)
        self._kept[digest] = entry
        self._used += _cost(entry)
        while self._used > self._size:
            self._drop(next(iter(self._kept)))

    def _drop(self, digest: bytes) -> None:
        self._used -= _cost(self._kept.pop(digest))


def _cost(entry: bytes | tuple[str, int]) -> int:
    return _OVERHEAD + len(entry if isinstance(entry, bytes) else entry[0])

"""A scan of JSON as it arrives, in constant memory: how deep it is nested, and how many values it has.

Nothing is parsed: what is in texts is cut away and brackets and commas are counted, each by one call of a built-in per
piece. For JSON the figures are exact; for what is none the parser finds that later, within the same bounds.
"""

from array import array
from itertools import accumulate
from typing import Literal

from agent_core.domain.schemas import MAX_DEPTH

MAX_VALUES = 20_000
"""Values of a body, fields of objects and items of lists: what comes after the scan takes under 10 ms for so many."""
Excess = Literal["deep", "many", "unbalanced"]
# Bytes that are looked at together: a bracket too deep ends the scan before the rest of its piece is added up.
_PIECE = 16_384
_OPENS, _CLOSES, _COMMA = b"{[", b"]}", b","
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPENS + _CLOSES))
_STEPS = bytes.maketrans(_OPENS + _CLOSES, b"\x01\x01\xff\xff")


class Scan:
    """Counts what it is fed; what it keeps between two pieces is whether a text is open, and two numbers."""

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> None:
        self._max_depth, self._max_values = max_depth, max_values
        self._in_text = 0
        self._escape = b""
        self._depth = 0
        self.values = 0

    def feed(self, chunk: bytes) -> Excess | None:
        """Take the next bytes, of any number; return which bound is passed."""
        for begin in range(0, len(chunk), _PIECE):
            if (excess := self._take(chunk[begin : begin + _PIECE])) is not None:
                return excess
        return None

    def _take(self, piece: bytes) -> Excess | None:
        outside = self._outside(piece)
        self.values += outside.count(_COMMA) + sum(map(outside.count, (b"{", b"[")))
        if self.values > self._max_values:
            return "many"
        steps = array("b", outside.translate(_STEPS, _NOT_BRACKETS))
        if not steps:
            return None
        depths = list(accumulate(steps, initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > self._max_depth:
            return "deep"
        return "unbalanced" if self._depth < 0 else None

    def _outside(self, piece: bytes) -> bytes:
        """Return what of *piece* is in no text."""
        piece = self._escape + piece
        # An even number of backslashes at the end is complete; of an odd one the last escapes what comes next.
        odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        self._escape = b"\\" if odd else b""
        if odd:
            piece = piece[:-1]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._in_text = (self._in_text + len(parts) - 1) % 2
        return outside

"""Model calls as they were sent and billed: their pieces, and how each of them was kept."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from agent_core.caching.caches import Bill
from agent_core.caching.positions import Tier
from agent_core.caching.rules import Lifetimes
from agent_core.providers.models import Price

Action = Literal["plain", "read", "short", "long"]
"""How the tokens of a piece are billed; `short` and `long`: written for that time."""


class PromptPiece(msgspec.Struct, frozen=True):
    """A part of a prompt: equal *key*s are equal content, which a perfect cache keeps once."""

    key: bytes
    tier: Tier
    tokens: int


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call as it was sent and billed; *time* is in ms, the *pieces* have as many tokens as its *bill*.

    *price* is per million tokens; the cache of its *model* keeps no prompt of fewer than *minimum* tokens.
    """

    time: int
    model: str
    pieces: Sequence[PromptPiece]
    bill: Bill
    price: Price
    lifetimes: Lifetimes
    minimum: int


class PieceUse(msgspec.Struct, frozen=True):
    """A piece's place: the number of the call, and of the piece in it."""

    call: int
    place: int


def uses_of(calls: Sequence[SentCall]) -> list[list[PieceUse]]:
    """Return the uses of each piece over *calls*, oldest first; the second one of a key in a call is another piece."""
    uses: dict[tuple[bytes, int], list[PieceUse]] = {}
    for number, call in enumerate(calls):
        seen: dict[bytes, int] = {}
        for index, piece in enumerate(call.pieces):
            nth = seen.get(piece.key, 0)
            seen[piece.key] = nth + 1
            uses.setdefault((piece.key, nth), []).append(PieceUse(number, index))
    return list(uses.values())


def before_of(calls: Sequence[SentCall], uses: Sequence[Sequence[PieceUse]]) -> list[list[PieceUse | None]]:
    """Return for each place in each of *calls* the use of the same piece before it."""
    before: list[list[PieceUse | None]] = [[None] * len(call.pieces) for call in calls]
    for of_piece in uses:
        for earlier, later in pairwise(of_piece):
            before[later.call][later.place] = earlier
    return before


def billed_of(call: SentCall) -> list[tuple[int, int, Action]]:
    """Return the places of a call's pieces, with their tokens and how these were billed.

    A prompt is billed from its start: what was read, what is kept for long, what for short, and the rest.
    """
    bill, billed = call.bill, list[tuple[int, int, Action]]()
    left: list[tuple[Action, int]] = [("plain", bill.plain), ("short", bill.write_short), ("long", bill.write_long)]
    left.append(("read", bill.read))
    for index, piece in enumerate(call.pieces):
        wanted = piece.tokens
        if left and 0 < wanted < left[-1][1]:  # most pieces by far
            action, tokens = left[-1]
            left[-1] = (action, tokens - wanted)
            billed.append((index, wanted, action))
            continue
        while wanted and left:
            action, tokens = left.pop()
            taken = min(wanted, tokens)
            if taken < tokens:
                left.append((action, tokens - taken))
            if taken:
                billed.append((index, taken, action))
            wanted -= taken
    return billed


class CachedPieces:
    """How each piece of each of *calls*, in the order of their times, was really in the cache."""

    def __init__(self, calls: Sequence[SentCall], uses: Sequence[Sequence[PieceUse]]) -> None:
        self._calls = calls
        self.before = before_of(calls, uses)
        self._after: list[list[Action]] = []
        self._by_others: list[list[bool]] = []
        for number in range(len(calls)):
            actions, by_others = self._keeps(number)
            self._after.append(actions)
            self._by_others.append(by_others)

    def after(self, use: PieceUse) -> Action:
        """Return how a piece was in the cache after a call: `short`, `long`, or `plain`: not at all."""
        return self._after[use.call][use.place]

    def lived(self, earlier: PieceUse, later: int) -> bool:
        """Return whether a piece that a call kept could still be read by the call *later*."""
        call, action = self._calls[earlier.call], self._after[earlier.call][earlier.place]
        if action == "plain":
            return False
        lives = call.lifetimes.long if action == "long" else call.lifetimes.short
        return self._calls[later].time - call.time < lives * 1000

    def by_others(self, use: PieceUse) -> bool:
        """Return whether a call read the whole of a piece, which only others than these calls can have written."""
        return self._by_others[use.call][use.place]

    def _keeps(self, number: int) -> tuple[list[Action], list[bool]]:
        call, befores = self._calls[number], self.before[number]
        # Where writes have no price of their own the cache keeps whatever is long enough.
        by_itself = call.price.write_short is None and call.bill.total >= call.minimum
        actions: list[Action] = ["short" if by_itself else "plain"] * len(call.pieces)
        by_others = [False] * len(call.pieces)
        for place, _, billed in billed_of(call):  # of a piece that was billed in two ways the last one counts
            before = befores[place]
            by_others[place] = billed == "read" and (before is None or not self.lived(before, number))
            if billed == "read":
                actions[place] = "long" if before and self._after[before.call][before.place] == "long" else "short"
            elif not by_itself:
                actions[place] = billed
        return actions, by_others

"""The cheapest bill for requests that were sent: what a perfect cache would have written, and read.

A perfect cache keeps any piece of a prompt, wherever it stands, from the moment it is sent, for the lifetime that was
paid for. It is paid for with foresight: a piece is written when a later request reads it before it expires, for the
short or the long time, whichever costs less in the end, and is plain input when none does. What a request found in the
cache that others had written is a read here too. No bill of the same pieces at the same prices is lower.
"""

from collections.abc import Sequence

import msgspec

from agent_core.caching.sent import Action, CachedPieces, PieceUse, SentCall
from agent_core.providers.models import Price

_NONE, _SHORT, _LONG = range(3)


class _BestUse(msgspec.Struct, frozen=True):
    """What is best at a use, by the state of the cache before it: the cost from here on, the action, the next state."""

    number: int
    call: int
    costs: tuple[float, float, float]
    actions: tuple[Action, Action, Action]
    states: tuple[int, int, int]
    follower: "_BestUse | None"


def cheapest(calls: Sequence[SentCall], uses: Sequence[Sequence[PieceUse]], cached: CachedPieces) -> list[list[Action]]:
    """Return what the perfect cache does with each piece of each of *calls*, which are in the order of their times."""
    return _Search(calls, cached).actions(uses)


class _Search:
    """Chooses backwards from each piece's last use; pieces that are used by the same calls share their choices."""

    def __init__(self, calls: Sequence[SentCall], cached: CachedPieces) -> None:
        self._calls, self._cached = calls, cached
        self._choices: dict[tuple[int, bool, int], _BestUse] = {}

    def actions(self, uses: Sequence[Sequence[PieceUse]]) -> list[list[Action]]:
        plans: list[list[Action]] = [["plain"] * len(call.pieces) for call in self._calls]
        for of_piece in uses:
            choice = self._first(of_piece)
            state = _NONE
            for use in of_piece:
                assert choice is not None
                plans[use.call][use.place] = choice.actions[state]
                state = choice.states[state]
                choice = choice.follower
        return plans

    def _first(self, uses: Sequence[PieceUse]) -> _BestUse | None:
        choice: _BestUse | None = None
        for use in reversed(uses):
            was_read = self._cached.by_others(use)
            key = (use.call, was_read, choice.number if choice else -1)
            chosen_before = self._choices.get(key)
            choice = chosen_before or self._choices.setdefault(
                key, self._choice(use.call, was_read=was_read, then=choice)
            )
        return choice

    def _choice(self, number: int, *, was_read: bool, then: _BestUse | None) -> _BestUse:
        best = [self._best(number, state, was_read=was_read, then=then) for state in (_NONE, _SHORT, _LONG)]
        costs, actions, states = zip(*best, strict=True)
        return _BestUse(len(self._choices), number, costs, actions, states, then)

    def _best(self, number: int, state: int, *, was_read: bool, then: _BestUse | None) -> tuple[float, Action, int]:
        options: list[tuple[float, Action, int]] = []
        for action, price in _prices(self._calls[number].price):
            if action == "read" and state == _NONE and not was_read:
                continue
            after = self._still(number, _state(state, action, was_read=was_read), then)
            options.append((price + (then.costs[after] if then else 0.0), action, after))
        return min(options, key=lambda option: option[0])  # of equal ones the first: the least that is written

    def _still(self, number: int, state: int, then: _BestUse | None) -> int:
        """Return the state of the cache at the next use of what is in *state* after call *number*."""
        if state == _NONE or then is None:
            return _NONE
        call = self._calls[number]
        lives = call.lifetimes.short if state == _SHORT else call.lifetimes.long
        return state if self._calls[then.call].time - call.time < lives * 1000 else _NONE


def _state(state: int, action: Action, *, was_read: bool) -> int:
    match action:
        case "plain":
            return _NONE
        case "short":
            return _SHORT
        case "long":
            return _LONG
        case "read":
            return _SHORT if state == _NONE and was_read else state


def _prices(price: Price) -> list[tuple[Action, float]]:
    """Return what can be done at which price, cheaper to keep first; a cache without a price of writes writes free."""
    plain = float(price.input)
    prices: list[tuple[Action, float]] = [("read", float(price.read if price.read is not None else plain))]
    if price.write_short is not None:
        prices.append(("plain", plain))
    prices.append(("short", float(price.write_short if price.write_short is not None else plain)))
    if price.write_long is not None:
        prices.append(("long", float(price.write_long)))
    return prices

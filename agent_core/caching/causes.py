"""Why a bill is higher than the cheapest one: each token that was billed otherwise has one cause.

The causes of a call add up to the difference of its two bills, exactly. One may be negative: what was not written was
saved where it was sent, and lost where it was sent again.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal, get_args

import msgspec

from agent_core.caching.caches import Bill
from agent_core.caching.fitting import prefixes_of
from agent_core.caching.ideal import cheapest
from agent_core.caching.sent import Action, CachedPieces, PieceUse, SentCall, billed_of, uses_of
from agent_core.domain.context import MissCause
from agent_core.providers.models import Price

CostCause = Literal[MissCause, "not_marked", "below_minimum", "unread", "lifetime", "price"]
"""Why tokens cost more than in the cheapest bill.

Sent before, and not read: `model`, another model was asked before; `tools`, `system`, `prefix`, the tools, the system
texts or something among the messages before them had changed; `expired`; `not_marked`, no request had marked them for
the cache; `below_minimum`, the prompt was too short for it; `evicted`, they should have been there; `unknown`.
Written: `unread`, and never read again; `lifetime`, for the long time where the short one was enough.
`price`: billed at other prices than those that the cheapest bill is of; `explain`, which has one price, never says so.
"""
CAUSES: tuple[CostCause, ...] = get_args(CostCause)
_MILLION = Decimal(1_000_000)
_CHANGED: Mapping[str, CostCause] = {"tools": "tools", "system": "system", "messages": "prefix"}


class Explained(msgspec.Struct, frozen=True):
    """A call's cheapest bill, and in USD how much of the difference to the real one each cause has."""

    ideal: Bill
    causes: Mapping[CostCause, Decimal]


def usd(bill: Bill, price: Price) -> Decimal:
    """Return what *bill* costs in USD; what has no price of its own costs as much as plain input."""
    prices = _prices(price)
    read = bill.plain * prices["plain"] + bill.read * prices["read"]
    return (read + bill.write_short * prices["short"] + bill.write_long * prices["long"]) / _MILLION


def explain(calls: Sequence[SentCall]) -> list[Explained]:
    """Explain *calls*, which are in the order of their times; see `ideal` for what they are compared with."""
    return _Explainer(calls).explained()


class _Explainer:
    def __init__(self, calls: Sequence[SentCall]) -> None:
        self._calls, uses = calls, uses_of(calls)
        self._cached = CachedPieces(calls, uses)
        self._actions = cheapest(calls, uses, self._cached)
        self._prefixes = [prefixes_of(call.pieces) for call in calls]
        self._changes: dict[tuple[int, int], CostCause] = {}

    def explained(self) -> list[Explained]:
        return [self._explained(number) for number in range(len(self._calls))]

    def _explained(self, number: int) -> Explained:
        call, prices = self._calls[number], _prices(self._calls[number].price)
        ideal: dict[Action, int] = dict.fromkeys(prices, 0)
        causes: dict[CostCause, Decimal] = {}
        for place, tokens, billed in billed_of(call):
            best: Action = "read" if billed == "read" else self._actions[number][place]
            ideal[best] += tokens
            more = tokens * (prices[billed] - prices[best]) / _MILLION
            if more:
                cause = self._cause(PieceUse(number, place), billed, best)
                causes[cause] = causes.get(cause, Decimal(0)) + more
        return Explained(Bill(ideal["plain"], ideal["read"], ideal["short"], ideal["long"]), causes)

    def _cause(self, use: PieceUse, billed: Action, best: Action) -> CostCause:
        call = self._calls[use.call]
        if best == "read":
            return self._missed(use)
        if billed == "plain":
            return "below_minimum" if call.bill.total < call.minimum else "not_marked"
        if best == "plain":
            return "unread"
        return "lifetime" if billed == "long" else "expired"

    def _missed(self, use: PieceUse) -> CostCause:
        """Return why a piece that had been sent before was not read."""
        before = self._cached.before[use.call][use.place]
        if before is None:
            return "unknown"
        call, earlier = self._calls[use.call], self._calls[before.call]
        if call.model != earlier.model:
            return "model"
        if self._prefixes[use.call][use.place] != self._prefixes[before.call][before.place]:
            return self._change(before.call, use.call)
        if self._cached.after(before) == "plain":
            return "below_minimum" if earlier.bill.total < earlier.minimum else "not_marked"
        return "evicted" if self._cached.lived(before, use.call) else "expired"

    def _change(self, earlier: int, later: int) -> CostCause:
        """Return where the prompt of one call first differs from that of another."""
        if (earlier, later) not in self._changes:
            pairs = zip(self._prefixes[earlier], self._prefixes[later], strict=False)
            place = next((n for n, (one, other) in enumerate(pairs) if one != other), 0)
            tiers = {each: n for n, each in enumerate(_CHANGED)}
            pieces = (self._calls[each].pieces[place] for each in (earlier, later))
            self._changes[earlier, later] = _CHANGED[
                min((piece.tier for piece in pieces), key=lambda each: tiers[each])
            ]
        return self._changes[earlier, later]


def _prices(price: Price) -> dict[Action, Decimal]:
    plain = price.input
    return {
        "plain": plain,
        "read": plain if price.read is None else price.read,
        "short": plain if price.write_short is None else price.write_short,
        "long": plain if price.write_long is None else price.write_long,
    }

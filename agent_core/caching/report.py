"""What a session cost: each model call as it was billed, as it would have been at best, and why there is a difference.

*billed* is the cost that was recorded with the call, and where none was, what its tokens cost by the table of prices.
By that table, as it is now, *ideal* is what they would have cost with a perfect cache (`ideal`), *uncached* with none.
A call whose tokens were not counted, or whose model has no price, is in no sum; nor is one of a child run, whose prompt
the session's log does not tell: both are counted apart, never as nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from agent_core.caching.caches import Bill
from agent_core.caching.causes import CAUSES, CostCause, explain, usd
from agent_core.caching.replay import CallKind, LoggedCall, prompt_tokens
from agent_core.caching.rules import lifetimes, minimum
from agent_core.caching.sent import SentCall
from agent_core.domain.messages import Usage
from agent_core.providers.models import Price, cost, find, uncached_cost


class CallBill(msgspec.Struct, frozen=True, kw_only=True):
    """A model call; `usage.input` is the uncached part. Money is USD as decimals, None: unknown.

    *causes* add up to *billed* less *ideal*.
    """

    run: str | None
    n: int
    attempt: int
    kind: CallKind
    asked_at: int
    model: str
    usage: Usage
    billed: str | None
    ideal: str | None
    uncached: str | None
    causes: dict[CostCause, str]


class SessionBill(msgspec.Struct, frozen=True, kw_only=True):
    """What a session cost; the sums are over the calls that have an *ideal*, and *causes* add up to their difference.

    *unknown* counts calls that are in no sum because their tokens, or the price of their model, are not known, and
    *unpriced* names such models. *apart* counts calls of child runs, *apart_billed* is what those cost whose price is
    known.
    """

    session: str
    billed: str
    ideal: str
    uncached: str
    causes: dict[CostCause, str]
    unknown: int
    unpriced: tuple[str, ...]
    apart: int
    apart_billed: str
    calls: tuple[CallBill, ...]


class _Compared(msgspec.Struct, frozen=True):
    """A call's cheapest cost, and the causes of its difference to what was billed."""

    ideal: Decimal
    causes: Mapping[CostCause, Decimal]


def session_cost(session: str, calls: Sequence[LoggedCall], listed: Callable[[str], str] = str) -> SessionBill:
    """Return what *session* cost, whose *calls* are in the order of their times.

    *listed* returns the name of a model, `provider:name`, in the model table; by default that is its own.
    """
    names = [listed(call.model) for call in calls]
    compared = _compared(calls, names)
    costs = tuple(_cost(*item) for item in zip(calls, names, compared, strict=True))
    summed = [each for each in costs if each.ideal is not None]
    others = [each for each in costs if each.kind == "child"]
    lost = [each for each in costs if each.ideal is None and each.kind != "child"]
    unpriced = {call.model for call, name in zip(calls, names, strict=True) if find(name).price is None}
    return SessionBill(
        session=session,
        billed=_sum(each.billed for each in summed),
        ideal=_sum(each.ideal for each in summed),
        uncached=_sum(each.uncached for each in summed),
        causes=_causes([each.causes for each in compared if each is not None]),
        unknown=len(lost),
        unpriced=tuple(sorted(unpriced)),
        apart=len(others),
        apart_billed=_sum(each.billed for each in others),
        calls=costs,
    )


def price_of(model: str, usage: Usage) -> Price | None:
    """Return the prices that *usage* of *model*, a name in the model table, has; None where its cost is unknown."""
    entry, total = find(model), prompt_tokens(usage)
    if total is None or cost(model, usage) is None:
        return None
    return entry.above.price if entry.above and total > entry.above.tokens else entry.price


def _compared(calls: Sequence[LoggedCall], names: Sequence[str]) -> list[_Compared | None]:
    """Return what each of *calls* would have cost at best, None where its tokens, price or prompt are not known."""
    sent = [_sent(call, name) for call, name in zip(calls, names, strict=True)]
    explained = iter(explain([each for each in sent if each is not None]))
    compared: list[_Compared | None] = []
    for call, name, each in zip(calls, names, sent, strict=True):
        if each is None:
            compared.append(None)
            continue
        best, now = next(explained), Decimal(cost(name, call.usage) or 0)
        ideal = now - usd(each.bill, each.price) + usd(best.ideal, each.price)  # the output costs the same
        compared.append(_Compared(ideal, {**best.causes, "price": Decimal(call.cost or now) - now}))
    return compared


def _sent(call: LoggedCall, name: str) -> SentCall | None:
    price, usage = price_of(name, call.usage), call.usage
    if price is None or not call.pieces:
        return None
    return SentCall(
        time=call.time,
        model=call.model,
        pieces=call.pieces,
        bill=Bill(usage.input or 0, usage.cache_read or 0, usage.cache_write_short or 0, usage.cache_write_long or 0),
        price=price,
        lifetimes=lifetimes(name),
        minimum=minimum(name),
    )


def _cost(call: LoggedCall, name: str, compared: _Compared | None) -> CallBill:
    return CallBill(
        run=call.run,
        n=call.n,
        attempt=call.attempt,
        kind=call.kind,
        asked_at=call.time,
        model=call.model,
        usage=call.usage,
        billed=call.cost or cost(name, call.usage),
        ideal=_decimal(compared.ideal) if compared else None,
        uncached=uncached_cost(name, call.usage),
        causes=_causes([compared.causes]) if compared else {},
    )


def _causes(costs: Sequence[Mapping[CostCause, Decimal]]) -> dict[CostCause, str]:
    """Return the sum of each cause that there is, in the order of `CAUSES`."""
    causes: dict[CostCause, str] = {}
    for cause in CAUSES:
        if amount := sum((each.get(cause, Decimal(0)) for each in costs), Decimal(0)):
            causes[cause] = _decimal(amount)
    return causes


def _sum(amounts: Iterable[str | None]) -> str:
    return _decimal(sum((Decimal(amount) for amount in amounts if amount is not None), Decimal(0)))


def _decimal(amount: Decimal) -> str:
    return f"{amount.normalize():f}"

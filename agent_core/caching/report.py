"""What a session cost: each model call as it was billed, as it would have been at best, and why there is a difference.

*billed* is what the counted tokens cost by the table of prices, *ideal* what they would have cost with a perfect cache
(`ideal`), *uncached* with none. A call whose tokens were not all counted, or whose model has no price, is in no sum;
nor is one of a child run, whose prompt the session's log does not tell: both are counted apart, never as nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from agent_core.caching.caches import Bill
from agent_core.caching.causes import CAUSES, CostCause, Explained, explain, usd
from agent_core.caching.replay import CallKind, LoggedCall, prompt_tokens
from agent_core.caching.rules import lifetimes, minimum
from agent_core.caching.sent import SentCall
from agent_core.domain.messages import Usage
from agent_core.providers.models import Price, find

_MILLION = Decimal(1_000_000)


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


def session_cost(session: str, calls: Sequence[LoggedCall]) -> SessionBill:
    """Return what *session* cost, whose *calls* are in the order of their times."""
    prices = [price_of(call.model, call.usage) for call in calls]
    sent = [_sent(call, price) for call, price in zip(calls, prices, strict=True)]
    explained = iter(explain([each for each in sent if each is not None]))
    found = [next(explained) if each is not None else None for each in sent]
    items = list(zip(calls, prices, found, strict=True))
    costs = tuple(_cost(*item) for item in items)
    summed = [each for each in costs if each.ideal is not None]
    others = [each for each in costs if each.kind == "child"]
    lost = [each for each in costs if each.ideal is None and each.kind != "child"]
    unpriced = {call.model for call, price, _ in items if price is None and find(call.model).price is None}
    return SessionBill(
        session=session,
        billed=_sum(each.billed for each in summed),
        ideal=_sum(each.ideal for each in summed),
        uncached=_sum(each.uncached for each in summed),
        causes=_causes([each.causes for each in found if each is not None]),
        unknown=len(lost),
        unpriced=tuple(sorted(unpriced)),
        apart=len(others),
        apart_billed=_sum(each.billed for each in others),
        calls=costs,
    )


def price_of(model: str, usage: Usage) -> Price | None:
    """Return the prices at which *usage* of *model*, `provider:name`, was billed; None when it cannot be said."""
    known, total = find(model), prompt_tokens(usage)
    if known.price is None or total is None or usage.output is None:
        return None
    price = known.above.price if known.above and total > known.above.tokens else known.price
    billed = (
        (usage.cache_read, price.read),
        (usage.cache_write_short, price.write_short),
        (usage.cache_write_long, price.write_long),
    )
    unknown = any((count is None and each is not None) or (count and each is None) for count, each in billed)
    return None if unknown else price


def _sent(call: LoggedCall, price: Price | None) -> SentCall | None:
    if price is None or not call.pieces:
        return None
    return SentCall(
        time=call.time,
        model=call.model,
        pieces=call.pieces,
        bill=_bill(call.usage),
        price=price,
        lifetimes=lifetimes(call.model),
        minimum=minimum(call.model),
    )


def _bill(usage: Usage) -> Bill:
    return Bill(usage.input or 0, usage.cache_read or 0, usage.cache_write_short or 0, usage.cache_write_long or 0)


def _cost(call: LoggedCall, price: Price | None, explained: Explained | None) -> CallBill:
    output = (call.usage.output or 0) * price.output / _MILLION if price else Decimal(0)
    billed = usd(_bill(call.usage), price) + output if price else None
    ideal = usd(explained.ideal, price) + output if price and explained else None
    uncached = (prompt_tokens(call.usage) or 0) * price.input / _MILLION + output if price else None
    return CallBill(
        run=call.run,
        n=call.n,
        attempt=call.attempt,
        kind=call.kind,
        asked_at=call.time,
        model=call.model,
        usage=call.usage,
        billed=_text(billed),
        ideal=_text(ideal),
        uncached=_text(uncached),
        causes=_causes([explained.causes]) if explained else {},
    )


def _causes(given: Sequence[Mapping[CostCause, Decimal]]) -> dict[CostCause, str]:
    """Return the sum of each cause that there is, in the order of `CAUSES`."""
    found: dict[CostCause, str] = {}
    for cause in CAUSES:
        if amount := sum((each.get(cause, Decimal(0)) for each in given), Decimal(0)):
            found[cause] = _decimal(amount)
    return found


def _sum(amounts: Iterable[str | None]) -> str:
    return _decimal(sum((Decimal(amount) for amount in amounts if amount is not None), Decimal(0)))


def _text(amount: Decimal | None) -> str | None:
    return None if amount is None else _decimal(amount)


def _decimal(amount: Decimal) -> str:
    return f"{amount.normalize():f}"

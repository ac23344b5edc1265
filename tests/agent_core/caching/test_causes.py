"""The cheapest bill is the cheapest one, and the causes of a difference add up to it."""

import itertools
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.caching.caches import Bill
from agent_core.caching.causes import explain, usd
from agent_core.caching.fitting import fitted
from agent_core.caching.positions import Tier
from agent_core.caching.rules import Lifetimes
from agent_core.caching.sent import PromptPiece, SentCall
from agent_core.providers.models import Price
from tests.cases import for_each

pytestmark = pytest.mark.whole

CLAUDE, GPT = "anthropic:claude-opus-5", "openai:gpt-5.6-sol"
PRICE = Price(Decimal(10), Decimal(50), Decimal(1), Decimal("12.5"), Decimal(20))
FREE_WRITES = Price(Decimal(10), Decimal(50), Decimal(1))
MINUTE = 60_000
TIERS: dict[str, Tier] = {"T": "tools", "S": "system"}


def call(
    at: float,
    pieces: str,
    bill: Sequence[int],
    *,
    model: str = CLAUDE,
    price: Price = PRICE,
    minimum: int = 0,
) -> SentCall:
    """Return a call *at* a minute, 1,000 tokens per letter of *pieces*; *bill* is read, long, short in thousands."""
    read, long, short = (1_000 * each for each in bill)
    total = 1_000 * len(pieces)
    return SentCall(
        time=int(at * MINUTE),
        model=model,
        pieces=[PromptPiece(each.encode(), TIERS.get(each.upper(), "messages"), 1_000) for each in pieces],
        bill=Bill(total - read - long - short, read, short, long),
        price=price,
        lifetimes=Lifetimes(300, 3600),
        minimum=minimum,
    )


def shares(*calls: SentCall) -> list[dict[str, float]]:
    """Return by call and cause how many input tokens' worth of money, in thousands, was paid too much."""
    unit = 1_000 * PRICE.input / 1_000_000
    return [{cause: float(more / unit) for cause, more in each.causes.items()} for each in explain(calls)]


@for_each(
    "calls, found",
    [
        pytest.param([call(0, "TSab", (0, 0, 4)), call(1, "TSabcd", (4, 0, 0))], [{}, {}], id="nothing"),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(70, "TSab", (0, 0, 4))],
            [{"unread": 1.0}, {"unread": 1.0}],
            id="read by none",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(30, "TSab", (0, 0, 4)), call(31, "TSab", (4, 0, 0))],
            [{"expired": -3.0}, {"expired": 4.6}, {}],
            id="expired",
        ),
        pytest.param(
            [call(0, "TSab", (0, 4, 0)), call(1, "TSab", (4, 0, 0))], [{"lifetime": 3.0}, {}], id="kept too long"
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(1, "TSab", (2, 0, 2)), call(2, "TSab", (4, 0, 0))],
            [{}, {"evicted": 2.3}, {}],
            id="evicted",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 0)), call(1, "TSab", (0, 0, 0))],
            [{"not_marked": -1.0}, {"not_marked": 3.6}],
            id="not marked",
        ),
        pytest.param(
            [call(0, "Sa", (0, 0, 0), minimum=2_001), call(1, "Sa", (0, 0, 0), minimum=2_001)],
            [{"below_minimum": -0.5}, {"below_minimum": 1.8}],
            id="too short",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(1, "tSab", (0, 0, 4)), call(2, "tSab", (4, 0, 0))],
            [{"unread": 0.25}, {"tools": 3.45}, {}],
            id="tools",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(1, "Tsab", (1, 0, 3)), call(2, "Tsab", (4, 0, 0))],
            [{"unread": 0.25}, {"system": 2.3}, {}],
            id="system",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(1, "TSxb", (2, 0, 2)), call(2, "TSxb", (4, 0, 0))],
            [{"unread": 0.25}, {"prefix": 1.15}, {}],
            id="prefix",
        ),
        pytest.param(
            [call(0, "TSab", (0, 0, 4)), call(1, "TSab", (0, 0, 4), model=GPT), call(2, "TSab", (4, 0, 0), model=GPT)],
            [{}, {"model": 4.6}, {}],
            id="model",
        ),
        pytest.param(
            [call(0, "Sa", (0, 0, 0), price=FREE_WRITES), call(1, "Sa", (1, 0, 0), price=FREE_WRITES)],
            [{}, {"evicted": 0.9}],
            id="a cache that writes by itself",
        ),
    ],
)
def test_each_cause(calls, found):
    """What was paid too much has the cause that an operator can act upon."""
    assert shares(*calls) == [pytest.approx(each) for each in found]


def test_what_others_had_written_is_read_in_the_ideal_too():
    """A session that finds its agent's prefix in the cache is compared with reading it, not with writing it."""
    first, second = explain([call(0, "TSa", (2, 0, 1)), call(1, "TSab", (3, 0, 1))])
    assert first.ideal == Bill(read=2_000, write_short=1_000)
    assert second.ideal == Bill(plain=1_000, read=3_000)


ACTIONS = ("plain", "read", "short", "long")
UNIT = {"plain": 10.0, "read": 1.0, "short": 12.5, "long": 20.0}


def cheapest_of_all(times: Sequence[int]) -> float:
    """Return the least that one piece costs which is sent at *times*, by trying everything."""
    best = float("inf")
    for actions in itertools.product(ACTIONS, repeat=len(times)):
        ends, life, paid = -1, 0, 0.0
        for time, action in zip(times, actions, strict=True):
            if action == "read" and time >= ends:
                break
            life = {"short": 300_000, "long": 3_600_000, "plain": 0}.get(action, life)
            ends, paid = time + life, paid + UNIT[action]
        else:
            best = min(best, paid)
    return best


@given(st.lists(st.sampled_from([1, 4, 5, 20, 61]), max_size=4))
def test_no_other_bill_is_lower(gaps):
    """The cheapest bill of a piece is the best of all that the lifetimes allow."""
    times = [minutes * MINUTE for minutes in itertools.accumulate([0, *gaps])]
    found = explain([call(time / MINUTE, "a", (0, 0, 0)) for time in times])
    assert sum(float(usd(each.ideal, PRICE)) for each in found) == pytest.approx(cheapest_of_all(times) / 1_000)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 80), st.text("TtSsabc", min_size=1, max_size=8), st.lists(st.integers(0, 8), max_size=3)
        ),
        max_size=6,
    )
)
def test_the_causes_add_up(sent):
    """Whatever was sent and billed, each call's causes are the difference of its two bills, to the last digit."""
    calls, now = list[SentCall](), 0
    for minutes, pieces, wanted in sent:
        now, left, bill = now + minutes, len(pieces), list[int]()
        for each in (*wanted, 0, 0, 0)[:3]:
            bill.append(min(left, each))
            left -= bill[-1]
        calls.append(call(now, pieces, bill))
    for each, found in zip(calls, explain(calls), strict=True):
        assert found.ideal.total == each.bill.total
        assert sum(found.causes.values()) == usd(each.bill, PRICE) - usd(found.ideal, PRICE)
        assert not any("unknown" in found.causes for found in explain(calls))


def test_sizes_are_fitted_to_what_was_counted():
    """Pieces add up to the tokens of the bill, and end where an earlier call was counted to end."""
    pieces = [PromptPiece(bytes([n]), "messages", size) for n, size in enumerate((10, 30, 0, 60, 100))]
    assert [each.tokens for each in fitted(pieces, 400, {})] == [20, 60, 0, 120, 200]
    assert [each.tokens for each in fitted(pieces, 400, {1: 80, 3: 90})] == [20, 60, 0, 10, 310]
    assert [each.tokens for each in fitted(pieces, 400, {1: 80, 3: 70})] == [20, 60, 0, 120, 200]
    assert [each.tokens for each in fitted([], 0, {})] == []

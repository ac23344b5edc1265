"""What a conversation costs by formula is what the simulation adds up to, request by request."""

from decimal import Decimal
from typing import Any

import pytest

from agent_core.testing.models.caching import Bill, Caches, ModelPrompt, Position
from tests.cases import for_each

pytestmark = pytest.mark.whole

SHARED, OWN, GROWTH = 18_000, 4_000, 1_200
READ, WRITE, LONG_WRITE = Decimal("0.1"), Decimal("1.25"), Decimal(2)
SHORT = {"type": "ephemeral"}


def cost(bill: Bill) -> Decimal:
    """Return what *bill* costs, the price of an uncached token being 1."""
    return bill.plain + READ * bill.read + WRITE * bill.write_short + LONG_WRITE * bill.write_long


def asked(wire: str, exchanges: int, who: str = "Ann") -> ModelPrompt:
    """Return a request of *who* with so many messages after its system text, each of GROWTH tokens."""
    if wire == "messages":
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "text", "text": f"{n}"}]} for n in range(exchanges)
        ]
        messages[-1]["content"][0]["cache_control"] = SHORT
        system = [{"type": "text", "text": "Rules.", "cache_control": SHORT}, {"type": "text", "text": who}]
        return ModelPrompt(wire, "claude-opus-5", {"model": "claude-opus-5", "system": system, "messages": messages})
    said = [{"role": "user", "content": f"{n}"} for n in range(exchanges)]
    rules = [{"type": "input_text", "text": "Rules.", "prompt_cache_breakpoint": {"mode": "explicit"}}]
    opening = [{"role": "developer", "content": rules}, {"role": "developer", "content": who}]
    return ModelPrompt("responses", "gpt-5.6-sol", {"input": [*opening, *said]})


def count(position: Position) -> int:
    return {"system.0": SHARED, "system.1": OWN, "input.0.content.0": SHARED, "input.1": OWN}.get(position.path, GROWTH)


@for_each("wire", ["messages", "responses"])
@for_each("requests", [5, 40])
@for_each("warm", [False, True])
def test_a_session_costs_what_the_formula_says(wire, requests, warm):
    """`h + (m-1)wd + r[(m-1)P1 + d(m-1)(m-2)/2]`, h with or without the shared prefix in the cache."""
    caches = Caches(tail=0)
    if warm:
        caches.write(caches.price(asked(wire, 1, "Bea"), 0, count=count))
    bills: list[Bill] = []
    for n in range(1, requests + 1):
        priced = caches.price(asked(wire, n), n * 10_000, count=count)
        caches.write(priced)
        bills.append(priced.bill)
    m, first = requests, SHARED + OWN + GROWTH
    begin = WRITE * first if not warm else READ * SHARED + WRITE * (first - SHARED)
    reads = (m - 1) * first + GROWTH * (m - 1) * (m - 2) // 2
    assert sum(map(cost, bills)) == begin + (m - 1) * WRITE * GROWTH + READ * reads
    assert sum(bill.total for bill in bills) == m * first + GROWTH * m * (m - 1) // 2

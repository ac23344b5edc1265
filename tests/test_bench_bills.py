"""What conversations cost stays near the cheapest bill: a few of those that `make bench` has."""

from decimal import Decimal
from pathlib import Path

import pytest

from agent_core.providers.base import Price
from tests.bench.billed import FEW, MODELS, bills, cheapest
from tests.cases import for_each

pytestmark = pytest.mark.whole


@pytest.mark.parametrize("model", MODELS)
async def test_conversations_cost_little_more_than_at_best(model: str, tmp_path: Path, template: Path):
    """Through a burst, long pauses and a restart all that was sent is read, and little is written for nothing."""
    found = await bills(model, FEW, tmp_path, template)
    assert found.calls == FEW.sessions * FEW.exchanges * FEW.calls
    assert found.ideal <= found.billed < found.uncached
    assert found.billed / found.ideal < 1.05
    # These are shorter than those of `make bench`, where 0.22 is the bound: a longer history is read more often.
    assert found.billed / found.uncached < 0.28


@for_each(
    "minutes, wanted",
    [
        ((0,), 10),  # not written at all
        ((0, 4), 12.5 + 1),
        ((0, 4, 8), 12.5 + 1 + 1),  # a read keeps it
        ((0, 30), 10 + 10),
        ((0, 30, 60), 20 + 1 + 1),
        ((0, 90), 10 + 10),
        ((0, 90, 94), 10 + 12.5 + 1),
    ],
)
def test_the_cheapest_bill_knows_what_will_be_read(minutes: tuple[int, ...], wanted: float):
    price = Price(*map(Decimal, ("10", "0", "1", "12.5", "20")))
    assert cheapest([60_000 * each for each in minutes], price, (300, 3600)) == wanted

"""The model server: the fake models that users test with, answering as the question says, flat out or in time."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from agent_core.providers.base import ModelTextDelta
from agent_core.testing import Answer, call, sleep, usage
from agent_core.testing.models import FakeModels, ModelCall
from agent_core.testing.models.score import Take
from agent_core.testing.scripted import FLAT_SLOT, Flat
from tests.bench.exchange import STAMP, Exchange
from tests.bench.serving import Orders, serve

USAGE = usage(input=1_234, output=200, cache_read=12_345, cache_write_short=123)
UNSTAMPED = STAMP.encode()
CALL: Answer = (call("calculate", expression="12 * 7"), USAGE)


def script(asked: ModelCall) -> Answer:
    """Do what the newest question says."""
    exchange = Exchange.read(asked.text)
    return CALL if exchange.tool and asked.step == 0 else answer(exchange)


@cache
def answer(exchange: Exchange) -> Answer:
    """Return the text of *exchange*, made once."""
    batches = tuple((ModelTextDelta(FLAT_SLOT, text),) for text in exchange.answer)
    text = Flat(batches, exchange.rate)
    return (sleep(exchange.delay), text, USAGE) if exchange.delay else (text, USAGE)


def stamp() -> None:
    """Have each write, whose bytes are made just before it, say the time in the place of a stamp."""
    fill = Take.fill

    def stamped(self: Take, data: bytes) -> bytes:
        if UNSTAMPED in data:
            data = data.replace(UNSTAMPED, b"@%018d" % time.monotonic_ns())
        return fill(self, data)

    Take.fill = stamped


@asynccontextmanager
async def running() -> AsyncIterator[tuple[int, Orders]]:
    """Serve the models, checking and remembering nothing."""
    stamp()
    async with FakeModels(script, record=False, check=False, cache=False) as models:
        yield int(models.url.rpartition(":")[2]), {}


if __name__ == "__main__":
    serve(running())

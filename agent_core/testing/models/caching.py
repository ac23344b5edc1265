"""The prompt caches of the fake model server: the simulation of `agent_core.caching`, on the server's clock."""

from collections.abc import Callable, Sequence
from functools import partial

from agent_core.caching.caches import Bill, Caches
from agent_core.caching.positions import ModelPrompt, Position
from agent_core.caching.rules import DEFAULT_RULES, Rules
from agent_core.clock import Clock
from agent_core.testing.models.asked import ModelCall

TAIL = DEFAULT_RULES.tail
"""Tokens after the last block that are never cached; in recorded traffic there are 2 to 4."""
Billing = tuple[Bill, Callable[[], None]]


class ServerCaches:
    """The prompt caches of all models; *minimum* is the least tokens that Anthropic's keep, None: each its own."""

    def __init__(self, clock: Clock, minimum: int | None) -> None:
        self._clock, self._caches = clock, Caches(Rules(minimum=minimum))

    def bill(self, call: ModelCall, positions: Sequence[Position]) -> Billing:
        """Return what *call* costs, and what to call when its answer begins: only then can others read its writes."""
        own = positions if call.wire == "messages" else None
        prompt = ModelPrompt(call.wire, call.model, call.body)
        priced = self._caches.price(prompt, self._clock.now(), positions=own)
        return priced.bill, partial(self._caches.write, priced)

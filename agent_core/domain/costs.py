"""What model calls have cost, grouped as operators ask for it."""

from typing import Literal

import msgspec

from agent_core.domain.messages import Usage

CostGroup = Literal["agent", "actor", "channel", "session", "day"]


class CostFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which spending is summed: of UTC days, counted since 1970-01-01, from *first* on and before *end*.

    *agent* is an id or a name, the others are ids.
    """

    first: int | None = None
    end: int | None = None
    agent: str | None = None
    actor: str | None = None
    channel: str | None = None
    session: str | None = None


class CostItem(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent under one *key*: an id, the name of a channel, or a day such as 2026-11-23.

    *key* is None for what people or sessions spent that were deleted; *name* is that of an agent that exists. *runs*
    are those with a billed model call, each day counted apart; *steps* are answered model calls. *usage* and the costs,
    decimals in US dollars, sum what is known: *unmeasured* calls lack tokens, *unpriced* ones a price. *uncached_cost*
    is what the same tokens would cost without a prompt cache.
    """

    key: str | None
    name: str | None = None
    runs: int
    steps: int
    unmeasured: int
    unpriced: int
    usage: Usage
    cost: str | None
    uncached_cost: str | None

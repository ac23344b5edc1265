"""The vendors' rules as numbers and switches, and what they are for a model."""

import re
from dataclasses import dataclass

from agent_core.providers.models import find

USUAL_MINIMUM = 1024
"""The fewest tokens that a cache keeps, of models for which no other number is known."""
FIVE_MINUTES, TEN_MINUTES, HALF_HOUR, HOUR, HALF_DAY, DAY = 300, 600, 1800, 3600, 43_200, 86_400
_NEW_GPT = (5, 6)


@dataclass(frozen=True, slots=True)
class Rules:
    """How the caches behave. What the vendors do not say is a switch here, with the likelier answer as its default.

    *tail* is how many tokens after the last block stay uncached (recorded: 2 to 4), *minimum* the fewest tokens that
    Anthropic's cache keeps, None: each model's own. *look_back* positions are walked from a breakpoint, itself
    included; *across_tiers*: those of other tiers count too. *renews_marked*: a request renews what it marks, and not
    only what it read. *long_over_short*: a prefix kept for an hour lives on when the five minutes of a shorter one, on
    which it was built, are over. *tools_by_effort*: thinking and effort are a part of the tools' key. *grace* is
    milliseconds that an entry outlives its time; the vendors call a lifetime a minimum. OpenAI looks *boundaries* up,
    reads in *granule*s on older models, and of these answers *per_minute* requests a minute and key from the cache,
    None: all.
    """

    tail: int = 3
    minimum: int | None = None
    look_back: int = 20
    across_tiers: bool = True
    renews_marked: bool = True
    long_over_short: bool = True
    tools_by_effort: bool = False
    grace: int = 0
    boundaries: int = 80
    granule: int = 128
    per_minute: int | None = None


DEFAULT_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds for which a prefix written for a *short* and for a *long* time can be read."""

    short: int
    long: int


def lifetimes(model: str) -> Lifetimes:
    """Return how long the cache of *model*, its name in the model table, keeps a prefix."""
    provider, _, name = model.partition(":")
    if provider == "anthropic":
        return Lifetimes(FIVE_MINUTES, HOUR)
    if provider == "openai" and bills_writes(name):
        return Lifetimes(HALF_HOUR, HALF_DAY)
    return Lifetimes(TEN_MINUTES, TEN_MINUTES)


def minimum(model: str) -> int:
    """Return the fewest tokens that the cache of *model*, its name in the model table, keeps."""
    return find(model).cacheable or USUAL_MINIMUM


def bills_writes(name: str) -> bool:
    """Return whether OpenAI's model *name* has breakpoints and bills cache writes: GPT 5.6 and later."""
    match = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    return bool(match) and (int(match[1]), int(match[2] or 0)) >= _NEW_GPT

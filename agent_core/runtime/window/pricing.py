"""Pricing: what bounds the prompts of a model, what they cost, and whether its cache still has the last one."""

from functools import cache, lru_cache

from agent_core.context.compaction import PromptBounds, TokenRates, bounds
from agent_core.context.history import LONG_LIFE, SHORT_LIFE
from agent_core.context.window import Window
from agent_core.domain.agents import Agent
from agent_core.domain.caching import PromptCall
from agent_core.domain.messages import Usage
from agent_core.providers import models

ANSWER_ROOM = 32_000
"""Tokens of an answer of a model whose limit is unknown."""
CACHE_LIFE = {"anthropic": SHORT_LIFE, "openai": 1_800_000}
"""Milliseconds for which each vendor keeps a prompt in its cache after it was last used; others' is not known."""


def bounds_of(model: str, agent: Agent, *, room: int | None = None) -> PromptBounds:
    """Return what bounds the prompts of *model*, whose answer gets *room* tokens, or what the agent says."""
    limit = room or agent.overrides.max_output_tokens or agent.definition.controls.max_output_tokens
    return _bounds(agent.listed(model), limit, cached=agent.prompt_caching)


@lru_cache(maxsize=1_024)
def _bounds(listed: str, room: int | None, *, cached: bool) -> PromptBounds:
    """Return the bounds of a model by its *listed* name: each decision of a run asks for them."""
    model_entry = models.find(listed)
    return bounds(model_entry.context, room or model_entry.max_output or ANSWER_ROOM, rates_of(listed, cached=cached))


@cache
def rates_of(model: str, *, cached: bool) -> TokenRates | None:
    """Return the prices of *model*, a listed name, by the uncached input token, without or with its cache, if known."""
    entry = models.find(model)
    if entry.price is None or not entry.price.input:
        return None
    price, above = entry.price, entry.above.tokens if entry.above else None
    output = float(price.output / price.input)
    if not cached or price.read is None:
        return TokenRates(output=output, above=above)
    write = float((price.write_short or price.input) / price.input)
    return TokenRates(read=float(price.read / price.input), write=write, output=output, above=above)


def price_of(model: str, tokens: int, output: int, *, cached: int = 0) -> float | None:
    """Return what a prompt of *tokens* tokens costs in USD, of which *cached* are read, if known; *model* is listed."""
    counts = Usage(tokens - cached, output, None, cached, 0, 0)
    price = models.cost(model, counts)
    return None if price is None else float(price)


def life_of(agent: Agent, last: PromptCall) -> int | None:
    """Return for how many ms its vendor's cache keeps the prompt of *last* after that call; None if that is not known.

    Anthropic's hour is seen, as in `lifetimes.is_long`, in what the call wrote: a short part is written with nearly
    every one.
    """
    life = CACHE_LIFE.get(agent.listed(last.model).partition(":")[0])
    return LONG_LIFE if life and last.usage.cache_write_long and not last.usage.cache_write_short else life


def is_warm(window: Window, agent: Agent, model: str, now: int) -> bool:
    """Return whether the cache of *model* still has the prompt of *window*'s last call."""
    last = window.history.last
    if last is None or last.model != model or window.history.rewritten is not None:
        return False
    life = life_of(agent, last)
    return life is not None and now - last.time < life

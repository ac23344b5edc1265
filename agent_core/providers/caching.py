"""How each vendor's prompt cache works, by model; figures of docs.claude.com and developers.openai.com, 2026-11."""

from agent_core.controls import Caching
from agent_core.providers.models import Model

BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 49_152}
"""Thinking of Claude's 4.5 generation is asked for in tokens: at least 1,024, and at most half of the answer."""
_MIN_CACHEABLE = 1_024
"""Tokens that a vendor keeps at least where the table does not say."""


def of_anthropic(model: Model) -> Caching:
    """Return how Claude's cache works: five minutes or an hour."""
    return Caching(
        vendor="anthropic",
        least=model.cacheable or _MIN_CACHEABLE,
        short_s=300,
        long_s=3_600,
        strips=model.strips,
        budgets=BUDGETS if model.thinking == "budget" else {},
        room=model.max_output or 0,
    )


def of_openai(model: Model) -> Caching:
    """Return how OpenAI's cache works: half an hour or twelve where writes are billed, else five minutes at least."""
    least = model.cacheable or _MIN_CACHEABLE
    if model.price is not None and model.price.write_short is not None:
        return Caching(vendor="openai", least=least, short_s=1_800, long_s=43_200)
    return Caching(vendor="openai", least=least, short_s=300, long_s=300, exact=False)

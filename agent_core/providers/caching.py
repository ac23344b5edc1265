"""How each vendor's prompt cache works, by model; figures of docs.claude.com and developers.openai.com, 2026-11."""

from agent_core.domain.caching import Caching
from agent_core.providers.models import Model

_LEAST = 1_024
"""Tokens that a vendor keeps at least where the table does not say."""


def of_anthropic(known: Model) -> Caching:
    """Return how Claude's cache works: five minutes or an hour."""
    return Caching(vendor="anthropic", least=known.cacheable or _LEAST, short_s=300, long_s=3_600)


def of_openai(known: Model) -> Caching:
    """Return how OpenAI's cache works: half an hour or twelve where writes are billed, else five minutes at least."""
    least = known.cacheable or _LEAST
    if known.price is not None and known.price.write_short is not None:
        return Caching(vendor="openai", least=least, short_s=1_800, long_s=43_200)
    return Caching(vendor="openai", least=least, short_s=300, long_s=300, exact=False)

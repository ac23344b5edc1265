"""Which models take what a request says of the prompt cache: a server at another address may refuse its fields."""

import structlog

from agent_core.providers.base import CallFailed
from agent_core.providers.failing import found_uncached

_log = structlog.get_logger("parley.providers")


class CacheFields:
    """The models of one provider that were found to refuse them; what is not known to is marked."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._refusing = set[str]()

    def taken(self, model: str) -> bool:
        """Return whether *model* gets the fields."""
        return model not in self._refusing

    def learn(self, model: str, refusal: CallFailed) -> None:
        """Note that *model* refuses them, if *refusal* says so."""
        if found_uncached(refusal) and self.taken(model):
            self._refusing.add(model)
            remedy = "set `prompt_caching: false` on its agents"
            _log.warning("cache.refused", provider=self._provider, model=model, remedy=remedy)

"""Rulers: asks the hooks that need no people."""

from agent_core.clock import Clock
from agent_core.domain.hooks import ApprovalConfig, HttpConfig, NamedHook, RuleConfig
from agent_core.hooks import http
from agent_core.hooks.base import Answer, Occasion
from agent_core.hooks.rule import rule

NOWHERE = "No webhook can be asked from here: this core was built without a fetch, or without secrets."


class HookResolvers:
    """Rules are looked at here; webhooks are asked through *fetch*, with what *secrets* opens, if there are both."""

    def __init__(self, clock: Clock, fetch: http.FetchPort | None = None, secrets: http.Opener | None = None) -> None:
        self._clock, self._fetch, self._secrets = clock, fetch, secrets

    async def ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        """Return what the hook says, None when it has nothing to say."""
        match named.config:
            case RuleConfig() as config:
                return await rule(config, occasion)
            case HttpConfig() as config:
                if self._fetch is None or self._secrets is None:
                    return http.unasked(config, NOWHERE)
                return await http.ask(config, occasion, self._fetch, self._clock, self._secrets)
            case ApprovalConfig():
                raise AssertionError("People are asked by the chain.")

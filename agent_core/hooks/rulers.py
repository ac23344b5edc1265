"""Rulers: asks the hooks that need no people."""

from agent_core.clock import Clock
from agent_core.hooks import http
from agent_core.hooks.base import Answer, Occasion
from agent_core.hooks.definition import ApprovalConfig, HttpConfig, Named, RuleConfig
from agent_core.hooks.rule import rule


class HookRulers:
    """Rules are looked at here, webhooks are asked through *fetch*."""

    def __init__(self, fetch: http.Fetch, clock: Clock) -> None:
        self._fetch, self._clock = fetch, clock

    async def ask(self, named: Named, occasion: Occasion) -> Answer | None:
        """Return what the hook says, None when it has nothing to say."""
        match named.config:
            case RuleConfig() as config:
                return await rule(config, occasion)
            case HttpConfig() as config:
                return await http.ask(config, occasion, self._fetch, self._clock)
            case ApprovalConfig():
                raise AssertionError("People are asked by the chain.")

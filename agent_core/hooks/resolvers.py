"""Resolvers: asks the hooks that need no people, and counts what went wrong."""

from collections import Counter

import structlog

from agent_core.clock import Clock
from agent_core.domain.hooks import ApprovalConfig, HttpConfig, NamedHook, RuleConfig
from agent_core.hooks import http
from agent_core.hooks.base import Allow, Answer, Deny, Occasion
from agent_core.hooks.rule import rule
from agent_core.net.targets import TargetGuard

NOWHERE = "No webhook can be asked from here: this core was built without a fetch, or without secrets."
QUIET = 60_000
"""Milliseconds in which no second failure of a hook is logged; it is counted."""
_MAX_LOGGED = 1_000
_log = structlog.get_logger("parley.hooks")


class HookResolvers:
    """Rules are looked at here; webhooks are asked through *fetch*, with what *secrets* opens, if there are both.

    *guard* says which addresses of webhooks will be refused. *errors* counts failures by type and event.
    """

    def __init__(
        self,
        clock: Clock,
        fetch: http.FetchPort | None = None,
        secrets: http.Opener | None = None,
        guard: TargetGuard | None = None,
    ) -> None:
        self._clock, self._fetch, self._secrets, self.guard = clock, fetch, secrets, guard
        self.errors: Counter[tuple[str, str]] = Counter()
        self._logged: dict[tuple[str, str], int] = {}

    async def ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        """Return what the hook says, None when it has nothing to say; a failure is counted and logged."""
        answer = await self._ask(named, occasion)
        if isinstance(answer, Allow | Deny) and answer.error:
            self._failed(named, occasion, answer)
        return answer

    async def _ask(self, named: NamedHook, occasion: Occasion) -> Answer | None:
        match named.config:
            case RuleConfig() as config:
                return await rule(config, occasion)
            case HttpConfig() as config:
                if self._fetch is None or self._secrets is None:
                    return http.unasked(config, NOWHERE)
                return await http.ask(config, occasion, self._fetch, self._clock, self._secrets)
            case ApprovalConfig():
                raise AssertionError("People are asked by the chain.")

    def _failed(self, named: NamedHook, occasion: Occasion, answer: Allow | Deny) -> None:
        kind = "rule" if isinstance(named.config, RuleConfig) else "http"
        self.errors[kind, occasion.event] += 1
        which, now = (occasion.agent, named.name), self._clock.now()
        if now - self._logged.get(which, now - QUIET) < QUIET:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[which] = now
        ruling = "denied" if isinstance(answer, Deny) else "allowed, unchecked"
        _log.warning(
            "hook.failed",
            agent=occasion.agent,
            hook=named.name,
            event_of_run=occasion.event,
            run=occasion.run,
            ruling=ruling,
            error=answer.error,
        )

"""The prompt history: what the log tells of a session's model calls, for cache marks, estimates and refreezes. Pure."""

import msgspec
from msgspec.structs import replace

from agent_core.domain import events as e
from agent_core.domain.events import Fact
from agent_core.domain.messages import UNKNOWN_USAGE, Usage

SHORT_LIFE, LONG_LIFE = 300_000, 3_600_000
"""Milliseconds for which Anthropic's cache keeps a prefix of each lifetime."""


class PromptCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model call that was answered: when it was asked, in ms, of which *model* (`provider:name`), with what.

    *entries* is how many messages the window had, *controls* are those of its step, as recorded.
    """

    time: int
    model: str
    snapshot: str
    entries: int
    controls: dict[str, object]
    usage: Usage

    @property
    def prompt(self) -> int | None:
        """Return the tokens of the whole prompt, None if the provider did not count its uncached part."""
        cached = (self.usage.cache_read, self.usage.cache_write_short, self.usage.cache_write_long)
        return None if self.usage.input is None else self.usage.input + sum(count or 0 for count in cached)


class PromptHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fold of a session's facts, its child runs left out.

    *last* is the newest call that was answered. *rewritten* is why the prompt no longer begins as that call's did: its
    `compaction`, or the `snapshot` (also one frozen again to leave out reasoning); None while it does. *refreezable*:
    the window was compacted since the snapshot was frozen. *medium* and *long* count the pauses between calls that are
    longer than a short and than a long life of the cache, *calls* all calls. *newest* is the time of the newest fact.
    """

    last: PromptCall | None = None
    rewritten: str | None = None
    refreezable: bool = False
    calls: int = 0
    medium: int = 0
    long: int = 0
    newest: int = 0
    _asked: PromptCall | None = None
    _controls: dict[str, object] = {}

    def after(self, fact: Fact, entries: int) -> "PromptHistory":
        """Return the history after *fact*, with which the window has so many *entries*."""
        body = fact.body
        match body:
            case e.StepStarted():
                return self._started(body, fact.time, entries)
            case e.StepCompleted() | e.StepFailed():
                return self._answered(body, fact.time)
            case e.ContextCompacted():
                return replace(self, rewritten="compaction", refreezable=True, newest=fact.time)
            case e.SnapshotFrozen():
                return replace(self, rewritten="snapshot", refreezable=False, newest=fact.time)
            case _:
                return replace(self, newest=fact.time)

    @property
    def previous(self) -> int:
        """Return how many of the window's first entries the last call had too; 0 when they are no longer the same."""
        return self.last.entries if self.last and self.rewritten is None else 0

    def _started(self, body: e.StepStarted, time: int, entries: int) -> "PromptHistory":
        controls = self._controls if body.controls is None else body.controls
        asked = PromptCall(
            time=time,
            model=str(controls.get("model") or ""),
            snapshot=body.snapshot,
            entries=entries,
            controls=controls,
            usage=UNKNOWN_USAGE,
        )
        pause = time - self.last.time if self.last else 0
        return replace(
            self,
            calls=self.calls + 1,
            medium=self.medium + (SHORT_LIFE < pause <= LONG_LIFE),
            long=self.long + (pause > LONG_LIFE),
            newest=time,
            _asked=asked,
            _controls=controls,
        )

    def _answered(self, body: e.StepCompleted | e.StepFailed, time: int) -> "PromptHistory":
        if self._asked is None or body.usage is None:
            return replace(self, newest=time, _asked=None)
        return replace(self, last=replace(self._asked, usage=body.usage), rewritten=None, newest=time, _asked=None)

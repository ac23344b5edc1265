"""The prompt history: what the log tells of a session's model calls, for cache marks, estimates and refreezes. Pure."""

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.controls import PromptCall
from agent_core.events import Fact, FactBody
from agent_core.messages import UNKNOWN_USAGE

REST = 86_400_000
"""Milliseconds after which a summary that could not be made is no reason any more not to ask for one."""
_OF_A_RUN = frozenset({"run", "repair"})
"""Why a prompt is frozen in which the session's list of tools stays."""
_NO_FAULT = frozenset({"cancelled", "outdated"})
"""Codes of a `compaction.failed` that say nothing of the summariser; `outdated` is in old logs alone."""


class PromptHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fold of a session's facts, its child runs left out.

    *last* is the newest call that was answered, *newest_call* the newest one, its usage unknown. *rewritten* is why the
    prompt no longer begins as *last* did: its `compaction`, which is meant to lose the messages, else the first of the
    `snapshot` (also one frozen again to leave out reasoning) and a paused `answer` that was given up; None while it
    does. *refreezable*: the window was compacted since the snapshot was frozen and since a run began. *failures* counts
    the summaries in a row that could not be made, until the prompt is rewritten or a day has passed since the last, at
    *failed*. *newest* is the time of the newest fact. *tools_note* is the newest note on the agent's tools that the
    window has, *unavailable* the servers that were reported, both since their list was frozen. *clocked* is the time of
    the newest note of the clock that the window has, 0 for none.
    """

    last: PromptCall | None = None
    newest_call: PromptCall | None = None
    rewritten: str | None = None
    refreezable: bool = False
    newest: int = 0
    failures: int = 0
    failed: int = 0
    tools_note: str = ""
    unavailable: tuple[str, ...] = ()
    clocked: int = 0
    _is_open: bool = False
    _rewritten: str | None = None
    _controls: dict[str, object] = {}

    def after(self, fact: Fact, entries: int) -> "PromptHistory":
        """Return the history after *fact*, with which the window has so many *entries*."""
        return self.with_body(fact.body, fact.time, entries)

    def with_body(self, body: FactBody, time: int, entries: int) -> "PromptHistory":
        """Return the history after a fact with this *body*, in the log or not yet."""
        seen = replace(self, failures=0) if self.failures and time - self.failed >= REST else self
        return seen._after(body, time, entries)  # noqa: SLF001 - it is of this class

    def _after(self, body: FactBody, time: int, entries: int) -> "PromptHistory":
        match body:
            case e.StepStarted():
                return self._started(body, time, entries)
            case e.StepCompleted() | e.StepFailed():
                return self._answered(body, time)
            case e.RunStarted():
                return replace(self, refreezable=False, newest=time)
            case e.ContextCompacted():
                is_kept = body.kind == "prune"
                note, clocked = (self.tools_note, self.clocked) if is_kept else ("", 0)
                seen = replace(self.rewriting("compaction"), tools_note=note, clocked=clocked)
                return replace(seen, refreezable=True, failures=0, newest=time)
            case e.ContentLeftOut():
                return replace(self.rewriting("compaction"), newest=time)
            case e.SnapshotFrozen():
                seen = self if body.reason in _OF_A_RUN else replace(self, tools_note="", unavailable=())
                return replace(seen.rewriting("snapshot"), failures=0, refreezable=False, newest=time)
            case e.ContextAdded(source="tools", text=text):
                return replace(self, tools_note=text, newest=time)
            case e.ContextAdded(source="clock"):
                return replace(self, clocked=time, newest=time)
            case e.ToolsUnavailable(server=server):
                return replace(self, unavailable=(*self.unavailable, server), newest=time)
            case e.CompactionFailed() if body.code not in _NO_FAULT:
                return replace(self, failures=self.failures + 1, failed=time, newest=time)
            case _:
                return replace(self, newest=time)

    @property
    def previous(self) -> int:
        """Return how many of the window's first entries the last call had too; 0 when they are no longer the same."""
        return self.last.entries if self.last and self.rewritten is None else 0

    def rewriting(self, why: str) -> "PromptHistory":
        """Return the history after what earlier calls had was changed for this reason, see `rewritten`."""
        if why == "compaction":
            return replace(self, rewritten=why, _rewritten=why)
        return replace(self, rewritten=self.rewritten or why, _rewritten=self._rewritten or why)

    def _started(self, body: e.StepStarted, time: int, entries: int) -> "PromptHistory":
        controls = self._controls if body.controls is None else body.controls
        call = PromptCall(
            time=time,
            model=str(controls.get("model") or ""),
            snapshot=body.snapshot,
            entries=entries,
            controls=controls,
            usage=UNKNOWN_USAGE,
        )
        return replace(
            self,
            newest=time,
            newest_call=call,
            _is_open=True,
            _rewritten=None,
            _controls=controls,
        )

    def _answered(self, body: e.StepCompleted | e.StepFailed, time: int) -> "PromptHistory":
        if not self._is_open or self.newest_call is None or body.usage is None:
            return replace(self, newest=time, _is_open=False)
        last = replace(self.newest_call, usage=body.usage)
        return replace(self, last=last, rewritten=self._rewritten, newest=time, _is_open=False)

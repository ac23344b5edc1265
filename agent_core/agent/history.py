"""The prompt history: what the log tells of a session's model calls, for cache marks, estimates and refreezes. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import tokens_of_prefix
from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Caching, PromptCall, changes
from agent_core.events import CacheMissed, Fact, FactBody, MissCause
from agent_core.messages import UNKNOWN_USAGE, File, Message, Part, ToolResult, Usage

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


FEW = 16
"""Tokens that a call may read less than expected: vendors leave two to four at the end of a prompt uncached."""
SHARE = 0.02
BEST_EFFORT = 0.5
"""The part of the expected tokens that counts as read where a cache gives no promise, or the count is an estimate."""
STEP = 128
"""Tokens to which a cache with free writes rounds down."""
_BEGINNING = 64
"""Characters of an answer's JSON within which Anthropic names the type of its first block."""
_TEXTS = ("contract", "persona", "instructions", "skills", "memory", "profile")


class CacheMiss(msgspec.Struct, frozen=True):
    """The fact of a miss, and *changed*: names of what differs in the prompt, for the operator; empty if nothing."""

    fact: CacheMissed
    changed: str = ""


def shortfall(
    history: PromptHistory, usage: Usage, caching: Caching, snapshot: Snapshot, messages: Sequence[Message] = ()
) -> tuple[int, int] | None:
    """Return how many tokens a call with *usage* was expected to read, and how many it read; None if that is no miss.

    It is expected to read what the call before it, `history.last`, read and wrote. After a compaction, or where the API
    has left earlier thinking out of *messages*, the window's, it is the *snapshot* alone, whose tokens are an estimate.
    Unknown figures are no miss.
    """
    if history.last is None or usage.cache_read is None:
        return None
    cached = _cached(history.last, caching)
    if cached is None:
        return None
    is_rewritten = history.rewritten == "compaction" or _is_stripped(history.last, caching, messages)
    is_exact = caching.exact and not is_rewritten
    expected = min(cached, _roughly(snapshot)) if is_rewritten else cached
    enough = expected * (1 - SHARE) - FEW if is_exact else expected * BEST_EFFORT
    if expected < caching.least or usage.cache_read >= enough:
        return None
    return expected, usage.cache_read


def missed(
    n: int,
    short: tuple[int, int],
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message] = (),
) -> CacheMiss | None:
    """Return why step *n*, `history.newest_call`, read less than it was expected to (*short*, see `shortfall`).

    *snapshots* are those of the call before it and of this one; *sent* the tool choices that the API got; *messages*
    the window's. A snapshot that was frozen again after a compaction loses its part on purpose: that is no miss.
    """
    cause, changed = _cause(history, sent, snapshots, caching, messages)
    if history.rewritten == "compaction" and cause in ("tools", "system"):
        return None
    return CacheMiss(CacheMissed(n=n, expected=short[0], read=short[1], cause=cause), changed)


def _cause(
    history: PromptHistory,
    sent: tuple[Any, Any],
    snapshots: tuple[Snapshot, Snapshot],
    caching: Caching,
    messages: Sequence[Message],
) -> tuple[MissCause, str]:
    """Return the cause and which part changed; what has expired was lost whatever else changed."""
    before, now = history.last, history.newest_call
    assert before is not None
    assert now is not None
    if now.time - before.time > _life(before.usage, caching):
        return "expired", ""
    for change in changes(before, now, sent, caching)[:1]:
        match change.name:
            case "model":
                return "model", f"{change.before} -> {change.now}"
            case "snapshot":
                return differing(*snapshots)
            case name:
                return "prefix", name
    if history.rewritten in ("snapshot", "answer"):
        return "prefix", "reasoning" if history.rewritten == "snapshot" else "a paused answer"
    if history.rewritten is None and (added := _added(before, now, caching, messages)):
        return "prefix", added
    if before.controls.get("tool_choice") != now.controls.get("tool_choice"):
        return "unknown", "tool_choice"  # it may have been sent after all, see `Ask.sends`
    return "evicted", ""


def _added(before: PromptCall, now: PromptCall, caching: Caching, messages: Sequence[Message]) -> str:
    """Return what was added since the call *before* that an API caches no messages without; empty for nothing."""
    if caching.vendor != "anthropic":
        return ""
    if any(_has_image(message.parts) for message in messages[before.entries : now.entries]):
        return "an image"
    return "thinking" if _thinks(before, caching, messages) != _thinks(now, caching, messages) else ""


def _has_image(parts: Sequence[Part]) -> bool:
    return any(
        part.mime.startswith("image/") if isinstance(part, File) else _has_image(part.parts)
        for part in parts
        if isinstance(part, File | ToolResult)
    )


def _is_stripped(before: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether the API has left out thinking that the call *before* was sent, or answered with."""
    if not caching.strips or not caching.thinking(before.controls):
        return False
    return any(message.role == "user" for message in messages[before.entries :])


def _thinks(call: PromptCall, caching: Caching, messages: Sequence[Message]) -> bool:
    """Return whether *call* asked for thinking in tokens: in a tool loop only if the loop's first answer begins so."""
    first = None
    for message in reversed(messages[: call.entries]):
        if message.role == "user":
            break
        if message.role == "assistant":
            first = message
    own = first.native.pieces if first and first.native and first.native.model == call.model else ()
    # Also thinking that was redacted or has no text, which is no part of the answer.
    has_begun = first is None or 'thinking"' in str(own[:1])[:_BEGINNING]
    return has_begun and caching.thinking(call.controls) > 0


def differing(before: Snapshot, now: Snapshot) -> tuple[MissCause, str]:
    """Return which part of the snapshot changed, tools first, and the names of what is new, gone or other in it."""
    old, new = ({tool.name: _seen(tool) for tool in each.tools} for each in (before, now))
    if old != new:
        signs = {name: "+" if name not in old else "-" if name not in new else "~" for name in sorted({*old, *new})}
        return "tools", " ".join(f"{sign}{name}" for name, sign in signs.items() if old.get(name) != new.get(name))
    names = [name for name in _TEXTS if getattr(before, name) != getattr(now, name)]
    return ("system", " ".join(names)) if names else ("evicted", "")


def _seen(tool: ToolSpec) -> tuple[str, object]:
    """Return what a model sees of *tool* beside its name."""
    return tool.description, tool.parameters


def _roughly(snapshot: Snapshot) -> int:
    """Estimate the tokens of *snapshot*, rather too few."""
    return round(tokens_of_prefix(snapshot) * 0.7)


def _cached(before: PromptCall, caching: Caching) -> int | None:
    """Return the tokens of the call *before* that the cache keeps, None if that is not known."""
    usage = before.usage
    if not caching.exact:
        return None if before.prompt is None else before.prompt // STEP * STEP
    if usage.cache_read is None or usage.cache_write_short is None:
        return None
    return usage.cache_read + usage.cache_write_short + (usage.cache_write_long or 0)


def _life(usage: Usage, caching: Caching) -> int:
    """Return the milliseconds for which the newest part of a prompt is kept: what was written last tells."""
    is_long = bool(usage.cache_write_long) and not usage.cache_write_short
    return 1000 * (caching.long_s if is_long else caching.short_s)

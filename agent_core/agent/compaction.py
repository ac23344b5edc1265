"""How full a window is, and which compaction comes next. Pure."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from agent_core.agents import Compaction
from agent_core.controls import Controls
from agent_core.events import CompactionKind

PolicyKind = Literal["summary", "cut", "off"]
MAX_FAILURES = 3
"""Failed tries after which a run compacts no more."""
OVERFLOW = "context_overflow"
TARGET = 0.6
"""Part of the threshold, less the prefix, to aim at."""
OVERFLOW_TARGET = 0.5
"""Part of the messages that did not fit; where the model's limit is unknown a few halvings find it."""
_SUMMARY_SHARE = 4
_MIN_FREED = 0.1
"""Part of the messages that a compaction has to free: the rest is all written to the cache again."""


class Tail(msgspec.Struct, frozen=True):
    """The newest *entries* of a window and the *tokens* that they take, or that leaving the others out frees."""

    entries: int
    tokens: int


class WindowFill(msgspec.Struct, frozen=True, kw_only=True):
    """How full a window is: *tokens* has the next prompt, by what the last call was counted at.

    Of them *prefix* are the snapshot's and *taken* those of what the next step consumes. Beyond *limit* a prompt does
    not fit the model, beyond *threshold* a compaction is due; None: unknown. *head* is 1 if the window begins with a
    summary, *summary* the tokens that the next one may take. *tails* begin where a person spoke, the newest first;
    *steps* where a step of the newest run began, with the messages of people that it answers, the longest first.
    *prune* says what placeholders for the results before the oldest tail free, *own* the same for all but the newest
    results, wherever they are, and *unread* for all with those of the newest step, which no call has had. Nothing of it
    is known below the threshold. *failures* counts the summaries of the session in a row that could not be made.
    """

    tokens: int
    failures: int = 0
    prefix: int = 0
    taken: int = 0
    limit: int | None = None
    threshold: int | None = None
    head: int = 0
    summary: int = 0
    tails: tuple[Tail, ...] = ()
    steps: tuple[Tail, ...] = ()
    prune: Tail | None = None
    own: tuple[Tail, ...] = ()
    unread: Tail | None = None


class Compact(msgspec.Struct, frozen=True):
    """Make the window shorter, so that at most *keep* messages from one of its borders on stay as they are.

    With *whole* a user message comes next, so that none need stay; with *inside* the newest run's own steps are
    borders, and the messages that it answers stay in any case. `prune` begins anywhere. A summary is asked for with
    *controls*, after a pause of *delay* seconds. *must*: the prompt does not fit as it is.
    """

    keep: int
    whole: bool
    kind: CompactionKind = "cut"
    controls: Controls | None = None
    delay: float = 0.0
    must: bool = False
    inside: bool = False


class CompactionState(msgspec.Struct, frozen=True):
    """How a run's compactions went: its *failures*, at which step (*failed_at*) the last one failed, -1 for none.

    *made* counts those since the open step began, *answers* whether the newest came after the step last failed. What is
    left out because a provider refused it is one too.
    """

    failures: int = 0
    failed_at: int = -1
    made: int = 0
    answers: bool = False

    @property
    def is_off(self) -> bool:
        """Return whether the run compacts no more."""
        return self.failures >= MAX_FAILURES

    def started(self) -> "CompactionState":
        """Return the state after a new step started."""
        return msgspec.structs.replace(self, made=0, answers=False)

    def overflowed(self) -> "CompactionState":
        """Return the state after a prompt did not fit; a compaction that came before did not help, so it failed."""
        failures = self.failures + (self.made > 0)
        return msgspec.structs.replace(self, failures=failures, answers=False)

    def refused(self) -> "CompactionState":
        """Return the state after a prompt failed for another reason than its length."""
        return msgspec.structs.replace(self, answers=False) if self.answers else self

    def succeeded(self) -> "CompactionState":
        """Return the state after a compaction."""
        return msgspec.structs.replace(self, made=self.made + 1, answers=True)

    def failed(self, step: int) -> "CompactionState":
        """Return the state after a summary could not be made, at *step*."""
        return msgspec.structs.replace(self, failures=self.failures + 1, failed_at=step)


def of_messages(limit: int | None, size: int, more: int, *, kind: PolicyKind, whole: bool) -> Compact | None:
    """Return what leaves half the *limit* of messages when *more* of them would exceed it, else None."""
    if limit is None or kind == "off" or size + more <= limit:
        return None
    return Compact(max(limit // 2 - more - (kind == "summary"), 0), whole, kind)


def on_overflow(fill: WindowFill | None, size: int, policy: Compaction) -> Compact | None:
    """Return what makes a prompt shorter that did not fit, None if nothing can."""
    if fill is None:
        return None
    tokens = min(fill.tokens, fill.limit or fill.tokens)
    return _best(fill, _ways(fill, size, policy.kind, whole=False, must=True), _aim(fill, tokens, OVERFLOW_TARGET))


def rests(fill: WindowFill | None, policy: Compaction) -> bool:
    """Return whether no summary is asked for, after three in a row that could not be made: each try is billed."""
    return policy.kind == "summary" and fill is not None and fill.failures >= MAX_FAILURES


def when_due(fill: WindowFill | None, size: int, policy: Compaction, *, whole: bool) -> Compact | None:
    """Return what makes a prompt shorter that is beyond its threshold, None if it is not or nothing can.

    A cut, which loses for good, is due at the model's limit alone. So is a summary that `rests`.
    """
    if fill is None:
        return None
    must = fill.limit is not None and fill.tokens > fill.limit
    if not must and rests(fill, policy):
        return None
    limit = fill.limit if policy.kind == "cut" else fill.threshold
    if limit is None or fill.tokens <= limit:
        return None
    return _best(fill, _ways(fill, size, policy.kind, whole=whole, must=must), _aim(fill, limit, TARGET))


def _aim(fill: WindowFill, tokens: int, share: float) -> int:
    """Return the tokens to aim at: the prefix, which stays, and a *share* of what *tokens* leave for messages."""
    return fill.prefix + round(max(0, tokens - fill.prefix) * share)


def _best(fill: WindowFill, ways: Iterator[tuple[Compact, int]], target: int) -> Compact | None:
    """Return the first of the *ways* that gets to *target* tokens, else the one that gets nearest."""
    candidates = list(ways)
    for way, left in candidates:
        if left <= target:
            return way
    way, left = min(candidates, key=lambda each: each[1], default=(None, 0))
    return way if fill.tokens - left >= _MIN_FREED * (fill.tokens - fill.prefix) else None


def _ways(fill: WindowFill, size: int, kind: PolicyKind, *, whole: bool, must: bool) -> Iterator[tuple[Compact, int]]:
    """Yield the ways to make room, those that lose least first, each with the tokens that are left.

    Old results become placeholders where no summary will have read them. Only where room *must* be made a run loses
    results of its own, and last of all those that it has not read.
    """
    if kind == "off":
        return
    if kind == "cut" and fill.prune:
        yield _pruned(fill, fill.prune)
    summary = min(fill.summary, fill.tokens // _SUMMARY_SHARE) if kind == "summary" else 0
    rest = fill.prefix + fill.taken + summary
    for tail in reversed(fill.tails):
        yield Compact(tail.entries, whole=False, kind=kind, must=must), rest + tail.tokens
    if whole and size > fill.head:
        yield Compact(0, whole=True, kind=kind, must=must), rest
    if not must:
        return
    for own in fill.own if kind == "cut" else ():
        yield _pruned(fill, own)
    for tail in fill.steps:
        if tail.entries or kind == "summary":
            yield Compact(tail.entries, whole=False, inside=True, kind=kind, must=True), rest + tail.tokens
    if fill.unread:
        yield _pruned(fill, fill.unread)


def _pruned(fill: WindowFill, freed: Tail) -> tuple[Compact, int]:
    return Compact(freed.entries, whole=False, kind="prune"), max(0, fill.tokens - freed.tokens)

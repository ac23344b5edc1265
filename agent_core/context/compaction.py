"""When a compaction pays, and how full a window is: the closed forms of the cost of a conversation. Pure.

The unit is the price of an uncached input token. Where the numbers are from: the cost of a session whose prompt grows
by `GROWTH` tokens a call is least when it is compacted at C* = B + K + sqrt(2 d A / r'), with B the prefix, K what is
kept verbatim, A = r (B + K) + o S + w K the cost of a compaction that writes S tokens, and r' = r + (w - r) q, where q
is the part of the calls that miss the cache. Checked by brute force for q = 0, B = 22k, K = 6k, S = 3k and d = 1.2k:
52k at r = 0.1, 62k at 0.05, 75k at 0.025.
"""

from collections.abc import Sequence
from itertools import islice
from math import sqrt
from typing import Literal

import msgspec

from agent_core.context.entries import WindowEntry
from agent_core.context.estimates import Calibration, Weight, total
from agent_core.context.history import PromptHistory
from agent_core.context.window import Window
from agent_core.domain.compaction import Tail, WindowFill

GROWTH = 1_200
"""Tokens by which a prompt grows with each call (d), where nothing else is known: a result and an answer."""
SUMMARY_TOKENS = 3_000
"""Tokens that a summary may take (S); an eighth of a small model's context at most."""
QUALITY, QUALITY_OF_CHEAP_READS = 64_000, 100_000
"""Tokens below which no price is a reason to compact: a summary loses something, and models read this much well.

The larger one holds where a cached token costs a twentieth of a fresh one or less, so that waiting is cheap.
"""
CHEAP = 0.05
KEPT_MESSAGES = 3
"""Messages of people that stay verbatim, with what they caused, while they fit."""
_FEW = 3
_SHARE = 3
_SUMMARY_SHARE = 8
_PRIOR_RETURNS, _PRIOR_LEAVES = 0.5, 1.0
"""A person of whom nothing is known comes back once the cache has expired in one of three cases."""


class TokenRates(msgspec.Struct, frozen=True, kw_only=True):
    """Prices of a model's tokens in units of an uncached input token; *above* is where a higher price begins."""

    read: float = 1.0
    write: float = 1.0
    output: float = 5.0
    above: int | None = None


class PromptBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds the prompts of a model: its *limit* in tokens, and its *rates*; None: unknown."""

    limit: int | None = None
    rates: TokenRates | None = None

    @property
    def summary(self) -> int:
        """Return the tokens that a summary may take."""
        return min(SUMMARY_TOKENS, self.limit // _SUMMARY_SHARE) if self.limit else SUMMARY_TOKENS


def bounds(context: int | None, room: int, rates: TokenRates | None) -> PromptBounds:
    """Return the bounds of a model with a *context* of so many tokens, of which its answer may take *room*.

    A third of the context at most is left to the answer: the room that an API grants is more than answers use.
    """
    return PromptBounds(limit=context - min(room, context // _SHARE) if context else None, rates=rates)


def threshold(
    bounds: PromptBounds, history: PromptHistory, *, prefix: int, tail: int, growth: int = GROWTH
) -> int | None:
    """Return the tokens of a prompt beyond which a compaction pays (C*), between quality and the limit; None: never."""
    rates, limit = bounds.rates, bounds.limit
    if rates is None:
        return limit
    missed = min(1.0, (history.medium + history.long) / history.calls) if history.calls else 0.0
    cost = rates.read * (prefix + tail) + rates.output * bounds.summary + rates.write * tail
    each = rates.read + max(0.0, rates.write - rates.read) * missed
    best = prefix + tail + round(sqrt(2 * growth * cost / each)) if each else limit
    if best is None:
        return None
    best = max(best, QUALITY_OF_CHEAP_READS if rates.read <= CHEAP else QUALITY)
    return min(bound for bound in (best, limit, rates.above) if bound is not None)


def pays_at_idle(
    rates: TokenRates, history: PromptHistory, *, tokens: int, prefix: int, tail: int, cost: float
) -> bool:
    """Return whether a compaction that costs *cost* now is cheaper than to write the window again after the cache.

    P w (C - B - K) > cost, with P the chance of a return after the expiry: of this person's pauses, with a prior.
    """
    returns = history.medium + history.long
    chance = (returns + _PRIOR_RETURNS) / (returns + _PRIOR_RETURNS + _PRIOR_LEAVES)
    return chance * rates.write * (tokens - prefix - tail) > cost


def expected(
    window: Window,
    model: str,
    calibration: Calibration,
    *,
    prefix: int,
    taken: int = 0,
    snapshot: str | None = None,
    exact: bool = False,
) -> int:
    """Estimate the tokens of the next prompt of *model*: what the last call measured, and what came since.

    Without a measure of the same model and *snapshot* all of it is estimated, with *prefix* tokens of the snapshot.
    """
    history = window.history
    last, measured = history.last, counted(window, calibration, prefix=prefix, exact=exact)
    since = window.entries
    tokens = prefix
    is_same = last is not None and last.model == model and last.snapshot == (snapshot or window.snapshot)
    if last is not None and measured is not None and is_same and history.rewritten is None:
        tokens, since = measured, window.entries[last.entries :]
    return tokens + taken + calibration.tokens(weight(since))


def counted(window: Window, calibration: Calibration, *, prefix: int, exact: bool) -> int | None:
    """Return the tokens as which the prompt of the last call was counted, None if that is unknown or cannot be true.

    Servers whose counts are not *exact* may count nothing, or what is new alone: less than half of what its texts
    and a *prefix* of so many tokens are estimated as is not believed.
    """
    last = window.history.last
    if last is None or last.prompt is None or exact:
        return last and last.prompt
    texts = Weight(window.weight(last.entries).bytes, 0)
    return last.prompt if 2 * last.prompt >= prefix + calibration.tokens(texts) else None


def weight(entries: Sequence[WindowEntry]) -> Weight:
    """Return what *entries* weigh together."""
    return total(entry.weight for entry in entries)


def filling(
    window: Window,
    bounds: PromptBounds,
    calibration: Calibration,
    *,
    tokens: int,
    prefix: int,
    taken: int = 0,
    look: bool,
    kind: Literal["summary", "cut", "off"] = "summary",
) -> WindowFill:
    """Return how full *window* is for a prompt of so many *tokens*: what this *kind* decides on, or all (*look*)."""
    least = bounds.limit if kind == "cut" else _least(bounds)
    calm = WindowFill(
        tokens=tokens,
        estimated=tokens,
        prefix=prefix,
        taken=taken,
        head=window.head,
        summary=bounds.summary,
        failures=window.history.failures,
        timed_out=window.history.timed_out > 0,
    )
    sure = round(tokens * (1 + calibration.error))
    if kind == "off" or (not look and (least is None or sure <= least)):
        return calm
    tails, prunes = _tails(window, calibration), _prunes(window, calibration)
    tail, limit = (tails[-1].tokens if tails else 0) + taken, bounds.limit
    return msgspec.structs.replace(
        calm,
        tokens=tokens if limit is None or sure <= limit else max(sure, limit + 1),
        limit=limit,
        threshold=threshold(bounds, window.history, prefix=prefix, tail=tail, growth=_growth(window, calibration)),
        tails=tails,
        steps=_steps(window, calibration),
        prune=_freed(prunes, tails[-1].entries) if tails else None,
        own=_own(window, prunes),
        unread=_unread(prunes),
    )


def _least(bounds: PromptBounds) -> int | None:
    """Return the tokens up to which no compaction is due, whatever the window holds."""
    floors = [bounds.limit, bounds.rates.above if bounds.rates else None, QUALITY if bounds.rates else None]
    return min((floor for floor in floors if floor is not None), default=None)


def _growth(window: Window, calibration: Calibration) -> int:
    """Return the tokens by which the window grew with each answer that it holds."""
    answers = sum(entry.message.role == "assistant" for entry in window.entries)
    return max(GROWTH // 4, calibration.tokens(weight(window.entries)) // answers) if answers else GROWTH


def _tails(window: Window, calibration: Calibration) -> tuple[Tail, ...]:
    """Return the tails of the newest messages of people, the newest first, that leave something out."""
    tails: list[Tail] = []
    tokens = 0
    for place in range(len(window.entries) - 1, window.head, -1):
        entry = window.entries[place]
        tokens += calibration.tokens(entry.weight)
        if entry.border:
            tails.append(Tail(len(window.entries) - place, tokens))
            if len(tails) == KEPT_MESSAGES:
                break
    return tuple(tails)


def _steps(window: Window, calibration: Calibration) -> tuple[Tail, ...]:
    """Return the tails from the later steps of the newest run on, the longest first, with what it was asked."""
    places = window.steps
    if not places:
        return ()
    seq, end = window.kept_seq, len(window.entries)
    size, own = end, window.entries[window.newest_question :]
    tokens = sum(calibration.tokens(entry.weight) for entry in own if entry.seq == seq)
    tails: list[Tail] = []
    for place in reversed(places):
        tokens += sum(calibration.tokens(entry.weight) for entry in window.entries[place:end])
        tails.append(Tail(size - place, tokens))
        end = place
    return tuple(reversed(tails))


def _prunes(window: Window, calibration: Calibration) -> Sequence[Tail]:
    """Return each message whose results a placeholder would save: its place from the end, and its tokens."""
    size = len(window.entries)
    return [
        Tail(size - place, calibration.tokens(entry.weight))
        for place, entry in enumerate(window.entries)
        if entry.prunable
    ]


def _own(window: Window, prunes: Sequence[Tail]) -> tuple[Tail, ...]:
    """Return what placeholders free for all results but the newest few, and for all but the newest."""
    size = len(window.entries)
    places = (i for i in range(size - 1, -1, -1) if window.entries[i].message.role == "tool")
    newest = [size - place for place in islice(places, _FEW + 1)]
    savings = [_freed(prunes, newest[few - 1]) for few in (_FEW, 1) if len(newest) > few]
    return tuple(each for each in savings if each is not None)


def _unread(prunes: Sequence[Tail]) -> Tail | None:
    """Return what placeholders for all results free, where the newest entry has some."""
    return _freed(prunes, 0) if any(each.entries == 1 for each in prunes) else None


def _freed(prunes: Sequence[Tail], keep: int) -> Tail | None:
    """Return what placeholders free for the results before the newest *keep* entries, None for nothing."""
    freed = sum(each.tokens for each in prunes if each.entries > keep)
    return Tail(keep, freed) if freed else None

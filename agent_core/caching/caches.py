"""What a prompt cache reads and writes for each request, by the vendors' rules; the time is given in.

Anthropic: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
OpenAI: https://developers.openai.com/api/docs/guides/prompt-caching
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from agent_core.caching.positions import Count, Json, ModelPrompt, Position, estimated, positions_of
from agent_core.caching.rules import (
    DAY,
    DEFAULT_RULES,
    FIVE_MINUTES,
    HALF_DAY,
    HALF_HOUR,
    HOUR,
    TEN_MINUTES,
    USUAL_MINIMUM,
    Rules,
    bills_writes,
    minimum,
)
from agent_core.caching.steps import RequestPrefix, anthropic_steps, openai_steps

_ENTRIES = 50_000
_EXPLICIT, _BESIDE_IMPLICIT = 4, 3
_MINUTE = 60_000


@dataclass(frozen=True, slots=True)
class Bill:
    """Input tokens of one request by what they cost."""

    plain: int = 0
    read: int = 0
    write_short: int = 0
    write_long: int = 0

    @property
    def total(self) -> int:
        return self.plain + self.read + self.write_short + self.write_long


@dataclass(frozen=True, slots=True)
class Priced:
    """A request's *bill*, and what it writes: only once its answer has begun can others read that.

    *start* is when it was sent, in ms; *steps* are all its prefixes, *written* those kept, with lifetimes in seconds.
    """

    bill: Bill
    start: int
    written: tuple[tuple[RequestPrefix, int], ...]
    steps: Sequence[RequestPrefix]


@dataclass(slots=True)
class _Entry:
    tokens: int
    seconds: int
    ends: int


class Caches:
    """The prompt caches of all models of one workspace. Times are milliseconds."""

    def __init__(self, rules: Rules = DEFAULT_RULES) -> None:
        self._rules = rules
        self._entries: dict[bytes, _Entry] = {}
        self._requested: dict[str, list[int]] = {}

    def price(
        self,
        prompt: ModelPrompt,
        now: int,
        *,
        positions: Sequence[Position] | None = None,
        count: Count = estimated,
    ) -> Priced:
        """Return what *prompt* costs when it is sent at *now*, renewing what it reads.

        *positions* are its own, if they are known already; *count* says how many tokens each has.
        """
        located = positions_of(prompt) if positions is None else positions
        if prompt.wire == "messages":
            return self._anthropic(prompt.body, located, now, count)
        steps = openai_steps(prompt, located, count)
        if bills_writes(prompt.model):
            return self._openai(prompt.body, steps, now)
        return self._older(prompt, steps, now)

    def write(self, priced: Priced) -> None:
        """Keep what a request writes, as its answer begins."""
        for step, seconds in priced.written:
            self._entries[step.key] = _Entry(step.tokens, seconds, priced.start + seconds * 1000)
        if len(self._entries) > _ENTRIES:
            oldest = priced.start - self._rules.grace
            self._entries = {key: entry for key, entry in self._entries.items() if entry.ends > oldest}

    def _anthropic(self, body: Json, positions: Sequence[Position], now: int, count: Count) -> Priced:
        steps = anthropic_steps(body, positions, count, self._rules)
        total = (steps[-1].tokens if steps else 0) + self._rules.tail
        least = self._rules.minimum or minimum(f"anthropic:{body.get('model')}")
        marks = [n for n, step in enumerate(steps) if step.seconds and step.tokens >= least]
        hit = self._looked_up(steps, marks, now)
        read = steps[hit].tokens if hit is not None else 0
        under = self._entries[steps[hit].key].seconds if hit is not None else HOUR
        long = max(read, max((steps[n].tokens for n in marks if steps[n].seconds == HOUR), default=0))
        end = max(long, steps[marks[-1]].tokens if marks else 0)
        written = [(steps[n], self._lifetime(steps[n].seconds, under)) for n in marks if steps[n].tokens > read]
        renewed = {*(marks if self._rules.renews_marked else ()), *((hit,) if hit is not None else ())}
        for n in renewed:
            self._renew(steps[n].key, now)
        return Priced(Bill(total - end, read, end - long, long - read), now, tuple(written), steps)

    def _lifetime(self, wanted: int | None, under: int) -> int:
        """Return how long a prefix is kept that was built on one with *under* seconds."""
        seconds = wanted or FIVE_MINUTES
        return seconds if self._rules.long_over_short else min(seconds, under)

    def _looked_up(self, steps: Sequence[RequestPrefix], marks: Sequence[int], now: int) -> int | None:
        """Return the longest live prefix that can be found from *marks*, the last first."""
        for mark in reversed(marks):
            walked = 0
            for n in range(mark, -1, -1):
                if self._rules.across_tiers or steps[n].tier == steps[mark].tier:
                    walked += 1
                if walked > self._rules.look_back:
                    break
                if self._live(steps[n].key, now):
                    return n
        return None

    def _openai(self, body: Json, steps: Sequence[RequestPrefix], now: int) -> Priced:
        """Models from 5.6 on: exact boundaries, explicit and implicit, whose writes are billed."""
        options = cast("Json", body.get("prompt_cache_options") or {})
        seconds = HALF_DAY if options.get("ttl") == "12h" else HALF_HOUR
        total = (steps[-1].tokens if steps else 0) + self._rules.tail
        explicit = [n for n, step in enumerate(steps) if step.breakpoint == "explicit"]
        by_itself = options.get("mode") != "explicit"
        implicit = [n for n, step in enumerate(steps) if step.breakpoint == "implicit"] if by_itself else []
        looked_up = sorted({*explicit, *implicit})[-self._rules.boundaries :]
        read = max((steps[n].tokens for n in looked_up if self._live(steps[n].key, now)), default=0)
        marked = explicit[-_BESIDE_IMPLICIT:] + implicit[-1:] if by_itself else explicit[-_EXPLICIT:]
        large = [steps[n] for n in sorted(marked) if steps[n].tokens >= USUAL_MINIMUM]
        hits = [steps[n] for n in looked_up if steps[n].tokens == read]
        for step in (*hits, *(large if self._rules.renews_marked else ())):
            self._renew(step.key, now)
        wrote = max(0, max((step.tokens for step in large), default=0) - read)
        short, long = (0, wrote) if seconds == HALF_DAY else (wrote, 0)
        written = tuple((step, seconds) for step in large if step.tokens > read)
        return Priced(Bill(total - read - wrote, read, short, long), now, written, steps)

    def _older(self, prompt: ModelPrompt, steps: Sequence[RequestPrefix], now: int) -> Priced:
        """Older models and compatible servers: the longest common prefix, rounded down, free to write."""
        seconds = DAY if prompt.body.get("prompt_cache_retention") == "24h" else TEN_MINUTES
        total = (steps[-1].tokens if steps else 0) + self._rules.tail
        common = max((step.tokens for step in steps if self._live(step.key, now)), default=0)
        if self._is_crowded(f"{prompt.model} {prompt.body.get('prompt_cache_key')}", now):
            common = 0
        read = common // self._rules.granule * self._rules.granule if common >= USUAL_MINIMUM else 0
        return Priced(Bill(total - read, read), now, tuple((step, seconds) for step in steps), steps)

    def _is_crowded(self, key: str, now: int) -> bool:
        """Return whether *key* had its requests of a minute already: a machine with another cache takes this one."""
        limit = self._rules.per_minute
        if limit is None:
            return False
        recent = [time for time in self._requested.get(key, ()) if time > now - _MINUTE]
        self._requested[key] = [*recent, now]
        return len(recent) >= limit

    def _live(self, key: bytes, now: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now < entry.ends + self._rules.grace

    def _renew(self, key: bytes, now: int) -> None:
        if self._live(key, now):
            entry = self._entries[key]
            entry.ends = now + entry.seconds * 1000

"""The prompt cache as this process uses it: the marks of each request, and the misses of each answer."""

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import (
    WindowEntry,
    bounded,
    instruction,
    media_of,
    shortened,
    tokens_of_bytes,
    tokens_of_prefix,
)
from agent_core.agent.state import OVERFLOW, Compact, RunState, Tail, WindowFill, sum_of
from agent_core.agent.strategy import Ask
from agent_core.agent.window import PromptHistory, Window, missed, shortfall
from agent_core.agents import Agent, Snapshot, as_prompted
from agent_core.clock import Clock, within
from agent_core.controls import Controls, is_forced, read, sent
from agent_core.events import Fact, FactBody
from agent_core.messages import REFUSALS, UNKNOWN_USAGE, Message, Text, Usage
from agent_core.providers import base
from agent_core.providers import base as p
from agent_core.providers.base import CacheMarks

_KEYS = 1024
_KEY_LENGTH = 32
_log = structlog.get_logger("parley.cache")


class PromptCache:
    """Marks requests."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], str] = {}

    def marks(self, agent: Agent, history: PromptHistory) -> CacheMarks | None:
        """Return how a request of a session with *history* uses the cache; None where caching is switched off.

        After a compaction the window's first entry, its summary, counts as sent before.
        """
        if not agent.prompt_caching:
            return None
        previous = history.previous or (1 if history.rewritten == "compaction" else 0)
        return CacheMarks(key=self._key(agent), previous=previous)

    def _key(self, agent: Agent) -> str:
        """Return the key that names *agent* and what its sessions share, the same in each process."""
        snapshot = agent.snapshot
        key = self._keys.get((agent.id, snapshot.hash))
        if key is None:
            if len(self._keys) >= _KEYS:
                self._keys.clear()
            tools = [(tool.name, tool.description, tool.parameters) for tool in snapshot.tools]
            shared = msgspec.json.encode([tools, snapshot.shared], order="deterministic")
            key = hashlib.sha256(agent.id.encode() + b"\n" + shared).hexdigest()[:_KEY_LENGTH]
            self._keys[agent.id, snapshot.hash] = key
        return key


async def with_miss(
    facts: Sequence[FactBody],
    move: Ask,
    window: Window,
    agent: Agent,
    snapshot: Callable[[str], Awaitable[Snapshot]],
) -> Sequence[FactBody]:
    """Return *facts*, the outcome of *move*, with `cache.missed` after the step if its call read less than it should.

    *window* is what the call was sent. *snapshot* reads a frozen prefix by its hash; it is asked only after a miss.
    """
    index = next((index for index, fact in enumerate(facts) if isinstance(fact, e.StepCompleted)), None)
    caching = agent.able(move.controls.model or "").caching
    if index is None or caching is None or not agent.prompt_caching:
        return facts
    history = window.history
    step, before = facts[index], history.last
    assert isinstance(step, e.StepCompleted)
    messages = [entry.message for entry in window.entries] if caching.strips else []
    short = shortfall(history, step.usage, caching, agent.snapshot, messages)
    if short is None or before is None:
        return facts
    messages = [entry.message for entry in window.entries]
    old = agent.snapshot if before.snapshot == move.snapshot else await snapshot(before.snapshot)
    choices = (
        as_prompted(sent(read(before.controls), agent.able(before.model)), agent).tool_choice,
        (move.sends or move.controls).tool_choice,
    )
    miss = missed(step.n, short, history, choices, (old, agent.snapshot), caching, messages)
    if miss is None:
        return facts
    fact = miss.fact
    _log.warning(
        "cache.missed", step=fact.n, expected=fact.expected, read=fact.read, cause=fact.cause, changed=miss.changed
    )
    return [*facts[: index + 1], fact, *facts[index + 1 :]]


def log_cache_notes(run: str, facts: Sequence[Fact]) -> None:
    """Log what the cache loses with a step of *run* that has just started."""
    for fact in facts:
        if isinstance(fact.body, e.StepStarted) and fact.body.cache_note:
            _log.info("cache.changed", run=run, step=fact.body.n, note=fact.body.cache_note)


ENOUGH = 100_000
"""Tokens beside the prefix from which on a conversation is summed up: each call pays for them, and reads them worse."""
ANSWER_ROOM = 32_000
"""Tokens of an answer of a model whose limit is unknown; a third of its context at most is left to any."""
SUMMARY_TOKENS, MIN_SUMMARY = 3_000, 400
"""Tokens that a summary may take: a quarter of what it is about, between these; and an eighth of what fits at most."""
SUMMARY_ROOM = 8_000
"""Tokens of the answer of a model that is asked for summaries alone, its thinking among them."""
PATIENCE = 120.0
"""Seconds that people wait for a summary."""
KEPT_MESSAGES = 3
"""Messages of people that stay verbatim, with what they caused, while they fit."""
_FEW = 3
_PREFIXES = 64
_LONG_ENOUGH = 3
"""Characters of a cut summary, for each token that it may take, from which on it counts: it is as long as asked for."""


class Compactor:
    """Knows how full windows are and makes them shorter."""

    def __init__(
        self,
        provider_for: Callable[[str], p.Provider],
        clock: Clock,
        read_file: Callable[[str], Awaitable[bytes | None]],
        prompt_cache: PromptCache,
    ) -> None:
        self._provider_for, self._clock, self._read_file = provider_for, clock, read_file
        self._prompt_cache = prompt_cache
        self._prefixes: dict[str, int] = {}

    def fill(self, window: Window, agent: Agent, state: RunState, *, more: int = 0) -> WindowFill:
        """Return how full *window* is for the next step of *state*, which takes *more* tokens than are in the log."""
        failure = state.step.failure
        return self.filling(
            window,
            agent,
            state.step.model or agent.snapshot.model,
            taken=window.pending(state.inbox.unconsumed) + more,
            overflowed=state.step.is_open and failure is not None and failure.code == OVERFLOW,
        )

    def filling(
        self, window: Window, agent: Agent, model: str, *, taken: int = 0, overflowed: bool = False
    ) -> WindowFill:
        """Return how full *window* is for *model*: where it could be shorter only if it is too full or *overflowed*.

        What the provider counted for the last call is believed, and what came since is estimated; without such a count
        all is. A prompt that did not fit has at least the tokens of the estimate, whatever was counted.
        """
        history, last, kind = window.history, window.history.last, agent.definition.compaction.kind
        limit, prefix = limit_of(agent, model), self._prefix(agent.snapshot)
        threshold = limit if limit is None or kind == "cut" else min(prefix + ENOUGH, limit)
        is_same = last is not None and (last.model, last.snapshot) == (model, agent.snapshot.hash)
        if last is not None and last.prompt is not None and is_same and history.rewritten is None:
            tokens = last.prompt + taken + _sum(window.entries[last.entries :])
        else:
            tokens = prefix + taken + _sum(window.entries)
        calm = WindowFill(tokens=tokens, head=window.head, failures=history.failures)
        if kind == "off" or not (overflowed or (threshold is not None and tokens > threshold)):
            return calm
        estimated = prefix + taken + _sum(window.entries)
        tokens = max(tokens, estimated) if overflowed else tokens
        measure = _Measure(window, tokens / max(estimated, 1))
        return replace(
            measure.filled(calm, prefix=prefix, taken=taken),
            tokens=tokens,
            limit=limit,
            threshold=threshold,
            summary=_summary_room(limit),
        )

    async def leave_out(self, facts: Sequence[e.FactBody], item: bytes, window: Window) -> Sequence[e.FactBody]:
        """Return *facts*, the outcome of a call, with what is left out from now on if its provider refused *window*.

        *item* is the JSON of what its error named: it has the bytes of a file.
        """
        match facts[0]:
            case e.StepFailed(code=code) if code in REFUSALS:
                pass
            case e.MessageCompleted(stop="refused" as code):
                pass
            case _:
                return facts
        files = {file for entry in window.entries for file in media_of(entry.message.parts)} if item else set[str]()
        read = {file: await self._read_file(file) for file in files}
        named = {file for file, data in read.items() if data and base64.b64encode(data) in item}
        left_out = window.leave_out(code, named)
        return facts if left_out is None else [*facts, left_out]

    async def compact(
        self, move: Compact, window: Window, agent: Agent, session: str, stopped: Callable[[], bool]
    ) -> e.ContextCompacted | e.CompactionFailed | None:
        """Return the fact that makes *window* shorter, or why there is none; None when it was *stopped* at once.

        What was spent on a summary until a stop, or until it took too long, is in the fact: it is billed.
        """
        if move.kind == "cut":
            return window.cut(move.keep, whole=move.whole, inside=move.inside)
        if move.kind == "prune":
            return window.compacted("prune", window.seq_at(len(window.entries) - move.keep))
        summary = self._summary(move, window, agent, session)
        try:
            if move.delay and not stopped():
                await self._clock.sleep(move.delay)
            if stopped():
                return None
            async with within(self._clock, PATIENCE):
                return await self._summed_up(summary, move)
        except TimeoutError:
            return summary.failed("timeout", f"The summary was not written within {PATIENCE:g} seconds.")
        except asyncio.CancelledError:
            if not stopped():
                raise
            return summary.failed("cancelled", "The run was stopped.") if summary.usage else None

    def _summary(self, move: Compact, window: Window, agent: Agent, session: str) -> "_Summary":
        """Return the summary that *move* asks for, by the agent's choice of a model until that has failed.

        The conversation's own model gets the controls of its next request, since what it has cached depends on them.
        Only what keeps an answer from being a whole text is left out: a forced call, a schema, and the bound of its
        length, which is part of no cache. After a failure it may call no tool either.
        """
        place = window.start_of(move.keep, whole=move.whole, inside=move.inside)
        controls = move.controls or Controls(model=agent.snapshot.model)
        own, failures = controls.model or agent.snapshot.model, window.history.failures
        model = (None if failures else agent.definition.compaction.model) or own
        if model != own:
            controls = Controls(model=model, max_output_tokens=SUMMARY_ROOM, tool_choice="none")
        else:
            choice = "none" if failures else "auto" if is_forced(controls.tool_choice) else controls.tool_choice
            controls = replace(controls, tool_choice=choice, output_schema=None, max_output_tokens=None)
        about = self._prefix(agent.snapshot) + _sum(window.entries[:place])
        tokens = min(_summary_room(limit_of(agent, own)), max(MIN_SUMMARY, about // 4))
        return _Summary(agent, window, place, model, controls, session, tokens, is_own=model == own)

    async def _summed_up(self, summary: "_Summary", move: Compact) -> e.ContextCompacted | e.CompactionFailed:
        """Write the summary; where the model takes not even what is to be summed up, leave it out.

        The whole window is sent, as it was before, so that it is read from the cache. Where that does not fit it is the
        older part alone, its longest messages by their beginning and end.
        """
        window, place = summary.window, summary.place
        answer = SummaryAnswer(code=OVERFLOW)
        if not move.must:
            answer = await self._ask(summary, window.entries[:place], window.entries[place:], is_cached=summary.is_own)
        if answer.code == OVERFLOW:
            room, limit = _sum(window.entries) // 2, limit_of(summary.agent, summary.model)
            room = room if limit is None else min(room, limit // 2)
            answer = await self._ask(summary, shortened(window.entries[:place], room), (), is_cached=False)
        if answer.code not in (None, OVERFLOW):
            return summary.failed(answer.code, answer.message)
        text = None if answer.code else bounded("".join(answer.texts), summary.tokens)
        from_seq, kept_seq = window.seq_at(place), window.kept_seq if move.inside else None
        made = window.compacted("cut" if text is None else "summary", from_seq, kept_seq=kept_seq)
        after = (made.tokens_after or 0) + tokens_of_bytes(len((text or "").encode()))
        return replace(made, summary=text, tokens_after=after, **summary.spent())

    async def _ask(
        self, summary: "_Summary", older: Sequence[WindowEntry], rest: Sequence[WindowEntry], *, is_cached: bool
    ) -> "SummaryAnswer":
        """Ask for a summary of *older*, which the *rest* of the window follows; a cancelled call is billed too.

        Where it *is_cached* it is marked as the session's last request was; else nothing is written: only a later
        request of the same beginning would read it.
        """
        frames, provider, model = summary.window.frames, self._provider_for(summary.model), p.named(summary.model)
        encode, answer = provider.encoder(model), SummaryAnswer()
        text = instruction(summary.tokens, tail=sum(entry.border for entry in rest))
        asked = WindowEntry(0, Message("user", (Text(frames.context("note", text)),)), encode)
        sent = [*(entry.encoded_by(encode) for entry in (*older, *rest)), asked]
        for entry in sent:
            await entry.load(self._read_file, frames)
        marks = self._prompt_cache.marks(summary.agent, summary.window.history) if is_cached else None
        request = p.Request(
            model=model,
            snapshot=summary.agent.snapshot,
            messages=sent,
            controls=summary.controls,
            session=summary.session,
            cache=marks,
        )
        try:
            async with aclosing(provider.stream(request)) as stream:
                async for batch in stream:
                    for delta in batch:
                        answer.take(delta)
                    if answer.ended:
                        break
        finally:
            if answer.usage or answer.begun:
                summary.add(answer.usage or UNKNOWN_USAGE)
        return answer.closed(summary.tokens)

    def _prefix(self, snapshot: Snapshot) -> int:
        """Return the tokens of *snapshot*, estimated once."""
        tokens = self._prefixes.get(snapshot.hash)
        if tokens is None:
            if len(self._prefixes) >= _PREFIXES:
                self._prefixes.clear()
            tokens = self._prefixes[snapshot.hash] = tokens_of_prefix(snapshot)
        return tokens


def limit_of(agent: Agent, model: str) -> int | None:
    """Return the tokens that a prompt of *model* may have: its context without the room of the answer, if known."""
    entry = base.find(agent.listed(model))
    room = agent.overrides.max_output_tokens or agent.definition.controls.max_output_tokens
    room = room or entry.max_output or ANSWER_ROOM
    return entry.context - min(room, entry.context // 3) if entry.context else None


def _summary_room(limit: int | None) -> int:
    return min(SUMMARY_TOKENS, limit // 8) if limit else SUMMARY_TOKENS


class _Measure:
    """Where *window* can be made shorter, in tokens that are *scale* times the estimates."""

    def __init__(self, window: Window, scale: float) -> None:
        self._window, self._entries, self._scale = window, window.entries, scale
        size = len(window.entries)
        self._prunes = [
            Tail(size - place, self._tokens([entry])) for place, entry in enumerate(window.entries) if entry.prunable
        ]

    def filled(self, calm: WindowFill, *, prefix: int, taken: int) -> WindowFill:
        """Return *calm* with what is known of a window that is too full."""
        size, tails = len(self._entries), self._tails()
        places = (i for i in range(size - 1, -1, -1) if self._entries[i].message.role == "tool")
        newest = [size - place for place in islice(places, _FEW + 1)]
        own = (self._freed(newest[few - 1]) for few in (_FEW, 1) if len(newest) > few)
        return replace(
            calm,
            prefix=round(prefix * self._scale),
            taken=round(taken * self._scale),
            tails=tails,
            steps=self._steps(),
            prune=self._freed(tails[-1].entries) if tails else None,
            own=tuple(each for each in own if each is not None),
            unread=self._freed(0) if any(each.entries == 1 for each in self._prunes) else None,
        )

    def _tokens(self, entries: Sequence[WindowEntry]) -> int:
        return round(_sum(entries) * self._scale)

    def _tails(self) -> tuple[Tail, ...]:
        """Return the tails of the newest messages of people, the newest first, that leave something out."""
        size = len(self._entries)
        places = (place for place in range(size - 1, self._window.head, -1) if self._entries[place].border)
        return tuple(Tail(size - place, self._tokens(self._entries[place:])) for place in islice(places, KEPT_MESSAGES))

    def _steps(self) -> tuple[Tail, ...]:
        """Return the tails from the later steps of the newest run on, the longest first, with what it was asked."""
        seq, size = self._window.kept_seq, len(self._entries)
        asked = [entry for entry in self._entries if entry.seq == seq]
        return tuple(Tail(size - place, self._tokens([*asked, *self._entries[place:]])) for place in self._window.steps)

    def _freed(self, keep: int) -> Tail | None:
        """Return what placeholders free for the results before the newest *keep* entries, None for nothing."""
        freed = sum(each.tokens for each in self._prunes if each.entries > keep)
        return Tail(keep, freed) if freed else None


@dataclass(slots=True)
class _Summary:
    """A summary to be written of the first *place* entries of *window*, within about *tokens* tokens, and its bill.

    *is_own*: by the *model* of the conversation.
    """

    agent: Agent
    window: Window
    place: int
    model: str
    controls: Controls
    session: str
    tokens: int
    is_own: bool
    usage: Usage | None = None
    cost: str | None = "0"
    uncached: str | None = "0"

    def add(self, usage: Usage) -> None:
        """Add what a call used."""
        listed = self.agent.listed(self.model)
        self.cost = sum_of(self.cost, base.cost(listed, usage))
        self.uncached = sum_of(self.uncached, base.uncached_cost(listed, usage))
        self.usage = usage if self.usage is None else self.usage + usage

    def spent(self) -> dict[str, Any]:
        """Return the members of a fact that say what was asked, and what that cost."""
        cost, uncached = (self.cost, self.uncached) if self.usage else (None, None)
        return {"model": self.model, "usage": self.usage, "cost": cost, "uncached_cost": uncached}

    def failed(self, code: str, message: str) -> e.CompactionFailed:
        """Return the fact that no summary was made."""
        return e.CompactionFailed(code=code, message=message, **self.spent())


@dataclass(slots=True)
class SummaryAnswer:
    """What one call answered: text, or why there is none (*code*, *message*)."""

    texts: list[str] = field(default_factory=list[str])
    usage: Usage | None = None
    begun: bool = False
    code: str | None = None
    message: str = ""
    ended: bool = False
    is_cut: bool = False

    def take(self, delta: p.ModelDelta) -> None:
        """Note one delta of the answer."""
        self.begun = self.begun or not isinstance(delta, p.CallFailed)
        match delta:
            case p.ModelTextDelta(_, text):
                self.texts.append(text)
            case p.UsageReport(usage):
                self.usage = usage.believed()
            case p.ToolStart(_, _, name):
                self.code, self.message = "tool_called", f"The model called `{name}` instead of writing a summary."
            case p.Refusal(text):
                self.code, self.message = "refused", text or "The model refused to write a summary."
            case p.CallFailed(kind, message):
                self.code, self.message, self.ended = kind, message, True
            case p.Finished("refused"):
                self.code, self.message, self.ended = "refused", "The model refused to write a summary.", True
            case p.Finished(reason):
                self.ended, self.is_cut = True, reason == "length"
            case _:
                return

    def closed(self, tokens: int) -> "SummaryAnswer":
        """Return the answer once its stream is over: a summary is not empty, and whole or as long as *tokens* allow."""
        text = "".join(self.texts).strip()
        if self.code is None and not self.ended:
            self.code, self.message = "network", "The summary broke off before its end."
        elif self.code is None and self.is_cut and len(text) < tokens * _LONG_ENOUGH:
            self.code, self.message = "length", "The answer was cut before the summary was whole."
        elif self.code is None and not text:
            self.code, self.message = "empty", "The model answered without a summary."
        return self


def _sum(entries: Sequence[WindowEntry]) -> int:
    return sum(entry.tokens for entry in entries)

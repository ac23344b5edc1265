"""Idle compaction: a long conversation is summed up shortly before its prompt leaves the provider's cache."""

import asyncio

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from agent_core.context.compaction import pays_at_idle
from agent_core.context.history import LONG_LIFE
from agent_core.context.window import Window
from agent_core.domain import events as e
from agent_core.domain.caching import PromptCall
from agent_core.domain.compaction import WindowFill
from agent_core.domain.controls import read, sent
from agent_core.domain.events import Fact
from agent_core.domain.step_controls import as_prompted
from agent_core.errors import NotFound, Unavailable
from agent_core.runtime.session_cache import CachedSession, SessionCache
from agent_core.runtime.window.compacting import Compactor, Fork
from agent_core.runtime.window.pricing import life_of, price_of, rates_of
from agent_core.runtime.window.summary_calls import SummarySpending
from agent_core.store.store import Store
from agent_core.store.work import sessions
from agent_core.store.work.sessions import SessionRef
from agent_core.traces import trace_of

MIN_TOKENS = 50_000
"""Tokens of a prompt below which nothing is done at idle: Anthropic's own compaction begins no earlier either."""
LEAD = 60.0
"""Seconds before the end of the cache's life: a call for a summary takes some of them."""
MAX_TIMERS = 1_000
MAX_CALLS = 4
_KEPT_SHARE = 4
_GRACE = 2.0
_NEWS = (e.MessageReceived, e.MessageCorrected, e.RunQueued, e.RunStarted)
_log = structlog.get_logger("parley.compaction")


class IdleCompaction:
    """Waits after the runs that ended in this process, one timer per session, and sums up where that pays.

    News in the session cancels its timer and the call, and so do its end and the deletion of a person's data; what a
    call cost until then is still billed.
    """

    def __init__(self, store: Store, cache: SessionCache, compactor: Compactor) -> None:
        self._store, self._cache, self._compactor = store, cache, compactor
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._is_closed = False
        store.subscribe(e.TERMINAL, self._ended)
        store.subscribe(_NEWS, lambda fact: self.forget(fact.session))

    async def stop(self) -> None:
        """End every timer and call; none begins from now on."""
        self._is_closed = True
        timers = list(self._timers.values())
        for timer in timers:
            timer.cancel()
        if timers:
            await asyncio.wait(timers, timeout=_GRACE)

    def forget(self, session: str) -> None:
        """Cancel the timer of *session*, if it has one."""
        if (timer := self._timers.pop(session, None)) is not None:
            timer.cancel()

    def _ended(self, fact: Fact) -> None:
        cached = self._cache.peek(fact.session)
        if fact.parent_run is not None or fact.run is None or cached is None or self._is_closed:
            return
        self.forget(fact.session)
        wait = self._wait(cached)
        if wait is None or len(self._timers) >= MAX_TIMERS:
            return
        timer = asyncio.create_task(self._later(wait, fact.session, fact.seq, fact.run), name="parley-idle")
        self._timers[fact.session] = timer
        timer.add_done_callback(lambda done: self._drop(fact.session, done))

    def _drop(self, session: str, done: asyncio.Task[None]) -> None:
        if self._timers.get(session) is done:
            del self._timers[session]

    def _wait(self, cached: CachedSession) -> float | None:
        """Return the seconds until the cache of *cached* is about to expire; None if nothing is to be done then."""
        agent, last = cached.agent, cached.window.history.last
        if last is None or agent.definition.compaction.kind != "summary" or not agent.prompt_caching:
            return None
        if _is_short(last, cached.window):
            return None
        life = life_of(agent, last)
        if life is None or self._compactor.filling(cached.window, agent, last.model).tokens < MIN_TOKENS:
            return None
        return max(0.0, life / 1000 - LEAD)

    async def _later(self, wait: float, session: str, seq: int, run: str) -> None:
        """Wait, then sum up *session*, whose newest fact is *seq*."""
        try:
            await self._store.clock.sleep(wait)
            async with self._calls:
                if (cached := self._cache.peek(session)) is not None:
                    await self._sum_up(cached, seq, run)
        except Unavailable:
            _log.info("compaction.not_written", session=session)
        except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task, so a bug of ours is logged here
            _log.error("compaction.failed", session=session, exception=trace_of(error))

    async def _sum_up(self, cached: CachedSession, seq: int, run: str) -> None:
        read, spent = cached.ref, SummarySpending()
        fork, from_seq = self._fork(cached, seq, spent) or (None, 0)
        if fork is None or not await self._is_as_it_was(read, seq):
            return
        try:
            made = await self._compactor.summarise(fork, from_seq)
        except asyncio.CancelledError:
            if spent.usage is not None:
                await self._write(read, spent.failed("cancelled", "Something came in."), seq, run)
            raise
        await self._write(read, made, seq, run)

    async def _is_as_it_was(self, read: SessionRef, seq: int) -> bool:
        """Return whether no process has written in the session since it was *read*, or closed, redacted, deleted it."""

        def work(connection: Connection) -> bool:
            now = sessions.find(connection, read.id)
            return not now.closed and (now.newest, now.redactions) == (seq, read.redactions)

        try:
            return await self._store.read(work)
        except NotFound:
            return False

    def _fork(self, cached: CachedSession, seq: int, spent: SummarySpending) -> tuple[Fork, int] | None:
        """Return the summary to be written and where the window then begins, None where it does not pay."""
        agent, window, last = cached.agent, cached.window, cached.window.history.last
        if last is None or last.snapshot != agent.snapshot.hash or window.seq != seq:
            return None
        fill = self._compactor.filling(window, agent, last.model, look=True)
        tail = next((each for each in reversed(fill.tails) if each.tokens <= fill.tokens // _KEPT_SHARE), None)
        if tail is None:
            return None
        place, chosen = window.start_of(tail.entries), read(last.controls)
        controls = as_prompted(sent(chosen, agent.able(last.model)), agent)
        fork = self._compactor.fork(window, agent, place, controls, cached.ref.id, spent)
        return (fork, window.seq_at(place)) if self._pays(fork, fill, tail.tokens, last.model) else None

    def _pays(self, fork: Fork, fill: WindowFill, tail: int, own: str) -> bool:
        listed, history = fork.agent.listed(own), fork.window.history
        rates, now, one = rates_of(listed, cached=True), self._compactor.price(fork), price_of(listed, 1_000_000, 0)
        if rates is None or now is None or not one:
            return False
        if history.last is not None and life_of(fork.agent, history.last) == LONG_LIFE:
            history = replace(history, medium=0)  # after those the person was back before the cache expired
        cost, after = now / one * 1_000_000, tail + fill.summary
        return pays_at_idle(rates, history, tokens=fill.tokens, prefix=fill.prefix, tail=after, cost=cost)

    async def _write(self, read: SessionRef, made: e.ContextCompacted | e.CompactionFailed, seq: int, run: str) -> None:
        """Append what was *made*, and let the window follow in the same step of the event loop."""
        cached = self._cache.peek(read.id)
        done = await self._store.compact_idle(read, made, after=seq, run=run)
        facts = done.facts
        if cached is not None and facts and cached.window.seq == facts[0].seq - 1:
            cached.window.apply(facts)


def _is_short(last: PromptCall, window: Window) -> bool:
    """Return whether the prompt of the *last* call and its answer, as they were counted, are far from `MIN_TOKENS`.

    Most runs end with such a call; what their *window* holds need not be weighed.
    """
    if last.prompt is None or len(window.entries) > last.entries + 1:  # an answer, and nothing since
        return False
    return 2 * (last.prompt + (last.usage.output or 0)) < MIN_TOKENS

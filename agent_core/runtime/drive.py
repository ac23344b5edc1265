"""Run one Run, from wherever its log says it is, until it waits or ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from agent_core.agents import Agent, Snapshot
from agent_core.clock import Clock
from agent_core.context.window import Window
from agent_core.engine.pool import Interrupt
from agent_core.events import LIVE_BODIES, FactBody, LiveBody, MessageCompleted, RunFailed
from agent_core.hooks.chain import Hooks, saying
from agent_core.loop.announce import announce
from agent_core.loop.compaction import Compact
from agent_core.loop.inbox import NO_CARRY_OVER, CarryOver
from agent_core.loop.state import RunState
from agent_core.loop.strategy import Ask, AskHooks, CallTools, Finish, Move, Recall, UseTools, Wait, message_id, react
from agent_core.messages import Part, text_of
from agent_core.providers.base import ModelDelta, Provider, Request, named
from agent_core.runtime.answer import Answer
from agent_core.runtime.calls import Calls
from agent_core.runtime.pressure import Pressure
from agent_core.runtime.sources import Sources
from agent_core.runtime.window.compacting import Compactor
from agent_core.runtime.window.prompt_cache import PromptCache, log_cache_notes, with_miss
from agent_core.store.log import Appended, RunRef

_log = structlog.get_logger("parley.drive")


class RunLog(Protocol):
    """Where a driver writes: facts to the log, live events to current readers."""

    async def append(
        self,
        run: RunRef,
        record: Sequence[FactBody],
        announcement: Sequence[FactBody],
        *,
        after: int,
        left: CarryOver = NO_CARRY_OVER,
    ) -> Appended: ...

    def show(self, run: RunRef, body: LiveBody) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """What a driver acts through."""

    log: RunLog
    provider_for: Callable[[str], Provider]
    calls: Calls
    hooks: Hooks
    clock: Clock
    read_file: Callable[[str], Awaitable[bytes | None]]
    pressure: Pressure
    sources: Sources
    snapshot: Callable[[str], Awaitable[Snapshot]]
    compactor: Compactor
    prompt_cache: PromptCache


class Driver:
    """One run that this process drives."""

    def __init__(
        self,
        run: RunRef,
        agent: Agent,
        *,
        state: RunState,
        window: Window,
        ports: Ports,
        interrupt: Interrupt,
    ) -> None:
        self._run, self._agent = run, agent
        self._state, self._window = state, window
        self._ports = ports
        self._log, self._calls, self._clock = ports.log, ports.calls, ports.clock
        self._interrupt = interrupt
        self._held: list[FactBody] = []
        self._has_asked = False
        self._displayed: tuple[Part, ...] = ()

    async def drive(self, announced: Move | None = None) -> RunRef | None:
        """Go on until the run waits or ends; return the session's next run when that was started.

        *announced* is a first move that is in the log already. Raises `LostRun` when another worker took the run.
        """
        move = announced
        while True:
            if move is None:
                move, written = await self._decide()
                if not written.announced:
                    move = None
                    continue
                if isinstance(move, (Finish, Wait)):
                    self._report(move)
                    return written.started
            if not isinstance(move, UseTools):
                await self._act(move)
            move = None

    def _report(self, move: Finish | Wait) -> None:
        """Log a run that failed, or whose budget in dollars could not be held because a call had no known cost.

        The provider's message is the run's `error.detail`: it may quote what a person wrote, so no logger gets it.
        """
        budget: Any = (self._state.step.controls or {}).get("budget") or {}
        if isinstance(move, Finish) and budget.get("usd") and self._state.spent.has_unknown:
            remedy = "give the budget `tokens` too; docs/models.md names the models that have a price"
            _log.warning("budget.unknown_cost", run=self._run.id, model=self._state.step.model, remedy=remedy)
        if isinstance(move, Finish) and isinstance(move.end, RunFailed):
            end, failure = move.end, self._state.step.failure
            remedy = f"see `parley runs show {self._run.id}`"
            kind = failure.code if failure is not None else None
            _log.warning("run.failed", run=self._run.id, code=end.code, kind=kind, remedy=remedy)

    async def _decide(self) -> tuple[Move, Appended]:
        """Ask the strategy, and append what happened together with what it announces.

        An interrupt means news: it is read first, so that the partial answer and the end share one transaction.
        """
        if self._interrupt.called and self._state.cancelling is None:
            await self._read_news()
        seen = self._state.preview(self._held)
        window = self._window.preview(self._held) if self._held else self._window
        fill, last = self._ports.compactor.fill(window, self._agent, seen), window.history.newest_call
        seen = seen.with_window(
            size=len(window.entries), border=window.border, fill=fill, sources_asked=self._has_asked, last=last
        )
        move = react(seen, self._agent)
        left = seen.inbox.carry_over if isinstance(move, Finish) else NO_CARRY_OVER
        facts = announce(move, seen, self._agent, self._displayed)
        self._interrupt.leaving = isinstance(move, (Finish, Wait))
        written = await self._log.append(self._run, self._held, facts, after=self._state.seq, left=left)
        self._interrupt.leaving &= written.announced
        await self._learn(written)
        log_cache_notes(self._run.id, written.fresh)
        return move, written

    async def _record(self) -> None:
        """Append the held facts at once, announcing nothing: a sibling of the call that ended still runs."""
        await self._learn(await self._log.append(self._run, self._held, (), after=self._state.seq))

    async def _read_news(self) -> None:
        news = (await self._log.append(self._run, (), (), after=self._state.seq)).facts
        self._state = self._state.apply(*news)
        self._window.apply(news)

    def _stopped(self) -> bool:
        return self._interrupt.called

    async def _learn(self, written: Appended) -> None:
        self._held = []  # they are in the log: whatever happens from here on, they are not written again
        self._state = self._state.apply(*written.facts)
        self._window.apply(written.facts)

    async def _act(self, move: Move) -> None:
        """Execute *move*: show live events, hold facts for the next append."""
        async with aclosing(self._effects(move)) as effects:
            try:
                with self._interrupt.listening():
                    await self._take(move, effects)
            except asyncio.CancelledError:  # it came when an effect had nothing more to do than to end
                if not self._interrupt.called:
                    raise

    async def _take(self, move: Move, effects: AsyncGenerator[FactBody | LiveBody]) -> None:
        async for event in effects:
            if isinstance(event, LIVE_BODIES):
                self._log.show(self._run, event)
                continue
            self._held.append(event)
            if isinstance(move, CallTools) and len(move.calls) > 1:
                with self._interrupt.paused():
                    await self._record()

    def _effects(self, move: Move) -> AsyncGenerator[FactBody | LiveBody]:
        match move:
            case Ask():
                return self._ask(move)
            case CallTools():
                return self._call(move)
            case AskHooks():
                return self._rule(move)
            case Recall():
                return self._recall()
            case Compact():
                return self._compact(move)
            case Wait() | Finish() | UseTools():
                raise AssertionError("A wait, an end and a request have no effects.")

    async def _ask(self, move: Ask) -> AsyncGenerator[FactBody | LiveBody]:
        """Call the model once; what was shown before a cancel is appended as a partial answer.

        Text is shown from here: deltas are many, and each further generator costs every delta a microsecond.
        """
        answer = Answer(move, self._run.epoch, self._agent.listed(move.controls.model or ""))
        is_ruled = bool(self._agent.hooks("PreResponse"))  # then nothing is shown before the hooks have ruled
        try:
            if move.delay and not self._interrupt.called:
                await self._clock.sleep(move.delay)
            if not self._interrupt.called:
                async with self._sending(move) as stream:
                    async for batch in stream:
                        deltas = answer.take(batch)
                        for delta in () if is_ruled else deltas:
                            self._log.show(self._run, delta)
                        if answer.ended or self._interrupt.called:
                            break
                        if deltas and (pause := self._ports.pressure.pause):
                            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            if not self._interrupt.called:
                raise
        answer.blame(entry.message for entry in self._window.entries)
        facts = answer.facts(self._state, self._agent, interrupted=self._interrupt.called)
        with self._interrupt.paused():
            facts = await with_miss(facts, move, self._window, self._agent, self._ports.snapshot)
            facts = await self._ports.compactor.leave_out(facts, answer.refused_item, self._window)
        for fact in await self._ruled(facts) if is_ruled else self._with_displayed(facts, answer):
            yield fact

    def _with_displayed(self, facts: Sequence[FactBody], answer: Answer) -> Sequence[FactBody]:
        """Return *facts*, in which people keep what they have read when no attempt comes to more.

        An attempt that broke off leaves its text until another one shows text; a crash loses it, as it does all text
        that is not in the log yet.
        """
        first, *others = facts
        if not isinstance(first, MessageCompleted):
            self._displayed = answer.displayed or self._displayed
            return facts
        displayed, self._displayed = self._displayed, ()
        was_read = first.partial and not first.parts and not answer.refused
        return [replace(first, parts=displayed), *others] if was_read else facts

    async def _ruled(self, facts: Sequence[FactBody]) -> Sequence[FactBody]:
        """Ask the hooks about an answer before it is appended; the text of an interrupted one is dropped.

        An answer that was cut ends there, see `strategy`: if it were continued, no hook would see the whole.
        """
        result: list[FactBody] = []
        for fact in facts:
            if isinstance(fact, MessageCompleted):
                text = "" if fact.partial else text_of(fact.parts)
                rulings, changed = await self._ports.hooks.before_answer(text) if text else ((), None)
                result += rulings
                # Thinking and the model's own items were seen by no hook, whatever it says of the text.
                fact = saying(fact, text if changed is None else changed)  # noqa: PLW2901 - the same fact, ruled
                if text and fact.stop in ("length", "continue"):
                    remedy = (
                        "give the model more room: a hook at `PreResponse` sees whole answers, so none is continued"
                    )
                    _log.warning("answer.cut", run=self._run.id, stop=fact.stop, remedy=remedy)
                    fact = replace(fact, stop="length")  # noqa: PLW2901
            result.append(fact)
        return result

    async def _rule(self, move: AskHooks) -> AsyncGenerator[FactBody | LiveBody]:
        """Ask the hooks; a ruling that a cancel interrupts is not recorded."""
        try:
            if not move.calls:
                message = message_id(self._run.id, 0)
                for fact in await self._ports.hooks.before_start(message, self._state.waiting.start_hooks):
                    yield fact
                return
            async with aclosing(self._calls.rule(move.calls, self._state)) as facts:
                async for fact in facts:
                    yield fact
        except asyncio.CancelledError:
            if not self._interrupt.called:
                raise

    async def _recall(self) -> AsyncGenerator[FactBody | LiveBody]:
        """Ask the context sources; a cancel ends the run without what they would have given."""
        try:
            context = await self._ports.sources.ask(
                self._run, self._agent, self._state.inbox.user_messages, self._window.history
            )
        except asyncio.CancelledError:
            if not self._interrupt.called:
                raise
            return
        self._has_asked = True
        for fact in context:
            yield fact

    async def _call(self, move: CallTools) -> AsyncGenerator[FactBody | LiveBody]:
        """Run the calls; the end of the run closes those that a cancel stops."""
        if self._interrupt.called:
            return
        async with aclosing(self._calls.run(move.calls, self._state, self._stopped)) as events:
            async for event in events:
                yield event

    async def _compact(self, move: Compact) -> AsyncGenerator[FactBody | LiveBody]:
        """Make the window shorter; a Stop ends the call for a summary at once."""
        session, stopped = self._run.session_id, self._stopped
        if fact := await self._ports.compactor.compact(move, self._window, self._agent, session, stopped):
            yield fact

    @asynccontextmanager
    async def _sending(self, move: Ask) -> AsyncGenerator[AsyncGenerator[Sequence[ModelDelta]]]:
        """Ask the model of this step: the window in its API's format, with the files that are not encoded yet."""
        name = move.controls.model or ""
        provider = self._ports.provider_for(name)
        self._window.recode(provider.encoder(named(name)))
        for entry in self._window.entries:
            await entry.load(self._ports.read_file, self._window.frames)
        request = Request(
            model=named(name),
            snapshot=self._agent.snapshot,
            messages=self._window.entries,
            controls=move.sends or move.controls,
            session=self._run.session_id,
            cache=self._ports.prompt_cache.marks(self._agent, self._window.history),
        )
        async with aclosing(provider.stream(request)) as stream:
            yield stream

"""Drive a run: ask the strategy, append what it announces, act, until the run waits or ends."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import media_of
from agent_core.agent.router import unwrapped
from agent_core.agent.state import (
    CHOICE_IGNORED,
    CONTROLS_REFUSED,
    EMPTY_ANSWER,
    NO_CARRY_OVER,
    TOOLS_WITHHELD,
    CarryOver,
    Compact,
    RunState,
)
from agent_core.agent.strategy import (
    EMPTY_NOTE,
    Ask,
    AskHooks,
    CallTools,
    Finish,
    Move,
    Recall,
    UseTools,
    Wait,
    announce,
    message_id,
    react,
)
from agent_core.agent.window import Window
from agent_core.agents import Agent, Snapshot
from agent_core.controls import is_forced, listed, permitted
from agent_core.engine.pool import Interrupt
from agent_core.events import LIVE_BODIES, FactBody, LiveBody, MessageCompleted, RunFailed
from agent_core.hooks.chain import saying
from agent_core.ids import new_id
from agent_core.messages import (
    UNKNOWN_USAGE,
    Citation,
    Message,
    Native,
    NativePiece,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Usage,
    clean,
    text_of,
)
from agent_core.providers import base as p
from agent_core.providers.base import (
    MAX_CITATIONS,
    ModelDelta,
    Provider,
    Request,
    cost,
    find,
    named,
    uncached_cost,
    within,
)
from agent_core.runtime.approvals import Dispatcher
from agent_core.runtime.calls import Calls
from agent_core.runtime.compacting import Compactor, PromptCache, log_cache_notes, with_miss
from agent_core.runtime.offers import Sources
from agent_core.store.log import Appended, RunRef
from agent_core.store.store import Store

_EVERY = 0.05
_TICK = 0.001
"""Seconds: the resolution of timers. uvloop's clock has no finer one, and asyncio rounds each wait up to it."""
_LATE = 0.0005
"""Seconds by which timers may be late while a loop is idle enough: less than a tick.

In a loop that is later there is a queue already, and the first words of a new answer wait in it a dozen times.
"""
_GAIN = 4
_RELIEF = 0.002
_MAX_PAUSE = 0.1
"""Seconds: text that comes ten times a second reads as a stream."""


class Pressure:
    """How overloaded the event loop is. Under load text is passed on in larger pieces, not later.

    It measures by how much timers of this loop are late, twenty times a second.

    *pause* is how many seconds to wait between two pieces of text: none while the loop keeps up, longer the later its
    timers are. A piece that waited includes the text that came meanwhile, at the cost of one. *observe* is called with
    the lateness of each timer, in seconds.
    """

    def __init__(self, observe: Callable[[float], None] | None = None) -> None:
        self.pause = 0.0
        self._observe = observe
        self._before = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start measuring."""
        self._wait(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def note(self, late: float) -> None:
        """Record that a timer was *late* by so many seconds.

        The pause grows while timers are late, twice in a row at least, and shrinks when they are on time again.
        """
        lasting, self._before = min(late, self._before), late
        self.pause = min(_MAX_PAUSE, max(0.0, self.pause + max(-_RELIEF, _GAIN * (lasting - _LATE))))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(_EVERY, self._look, loop, loop.time() + _EVERY)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, _TICK * ((loop.time() - due + _TICK / 1000) // _TICK))  # whole ticks, allowing for rounding
        if self._observe is not None:
            self._observe(late)
        self.note(late)
        self._wait(loop)


WITHHELD = "Tools cannot be used in this step, so this call was not run. Answer now with what you know."

_INSISTED = frozenset({CHOICE_IGNORED, CONTROLS_REFUSED})
"""Failures after which a note asked the model for the required call; that is done once."""
_ASKED_FOR_WORDS = frozenset({TOOLS_WITHHELD, EMPTY_ANSWER})
"""Failures after which a note asked the model for an answer in words; that is done once."""


def out_of_steps(limit: int, results: int) -> str:
    """Return what a person reads when *limit* steps, and *results* of tools, came to no answer in words."""
    if not results:
        return "I could not find an answer in words without the use of tools. Please ask again, or in another way."
    steps = "one step" if limit == 1 else f"{limit} steps"
    there = "1 tool result is" if results == 1 else f"{results} tool results are"
    return (
        f"I reached the limit of {steps} before I could put the answer into words. {there} there already: "
        "ask me to continue, and I will answer from what was found."
    )


@dataclass(slots=True)
class _Block:
    """One part of the message while it streams.

    *index* is its place in the message, None while it is blank; *shown* counts the texts that were shown and
    *length* their code points. *call* is the provider's own id of a call; *citations* are those of a text.
    """

    kind: type[e.TextDelta | e.ReasoningDelta] | None
    index: int | None = None
    texts: list[str] = field(default_factory=list[str])
    sent: int = 0
    length: int = 0
    name: str = ""
    call: str = ""
    arguments: dict[str, object] | None = None
    ended: bool = False
    citations: list[Citation] = field(default_factory=list[Citation])

    @property
    def text(self) -> str:
        return "".join(self.texts)


class Answer:
    """Collect a stream; `take` returns what to show of each batch, `facts` what to append in the end."""

    def __init__(self, move: Ask, epoch: int, listed: str | None = None) -> None:
        """Begin an answer; *listed* is the model's name in the model table, its own when None."""
        self._move = move
        self._model = move.controls.model or ""
        self._listed = listed or self._model
        self._epoch = epoch
        self._blocks: dict[int, _Block] = {}
        self._usage: Usage | None = None
        self._refused = False
        self._native: list[p.NativeItem] = []
        self._begun = False
        self._cited = 0
        self._end: p.Finished | p.CallFailed | None = None

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def refused(self) -> bool:
        return self._refused

    @property
    def refused_item(self) -> bytes:
        """Return the JSON of the part of the request that a failure named, if it did."""
        return self._end.item if isinstance(self._end, p.CallFailed) else b""

    def blame(self, messages: Iterable[Message]) -> None:
        """Take a failure about a file for what it is where the *messages* of the request have none."""
        if isinstance(self._end, p.CallFailed) and self._end.otherwise and not any(media_of(x.parts) for x in messages):
            self._end = self._end.otherwise

    @property
    def displayed(self) -> tuple[Part, ...]:
        """Return what was shown of this attempt; nothing of a refusal."""
        return tuple(_part(block) for block in self._written())

    def take(self, batch: Iterable[p.ModelDelta]) -> list[e.Delta]:
        """Fold one batch in and return its text as one delta per part; a part begins with what is not blank."""
        fresh: dict[int, _Block] = {}
        for delta in batch:
            if isinstance(delta, (p.ModelTextDelta, p.ModelReasoningDelta)):
                self._begun = True
                if delta.text:
                    fresh[delta.slot] = self._grown(delta)
            else:
                self._note(delta)
        return [self._unsent(block) for block in fresh.values() if block.index is not None]

    def facts(self, state: RunState, agent: Agent, *, interrupted: bool) -> Sequence[FactBody]:
        """Return the outcome of this attempt; *interrupted* when the run was cancelled meanwhile."""
        if interrupted and not (isinstance(self._end, p.Finished) and not self._calls()):
            partial = self._message("cancelled", self._written(), partial=True)
            return [partial, self._completed()] if self._begun else [partial]
        if self._refused or (isinstance(self._end, p.Finished) and self._end.reason == "refused"):
            return [self._message("refused", []), self._completed()]
        match self._end:
            case None:
                return [self._failed("network", "The model's answer broke off before its end.", retryable=True)]
            case p.CallFailed(kind, message, retryable, retry_after):
                text = f"{message}{self._room()}" if kind == "context_overflow" else message
                return [self._failed(kind, text, retryable=retryable, retry_after=retry_after)]
            case p.Finished("length" | "continue" as reason):
                return [self._message(reason, self._written()), self._completed()]
            case p.Finished():
                return self._finished(state, agent)

    def _finished(self, state: RunState, agent: Agent) -> Sequence[FactBody]:
        calls, chosen = self._calls(), self._move.controls
        if chosen.tool_choice == "none" and agent.tools and not (self._has_words and not calls):
            return self._wordless(calls, state, agent)
        if not calls:
            if is_forced(self._move.controls.tool_choice) and not _INSISTED.intersection(state.step.remedied):
                return self._insist(agent)
            return [self._message("done", self._written()), self._completed()]
        ids = [new_id("call") for _ in calls]
        return [
            self._message("tools", [block for block in self._placed() if block.kind or block.ended], ids),
            self._completed(),
            *self._requests(calls, ids, agent),
        ]

    def _insist(self, agent: Agent) -> Sequence[FactBody]:
        """Reject an answer where a call is required: the attempt counts as failed and the model is asked once more."""
        names = listed(permitted(self._move.controls, agent.tools))
        return [
            self._failed(
                CHOICE_IGNORED, f"The model answered in words where a call of {names} must come.", retryable=True
            ),
            e.ContextAdded(source="note", text=f"Your answer was not taken: call {names} now, without an answer."),
        ]

    def _wordless(self, calls: list[_Block], state: RunState, agent: Agent) -> Sequence[FactBody]:
        """Return what becomes of an answer with *calls*, or without a word, in a step without tools.

        The model is asked for words once more. If none come in the last step, a sentence stands in their place: a
        person who waited gets an answer, and the results are there for the next one.
        """
        limit = self._move.controls.max_steps or 1
        is_last, was_asked = self._move.n >= limit, not _ASKED_FOR_WORDS.isdisjoint(state.step.remedied)
        if calls and not was_asked:
            return self._refuse(calls, agent)
        if self._has_words or not is_last or (limit == 1 and not calls):
            return [self._message("done", self._written()), self._completed()]
        if not was_asked:
            failed = self._failed(EMPTY_ANSWER, "The model's last answer was empty.", retryable=True)
            return [failed, e.ContextAdded(source="note", text=EMPTY_NOTE)]
        parts = (Text(out_of_steps(limit, state.answer.results)),)
        completed = e.MessageCompleted(message=self._move.message, role="assistant", parts=parts, stop="done")
        return [completed, self._completed()]

    def _refuse(self, calls: list[_Block], agent: Agent) -> Sequence[FactBody]:
        """Refuse calls in a step without tools: the attempt counts as failed and the model is asked once more."""
        ids = [new_id("call") for _ in calls]
        names = ", ".join(f"`{block.name}`" for block in calls)
        denied = [
            e.ToolCompleted(call=call, outcome="denied", parts=(Text(WITHHELD),), truncated=False) for call in ids
        ]
        return [
            *self._requests(calls, ids, agent),
            *denied,
            self._failed(TOOLS_WITHHELD, f"The model called {names} though tools are withheld.", retryable=True),
            e.ContextAdded(source="note", text=f"Your call of {names} was refused. {WITHHELD}"),
        ]

    def _requests(self, calls: list[_Block], ids: list[str], agent: Agent) -> list[FactBody]:
        return [self._request(call, index, ids[index], agent) for index, call in enumerate(calls)]

    def _request(self, block: _Block, index: int, call: str, agent: Agent) -> e.ToolRequested:
        """Return the request of a call; one of `call_tool` is recorded as a call of the tool that it means."""
        meant = unwrapped(block.name, block.arguments) if agent.calls_by_name else None
        name, arguments = meant or (block.name, dict(block.arguments or {}))
        spec = agent.tools.get(name)
        return e.ToolRequested(
            call=call,
            name=clean(name),
            arguments=arguments,
            index=index,
            step=self._move.n,
            raw=block.text if block.arguments is None else None,
            title=spec.title if spec else None,
            title_done=spec.title_done if spec else None,
            via=block.name if meant else None,
        )

    def _note(self, delta: p.ModelDelta) -> None:
        self._begun = self._begun or not isinstance(delta, p.CallFailed)
        match delta:
            case p.ToolStart(slot, call, name):
                self._blocks[slot] = _Block(None, len(self._placed()), name=clean(name), call=call)
            case p.ToolArgsDelta(slot, text):
                self._blocks[slot].texts.append(text)
            case p.ToolEnd(slot, raw, arguments):
                block = self._blocks[slot]
                block.texts, block.ended = [clean(raw)], True
                block.arguments = arguments if _is_encodable(arguments) else None
            case p.NativeItem():
                self._native.append(delta)
            case p.ModelCitation(slot, citation):
                self._cited += 1
                if self._cited <= MAX_CITATIONS and slot in self._blocks:
                    self._blocks[slot].citations.append(citation)
            case p.Refusal():
                self._refused = True
            case p.UsageReport(usage):
                self._usage = usage.believed()
            case p.Finished() | p.CallFailed():
                self._end = self._end or delta
            case p.Started() | p.ModelTextDelta() | p.ModelReasoningDelta():
                return

    def _grown(self, delta: p.ModelTextDelta | p.ModelReasoningDelta) -> _Block:
        block = self._blocks.get(delta.slot)
        if block is None:
            kind = e.TextDelta if isinstance(delta, p.ModelTextDelta) else e.ReasoningDelta
            block = self._blocks[delta.slot] = _Block(kind)
        block.texts.append(clean(delta.text))
        if block.index is None and not delta.text.isspace():
            block.index = len(self._placed())
        return block

    def _unsent(self, block: _Block) -> e.Delta:
        assert block.kind is not None
        assert block.index is not None
        text = "".join(block.texts[block.sent :])
        offset = block.length
        block.sent, block.length = len(block.texts), offset + len(text)
        return block.kind(
            message=self._move.message,
            part=block.index,
            epoch=self._epoch,
            attempt=self._move.attempt,
            offset=offset,
            text=text,
        )

    @property
    def _has_words(self) -> bool:
        return any(block.kind is e.TextDelta for block in self._written())

    def _calls(self) -> list[_Block]:
        return [block for block in self._blocks.values() if block.kind is None and block.ended]

    def _placed(self) -> list[_Block]:
        """Return the blocks in the order of their parts without blank ones, which providers refuse when replayed."""
        placed = [(block.index, block) for block in self._blocks.values() if block.index is not None]
        return [block for _, block in sorted(placed, key=lambda each: each[0])]

    def _written(self) -> list[_Block]:
        return [] if self._refused else [block for block in self._placed() if block.kind is not None]

    def _message(
        self, stop: e.Stop, blocks: list[_Block], ids: Sequence[str] = (), *, partial: bool = False
    ) -> e.MessageCompleted:
        """Return the message of *blocks*, its calls named *ids*."""
        names = iter(ids)
        parts = tuple(_part(block) if block.kind else _call(block, next(names)) for block in blocks)
        keeps = not partial and (parts or stop == "continue")
        return e.MessageCompleted(
            message=self._move.message,
            role="assistant",
            parts=parts,
            stop=stop,
            partial=partial,
            native=self._natively(blocks) if keeps else None,
        )

    def _natively(self, blocks: list[_Block]) -> Native | None:
        """Return the native items of *blocks*, with commas between them; an item of a call goes with that call."""
        places = {id(block): index for index, block in enumerate(blocks)}
        where = {slot: places.get(id(block)) for slot, block in self._blocks.items()}
        pieces: list[NativePiece] = []
        for item in self._native:
            if item.call is not None and where.get(item.call) is None:
                continue
            pieces += ["," if pieces else "", *(_placed(piece, where) for piece in item.pieces)]
        calls = tuple(block.call for block in blocks if block.kind is None)
        return Native(self._model, _joined(pieces), calls) if pieces or (calls and self._native) else None

    def _completed(self) -> e.StepCompleted:
        usage = self._usage or UNKNOWN_USAGE
        price, uncached = cost(self._listed, usage), uncached_cost(self._listed, usage)
        return e.StepCompleted(n=self._move.n, usage=usage, cost=price, uncached_cost=uncached)

    def _room(self) -> str:
        """Return the model's context size as a sentence, which not every vendor's error has; empty if unknown."""
        context = find(self._listed).context
        return f" `{self._model}` takes {context:,} tokens, its answer among them." if context else ""

    def _failed(self, code: str, message: str, *, retryable: bool, retry_after: float | None = None) -> e.StepFailed:
        usage = self._usage or (UNKNOWN_USAGE if self._begun else None)
        return e.StepFailed(
            n=self._move.n,
            attempt=self._move.attempt,
            code=code,
            message=message,
            retryable=retryable,
            retry_after=retry_after,
            partial=bool(self._blocks),
            usage=usage,
            cost=cost(self._listed, usage) if usage else None,
            uncached_cost=uncached_cost(self._listed, usage) if usage else None,
        )


def _is_encodable(arguments: dict[str, Any] | None) -> bool:
    """Return whether *arguments* can be encoded as JSON again: a lone surrogate cannot."""
    try:
        msgspec.json.encode(arguments)
    except (UnicodeEncodeError, OverflowError):
        return False
    return True


def _part(block: _Block) -> Part:
    if block.kind is not e.TextDelta:
        return Reasoning(block.text)
    text = block.text
    return Text(text, tuple(within(each, len(text)) for each in block.citations))


def _call(block: _Block, name: str) -> ToolCall:
    return ToolCall(name, block.name, dict(block.arguments or {}))


def _placed(piece: NativePiece, where: dict[int, int | None]) -> NativePiece:
    """Return *piece* with the number of a part in the place of its slot, see *where*."""
    if isinstance(piece, str):
        return piece
    slot, stretch = (piece[0], piece[1:]) if isinstance(piece, tuple) else (piece, None)
    place = where.get(slot)
    assert place is not None, "A native item names a part that is blank."
    return place if stretch is None else (place, *stretch)


def _joined(pieces: list[NativePiece]) -> tuple[NativePiece, ...]:
    """Return *pieces* with neighbouring texts made one."""
    result: list[NativePiece] = []
    for piece in pieces:
        if isinstance(piece, str) and result and isinstance(result[-1], str):
            result[-1] += piece
        elif piece != "":
            result.append(piece)
    return tuple(result)


_log = structlog.get_logger("parley.drive")


@dataclass(frozen=True, slots=True)
class Ports:
    """What a driver acts through."""

    store: Store
    dispatcher: Dispatcher
    provider_for: Callable[[str], Provider]
    calls: Calls
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
        self._store, self._calls = ports.store, ports.calls
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
        written = await self._append(self._held, facts, left)
        self._interrupt.leaving &= written.announced
        await self._learn(written)
        log_cache_notes(self._run.id, written.fresh)
        return move, written

    async def _append(
        self, record: Sequence[FactBody], announcement: Sequence[FactBody] = (), left: CarryOver = NO_CARRY_OVER
    ) -> Appended:
        """Append; an end starts the session's next run here if there is room, or dispatches it. Raises `LostRun`."""
        owner, then, after = self._ports.dispatcher.owner, self._ports.dispatcher.follow_end, self._state.seq
        return await self._store.append(self._run, record, announcement, after=after, left=left, owner=owner, then=then)

    async def _record(self) -> None:
        """Append the held facts at once, announcing nothing: a sibling of the call that ended still runs."""
        await self._learn(await self._append(self._held))

    async def _read_news(self) -> None:
        news = (await self._append(())).facts
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
                self._store.show(self._run, event)
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
                await self._store.clock.sleep(move.delay)
            if not self._interrupt.called:
                async with self._sending(move) as stream:
                    async for batch in stream:
                        deltas = answer.take(batch)
                        for delta in () if is_ruled else deltas:
                            self._store.show(self._run, delta)
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
                rulings, changed = await self._calls.hooks.before_answer(text) if text else ((), None)
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
                for fact in await self._calls.hooks.before_start(message, self._state.waiting.start_hooks):
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

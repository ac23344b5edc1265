"""Compacting: how full windows are, by what their models take and cost, and the calls that sum them up."""

import asyncio
import base64
import dataclasses
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from agent_core.clock import Clock, within
from agent_core.context.compaction import counted, expected, filling, weight
from agent_core.context.entries import WindowEntry, media_of
from agent_core.context.estimates import NOTHING, Calibration, Weight
from agent_core.context.forks import pieces, summary_request, summary_so_far
from agent_core.context.summaries import bounded
from agent_core.context.window import Window
from agent_core.domain import events as e
from agent_core.domain.agents import Agent, Snapshot
from agent_core.domain.compaction import WindowFill
from agent_core.domain.controls import Controls
from agent_core.domain.failures import REFUSALS
from agent_core.domain.messages import UNKNOWN_USAGE
from agent_core.loop.compaction import OVERFLOW, Compact
from agent_core.loop.state import RunState
from agent_core.providers import base as p
from agent_core.providers import models
from agent_core.runtime.window.calibrations import Calibrations
from agent_core.runtime.window.pricing import bounds_of, is_warm, price_of
from agent_core.runtime.window.prompt_cache import PromptCache
from agent_core.runtime.window.summary_calls import TOOL_CALLED, SummaryAnswer, SummarySpending, as_text

SUMMARY_ROOM = 8_000
"""Tokens of a light model's answer, its thinking among them."""
PATIENCE, PATIENCE_TO_FIT = 20.0, 120.0
"""Seconds that people wait for a summary: for one that saves money, and one without which the prompt does not fit."""
MAX_HALVINGS = 4
"""How often a fork that does not fit is halved; then the older part is cut: a sixteenth of it is still too long."""
_MIN_ROOM = 500
_MIN_SUMMARY = 400
"""Tokens that a summary may take of however short a conversation."""
_PREFIXES = 64


@dataclass(frozen=True, slots=True)
class Fork:
    """A summary to be written: of *entries*, by *model*, asked as *controls* say, within about *tokens* tokens.

    *own* is the model of the conversation, *requested* the controls of its step. Where the prompt *is_read* from its
    cache the *rest* of the window is sent too, which is not summed up: the cache is sure to have the last prompt alone.
    """

    agent: Agent
    window: Window
    entries: Sequence[WindowEntry]
    model: str
    controls: Controls
    session: str
    tokens: int
    spent: SummarySpending
    own: str
    requested: Controls
    rest: Sequence[WindowEntry] = ()
    is_read: bool = False


class Compactor:
    """Knows how full windows are and makes them shorter; its estimates are calibrated per model."""

    def __init__(
        self,
        provider_for: Callable[[str], p.Provider],
        clock: Clock,
        read_file: Callable[[str], Awaitable[bytes | None]],
        prompt_cache: PromptCache,
        observe: Callable[[float], None] | None = None,
    ) -> None:
        """*observe* is called with the relative error of each estimate."""
        self._provider_for, self._clock, self._read_file = provider_for, clock, read_file
        self._prompt_cache = prompt_cache
        self._calibrations = Calibrations(observe)
        self._prefixes: OrderedDict[str, int] = OrderedDict()

    def calibration(self, model: str) -> Calibration:
        """Return what is known of the tokens of *model*."""
        return self._calibrations.of(model)

    def fill(self, window: Window, agent: Agent, state: RunState, *, more: Weight = NOTHING) -> WindowFill:
        """Return how full *window* is for the next step of *state*, which takes *more* than is in the log already."""
        model = state.step.model or agent.snapshot.model
        is_read = not state.step.n and model not in self._calibrations and window.history.rewritten is None
        if is_read and (counted := self._counted(window, agent)):  # by a process that has ended, as a rule
            self._calibrations.restore(*counted)
        calibration = self.calibration(model)
        pending = window.pending(state.inbox.unconsumed)
        taken = calibration.tokens(Weight(pending.bytes + more.bytes, pending.tokens + more.tokens))
        failure = state.step.failure
        look = state.step.is_open and failure is not None and failure.code == OVERFLOW
        return self.filling(window, agent, model, taken=taken, look=look)

    def filling(self, window: Window, agent: Agent, model: str, *, taken: int = 0, look: bool = False) -> WindowFill:
        """Return how full *window* is for *model*, see `context.compaction.filling`."""
        calibration = self.calibration(model)
        prefix = self._prefix(agent.snapshot, calibration)
        snapshot, exact = agent.snapshot.hash, _is_exact(agent, model)
        tokens = expected(window, model, calibration, prefix=prefix, taken=taken, snapshot=snapshot, exact=exact)
        if look:  # it did not fit, whatever was counted; and all that may be left out is estimated
            tokens = max(tokens, prefix + taken + calibration.tokens(weight(window.entries)))
        bounds = bounds_of(model, agent)
        kind = agent.definition.compaction.kind
        return filling(window, bounds, calibration, tokens=tokens, prefix=prefix, taken=taken, look=look, kind=kind)

    def learn(self, window: Window, agent: Agent, estimated: int | None) -> None:
        """Calibrate by the newest call of *window*, of whose prompt *estimated* tokens were expected."""
        if counted := self._counted(window, agent):
            self._calibrations.learn(*counted, estimated)

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

    def _counted(self, window: Window, agent: Agent) -> tuple[str, Weight, int] | None:
        """Return the model of the newest call, what its prompt weighs, and its tokens; None where they are unknown."""
        last = window.history.last
        if last is None or last.snapshot != agent.snapshot.hash:
            return None
        calibration = self.calibration(last.model)
        prefix, exact = self._prefix(agent.snapshot, calibration), _is_exact(agent, last.model)
        measured = counted(window, calibration, prefix=prefix, exact=exact)
        if measured is None:
            return None
        size = window.weight(last.entries)
        return last.model, Weight(size.bytes + self._prefix_bytes(agent.snapshot), size.tokens), measured

    async def compact(
        self, move: Compact, window: Window, agent: Agent, session: str, stopped: Callable[[], bool]
    ) -> e.ContextCompacted | e.CompactionFailed | None:
        """Return the fact that makes *window* shorter, or why there is none; None when it was *stopped* at once.

        What was spent on a summary until a stop, or until it took too long, is in the fact: it is billed.
        """
        by = self.calibration((move.controls and move.controls.model) or agent.snapshot.model)
        if move.kind == "cut":
            return window.cut(move.keep, whole=move.whole, inside=move.inside, by=by)
        if move.kind == "prune":
            return window.compacted("prune", window.seq_at(len(window.entries) - move.keep), by=by)
        place = window.start_of(move.keep, whole=move.whole, inside=move.inside)
        from_seq, spent = window.seq_at(place), SummarySpending()
        patience = PATIENCE_TO_FIT if move.must else PATIENCE
        kept_seq = window.kept_seq if move.inside else None
        try:
            if move.delay and not stopped():
                await self._clock.sleep(move.delay)
            if stopped():
                return None
            controls = move.controls or Controls(model=agent.snapshot.model)
            fork = self.fork(window, agent, place, controls, session, spent, failures=move.failures, must=move.must)
            async with within(self._clock, patience):
                return await self.summarise(fork, from_seq, kept_seq)
        except TimeoutError:
            return spent.failed("timeout", f"The summary was not written within {patience:g} seconds.")
        except asyncio.CancelledError:
            if not stopped():
                raise
            return spent.failed("cancelled", "The run was stopped.") if spent.usage else None

    def fork(
        self,
        window: Window,
        agent: Agent,
        place: int,
        controls: Controls,
        session: str,
        spent: SummarySpending,
        *,
        failures: int = 0,
        must: bool = False,
    ) -> Fork:
        """Return the summary of the first *place* entries of *window*, by the cheaper model after no *failures*.

        The model of the conversation gets the bytes of its last request: the same prefix, controls and messages, so
        that it reads them from its cache, unless the window *must* be made shorter. Only what keeps an answer from
        being a whole text is left out: a forced call, a schema, and the bound of its length, which is part of no cache.
        After *failures* it may call no tool either.
        """
        own = controls.model or agent.snapshot.model
        calibration, entries, rest = self.calibration(own), window.entries[:place], window.entries[place:]
        tokens = self._prefix(agent.snapshot, calibration) + calibration.tokens(weight(entries))
        whole, bounds = tokens + calibration.tokens(weight(rest)), bounds_of(own, agent)
        allowed = as_text(controls, withheld=failures > 0)
        fits = not must and (bounds.limit is None or whole + 2 * bounds.summary <= bounds.limit)
        is_warm = fits and allowed.tool_choice == controls.tool_choice and self._is_warm(window, agent, own)
        cached = whole if is_warm else 0
        model = own if failures else self._summariser(own, agent, tokens, bounds.summary, cached=cached)
        limit = min(bounds.summary, max(_MIN_SUMMARY, tokens // 4))
        if model == own:
            tail = rest if is_warm else ()
            return Fork(agent, window, entries, own, allowed, session, limit, spent, own, controls, tail, is_warm)
        # Nothing of its prompt is in a cache, which another choice of tools would lose.
        allowed = Controls(model=model, max_output_tokens=SUMMARY_ROOM, tool_choice="none")
        return Fork(agent, window, entries, model, allowed, session, limit, spent, own, controls)

    def price(self, fork: Fork) -> float | None:
        """Return what *fork* is expected to cost in USD, None if that is not known."""
        calibration = self.calibration(fork.model)
        tokens = self._prefix(fork.agent.snapshot, calibration) + calibration.tokens(
            weight([*fork.entries, *fork.rest])
        )
        return price_of(fork.agent.listed(fork.model), tokens, fork.tokens, cached=tokens if fork.is_read else 0)

    async def summarise(
        self, fork: Fork, from_seq: int, kept_seq: int | None = None
    ) -> e.ContextCompacted | e.CompactionFailed:
        """Write the summary, if need be by the conversation's own model; where nothing fits, leave the part out."""
        answer, text = await self._written(fork)
        while again := _again(fork, answer):
            fork = again
            answer, text = await self._written(fork)
        if answer.code not in (None, OVERFLOW):
            return fork.spent.failed(answer.code, answer.message)
        kind, summary = ("cut", None) if answer.code else ("summary", text)
        by = self.calibration(fork.own)
        made = fork.window.compacted(kind, from_seq, kept_seq=kept_seq, by=by)
        return _summed(fork, made, summary, by.tokens(Weight(len((summary or "").encode()), 0)))

    async def _written(self, fork: Fork) -> tuple[SummaryAnswer, str]:
        """Ask for the summary, in ever smaller pieces while they do not fit; return the last answer and its text."""
        fork.spent.model = fork.model
        calibration = self.calibration(fork.model)
        prefix = self._prefix(fork.agent.snapshot, calibration)
        limit = bounds_of(fork.model, fork.agent, room=SUMMARY_ROOM).limit
        spare = prefix + 2 * fork.tokens
        room = None if limit is None else max(_MIN_ROOM, round((limit - spare) * (1 - calibration.error)))
        answer, text = SummaryAnswer(), ""
        for _ in range(1 + MAX_HALVINGS):
            answer, text = await self._in_pieces(fork, pieces(fork.entries, room, calibration))
            if answer.code != OVERFLOW:
                return answer, text
            whole = calibration.tokens(weight(fork.entries))
            room = max(_MIN_ROOM // 2, (whole if room is None else min(room, whole)) // 2)
        return answer, text

    async def _in_pieces(self, fork: Fork, parts: Sequence[Sequence[WindowEntry]]) -> tuple[SummaryAnswer, str]:
        """Sum up *parts*, each after a summary of those before it; return the last answer and its text."""
        encode = self._provider_for(fork.model).encoder(p.named(fork.model))
        answer, text = SummaryAnswer(), ""
        is_read = fork.is_read and list(parts) == [list(fork.entries)]
        rest = fork.rest if is_read else ()
        for part in parts:
            before = [summary_so_far(text, fork.window.frames, encode)] if text else []
            instruction = summary_request(fork.tokens, fork.window.frames, encode, rest)
            answer = await self._ask(fork, [*before, *part, *rest, instruction], is_read=is_read)
            if answer.code is not None:
                return answer, ""
            text = bounded("".join(answer.texts), fork.tokens)
        return answer, text

    async def _ask(self, fork: Fork, entries: Sequence[WindowEntry], *, is_read: bool) -> SummaryAnswer:
        """Ask the model once; what it used is noted even when it is cancelled.

        Where the prompt *is_read* from the cache it is marked as the session's last request was; else nothing is
        written: only a later request of the same beginning would read it.
        """
        provider, model, answer = self._provider_for(fork.model), p.named(fork.model), SummaryAnswer()
        encode = provider.encoder(model)
        sent = [entry.encoded_by(encode) for entry in entries]
        for entry in sent:
            await entry.load(self._read_file, fork.window.frames)
        request = p.Request(
            model=model,
            snapshot=fork.agent.snapshot,
            messages=sent,
            controls=fork.controls,
            session=fork.session,
            cache=self._prompt_cache.marks(fork.agent, fork.model, fork.window.history) if is_read else None,
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
                fork.spent.add(fork.model, fork.agent.listed(fork.model), answer.usage or UNKNOWN_USAGE)
        return answer.closed(fork.tokens)

    def _is_warm(self, window: Window, agent: Agent, model: str) -> bool:
        return agent.prompt_caching and is_warm(window, agent, model, self._clock.now())

    def _summariser(self, own: str, agent: Agent, tokens: int, summary: int, *, cached: int) -> str:
        """Return the model that sums up a prompt of *tokens* tokens: the agent's choice, or the cheaper one.

        The conversation's *own* model reads the *cached* prompt, if there is one, at the price of a read; the light one
        of the same vendor pays for every token, and must have room for them.
        """
        if wanted := agent.definition.compaction.model:
            return wanted
        small = models.small(own)
        if small is None or small == own:
            return own
        here = price_of(agent.listed(own), cached or tokens, summary, cached=cached)
        there = price_of(agent.listed(small), tokens, summary)
        limit = bounds_of(small, agent, room=SUMMARY_ROOM).limit
        fits = limit is None or tokens + 2 * summary <= limit
        return small if fits and here is not None and there is not None and there < here else own

    def _prefix(self, snapshot: Snapshot, calibration: Calibration) -> int:
        return calibration.tokens(Weight(self._prefix_bytes(snapshot), 0))

    def _prefix_bytes(self, snapshot: Snapshot) -> int:
        """Return the bytes of *snapshot*: tools and texts, counted once."""
        size = self._prefixes.get(snapshot.hash)
        if size is None:
            tools = [(tool.name, tool.description, tool.parameters) for tool in snapshot.tools]
            size = len(msgspec.json.encode(tools)) + len(snapshot.shared.encode()) + len(snapshot.own.encode())
            self._prefixes[snapshot.hash] = size
            if len(self._prefixes) > _PREFIXES:
                self._prefixes.popitem(last=False)
        return size


def _is_exact(agent: Agent, model: str) -> bool:
    """Return whether the tokens of *model* are counted by a vendor that bills them, not by just any server."""
    return agent.able(model).caching is not None


def _summed(fork: Fork, made: e.ContextCompacted, text: str | None, tokens: int) -> e.ContextCompacted:
    """Return the fact *made* with the summary *text* of so many *tokens*, and with what it cost to try."""
    spent = fork.spent
    cost, uncached = spent.costs
    return replace(
        made,
        summary=text,
        tokens_after=None if made.tokens_after is None else made.tokens_after + tokens,
        model=spent.model,
        usage=spent.usage,
        cost=cost,
        uncached_cost=uncached,
    )


def _again(fork: Fork, answer: SummaryAnswer) -> Fork | None:
    """Return how the same try goes on after *fork* was answered as *answer*, None if it is over.

    Where another model failed the conversation's own is asked, and where that called a tool it is asked without.
    """
    if answer.code is None or answer.code == OVERFLOW:
        return None
    if fork.model != fork.own:
        return dataclasses.replace(fork, model=fork.own, controls=as_text(fork.requested))
    if answer.code == TOOL_CALLED and fork.controls.tool_choice != "none":
        return dataclasses.replace(fork, controls=as_text(fork.requested, withheld=True), rest=(), is_read=False)
    return None

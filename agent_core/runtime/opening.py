"""Refreezing: when a session takes up the newest version of its agent, and what it takes up."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec
import structlog
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import tokens_of_parts
from agent_core.agent.frames import new_marker
from agent_core.agent.snapshot import clock_context, variant, zone_for
from agent_core.agent.state import RunState
from agent_core.agent.strategy import Ask, Move, announce, react
from agent_core.agent.window import Window
from agent_core.agents import Agent
from agent_core.channels import NO_OPTIONS, Inbound, RunOptions
from agent_core.clock import Clock
from agent_core.controls import NOTHING, check_tool_context
from agent_core.counters import Counters
from agent_core.errors import InvalidInput, NotFound, RateLimited, Unavailable
from agent_core.events import FactBody
from agent_core.ids import new_id
from agent_core.messages import Actor, Part, ToolCall, ToolResult, used_in
from agent_core.objects import Receipt
from agent_core.quotas import Origin
from agent_core.runtime.approvals import Dispatcher
from agent_core.runtime.compacting import log_cache_notes
from agent_core.runtime.offers import with_renders
from agent_core.runtime.roster import Prototype, Roster
from agent_core.runtime.segments import Segments
from agent_core.runtime.session_cache import MANY, CachedSession, SessionCache
from agent_core.schemas import problems
from agent_core.store import catalog, intake, queue, sessions
from agent_core.store.database import Database
from agent_core.store.intake import Intake, Received, Refreeze, RefreezeReason, input_facts
from agent_core.store.queue import RETRY_AFTER
from agent_core.store.runs import Finish
from agent_core.store.sessions import FIRST_SEQS, BusySession, NewSession, SessionRef, StaleAgent, StaleSession
from agent_core.store.store import Store
from agent_core.tools.toolset import unknown_tool
from agent_core.traces import trace_of

_MAX_WARNED = 1000
_log = structlog.get_logger("parley.agents")


class Successor(NamedTuple):
    """The newest version of a session's agent as this process runs it, and what the session's row is to say of it."""

    agent: Agent
    wanted: Refreeze


class Refreezing:
    """Finds out what sessions are to take up; the transaction that uses it checks that it still holds."""

    def __init__(self, roster: Roster, clock: Clock) -> None:
        self._roster, self._clock = roster, clock
        self._warned: set[tuple[str, int]] = set()

    def reason(self, cached: CachedSession) -> RefreezeReason | None:
        """Return why the session's prompt may be changed with its next message, None if it must not.

        After a long pause between calls, or after a compaction, the provider's cache of it is of no use anyway.
        """
        history = cached.window.history
        if history.refreezable:
            return "compaction"
        used = history.last.time if history.last else history.newest
        idle = self._clock.now() - used
        return "idle" if used and idle >= cached.agent.idle_refreeze_s * 1000 else None

    async def due(self, cached: CachedSession) -> Successor | None:
        """Return what the session takes up with its next message, None if nothing or if that cannot be built here.

        Without a tool or a provider that the newest version needs, the session keeps what it has.
        """
        reason = self.reason(cached)
        if reason is None:
            return None
        try:
            return await self.successor(cached, reason)
        except (InvalidInput, NotFound) as error:
            key = (cached.ref.id, cached.ref.agent_version)
            if key not in self._warned:
                if len(self._warned) >= _MAX_WARNED:
                    self._warned.clear()
                self._warned.add(key)
                remedy = "until then the session keeps the version of the agent that it has"
                _log.warning("session.not_refrozen", session=cached.ref.id, error=str(error), remedy=remedy)
            return None

    async def successor(self, cached: CachedSession, reason: RefreezeReason) -> Successor:
        """Return the newest version of the session's agent as it is known here; raises `InvalidInput`, `NotFound`."""
        agent = (await self._roster.prototype(cached.agent.id)).agent
        self._roster.check_model("model", agent.snapshot.model)
        return Successor(agent, Refreeze(version=agent.version, snapshot=agent.snapshot, reason=reason))

    def forget(self, cached: CachedSession) -> None:
        """Read the session's agent again when it is next asked for: it has a newer version."""
        self._roster.forget(cached.agent.id)


_COUNT_EVERY = 1.0
_backlog_log = structlog.get_logger("parley.limits")


class Backlog:
    """How many runs are queued over all processes: counted every second, plus those queued here since the count."""

    def __init__(self, database: Database, clock: Clock, limit: int | None) -> None:
        """*limit* runs may be queued; None sets no bound, and nothing is counted."""
        self._database, self._clock, self._limit = database, clock, limit
        self.waiting = 0

    def refusal(self) -> RateLimited | None:
        """Return the error for a message that would add to a full backlog, None while there is room."""
        if self._limit is None or self.waiting < self._limit:
            return None
        text = "More runs are queued than this server accepts; send the same again later."
        return RateLimited(text, RETRY_AFTER, limit="backlog")

    def note(self) -> None:
        """Count a run that this process has just queued."""
        self.waiting += 1

    async def watch(self) -> None:
        """Count at once and then every second until cancelled; while the database is away the last count stays."""
        while self._limit is not None:
            try:
                await self.count()
            except Unavailable:
                _backlog_log.debug("backlog.not_counted")  # the sweep logs the outage
            except Exception as error:  # noqa: BLE001 - a count that fails must not end the task
                _backlog_log.error("backlog.not_counted", exception=trace_of(error))
            await self._clock.sleep(_COUNT_EVERY)

    async def count(self) -> None:
        """Count the queued runs."""
        self.waiting = await self._database.read(queue.count_queued)


REMEMBERED = 5_000
"""Milliseconds for which a refusal is repeated without counting again: a raised limit works that much later."""
LOGGED_EVERY = 60_000
MAX_REFUSALS = 10_000
_refusals_log = structlog.get_logger("parley.limits")
What = Literal["message", "session"]
Key = tuple[What, str, str, str, Origin]


class Refusals:
    """Which actors a quota has just refused: while they go on sending, nothing is counted for them in the database."""

    def __init__(self, clock: Clock, counters: Counters) -> None:
        self._clock, self._counters = clock, counters
        self._refused: OrderedDict[Key, tuple[int, RateLimited]] = OrderedDict()
        self._logged: dict[str, int] = {}

    def of(self, what: What, agent: str, actor: Actor, origin: Origin) -> RateLimited | None:
        """Return the refusal that *actor* got from *agent* just before, with the time that is left of it."""
        if not self._refused:
            return None
        at, error = self._refused.get(_key(what, agent, actor, origin), (0, None))
        gone = self._clock.now() - at
        if error is None or gone >= min(REMEMBERED, error.retry_after * 1000):
            return None
        return RateLimited(str(error), max(1, error.retry_after - gone // 1000), limit=error.limit)

    @contextmanager
    def noted(self, what: What, agent: str, actor: Actor, origin: Origin) -> Generator[None]:
        """Note a refusal of what *actor* sends to *agent* in this block."""
        try:
            yield
        except RateLimited as error:
            self._note(what, agent, actor, origin, error)
            raise

    def _note(self, what: What, agent: str, actor: Actor, origin: Origin, error: RateLimited) -> None:
        now = self._clock.now()
        self._counters.limited[error.limit] += 1
        if now - self._logged.get(error.limit, -LOGGED_EVERY) >= LOGGED_EVERY:
            self._logged[error.limit] = now
            remedy = "raise it in the agent's `limits`" if error.is_quota else "add processes, or raise the bound"
            _refusals_log.warning(
                "limit.reached", limit=error.limit, agent=agent, remedy=f"{remedy} if this is no abuse"
            )
        if not error.is_quota or self.of(what, agent, actor, origin) is not None:
            return
        self._refused[_key(what, agent, actor, origin)] = (now, error)
        if len(self._refused) > MAX_REFUSALS:
            self._refused.popitem(last=False)


def _key(what: What, agent: str, actor: Actor, origin: Origin) -> Key:
    return what, agent, actor.kind, actor.id, origin


def with_uses(agent: Agent, inbound: Inbound) -> Inbound:
    """Return *inbound* with the outputs of untrusted tools marked.

    Raises `InvalidInput` for a call that *agent* cannot make. A message without tools is returned as it is.
    """
    history = tuple(replace(each, parts=_marked(agent, each.parts)) for each in inbound.history)
    parts = _marked(agent, inbound.parts)
    for used in used_in(parts):
        _check(agent, used, inbound)
    return (
        inbound
        if (parts, history) == (inbound.parts, inbound.history)
        else replace(inbound, parts=parts, history=history)
    )


def _check(agent: Agent, used: ToolCall, inbound: Inbound) -> None:
    if inbound.overlap == "steer":
        raise InvalidInput("overlap", "a message that uses a tool opens a run of its own; use another `overlap`.")
    if (spec := agent.tools.get(used.name)) is None:
        raise InvalidInput("tool_output.tool", unknown_tool(used.name, agent.tools.keys()))
    if faults := problems(spec.parameters, used.arguments):
        first, *more = (fault.within("tool_output.input") for fault in faults)
        raise InvalidInput(first.path, first.message, *more)


def _marked(agent: Agent, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return *parts* in which the results of tools that are untrusted, or not known, are marked."""
    if not any(isinstance(part, ToolResult) for part in parts):
        return parts
    names = {part.call: part.name for part in parts if isinstance(part, ToolCall)}
    return tuple(
        replace(part, untrusted=True) if isinstance(part, ToolResult) and _is_untrusted(agent, names, part) else part
        for part in parts
    )


def _is_untrusted(agent: Agent, names: dict[str, str], result: ToolResult) -> bool:
    spec = agent.tools.get(names.get(result.call, ""))
    return spec is None or spec.untrusted


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A message for one transaction; *agent* is the run's own, *move* what *intake* announces if the run starts.

    Without a move it comes with a long history: its driver reads that from the log, in a thread, and announces.
    """

    intake: Intake
    agent: Agent
    move: Move | None


MAX_TRIES = 5
"""How often an agent, or a session, that changes at the same moment is read again."""


class Openings:
    """Opens sessions and runs."""

    def __init__(
        self,
        store: Store,
        cache: SessionCache,
        roster: Roster,
        segments: Segments,
        finish: Finish,
        backlog: Backlog,
        dispatcher: Dispatcher,
    ) -> None:
        self._store, self._cache, self._roster, self._segments = store, cache, roster, segments
        self._finish, self._backlog, self._dispatcher = finish, backlog, dispatcher
        self._refusals = Refusals(store.clock, store.counters)
        self._refreezing = Refreezing(roster, store.clock)

    async def open(
        self, *, agent: str, actor: Actor, metadata: dict[str, Any], address: str | None, origin: Origin
    ) -> SessionRef:
        """Open a session, or return the one at *address*.

        Raises `NotFound`, `InvalidInput`, `RateLimited`, `Unavailable`.
        """
        for _ in range(MAX_TRIES):
            prototype = await self._roster.prototype(agent)
            opening = self._opening(prototype, actor, metadata, address, origin)
            try:
                with self._refusals.noted("session", prototype.agent.id, actor, origin):
                    if address is None and (refused := self._refusals.of("session", prototype.agent.id, actor, origin)):
                        raise refused
                    opened = await self._store.commit(None, sessions.open_or_find, opening, prototype.agent.snapshot)
            except StaleAgent:
                self._roster.forget(agent)
                continue
            if opened.facts:
                cached = self._cache.new(
                    opened.ref, prototype.agent, actor, self._cache.window(prototype.agent, opening.marker)
                )
                cached.window.apply(opened.facts)
            return opened.ref
        raise _changing("agent", agent)

    async def receive(self, cached: CachedSession, inbound: Inbound, owner: str | None = None) -> Receipt:
        """Receive *inbound* in a session; its run begins here if it starts at once.

        *owner* is the agent whose session it must be, if that is in question.
        """
        may_refreeze = True
        for _ in range(MAX_TRIES):
            try:
                successor = await self._refreezing.due(cached) if may_refreeze else None
                return await self._receive(cached, inbound, owner, successor)
            except StaleSession:  # redacted or frozen again since it was loaded, as a rule by another process
                self._cache.forget(cached.ref.id)
                cached = await self._cache.get(cached.ref.id)
            except StaleAgent:
                self._refreezing.forget(cached)
            except BusySession:
                may_refreeze = False
            except InvalidInput:
                if may_refreeze and (
                    receipt := await self._earlier_receipt(cached, inbound)
                ):  # it was valid when first received
                    return receipt
                raise
        raise _changing("session", cached.ref.id)

    async def refreeze(self, session: str) -> None:
        """Let a session take up the newest version of its agent.

        Raises `NotFound`, `SessionBusy`, `SessionClosed`, and `InvalidInput` when that version cannot run here.
        """
        for _ in range(MAX_TRIES):
            cached = await self._cache.get(session)
            successor = await self._refreezing.successor(cached, "asked")
            try:
                now = self._store.clock.now()
                await self._store.commit(None, intake.ask_to_refreeze, session, successor.wanted, now=now)
            except StaleAgent:
                self._refreezing.forget(cached)
            else:
                return
        raise _changing("session", session)

    async def _receive(
        self, cached: CachedSession, inbound: Inbound, owner: str | None, successor: Successor | None
    ) -> Receipt:
        own, refreeze = (cached.agent, None) if successor is None else successor
        window = cached.window
        asks = await self._segments.sources.asked_by(own, window.history)
        with self._dispatcher.reserve() as has_capacity:
            prefix = refreeze.prefix_after(cached.ref.snapshot, window.snapshot) if refreeze else window.snapshot
            prepared = self._prepare(asks, window, inbound, after=window.seq, has_capacity=has_capacity, prefix=prefix)
            wanted = msgspec.structs.replace(prepared.intake, agent=owner, loaded=cached.ref, refreeze=refreeze)

            def dispatch(done: Received) -> None:
                if done.refrozen is not None:
                    cached.agent, cached.ref = own, done.refrozen
                self._dispatch(cached, prepared, done)

            try:
                with self._refusals.noted("message", cached.agent.id, inbound.actor, inbound.origin):
                    done = await self._store.commit(dispatch, intake.receive, cached.ref.id, wanted, self._finish)
            except NotFound:
                self._cache.forget(cached.ref.id)  # another process deleted it
                raise
        await _let_ask(done)
        return done.receipt

    async def _earlier_receipt(self, cached: CachedSession, inbound: Inbound) -> Receipt | None:
        """Return the receipt of an earlier use of a session's key; raises `IdempotencyMismatch`."""
        if inbound.key is None or inbound.key_scope != "session":
            return None
        return await self._store.read(intake.seen, inbound, cached.ref.key)

    async def receive_first(self, agent: str, inbound: Inbound) -> Receipt:
        """Receive *inbound* in a new session of *agent*, opened in the same transaction; a known key opens none.

        Raises `NotFound`, `IdempotencyMismatch`, `InvalidInput`, `RateLimited`, `Unavailable`.
        """
        for tried in range(MAX_TRIES):
            try:
                prototype = await self._roster.prototype(agent)
                metadata = {name: value for name, value in inbound.metadata.items() if value is not None}
                opening = self._opening(prototype, inbound.actor, metadata, None, inbound.origin)
                window = self._cache.window(prototype.agent, opening.marker)
                return await self._receive_first(prototype, opening, window, inbound)
            except StaleAgent:
                self._roster.forget(agent)
            except InvalidInput:
                if receipt := await self.seen(agent, inbound):  # it was valid when the key was first used
                    return receipt
                if tried:
                    raise
                self._roster.forget(agent)  # what it lacked may be in a version that is not cached yet
        raise _changing("agent", agent)

    async def _receive_first(
        self, prototype: Prototype, opening: NewSession, window: Window, inbound: Inbound
    ) -> Receipt:
        asks = await self._segments.sources.asked_by(prototype.agent, window.history)
        with self._dispatcher.reserve() as has_capacity:
            prepared = self._prepare(
                asks, window, inbound, after=FIRST_SEQS, has_capacity=has_capacity, prefix=window.snapshot
            )

            def dispatch(done: Received) -> None:
                if done.opened is not None:
                    cached = self._cache.new(done.opened, prototype.agent, inbound.actor, window)
                    self._dispatch(cached, prepared, done)

            with self._refusals.noted("message", prototype.agent.id, inbound.actor, inbound.origin):
                snapshot, wanted = prototype.agent.snapshot, prepared.intake
                done = await self._store.commit(dispatch, intake.receive_first, opening, snapshot, wanted)
        await _let_ask(done)
        return done.receipt

    async def seen(self, agent: str, inbound: Inbound) -> Receipt | None:
        """Return the receipt of an earlier use of an agent's key; raises `NotFound`, `IdempotencyMismatch`."""
        if inbound.key is None:
            return None
        return await self._store.read(
            lambda connection: intake.seen(connection, inbound, catalog.key_of(connection, agent))
        )

    def _opening(
        self, prototype: Prototype, actor: Actor, metadata: dict[str, Any], address: str | None, origin: Origin
    ) -> NewSession:
        return NewSession(
            agent=prototype.key,
            agent_id=prototype.agent.id,
            agent_version=prototype.agent.version,
            snapshot=prototype.agent.snapshot.hash,
            actor=actor,
            metadata=metadata,
            address=address,
            marker=new_marker(),
            now=self._store.clock.now(),
            origin=origin,
        )

    def _dispatch(self, cached: CachedSession, prepared: _Prepared, done: Received) -> None:
        """Begin the run that started, and dispatch what else a message led to.

        It is called at the commit, before the caller continues: the driver asks the model before the caller answers.
        """
        if prepared.move is None and done.facts:
            self._cache.forget(cached.ref.id)
        if done.started is not None and prepared.move is None:
            self._dispatcher.begin(done.started, self._segments.segment(done.started))
        elif done.started is not None:
            facts = [*done.missed, *done.facts]
            cached.window.apply(facts)
            state = RunState(done.started.id).apply(*facts)
            move = prepared.move if done.announced else None
            segment = self._segments.opened(done.started, prepared.agent, cached, state, move)
            self._dispatcher.begin(done.started, segment)
            log_cache_notes(done.started.id, done.facts)
        elif any(fact.type == e.RunQueued.type for fact in done.facts):
            self._backlog.note()
        self._dispatcher.dispatch(done.freed)
        if done.interrupted is not None:
            self._dispatcher.interrupt(done.interrupted.key)

    def _agent(self, own: Agent, inbound: Inbound) -> Agent:
        """Return the session's *own* agent with what the run brings of its own; raises `InvalidInput`."""
        if inbound.controls.include_render is not None:
            own = with_renders(own, include=inbound.controls.include_render)
        if inbound.controls != NOTHING:
            self._roster.check_controls(inbound.controls, own.tools)
        if inbound.tool_context:
            check_tool_context(inbound.tool_context)
            own = msgspec.structs.replace(own, asked_with=inbound.tool_context)
        model = inbound.controls.model
        if model is None and (why := self._roster.unserved(own.definition, own.snapshot.model)):
            raise InvalidInput("agent", why)
        if inbound.instructions is None and model is None:
            return msgspec.structs.replace(own, overrides=inbound.controls) if inbound.controls != NOTHING else own
        snapshot = variant(own.snapshot, own.definition, model=model, instructions=inbound.instructions)
        return msgspec.structs.replace(own, overrides=inbound.controls, snapshot=snapshot)

    def _prepare(
        self, own: Agent, window: Window, inbound: Inbound, *, after: int, has_capacity: bool, prefix: str
    ) -> _Prepared:
        """Prepare *inbound* for a session of the agent *own* whose newest fact is *after*; raises `InvalidInput`.

        *prefix* is the prompt that is in force as its run begins.
        """
        inbound, now = with_uses(own, inbound), self._store.clock.now()
        if time := clock_context(zone_for(own, inbound.timezone), window.history.clocked, now):
            inbound = msgspec.structs.replace(inbound, context=(time, *inbound.context))
        agent = self._agent(own, inbound)
        options = RunOptions(inbound.controls, inbound.tool_context or None)
        prepared = Intake(
            inbound=inbound,
            agent=None,
            run=new_id("run"),
            message=new_id("msg"),
            history=tuple(new_id("msg") for _ in inbound.history),
            snapshot=agent.snapshot,
            new_prefix=agent.snapshot.hash != own.snapshot.hash,
            options=None if options == NO_OPTIONS else msgspec.json.encode(options),
            owner=self._dispatcher.worker if has_capacity else None,
            after=after,
            step=(),
            freezes=agent.snapshot.hash != prefix,
            now=now,
            refusal=self._backlog.refusal(),
            refused=self._refusals.of("message", own.id, inbound.actor, inbound.origin),
        )
        if len(inbound.history) > MANY:
            return _Prepared(prepared, agent, None)
        frozen = (e.SnapshotFrozen(hash=agent.snapshot.hash, reason="run"),) if prepared.freezes else ()
        opening: list[FactBody] = [*input_facts(prepared), e.RunStarted(epoch=1), *frozen]
        state = RunState(prepared.run).preview(opening)
        arriving = tokens_of_parts(inbound.all_parts)
        fill, last = self._segments.compactor.fill(window, agent, state, more=arriving), window.history.newest_call
        state = state.with_window(size=len(window.entries), border=window.border, fill=fill, last=last)
        move = react(state, agent)
        step = tuple(announce(move, state, agent)) if isinstance(move, Ask) else ()
        return _Prepared(msgspec.structs.replace(prepared, step=step), agent, move)


async def _let_ask(done: Received) -> None:
    """Let the run that started here send its question, which is ready, before its asker reads the log and answers.

    HTTP clients write in a task of their own: it comes right after this one.
    """
    if done.started is not None:
        await asyncio.sleep(0)


def _changing(kind: str, name: str) -> Unavailable:
    return Unavailable(f"The {kind} `{name}` is being changed; send the same again.")

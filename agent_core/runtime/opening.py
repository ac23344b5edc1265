"""Openings: a message in, prepared outside the transaction so that one transaction carries it to its first step."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_core import events as e
from agent_core.agents import Agent
from agent_core.channels import NO_OPTIONS, Inbound, RunOptions
from agent_core.context.clock import clock_context, zone_for
from agent_core.context.estimates import tokens_of_parts
from agent_core.context.frames import new_marker
from agent_core.context.snapshot import variant
from agent_core.context.window import Window
from agent_core.controls import NOTHING, check_tool_context
from agent_core.errors import InvalidInput, NotFound, Unavailable
from agent_core.events import FactBody
from agent_core.ids import new_id
from agent_core.loop.announce import announce
from agent_core.loop.state import RunState
from agent_core.loop.strategy import Ask, Move, react
from agent_core.messages import Actor
from agent_core.objects import Receipt
from agent_core.quotas import Origin
from agent_core.runtime.agents.roster import Prototype, Roster
from agent_core.runtime.backlog import Backlog
from agent_core.runtime.dispatcher import Dispatcher
from agent_core.runtime.refusals import Refusals
from agent_core.runtime.segments import Segments
from agent_core.runtime.session_cache import MANY, CachedSession, SessionCache
from agent_core.runtime.tools.offers import with_renders
from agent_core.runtime.tools.uses import with_uses
from agent_core.runtime.window.prompt_cache import log_cache_notes
from agent_core.runtime.window.refreezing import Refreezing, Successor
from agent_core.store import catalog, intake
from agent_core.store.intake import Intake, Received, input_facts
from agent_core.store.runs import Finish
from agent_core.store.sessions import FIRST_SEQS, BusySession, NewSession, SessionRef, StaleAgent, StaleSession
from agent_core.store.store import Store


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
                    opened = await self._store.open_session(opening, prototype.agent.snapshot)
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
                await self._store.refreeze(session, successor.wanted)
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
                    done = await self._store.receive(cached.ref.id, wanted, self._finish, dispatch)
            except NotFound:
                self._cache.forget(cached.ref.id)  # another process deleted it
                raise
        await _let_ask(done)
        return done.receipt

    async def _earlier_receipt(self, cached: CachedSession, inbound: Inbound) -> Receipt | None:
        """Return the receipt of an earlier use of a session's key; raises `IdempotencyMismatch`."""
        if inbound.key is None or inbound.key_scope != "session":
            return None
        return await self._store.read(lambda connection: intake.seen(connection, inbound, cached.ref.key))

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
                wanted = prepared.intake
                done = await self._store.receive_first(opening, prototype.agent.snapshot, wanted, dispatch)
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

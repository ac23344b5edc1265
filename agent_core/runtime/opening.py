"""Openings: a message in, prepared outside the transaction so that one transaction carries it to its first step."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_core.context.snapshot import freeze
from agent_core.domain import events as e
from agent_core.domain.agents import Agent
from agent_core.domain.controls import NOTHING
from agent_core.domain.events import FactBody
from agent_core.domain.inbound import Inbound, RunOptions
from agent_core.domain.messages import Actor
from agent_core.domain.objects import Receipt
from agent_core.errors import NotFound
from agent_core.ids import new_id
from agent_core.loop.announce import announce
from agent_core.loop.state import RunState
from agent_core.loop.strategy import Ask, Move, react
from agent_core.runtime.backlog import Backlog
from agent_core.runtime.roster import Roster
from agent_core.runtime.session_cache import CachedSession, SessionCache
from agent_core.store.log import RunRef
from agent_core.store.store import Store
from agent_core.store.work import catalog, intake
from agent_core.store.work.intake import Intake, Received, input_facts
from agent_core.store.work.runs import Finish
from agent_core.store.work.sessions import Opening, SessionRef


@dataclass(frozen=True, slots=True)
class Opened:
    """A run that started as its message came in; *move* is what was announced already."""

    run: RunRef
    agent: Agent
    home: CachedSession
    state: RunState
    move: Move | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How an opening reaches those who drive.

    *place* keeps room for a run, *begin* drives one here, *interrupt* stops one wherever it is driven, and *ring* asks
    for somebody to start one.
    """

    place: Callable[[], AbstractContextManager[bool]]
    begin: Callable[[Opened], None]
    interrupt: Callable[[int], object]
    ring: Callable[[int], None]


class Openings:
    """Opens sessions and runs."""

    def __init__(
        self, store: Store, cache: SessionCache, roster: Roster, finish: Finish, backlog: Backlog, reach: Reach
    ) -> None:
        self._store, self._cache, self._roster, self._finish = store, cache, roster, finish
        self._backlog, self._reach = backlog, reach

    async def open(self, *, agent: str, actor: Actor, metadata: dict[str, Any], address: str | None) -> SessionRef:
        """Open a session, or return the one at *address*; raises `NotFound`."""
        stored = await self._roster.find(agent)
        snapshot = await self._roster.base(stored.object)
        wanted = Opening(
            agent=stored.key,
            agent_id=stored.object.id,
            agent_version=stored.object.version,
            snapshot=snapshot.hash,
            actor=actor,
            metadata=metadata,
            address=address,
            now=self._store.clock.now(),
        )
        ref, facts = await self._store.open_session(wanted, snapshot)
        if facts:
            built = await self._roster.agent(
                wanted.agent_id, wanted.agent_version, stored.object.definition, snapshot, NOTHING
            )
            self._cache.new(ref, built, actor).window.apply(facts)
        return ref

    async def seen(self, agent: str, inbound: Inbound) -> Receipt | None:
        """Return the receipt of an earlier use of an agent's key; raises `NotFound`, `IdempotencyMismatch`."""
        return await self._store.read(
            lambda connection: intake.seen(connection, inbound, catalog.find(connection, agent).key)
        )

    async def receive(self, home: CachedSession, inbound: Inbound, owner: str | None = None) -> Receipt:
        """Receive *inbound* in *home*'s session; its run begins here if it starts at once.

        *owner* is the agent whose session it must be, if that is in question.
        """
        if inbound.controls != NOTHING:
            self._roster.check_controls(inbound.controls, home.agent.tools)
        with self._reach.place() as has_room:
            agent = self._agent(home, inbound)
            prepared, move = self._prepare(home, agent, inbound, has_room=has_room)
            prepared = msgspec.structs.replace(prepared, agent=owner) if owner else prepared

            def committed(done: Received) -> None:
                if done.started is not None:
                    facts = [*done.missed, *done.facts]
                    home.window.apply(facts)
                    state = RunState(done.started.id).apply(*facts)
                    self._reach.begin(Opened(done.started, agent, home, state, move if done.said else None))
                self._tell(done)

            try:
                received = await self._store.receive(home.ref.id, prepared, self._finish, committed)
            except NotFound:
                self._cache.forget(home.ref.id)  # another process deleted it
                raise
        return received.receipt

    def _tell(self, done: Received) -> None:
        """Pass on what a message asks of others."""
        if done.started is None and any(fact.type == e.RunQueued.type for fact in done.facts):
            self._backlog.note()
        if done.freed is not None:
            self._reach.ring(done.freed)
        if done.interrupted is not None:
            self._reach.interrupt(done.interrupted.key)

    def _agent(self, home: CachedSession, inbound: Inbound) -> Agent:
        """Return the agent with what the run brings of its own."""
        own = home.agent
        model = inbound.controls.model
        if inbound.instructions is None and model is None:
            return msgspec.structs.replace(own, overrides=inbound.controls) if inbound.controls != NOTHING else own
        snapshot = freeze(
            model=model or own.snapshot.model,
            instructions=own.snapshot.instructions if inbound.instructions is None else inbound.instructions,
            tools=own.snapshot.tools,
        )
        return msgspec.structs.replace(own, overrides=inbound.controls, snapshot=snapshot)

    def _prepare(self, home: CachedSession, agent: Agent, inbound: Inbound, *, has_room: bool) -> tuple[Intake, Move]:
        options = RunOptions(inbound.controls) if inbound.controls != NOTHING else None
        owner = self._store.worker if has_room else None
        prepared = Intake(
            inbound=inbound,
            agent=None,
            run=new_id("run"),
            message=new_id("msg"),
            history=tuple(new_id("msg") for _ in inbound.history),
            snapshot=agent.snapshot,
            new_prefix=agent.snapshot.hash != home.agent.snapshot.hash,
            options=msgspec.json.encode(options) if options else None,
            owner=owner,
            after=home.window.seq,
            step=(),
            freezes=agent.snapshot.hash != home.window.snapshot,
            now=self._store.clock.now(),
            refusal=self._backlog.refusal,
        )
        opening: list[FactBody] = [*input_facts(prepared), e.RunStarted(epoch=1)]
        if prepared.freezes:
            opening.append(e.SnapshotFrozen(hash=agent.snapshot.hash, reason="run"))
        state = RunState(prepared.run).preview(opening)
        state = state.seeing(size=len(home.window.entries), border=home.window.border)
        move = react(state, agent)
        step = tuple(announce(move, state, agent)) if isinstance(move, Ask) else ()
        return msgspec.structs.replace(prepared, step=step), move

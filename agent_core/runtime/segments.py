"""Segments: how this process drives runs; what the engine needs to know of them."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
from structlog.contextvars import bind_contextvars

from agent_core import events as e
from agent_core.agents import Agent, Snapshot
from agent_core.channels import read_options
from agent_core.context.source import ContextSource
from agent_core.controls import ABLE, Abilities
from agent_core.engine.pool import Interrupt, Segment
from agent_core.errors import LostRun, NotFound
from agent_core.events import FactBody
from agent_core.hooks.chain import Hooks, Resolver
from agent_core.loop.inbox import NO_CARRY_OVER, CarryOver
from agent_core.loop.state import RunState
from agent_core.loop.strategy import Move
from agent_core.providers.base import CallFailed, Encode, ModelDelta, Provider, Request, neutral
from agent_core.runtime.agents.roster import Roster
from agent_core.runtime.approvals import RunDesk
from agent_core.runtime.calls import Calls, Place
from agent_core.runtime.dispatcher import Dispatcher
from agent_core.runtime.drive import Driver, Ports
from agent_core.runtime.pressure import Pressure
from agent_core.runtime.session_cache import CachedSession, SessionCache
from agent_core.runtime.sources import Sources
from agent_core.runtime.tools.notes import ToolNotes
from agent_core.runtime.window.compacting import Compactor
from agent_core.runtime.window.prompt_cache import PromptCache
from agent_core.store import catalog, files, queue, quotas
from agent_core.store import catalog as prompts
from agent_core.store.log import Appended, RunRef
from agent_core.store.queue import Due
from agent_core.store.store import Store
from agent_core.tools.toolset import Toolset


class DriverLog:
    """The log as drivers write to it: an end starts the session's next run here if there is room, or dispatches it."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store, self._dispatcher = store, dispatcher
        self.show = store.show
        """Show a live event, see `Store.show`; text comes by the thousand."""

    async def append(
        self,
        run: RunRef,
        record: Sequence[FactBody],
        announcement: Sequence[FactBody],
        *,
        after: int,
        left: CarryOver = NO_CARRY_OVER,
    ) -> Appended:
        """Append for the driver of *run*, see `Store.append`; raises `LostRun`, `NewerRun`."""
        owner = self._dispatcher.owner
        return await self._store.append(
            run, record, announcement, after=after, left=left, owner=owner, then=self._dispatch
        )

    def _dispatch(self, done: Appended) -> None:
        self._dispatcher.dispatch(done.freed)


class Segments:
    """Builds a driver for a run and lets it drive."""

    def __init__(
        self,
        store: Store,
        cache: SessionCache,
        roster: Roster,
        providers: Mapping[str, Provider],
        toolset: Toolset,
        resolvers: Resolver,
        dispatcher: Dispatcher,
        context_sources: Sequence[ContextSource] = (),
    ) -> None:
        self._store, self._cache, self._roster, self._resolvers = store, cache, roster, resolvers
        self._providers, self._toolset, self._dispatcher = providers, toolset, dispatcher
        self.sources = Sources(store, context_sources, ToolNotes(toolset, roster.servers))
        self._log = DriverLog(store, dispatcher)
        self.pressure = Pressure(store.counters.late.observe)
        self._prompt_cache = PromptCache()
        ask = partial(provider_for, providers)
        self.compactor = Compactor(ask, store.clock, self._file, self._prompt_cache)

    def stop(self) -> None:
        """Measure no more."""
        self.pressure.stop()

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        now, worker = self._store.clock.now(), self._dispatcher.worker
        return await self._store.read(
            lambda connection: queue.due(connection, now, owner=worker, expire_after=expire_after, limit=limit)
        )

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef | None:
        owner = self._dispatcher.worker
        return (await self._store.resume(run, cause, owner=owner, expire_after=expire_after, epoch=epoch)).started

    async def give_back(self, run: RunRef) -> None:
        await self._store.write(lambda connection: queue.give_back_run(connection, run))
        self.wake_elsewhere(run.key)

    async def leave(self) -> int:
        released = await self._store.write(lambda connection: queue.leave(connection, self._dispatcher.worker))
        for run in released:
            self.wake_elsewhere(run)
        return len(released)

    def wake_elsewhere(self, run: int) -> None:
        if self._store.bus is not None:
            self._store.bus.wake(run)

    async def tidy(self) -> None:
        now = self._store.clock.now()
        await self._store.write(lambda connection: quotas.reap(connection, now))
        await self._store.write(lambda connection: files.sweep(connection, now))
        if await self._store.read(prompts.is_any_dropped):
            await self._store.write(lambda connection: prompts.settle_prompts(connection, now))
            await self._store.write(lambda connection: prompts.set_aside_prompts(connection, now))
        await self._cache.tidy()

    async def next_deadline(self, after: int) -> int | None:
        return await self._store.read(lambda connection: queue.next_deadline(connection, after))

    def send_heartbeat(self, run: RunRef) -> None:
        self._store.show(run, e.Heartbeat())

    def segment(self, run: RunRef) -> Segment:
        """Drive *run* from its log."""

        async def drive(interrupt: Interrupt) -> RunRef | None:
            with self._held(run):
                cached = await self._cache.get(run.session_id, run)
                agent = await self.agent_of(run, cached)
                state = await self._cache.state_of(cached, run)
                agent = await self.sources.asked_by(agent, cached.window.history)
                tools = {call.call: call.name for call in state.waiting.open_calls() if call.name in agent.tools}
                self._store.counters.resumed_run(run.id, state.step.model, tools)
                return await self.driver(run, agent, cached, state, interrupt).drive()

        return drive

    def opened(self, run: RunRef, agent: Agent, cached: CachedSession, state: RunState, move: Move | None) -> Segment:
        """Drive a run that was just opened; *move* is announced in the log already."""

        async def drive(interrupt: Interrupt) -> RunRef | None:
            with self._held(run):
                present = await self._roster.present(agent)
                return await self.driver(run, present, cached, state, interrupt).drive(move)

        return drive

    @contextmanager
    def _held(self, run: RunRef) -> Generator[None]:
        """Bind the run to the log lines of this task, and release it at the end."""
        bind_contextvars(run=run.id, session=run.session_id, worker=self._dispatcher.worker)
        try:
            yield
        except LostRun:
            self._store.counters.forget(run.id)
            raise
        finally:
            self._store.release(run)

    def calls(self, run: RunRef, agent: Agent, cached: CachedSession) -> Calls:
        """Return what runs the calls of *run*, which is one of the session *cached*."""
        place, hooks = Place(cached.ref.address, cached.opener), self.hooks(run, agent)
        window, clock = cached.window, self._store.clock
        return Calls(run, agent, place, self._toolset, window=window, hooks=hooks, store=self._store, clock=clock)

    def hooks(self, run: RunRef, agent: Agent) -> Hooks:
        """Return the hooks of *run*."""
        run_info = RunDesk(self._store, run)
        return Hooks(agent, session=run.session_id, run=run.id, resolvers=self._resolvers, run_info=run_info)

    def driver(self, run: RunRef, agent: Agent, cached: CachedSession, state: RunState, interrupt: Interrupt) -> Driver:
        calls = self.calls(run, agent, cached)
        ports = Ports(
            log=self._log,
            provider_for=lambda model: provider_for(self._providers, model),
            calls=calls,
            hooks=calls.hooks,
            clock=self._store.clock,
            read_file=self._file,
            pressure=self.pressure,
            sources=self.sources,
            snapshot=self._snapshot,
            compactor=self.compactor,
            prompt_cache=self._prompt_cache,
        )
        return Driver(run, agent, state=state, window=cached.window, ports=ports, interrupt=interrupt)

    async def _snapshot(self, name: str) -> Snapshot:
        return await self._store.read(lambda connection: catalog.snapshot(connection, name))

    async def _file(self, name: str) -> bytes | None:
        try:
            return (await self._store.get(name))[1]
        except NotFound:
            return None

    async def agent_of(self, run: RunRef, cached: CachedSession) -> Agent:
        """Return the agent as *run* uses it, with the instructions and controls that the run brought."""
        options, own = read_options(run.options), cached.agent
        overrides, asked_with = options.controls, options.tool_context or {}
        if run.snapshot == own.snapshot.hash:
            own = await self._roster.present(own)
            if run.options is None:
                return own
            return msgspec.structs.replace(own, overrides=overrides, asked_with=asked_with)
        snapshot = await self._snapshot(run.snapshot)
        agent = await self._roster.agent(own.id, own.version, own.definition, snapshot, overrides)
        return msgspec.structs.replace(agent, asked_with=asked_with)


def provider_for(providers: Mapping[str, Provider], model: str) -> Provider:
    """Return the provider of *model*, `provider:name`; one that is not configured any more fails every call."""
    name = model.partition(":")[0]
    return providers.get(name) or _Missing(name)


class _Missing:
    """A provider that an old session names and this process does not have: every call fails."""

    def __init__(self, name: str) -> None:
        self.name = name

    def accepts(self, model: str) -> bool:  # noqa: ARG002 - the port has it
        return False

    def able(self, model: str) -> Abilities:  # noqa: ARG002 - as above
        return ABLE

    def encoder(self, model: str) -> Encode:  # noqa: ARG002 - as above
        return neutral

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:  # noqa: ARG002 - the port has it
        text = f"The provider `{self.name}` of this conversation's model is not configured here: set its key again."
        yield [CallFailed("misconfigured", text, retryable=False)]

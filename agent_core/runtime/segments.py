"""Segments: how this process drives runs; what the engine needs to know of them."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace
from structlog.contextvars import bind_contextvars

from agent_core import events as e
from agent_core.agent.snapshot import ContextSource
from agent_core.agent.state import CallState, RunState, replay
from agent_core.agent.strategy import Move
from agent_core.agents import Agent, Snapshot
from agent_core.channels import read_options
from agent_core.controls import ABLE, Abilities, Controls, Defaults, Override, StepRule, check
from agent_core.engine.pool import Interrupt, Segment
from agent_core.errors import InvalidInput, LostRun, NotFound, Unavailable
from agent_core.events import Fact
from agent_core.hooks.chain import Hooks, Resolver
from agent_core.messages import Text, clean
from agent_core.providers.base import CallFailed, Encode, ModelDelta, Provider, Request, neutral
from agent_core.runtime.approvals import Dispatcher, RunDesk
from agent_core.runtime.calls import Calls, Place
from agent_core.runtime.compacting import Compactor, PromptCache
from agent_core.runtime.drive import Driver, Ports, Pressure
from agent_core.runtime.offers import Sources, ToolNotes
from agent_core.runtime.roster import Roster
from agent_core.runtime.session_cache import CachedSession, SessionCache
from agent_core.store import catalog, deciding, files, log, queue, quotas, reading, runs
from agent_core.store.log import RunRef, SessionKey
from agent_core.store.queue import Due
from agent_core.store.store import Store
from agent_core.tools.toolset import Toolset
from agent_core.traces import trace_of


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
        self._toolset, self._dispatcher = toolset, dispatcher
        self.sources = Sources(store, context_sources, ToolNotes(toolset, roster.servers))
        self.pressure = Pressure(store.counters.late.observe)
        self._prompt_cache = PromptCache()
        self._provider_for = partial(provider_for, providers)
        self.compactor = Compactor(self._provider_for, store.clock, self._file, self._prompt_cache)

    async def due(self, *, expire_after: int, limit: int) -> list[Due]:
        now, worker = self._store.clock.now(), self._dispatcher.worker
        return await self._store.read(queue.due, now, owner=worker, expire_after=expire_after, limit=limit)

    async def take(self, run: int, cause: str, *, expire_after: int, epoch: int | None = None) -> RunRef | None:
        resume = partial(runs.resume, cause=cause, expire_after=expire_after, epoch=epoch, now=self._store.clock.now())
        return (await self._store.commit(None, resume, run, owner=self._dispatcher.worker)).started

    async def give_back(self, run: RunRef) -> None:
        await self._store.write(queue.give_back_run, run)
        self.wake_elsewhere(run.key)

    async def leave(self) -> int:
        released = await self._store.write(queue.leave, self._dispatcher.worker)
        for run in released:
            self.wake_elsewhere(run)
        return len(released)

    def wake_elsewhere(self, run: int) -> None:
        if self._store.bus is not None:
            self._store.bus.wake(run)

    async def tidy(self) -> None:
        now = self._store.clock.now()
        await self._store.write(quotas.reap, now)
        await self._store.write(files.sweep, now)
        if await self._store.read(catalog.is_any_dropped):
            await self._store.write(catalog.settle_prompts, now)
            await self._store.write(catalog.set_aside_prompts, now)
        await self._cache.tidy()

    async def next_deadline(self, after: int) -> int | None:
        return await self._store.read(queue.next_deadline, after)

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
        return Calls(run, agent, place, self._toolset, window=cached.window, hooks=hooks, store=self._store)

    def hooks(self, run: RunRef, agent: Agent) -> Hooks:
        """Return the hooks of *run*."""
        run_info = RunDesk(self._store, run)
        return Hooks(agent, session=run.session_id, run=run.id, resolvers=self._resolvers, run_info=run_info)

    def driver(self, run: RunRef, agent: Agent, cached: CachedSession, state: RunState, interrupt: Interrupt) -> Driver:
        ports = Ports(
            store=self._store,
            dispatcher=self._dispatcher,
            provider_for=self._provider_for,
            calls=self.calls(run, agent, cached),
            read_file=self._file,
            pressure=self.pressure,
            sources=self.sources,
            snapshot=self._snapshot_of,
            compactor=self.compactor,
            prompt_cache=self._prompt_cache,
        )
        return Driver(run, agent, state=state, window=cached.window, ports=ports, interrupt=interrupt)

    async def _snapshot_of(self, name: str) -> Snapshot:
        return await self._store.read(catalog.snapshot, name)

    async def _file(self, name: str) -> bytes | None:
        try:
            return (await self._store.read(quotas.get_blob, name))[1]
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
        snapshot = await self._snapshot_of(run.snapshot)
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


_MAX_PENDING = 100
"""Notifications at once; beyond it a run's end is only logged."""
_log = structlog.get_logger("parley.hooks")


class CompletionNotifier:
    """Notifies the `OnRunComplete` hooks of the runs whose end was committed in this process."""

    def __init__(self, store: Store, cache: SessionCache, segments: Segments) -> None:
        self._store, self._cache, self._segments = store, cache, segments
        self._pending: set[asyncio.Task[None]] = set()
        store.subscribe(e.TERMINAL, self._ended)

    async def stop(self, grace: float) -> None:
        """Wait up to *grace* seconds for pending notifications, then cancel them."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=grace)
        for task in self._pending:
            task.cancel()

    def _ended(self, fact: Fact) -> None:
        cached = self._cache.peek(fact.session)
        if cached is not None and not cached.agent.hooks("OnRunComplete"):
            return
        if len(self._pending) >= _MAX_PENDING:
            _log.warning("hook.dropped", run=fact.run, remedy="the webhooks of OnRunComplete are slower than the runs")
            return
        task = asyncio.create_task(self._notify(fact))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _notify(self, fact: Fact) -> None:
        assert fact.run is not None
        name = fact.run
        try:
            run, seen = await self._store.read(
                lambda connection: (runs.find(connection, name)[0], reading.run(connection, name))
            )
            cached = await self._cache.get(fact.session, run)
            if not cached.agent.hooks("OnRunComplete"):
                return
            await self._segments.hooks(run, cached.agent).after_end(seen.status, seen.text)
        except (NotFound, Unavailable):
            _log.info("hook.not_notified", run=name)
        except Exception as error:  # noqa: BLE001 - the boundary: no caller awaits this task, so a bug of ours is logged here
            _log.error("hook.failed", run=name, exception=trace_of(error))


MAX_OUTPUTS = 100


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a client call: its *output*, text or any JSON, or an *error* for the model."""

    call: str
    output: Any = None
    error: str | None = None


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to the controls of a run that is resumed.

    *next* is for its next step alone, *rules* for the steps that they name and *defaults* for all later ones. The
    *tool_context* replaces the run's own; it is passed to the tools and never shown.
    """

    next: Override | None = None
    rules: tuple[StepRule, ...] | None = None
    defaults: Defaults | None = None
    tool_context: dict[str, Any] | None = None

    def check(self, tools: Collection[str]) -> None:
        """Raise `InvalidInput` when a run with *tools* cannot follow them."""
        if self.rules is not None and self.defaults is not None and self.defaults.step_rules is not None:
            raise InvalidInput("step_rules", "they are in `defaults` too; give them once.")
        if self.next is not None:
            check(self.next, tools, at="")
        if self.defaults is not None:
            check(self.defaults, tools, at="defaults.")
        check(Controls(step_rules=self.rules, tool_context=self.tool_context), tools, at="")

    @property
    def facts(self) -> Sequence[e.FactBody]:
        """Return the facts that record them."""
        defaults = self.defaults
        if self.rules is not None:
            defaults = replace(defaults or Defaults(), step_rules=self.rules)
        return [e.ControlsChanged(next=self.next, defaults=defaults)] if self.next or defaults else []

    def __repr__(self) -> str:
        return f"Changes({self.facts})"


NO_CHANGES = Changes()


class Outputs:
    """Receives the outputs of client calls."""

    def __init__(self, store: Store, cache: SessionCache, segments: Segments, dispatcher: Dispatcher) -> None:
        self._store, self._cache, self._segments, self._dispatcher = store, cache, segments, dispatcher

    async def submit(self, run: str, outputs: Sequence[ToolOutput], changes: Changes | None = None) -> None:
        """Complete calls of *run* with *outputs*, all of them or none; see `Core.submit`."""
        if not 1 <= len(outputs) <= MAX_OUTPUTS:
            raise InvalidInput("outputs", f"between 1 and {MAX_OUTPUTS} outputs.")
        ref, calls = await self._store.read(_calls, run)
        open_calls = {call.call: call for call in calls if call.status == "pending" and call.on == "client"}
        cached = await self._cache.get(ref.session_id, ref)
        agent = await self._segments.agent_of(ref, cached)
        calls_of, changes = self._segments.calls(ref, agent, cached), changes or NO_CHANGES
        changes.check(agent.tools)
        are_open = all(
            output.call in open_calls for output in outputs
        )  # else the transaction raises, and writes nothing
        pending = (
            self._end(calls_of, agent, open_calls[output.call] if are_open else None, output) for output in outputs
        )
        ends = await asyncio.gather(*pending)
        submit = partial(deciding.submit, tool_context=changes.tool_context, now=self._store.clock.now())
        await self._store.commit(self._dispatcher.go_on, submit, run, ends, changes.facts)

    async def _end(
        self, calls: Calls, agent: Agent, call: CallState | None, output: ToolOutput
    ) -> Sequence[e.FactBody]:
        parts = (Text(_text(output)),)
        outcome = "done" if output.error is None else "failed"
        if call is None:  # the transaction raises the exact error
            return [e.ToolCompleted(call=output.call, outcome=outcome, parts=parts, truncated=False)]
        return await calls.result(agent.tools[call.name], call, outcome, parts)


def _calls(connection: Any, run: str) -> tuple[RunRef, Sequence[CallState]]:
    ref, _ = runs.find(connection, run)
    place = SessionKey(ref.session, ref.session_id)
    return ref, replay(ref.id, log.facts_of_run(connection, place, ref.id, ref.first_seq, None)).waiting.calls


def _text(output: ToolOutput) -> str:
    if output.error is not None:
        return clean(output.error)
    return clean(output.output) if isinstance(output.output, str) else msgspec.json.encode(output.output).decode()

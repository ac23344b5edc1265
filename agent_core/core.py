"""The core: what every channel and the API call. Receive a message, follow a session, cancel a run."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any

from sqlalchemy import Connection

from agent_core import events as e
from agent_core.agent.entries import Encode
from agent_core.agent.snapshot import ContextSource
from agent_core.agent.strategy import cancelled
from agent_core.agents import PLAIN_DEFAULTS, AgentDefaults
from agent_core.channels import ChannelPort, Context, Inbound
from agent_core.clock import Clock, SystemClock
from agent_core.counters import Counters
from agent_core.engine.local import LocalEngine
from agent_core.engine.pool import Engine, Runs
from agent_core.errors import InvalidInput
from agent_core.events import Event
from agent_core.hooks.chain import Resolver
from agent_core.hooks.rules import HookResolvers
from agent_core.messages import Actor, Part
from agent_core.objects import (
    Feedback,
    MessageObject,
    Page,
    Rating,
    Receipt,
    RunObject,
    RunStatus,
    SessionObject,
    SessionStatus,
)
from agent_core.providers.base import Provider, named
from agent_core.quotas import ANYWHERE, Origin
from agent_core.runtime.access import REASON, Access, Also, Forgetting, Forgotten
from agent_core.runtime.approvals import Approvals, Dispatcher
from agent_core.runtime.opening import Backlog, Openings
from agent_core.runtime.revisions import cancel_and_wait
from agent_core.runtime.roster import Roster, cursor_key
from agent_core.runtime.segments import Changes, CompletionNotifier, Outputs, Segments, ToolOutput, provider_for
from agent_core.runtime.services import (
    ChartDrawer,
    CoreHealth,
    Costs,
    Listing,
    OperatorReplies,
    OwnConversations,
    Renders,
    SentFiles,
)
from agent_core.runtime.session_cache import SessionCache
from agent_core.runtime.tools import NO_PORTS, Tooling, ToolPorts
from agent_core.secrets import Secrets
from agent_core.store import access, catalog, changes, listing, quotas, reading, runs, sessions
from agent_core.store.database import Database
from agent_core.store.follow import WatchAll, WatchUntilIdle, follow, follow_answer, follow_run
from agent_core.store.hub import Bus, Hub
from agent_core.store.listing import Wanted
from agent_core.store.store import Store
from agent_core.tools.base import Tool
from agent_core.tools.toolset import Toolset, toolset_of


class Core:
    """One agent core for all channels. Build it inside a running event loop.

    *engine* builds what drives the runs; *bus* connects the processes of one database. Without *resolvers* hooks are
    rules only; without *secrets* an agent can have no webhook. *channels* are those that agents may configure;
    *context_sources* are asked before the first step of every run. Beyond *max_backlog* queued runs, over all
    processes, messages are refused. *tools_looked_for* is a sentence for errors about tools. *drawer* draws charts for
    surfaces that cannot; the caller closes it. *defaults* are those of agents, *provider_needs* what providers lack.
    """

    _work: asyncio.Task[None] | None = None
    _counting: asyncio.Task[None] | None = None

    def __init__(
        self,
        database: Database,
        *,
        providers: Mapping[str, Provider],
        tools: Toolset | Mapping[str, Tool],
        context_sources: Sequence[ContextSource] = (),
        default_model: str,
        clock: Clock | None = None,
        engine: Callable[[Runs, Clock], Engine] = LocalEngine,
        bus: Bus | None = None,
        resolvers: Resolver | None = None,
        secrets: Secrets | None = None,
        channels: Sequence[ChannelPort] = (),
        max_backlog: int | None = None,
        tools_looked_for: str = "",
        drawer: ChartDrawer | None = None,
        defaults: AgentDefaults = PLAIN_DEFAULTS,
        provider_needs: Mapping[str, str] = {},
        tool_ports: ToolPorts = NO_PORTS,
    ) -> None:
        clock, self._providers, self._bus, self.drawer = clock or SystemClock(), providers, bus, drawer
        self.counters, dispatcher, resolvers = Counters(clock), Dispatcher(bus), resolvers or HookResolvers(clock)
        store = self._store = Store(database, Hub(self.counters.text_of), clock, bus, self.counters)
        self.tools, self.renders = Tooling(store, toolset_of(tools), secrets, tool_ports), Renders(store)
        self.health, self.access, self.listing = CoreHealth(store, bus, resolvers), Access(store), Listing(store)
        more: dict[str, Any] = {"defaults": defaults, "provider_needs": provider_needs, "servers": self.tools.servers}
        roster = partial(Roster, has_sources=bool(context_sources), tools_looked_for=tools_looked_for, **more)
        self.agents = roster(store, self.tools.toolset, providers, default_model, secrets, channels, resolvers)
        cache = self._cache = SessionCache(store, self.agents, self._encode_for)
        ports = (self.tools.toolset, resolvers, dispatcher, context_sources)
        segments = self._segments = Segments(store, cache, self.agents, providers, *ports)
        self._engine, self._backlog = engine(segments, clock), Backlog(database, clock, max_backlog)
        dispatcher.connect(self._engine)
        self._openings = Openings(store, cache, self.agents, segments, cancelled, self._backlog, dispatcher)
        self.approvals, self._outputs = Approvals(store, dispatcher), Outputs(store, cache, segments, dispatcher)
        self._completion, self.replies = CompletionNotifier(store, cache, segments), OperatorReplies(store)
        self.costs, self.files, self._dispatcher = Costs(store), SentFiles(store), dispatcher
        self.conversations = OwnConversations(store, stop=self.stop_session, delete=self.delete_session)

    async def start(self) -> None:
        """Resume what an earlier process left, and look for due runs from now on."""
        await self._store.write(catalog.ensure_project)
        await self.tools.start()
        if self._bus is not None:
            await self._bus.start(self._store.hub, self._dispatcher.wake, self._engine.pool.interrupt)
        await self._engine.start()
        self._segments.pressure.start()
        self._counting = asyncio.create_task(self._backlog.watch(), name="parley-backlog")
        self._work = asyncio.create_task(self._engine.work(), name="parley-engine")

    async def stop(self, grace: float = 2.0) -> None:
        """Stop driving within *grace* seconds and close the database; other workers or the next start resume the runs.

        Wake-ups and pending notifications of ended runs get what is left of them. A step that raises keeps no later one
        from being done.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + grace
        async with AsyncExitStack() as steps:  # the last one that is pushed is the first one that is done
            steps.push_async_callback(self._store.database.close)
            if self._bus is not None:
                steps.push_async_callback(self._bus.stop)
            steps.callback(self._segments.pressure.stop)
            steps.push_async_callback(lambda: self._completion.stop(max(0.0, until - clock())))
            steps.push_async_callback(lambda: self._dispatcher.stop(max(0.0, until - clock())))
            steps.push_async_callback(self.tools.stop)
            steps.push_async_callback(cancel_and_wait, self._work, self._counting)
            await self._engine.stop(grace)  # until then a cancel still reaches what is driven here

    @property
    def is_working(self) -> bool:
        """Return whether the engine is working."""
        return self._work is not None and not self._work.done()

    async def open_session(
        self,
        *,
        agent: str,
        actor: Actor,
        metadata: dict[str, Any] | None = None,
        address: str | None = None,
        origin: Origin = ANYWHERE,
    ) -> SessionObject:
        """Open a session with *agent* (id or name); raises `NotFound`, `RateLimited`."""
        ref = await self._openings.open(
            agent=agent, actor=actor, metadata=metadata or {}, address=address, origin=origin
        )
        return await self.session(ref.id)

    async def session(self, id: str) -> SessionObject:
        """Return a session; raises `NotFound`."""
        return await self._store.peek(listing.get, id)

    async def opener(self, session: str) -> Actor:
        """Return the actor who opened a session; raises `NotFound`."""
        return (await self._cache.get(session)).opener

    async def is_first(self, request: str) -> bool:
        """Return whether *request*, `<kind>:<digest>`, is new to all processes, see `shared.first`."""
        now = self._store.clock.now()
        return await self._store.write(access.is_first, request, now=now)

    async def find_session(self, address: str) -> SessionObject | None:
        """Return the session at *address*, if there is one."""

        def work(connection: Connection) -> SessionObject | None:
            name = sessions.by_address(connection, address)
            return listing.get(connection, name) if name else None

        return await self._store.read(work)

    async def sessions(
        self,
        *,
        actor: str | None = None,
        kinds: Collection[str] | None = None,
        agent: str | None = None,
        status: SessionStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SessionObject]:
        """Return sessions, newest first; *actor* is their opener's id, *kinds* are the openers' kinds."""
        wanted = Wanted(actor=actor, kinds=kinds, agent=agent, status=status)
        return await self.listing.newest(wanted, limit=limit, cursor=cursor)

    async def messages(self, session: str, *, limit: int = 50, cursor: str | None = None) -> Page[MessageObject]:
        """Return a session's messages, oldest first; raises `NotFound`."""
        read = partial(reading.transcript, session=session, after=cursor_key(cursor) or 0, limit=limit)
        return await self._store.read(read)

    async def updated_since(self, seen: Mapping[str, int]) -> set[str]:
        """Return the sessions whose logs go beyond the seq up to which each was *seen*."""
        return await self._store.read(sessions.updated_since, seen)

    async def close_session(self, id: str) -> SessionObject:
        """Close a session to further messages; raises `NotFound`, `SessionBusy`."""
        await self._store.write(lambda connection: sessions.close(connection, sessions.hold(connection, id)))
        return await self.session(id)

    async def refreeze_session(self, id: str) -> SessionObject:
        """Let a session take up the newest version of its agent, see `Openings.refreeze`."""
        await self._openings.refreeze(id)
        return await self.session(id)

    async def rename_session(self, id: str, title: str) -> SessionObject:
        """Give a session another title, cut to 200 characters; raises `NotFound`."""
        await self._store.write(lambda connection: sessions.rename(connection, sessions.hold(connection, id), title))
        return await self.session(id)

    async def delete_session(self, id: str) -> None:
        """Remove a session and its log; raises `NotFound`, `SessionBusy`."""
        await self._store.database.write(
            lambda connection: sessions.delete(connection, sessions.hold(connection, id)),
            lambda _deleted: self._forget_session(id),
        )

    async def forget_actor(self, actor: str, *, pseudonym: str, by: Actor, also: Also | None = None) -> Forgotten:
        """Delete one person's data: the sessions they opened, and what they said in others'; see `Forgetting`."""
        stop = partial(self.stop_session, by=by, reason=REASON)
        cancel = partial(self.cancel, by=by, reason=REASON)
        return await Forgetting(self._store, self._forget_session).forget(
            actor, pseudonym, stop=stop, cancel=cancel, also=also
        )

    async def fork_session(self, id: str, *, at: int | None = None, actor: Actor | None = None) -> SessionObject:
        """Copy a session up to seq *at* into a new one; raises `NotFound`, `SessionBusy`, `InvalidInput`."""
        name = await self._store.write(
            lambda connection: sessions.fork(connection, sessions.hold(connection, id), at=at, actor=actor)
        )
        return await self.session(name)

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        """Take a message in.

        Raises `NotFound`, `SessionClosed`, `SessionBusy`, `IdempotencyMismatch`, `InvalidInput`, `RateLimited`.
        """
        return await self._openings.receive(await self._cache.get(session), inbound)

    async def run_agent(self, agent: str, inbound: Inbound, *, session: str | None = None) -> Receipt:
        """Run *agent* on a message, in *session* or in a new one; keys are remembered per agent.

        Raises what `receive` raises, and `NotFound` when *session* is another agent's.
        """
        if session is None:
            return await self._openings.receive_first(agent, inbound)
        if receipt := await self._openings.seen(agent, inbound):
            return receipt
        return await self._openings.receive(await self._cache.get(session), inbound, agent)

    async def run(self, id: str) -> RunObject:
        """Return a run; raises `NotFound`."""
        return await self._store.read(reading.run, id)

    async def runs(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        status: RunStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[RunObject]:
        """Return runs, newest first."""
        before = cursor_key(cursor)
        return await self._store.read(
            reading.runs, agent=agent, session=session, status=status, limit=limit, before=before
        )

    async def tree(self, id: str) -> tuple[RunObject, ...]:
        """Return a run and its descendants, parents first; raises `NotFound`."""
        return await self._store.read(reading.tree, id)

    async def cancel(self, run: str, *, by: Actor, reason: str | None = None) -> RunObject:
        """Cancel a run: at once when it waits or is queued, else once its driver is interrupted; raises `NotFound`."""
        dispatcher = self._dispatcher
        request, now = e.RunCancelling(by=by, reason=reason), self._store.clock.now()
        cancel = partial(runs.cancel_named, finish=cancelled, owner=dispatcher.owner, now=now)
        await self._store.commit(dispatcher.follow_up, cancel, run, request)
        return await self.run(run)

    async def stop_session(self, session: str, *, by: Actor, reason: str | None = None) -> tuple[RunObject, ...]:
        """Stop the session's active root run and all that are queued, and return them; raises `NotFound`.

        Nothing starts in between, and a message that joined the active run and that no step consumed opens no next one.
        """
        then = self._dispatcher.follow_stop
        stop = partial(changes.stop, by=by, reason=reason, finish=cancelled, now=self._store.clock.now())
        done = await self._store.commit(then, stop, session)
        return await self._store.read(lambda connection: tuple(reading.run(connection, name) for name in done.runs))

    async def submit(self, run: str, outputs: Sequence[ToolOutput], changes: Changes | None = None) -> RunObject:
        """Complete client calls of *run* with *outputs*, all or none; the run continues once none of them is open.

        *changes* apply to its controls from then on. Raises `NotFound`, `InvalidInput` for a call that it does not wait
        for or controls that cannot be followed, `AlreadyDecided` for a call that has ended.
        """
        await self._outputs.submit(run, outputs, changes)
        return await self.run(run)

    async def correct(
        self, session: str, message: str, parts: tuple[Part, ...], *, key: str | None = None, order: int | None = None
    ) -> int:
        """Replace the *parts* of an earlier message, and return the seq of the correction; raises `NotFound`.

        *message* is its id, or the key that it was received with; the same *key* corrects once. If no step consumed the
        message it is replaced; else the correction reaches the run's next step, or the next run. A correction with an
        *order* below that of one that was received before it is ignored: it is older.
        """
        if not parts:
            raise InvalidInput("parts", "a correction has content; to delete a message use `retract`.")
        correct = partial(changes.correct, key=key, order=order, now=self._store.clock.now())
        return (await self._store.commit(None, correct, session, message, parts)).seq

    async def retract(self, session: str, message: str, *, by: Actor, key: str | None = None) -> int:
        """Note that *by* deleted a message, named as for `correct`, and return the fact's seq; raises `NotFound`.

        A message that no step consumed never reaches the model, and a run that has nothing else to answer is cancelled;
        if the model has seen the message, a note informs it.
        """
        owner, then = self._dispatcher.owner, self._dispatcher.follow_change
        retract = partial(changes.retract, by=by, key=key, finish=cancelled, owner=owner, now=self._store.clock.now())
        return (await self._store.commit(then, retract, session, message)).seq

    async def add_context(self, session: str, context: Sequence[Context], *, key: str | None = None) -> int:
        """Add *context* before the next run's message, and return the newest fact's seq.

        The same *key* adds once. Raises `NotFound`, `SessionClosed`. Context of one message is `Inbound.context`.
        """
        now = self._store.clock.now()
        return (await self._store.commit(None, changes.add_context, session, context, key=key, now=now)).seq

    async def feedback(
        self, run: str, *, by: Actor, rating: Rating, comment: str | None = None, origin: Origin = ANYWHERE
    ) -> Feedback:
        """Store the feedback of *by* on a run, replacing their earlier one; raises `NotFound`, `RateLimited`."""
        now = self._store.clock.now()
        give = partial(changes.give_feedback, run=run, by=by, rating=rating, comment=comment, origin=origin, now=now)
        return await self._store.write(give)

    def follow(self, session: str, *, after: int = 0, until_idle: bool = False) -> AsyncGenerator[list[Event]]:
        """Yield batches of the session's events beyond seq *after*; raises `NotFound`, `UnknownCursor` first."""
        return follow(self._store, session, after=after, watch=WatchUntilIdle() if until_idle else WatchAll())

    def follow_run(self, run: str, *, after: int = 0) -> AsyncGenerator[list[Event]]:
        """Yield batches of the events of a run and its descendants until it ends or waits."""
        return follow_run(self._store, run, after=after)

    def follow_answer(self, receipt: Receipt) -> AsyncGenerator[list[Event]]:
        """Yield batches of the events of the run that takes a message which `run_agent` or `receive` took in."""
        return follow_answer(self._store, receipt)

    async def settled(self, run: str, *, timeout: float) -> RunObject:
        """Return the run once it has ended or waits, or as it is after *timeout* seconds; raises `NotFound`."""
        try:
            async with asyncio.timeout(timeout), aclosing(self.follow_run(run)) as events:
                async for _ in events:
                    pass
        except TimeoutError:
            return await self.run(run)
        return await self.run(run)

    async def blob(self, id: str) -> tuple[str, bytes]:
        """Return mime type and bytes of a blob; raises `NotFound`."""
        return await self._store.read(quotas.get_blob, id)

    def _forget_session(self, id: str) -> None:
        self._cache.forget(id)
        self._store.hub.forget(id)

    def _encode_for(self, model: str) -> Encode:
        return provider_for(self._providers, model).encoder(named(model))

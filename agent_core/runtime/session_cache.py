"""The session cache: sessions in memory, each with its agent and window, so that a step need not read its log."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from agent_core.agent.entries import Encode
from agent_core.agent.state import RunState, replay
from agent_core.agent.window import Window
from agent_core.agents import Agent, Controls
from agent_core.messages import Actor
from agent_core.runtime.roster import Roster
from agent_core.store import log, reading, sessions
from agent_core.store.log import RunRef
from agent_core.store.reading import Loaded
from agent_core.store.sessions import SessionRef
from agent_core.store.store import Store

MAX_SESSIONS = 512
MANY = 500
"""Facts of a log, or messages of a history, from which on a window is folded in a thread."""


@dataclass(slots=True)
class CachedSession:
    """A session in memory. Only the driver of its active root run, or the intake that starts one, moves the window."""

    ref: SessionRef
    agent: Agent
    window: Window
    opener: Actor


class SessionCache:
    """The most recently used sessions."""

    def __init__(self, store: Store, roster: Roster, encode_for: Callable[[str], Encode]) -> None:
        self._store, self._roster, self._encode_for = store, roster, encode_for
        self._cache: OrderedDict[str, CachedSession] = OrderedDict()

    async def get(self, session: str, run: RunRef | None = None) -> CachedSession:
        """Return the session, loaded when it is not here or outdated for *run*, a run of it; raises `NotFound`.

        Of loads at the same time the first that is done is kept, for all: a driver may move its window by then.
        """
        if (cached := self._current(session, run)) is None:
            loaded = await self._store.read(reading.load, session)
            built = await self._built(loaded)
            cached = self._current(session, run) or self.keep(built)
        self._cache.move_to_end(session)
        return cached

    def _current(self, session: str, run: RunRef | None) -> CachedSession | None:
        cached = self._cache.get(session)
        return None if cached is None or (run is not None and _is_outdated(cached.ref, run)) else cached

    def peek(self, session: str) -> CachedSession | None:
        """Return the session if it is in memory."""
        return self._cache.get(session)

    def keep(self, cached: CachedSession) -> CachedSession:
        """Cache a session; the least recently used one may go."""
        self._cache[cached.ref.id] = cached
        if len(self._cache) > MAX_SESSIONS:
            self._cache.popitem(last=False)
        return cached

    def window(self, agent: Agent, marker: str) -> Window:
        """Return the window of a session that *agent* is opened with: empty, its prompt prefix and *marker* frozen."""
        return Window(self._encode_for(agent.snapshot.model), prefix=agent.snapshot.hash, marker=marker)

    def new(self, ref: SessionRef, agent: Agent, opener: Actor, window: Window) -> CachedSession:
        """Cache a session that *opener* has just opened."""
        return self.keep(CachedSession(ref, agent, window, opener))

    def forget(self, session: str) -> None:
        """Remove a session from the cache, if it is there."""
        self._cache.pop(session, None)

    async def tidy(self) -> None:
        """Remove the sessions that any process has redacted or deleted since they were loaded."""
        versions = {name: cached.ref.redactions for name, cached in self._cache.items()}
        for name in await self._store.read(sessions.outdated, versions):
            if (cached := self._cache.get(name)) is not None and cached.ref.redactions == versions[name]:
                self.forget(name)

    async def state_of(self, cached: CachedSession, run: RunRef) -> RunState:
        """Return *run*'s state; the session's window is brought up to the same fact."""
        seen = cached.window.seq
        own, inputs, missed = await self._store.read(reading.of_run, run=run, seen=seen)
        cached.window.apply(log.up_to_unknown(missed, seen))
        state = replay(run.id, [fact for fact in own if fact.seq <= cached.window.seq])
        return state.for_inputs(inputs).at(cached.window.seq)

    async def _built(self, loaded: Loaded) -> CachedSession:
        ref, snapshot = loaded.session, loaded.snapshot
        agent = await self._roster.agent(loaded.agent_id, ref.agent_version, loaded.definition, snapshot, Controls())
        window = Window(self._encode_for(snapshot.model), prefix=ref.prefix, marker=loaded.marker)
        if len(loaded.recalled) + len(loaded.facts) > MANY:
            await asyncio.to_thread(_folded, window, loaded)  # no one else has it yet
        else:
            _folded(window, loaded)
        return CachedSession(ref, agent, window, loaded.opener)


def _folded(window: Window, loaded: Loaded) -> None:
    window.recall(loaded.recalled)
    window.apply(loaded.facts)


def _is_outdated(ref: SessionRef, run: RunRef) -> bool:
    """Return whether the session was redacted, or took up another version of its agent, before *run* began."""
    return ref.redactions < run.redactions or ref.agent_version < run.agent_version

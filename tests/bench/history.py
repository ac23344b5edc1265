"""Long conversations made in one transaction, with the facts that real runs would have left."""

from sqlalchemy import Connection

from agent_core import events as e
from agent_core.agent.state import NO_CARRY_OVER
from agent_core.agent.strategy import message_id
from agent_core.agent.window import Window
from agent_core.core import Core
from agent_core.ids import new_id
from agent_core.messages import UNKNOWN_USAGE, Actor, Text
from agent_core.providers.base import neutral
from agent_core.store import log, runs, sessions
from agent_core.store.log import RunRef
from agent_core.store.sessions import SessionRef
from agent_core.store.tables import DEFAULT_PROJECT

ASKER = Actor("ann", "user", "Ann")
QUESTION = (Text("Which of the two roads is the shorter one, and is it open in winter?"),)
ANSWER = (Text("The road along the river is shorter by a third; it is closed from December to March. " * 3),)


class History:
    """Gives sessions a past, and lets the core forget that it knows them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def build(self, session: str, messages: int, limit: int | None) -> int:
        """Store *messages* in a new *session*, its window bounded by *limit*; return its newest seq."""
        now = self._core._store.clock.now()

        def work(connection: Connection) -> int:
            ref = sessions.find(connection, session)
            window = Window(neutral)
            window.apply(log.facts_between(connection, ref.session_key, 0))
            for _ in range(messages // 2):
                _exchange(connection, ref, window, limit, now)
            return window.seq

        newest = await self._core._store.write(work)
        self.forget(session)
        return newest

    def forget(self, session: str) -> None:
        """Have the session read from its log when it is next used, as after a restart."""
        self._core._cache.forget(session)


def _exchange(connection: Connection, ref: SessionRef, window: Window, limit: int | None, now: int) -> None:
    """Write one question and its answer, and the cut that came before it when the window was full."""
    first = window.seq + 1
    run = _run(connection, ref, first)
    said = [
        e.MessageReceived(message=new_id("msg"), actor=ASKER, parts=QUESTION),
        e.RunQueued(),
        e.RunStarted(epoch=1),
    ]
    if limit is not None and len(window.entries) >= limit:
        said.append(window.cut(limit // 2))
    name = message_id(run.id, 1)
    end = e.RunCompleted(stop_reason="end_turn", usage=UNKNOWN_USAGE, cost=None)
    bodies = [
        *said,
        e.StepStarted(n=1, attempt=1, message=name, takes=(first,), snapshot=ref.snapshot),
        e.MessageCompleted(message=name, role="assistant", parts=ANSWER, stop="done"),
        e.StepCompleted(n=1, usage=UNKNOWN_USAGE, cost=None),
        end,
    ]
    assert log.take_seqs(connection, ref.key, len(bodies)) == first
    window.apply(log.write(connection, ref.session_key, first, [(run, body) for body in bodies], now=now))
    runs.settle(connection, run, end, window.seq, left=NO_CARRY_OVER, owner=None, now=now)


def _run(connection: Connection, ref: SessionRef, first: int) -> RunRef:
    run = RunRef(
        key=0,
        id=new_id("run"),
        session=ref.key,
        session_id=ref.id,
        parent=None,
        epoch=1,
        agent=ref.agent,
        agent_version=ref.agent_version,
        snapshot=ref.snapshot,
        first_seq=first,
    )
    return runs.create(connection, run, owner=None, input_seq=first, project=DEFAULT_PROJECT)

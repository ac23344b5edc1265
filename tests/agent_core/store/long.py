"""A session with a long past, as the loop would have written it, made in one transaction."""

from agent_core.core import Core
from agent_core.events import (
    ContextCompacted,
    FactBody,
    MessageCompleted,
    MessageReceived,
    RunCompleted,
    RunQueued,
    RunStarted,
    StepCompleted,
    StepStarted,
)
from agent_core.messages import Text, Usage
from agent_core.store import log, runs, sessions
from agent_core.store.log import RUN, RunRef
from tests.agent_core.scenes import ANN, open_session

NO_USAGE = Usage(None, None, None, None, None, None)
KEPT = 50
"""Exchanges that a cut leaves: half of the default window of 200 messages."""


async def long_session(core: Core, messages: int) -> str:
    """Open a session in which *messages* were said: questions and answers, with a cut whenever the window was full."""
    session = await open_session(core)

    def work(connection) -> None:
        ref = sessions.find(connection, session)
        steps: list[int] = []
        since_cut = 0
        for n in range(messages // 2):
            first = sessions.find(connection, session).newest + 1
            bodies, step = _exchange(n, first)
            if since_cut == 2 * KEPT:
                bodies[3:3] = [ContextCompacted(kind="cut", from_seq=steps[-KEPT], tokens_before=1, tokens_after=1)]
                since_cut, step = KEPT, step + 1
            steps.append(step)
            since_cut += 1
            run = runs.create(connection, _run(ref, n, first), owner=None, input_seq=first, project=1)
            log.take_seqs(connection, ref.key, len(bodies))
            log.write(connection, ref.session_key, first, [(run, body) for body in bodies], now=0)
            ended = {"status": "completed", "last_seq": first + len(bodies) - 1}
            connection.execute(RUN.update().where(RUN.c.key == run.key).values(**ended))

    await core._store.write(work)
    core._cache.forget(session)
    return session


def _run(ref: sessions.SessionRef, n: int, first: int) -> RunRef:
    return RunRef(
        key=0,
        id=f"run_{ref.key}_{n}",
        session=ref.key,
        session_id=ref.id,
        parent=None,
        epoch=1,
        agent=ref.agent,
        agent_version=ref.agent_version,
        snapshot=ref.snapshot,
        first_seq=first,
    )


def _exchange(n: int, first: int) -> tuple[list[FactBody], int]:
    """Return the facts of one question and its answer, and the seq of the step."""
    message = f"msg_{n}.1"
    return [
        MessageReceived(message=f"msg_{n}", actor=ANN, parts=(Text(f"Question {n}"),)),
        RunQueued(),
        RunStarted(epoch=1),
        StepStarted(n=1, attempt=1, message=message, takes=(first,), snapshot="h", controls=None),
        MessageCompleted(message=message, role="assistant", parts=(Text(f"Answer {n}"),), stop="done"),
        StepCompleted(n=1, usage=NO_USAGE, cost=None),
        RunCompleted(stop_reason="end_turn", usage=NO_USAGE, cost=None),
    ], first + 3

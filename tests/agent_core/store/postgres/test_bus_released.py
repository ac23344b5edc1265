"""Runs that leave a process other than by their end: nothing of them is kept there, and no reader sees them go on."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core.core import Core
from agent_core.errors import Unavailable
from agent_core.testing import ScriptedProvider, pause, say
from tests.agent_core.scenes import idle, local, log_of, open_session, send
from tests.agent_core.store.processes import Processes, bus, processes
from tests.agent_core.store.reading.reader import joined
from tests.polling import until


@pytest.fixture
async def running(postgres_url: str) -> AsyncIterator[Processes]:
    async with processes(postgres_url) as made:
        yield made


def kept(core: Core) -> list[object]:
    """Return what a process keeps of runs that it drives."""
    return [core._store.hub._open, bus(core)._outgoing._driven, local(core).pool.losses.cut]


async def test_a_commit_whose_answer_was_lost_leaves_no_open_message(
    running: Processes, monkeypatch: pytest.MonkeyPatch
):
    """The answer is in the log although its driver does not know: a later reader gets no open message of it."""
    core = await running.driver(ScriptedProvider(lambda _: (say("Half ", "and half."),)))
    session = await open_session(core)
    append, lost = core._store.database.write, asyncio.Event()

    async def write(work, then=None):
        open_now = core._store.hub.open_messages(session)
        if not open_now or lost.is_set():
            return await append(work, then)
        await append(work)
        lost.set()
        raise Unavailable("The database was lost on the way.")

    monkeypatch.setattr(core._store.database, "write", write)
    receipt = await send(core, session, "Hello")
    await lost.wait()
    await until(lambda: not any(kept(core)[:2]))
    await until(lambda: not local(core).pool.driven)
    assert (await core.run(receipt.run)).status == "completed"
    newest = (await log_of(core, session))[-1].seq
    reading, task = await joined(core, session, after=newest)
    assert reading.tail == []
    await local(core).sweep.look()
    assert not any(kept(core)), "and it is not remembered as one to take again"
    task.cancel()


@pytest.mark.parametrize("fault", [None, Unavailable("The database was lost.")])
async def test_runs_that_another_process_took_are_forgotten(
    running: Processes, monkeypatch: pytest.MonkeyPatch, fault: Unavailable | None
):
    """Their former driver finds out with its next append, or finds no database: it keeps nothing, read here or not."""
    go = asyncio.Event()
    here = await running.driver(ScriptedProvider(lambda _: (say("Half "), pause(go))))
    sessions = [await open_session(here) for _ in range(3)]
    for session in sessions:
        await send(here, session, "Hello")
    await until(lambda: all(here._store.hub.open_messages(session) for session in sessions))
    there = await running.driver(ScriptedProvider(lambda _: (say("Whole."),)))
    for session in sessions:
        await idle(there, session)
    append = here._store.append

    async def broken(*args, **options):
        if fault is not None:
            raise fault
        return await append(*args, **options)

    monkeypatch.setattr(here._store, "append", broken)
    go.set()
    await until(lambda: not local(here).pool.driven)
    await local(here).sweep.look()
    assert not any(kept(here))
    if fault is None:
        assert not here.counters._runs

"""A write to a session locks it first and reads afterwards: what another process did meanwhile is seen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import pytest
from sqlalchemy import Connection, func, insert, select, update

from agent_core.agent.snapshot import freeze
from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.errors import InvalidInput, LostRun, NotFound, SessionBusy, SessionClosed, SessionOpen
from agent_core.events import ContextAdded, RunCancelled, RunQueued
from agent_core.store import catalog, log, runs, sessions
from agent_core.store import catalog as prompts
from agent_core.store.catalog import SNAPSHOT
from agent_core.store.log import RUN, RunRef, SessionKey
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.quotas import AgentBounds
from agent_core.testing import ScriptedProvider, pause, say
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, SAFETY, idle, inbound, log_of, open_session, ref_of, say_and_wait, send, types
from tests.agent_core.store.beside import held, opened, waits
from tests.conftest import MakeCore

pytestmark = pytest.mark.postgres
KEY = {"key": "k1", "digest": b"body"}
NOTE = ContextAdded(source="note", text="I am still here")
CANCELLED = RunCancelled(by=ANN, reason=None)


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    """A core whose model answers at once, unless it is asked to be silent."""
    silence = pause(asyncio.Event())

    def script(request):
        return [silence] if "silent" in str(request.messages[-1].message.parts) else [say("Hi.")]

    return await make_core(ScriptedProvider(script))


@pytest.fixture
async def other(core: Core, postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    """The database as another process has it."""
    async with opened(postgres_url) as database:
        yield database


@dataclass(frozen=True)
class LockedSession:
    """A session, and a run of it that is driven if the scene is *busy*, else over."""

    core: Core
    session: str
    run: RunRef

    async def append(self) -> object:
        return await self.core._store.append(self.run, [NOTE], (), after=4)

    async def resume(self) -> object:
        resume = partial(runs.resume, cause="restarted", expire_after=0, epoch=None, now=self.core._store.clock.now())
        ended = await self.core._store.commit(None, resume, self.run.key, owner=self.core._engine.worker)
        return ended.facts


Work = Callable[[Connection, LockedSession], object]


def take_over(connection: Connection, scene: LockedSession) -> None:
    """Drive the run elsewhere."""
    taken = runs.resume(
        connection, scene.run.key, owner="wrk_other", cause="restarted", expire_after=0, epoch=scene.run.epoch, now=1
    )
    assert taken.started


def end(connection: Connection, scene: LockedSession) -> None:
    """Cancel the run elsewhere, and see it end."""
    log.lock(connection, scene.run.session)
    first = log.take_seqs(connection, scene.run.session, 1)
    log.write(connection, SessionKey(scene.run.session, scene.session), first, [(scene.run, CANCELLED)], now=1)
    connection.execute(
        update(RUN).where(RUN.c.key == scene.run.key).values(status="cancelled", owner=None, last_seq=first)
    )


def queue(connection: Connection, scene: LockedSession) -> None:
    """Put a run into the session's queue elsewhere."""
    log.lock(connection, scene.run.session)
    first = log.take_seqs(connection, scene.run.session, 1)
    run = RunRef(
        **{**{n: getattr(scene.run, n) for n in RunRef.__struct_fields__}, "id": "run_new", "first_seq": first}
    )
    run = runs.create(connection, run, owner=None, input_seq=first, project=1)
    log.write(connection, SessionKey(run.session, scene.session), first, [(run, RunQueued())], now=1)


def close(connection: Connection, scene: LockedSession) -> None:
    sessions.close(connection, sessions.hold(connection, scene.session))


def delete(connection: Connection, scene: LockedSession) -> None:
    sessions.delete(connection, sessions.hold(connection, scene.session))


CASES = [
    pytest.param("silent", take_over, LockedSession.append, LostRun, id="append, taken over"),
    pytest.param("silent", end, LockedSession.append, LostRun, id="append, ended"),
    pytest.param("silent", end, LockedSession.resume, [], id="resume, ended"),
    pytest.param("hello", close, lambda s: send(s.core, s.session, "Hi"), SessionClosed, id="message, closed"),
    pytest.param("hello", delete, lambda s: send(s.core, s.session, "Hi"), NotFound, id="message, deleted"),
    pytest.param("hello", queue, lambda s: s.core.close_session(s.session), SessionBusy, id="close, queued"),
    pytest.param("hello", queue, lambda s: s.core.delete_session(s.session), SessionBusy, id="delete, queued"),
    pytest.param("hello", queue, lambda s: s.core.fork_session(s.session), SessionBusy, id="fork, queued"),
    pytest.param("hello", delete, lambda s: s.core.fork_session(s.session), NotFound, id="fork, deleted"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("text", "meanwhile", "act", "expected"), CASES)
async def test_what_happened_while_it_waited_is_seen(
    core: Core,
    other: PostgresDatabase,
    text: str,
    meanwhile: Work,
    act: Callable[[LockedSession], Awaitable[object]],
    expected: object,
):
    """A write that waited for another process's write decides by what that one committed."""
    session = await open_session(core)
    receipt = await send(core, session, text)
    if text == "hello":
        await idle(core, session)
    scene = LockedSession(core, session, await ref_of(core, receipt.run))
    async with held(other, lambda connection: meanwhile(connection, scene)):
        acting = asyncio.ensure_future(act(scene))
        await waits(other)
        assert not acting.done()
    async with asyncio.timeout(SAFETY):
        if isinstance(expected, type) and issubclass(expected, Exception):
            with pytest.raises(expected):
                await acting
        else:
            assert await acting == expected
    left = await other.read(lambda connection: connection.execute(select(log.EVENT.c.data)).scalars().all())
    assert not any(b"still here" in data for data in left)


async def test_an_append_that_waited_for_another_message_continues(core: Core, other: PostgresDatabase):
    """An append that waited while another process queued a message is written after it, without a gap."""
    session = await open_session(core)
    run = await ref_of(core, (await send(core, session, "silent")).run)
    scene = LockedSession(core, session, run)
    async with held(other, lambda connection: queue(connection, scene)):
        acting = asyncio.ensure_future(core._store.append(run, [NOTE], (), after=6))
        await waits(other)
    done = await acting
    assert [(fact.seq, fact.type) for fact in done.fresh] == [(8, "context.added")]


async def test_a_cancel_that_waited_finds_the_end(core: Core, other: PostgresDatabase):
    """A cancel that waited while the run ended elsewhere changes nothing."""
    session = await open_session(core)
    run = await ref_of(core, (await send(core, session, "silent")).run)
    scene = LockedSession(core, session, run)
    async with held(other, lambda connection: end(connection, scene)):
        cancelling = asyncio.ensure_future(core.cancel(run.id, by=ANN))
        await waits(other)
    assert (await cancelling).status == "cancelled"
    facts = await log_of(core, session)
    assert types(facts)[-1] == "run.cancelled"
    assert "run.cancelling" not in types(facts)


async def test_a_session_that_another_process_deleted_is_forgotten(core: Core, other: PostgresDatabase):
    """A session that this process has in memory and another one deleted is not served, and leaves the memory."""
    session = await open_session(core)
    receipt = await say_and_wait(core, session, "hello")
    scene = LockedSession(core, session, await ref_of(core, receipt.run))
    await other.write(lambda connection: delete(connection, scene))
    assert session in core._cache._cache
    with pytest.raises(NotFound):
        await send(core, session, "Are you there?")
    assert session not in core._cache._cache


async def test_one_address_is_one_session_however_many_open_it(core: Core, other: PostgresDatabase):
    """Two processes that open one address at once get one session, and the other's attempt leaves nothing."""
    again = []
    agent = await core.agents.find("assistant")
    snapshot = await core.agents.base(agent.object)

    def open_there(connection: Connection) -> None:
        catalog.keep_snapshot(connection, snapshot)
        opening = sessions.NewSession(
            agent=agent.key, agent_id=agent.object.id, agent_version=1, snapshot=snapshot.hash, actor=ANN, metadata={},
            address="test:1", marker="", now=1,
        )  # fmt: skip
        again.append(sessions.open_session(connection, opening, AgentBounds())[0].id)

    async with held(other, open_there):
        opening = asyncio.ensure_future(core.open_session(agent="assistant", actor=ANN, address="test:1"))
        await waits(other)
    assert (await opening).id == again[-1]
    assert [session.id for session in (await core.sessions()).items] == [again[-1]]


async def test_one_key_is_one_message_at_two_processes(make_core: MakeCore):
    """Of posts with one key that reach two processes at once one is taken, and all get its receipt."""
    first, second = [await make_core(ScriptedProvider(lambda _: [say("Hi.")])) for _ in range(2)]
    session = await open_session(first)
    posts = [send(core, session, "Hello", **KEY) for core in (first, second) for _ in range(5)]
    posts += [core.run_agent("assistant", inbound("Hi", **KEY, key_scope="agent")) for core in (first, second) * 5]
    receipts = await asyncio.gather(*posts)
    assert (
        len({receipt.message for receipt in receipts[:10]}) == len({receipt.message for receipt in receipts[10:]}) == 1
    )
    assert sum(receipt.repeated for receipt in receipts[:10]) == 9
    assert len((await first.sessions()).items) == len((await second.runs()).items) == 2
    facts = await idle(first, session)
    check_log(facts)
    assert types(facts).count("message.received") == 1


async def test_a_prompt_that_a_run_has_found_is_not_set_aside_before_its_commit(core: Core, other: PostgresDatabase):
    """A transaction that stays open for long, and names the prompt in the end, leaves a run that can be loaded."""
    snapshot = freeze(model="scripted", instructions="Mine alone.", tools=())
    note = insert(prompts.DROPPED).values(hash=snapshot.hash)
    await core._store.write(catalog.keep_snapshot, snapshot)
    await core._store.write(lambda connection: connection.execute(note))
    async with held(other, lambda connection: catalog.keep_snapshot(connection, snapshot, is_held=True)):
        setting_aside = asyncio.create_task(core._store.write(prompts.set_aside_prompts, 1))
        await waits(other)
        assert not setting_aside.done()
    await setting_aside


async def test_a_snapshot_is_kept_once(core: Core, other: PostgresDatabase):
    """Two processes that keep one snapshot at once keep it, once."""
    snapshot = freeze(model="scripted", instructions="Both of us.", tools=())
    async with held(other, lambda connection: catalog.keep_snapshot(connection, snapshot)):
        keeping = asyncio.ensure_future(core._store.write(catalog.keep_snapshot, snapshot))
        await waits(other)
    await keeping
    count = select(func.count()).select_from(SNAPSHOT).where(SNAPSHOT.c.hash == snapshot.hash)
    assert await other.read(lambda connection: connection.execute(count).scalar_one()) == 1


async def test_of_two_agents_with_one_name_one_is_refused(make_core: MakeCore):
    """When two processes create an agent of one name at once, one gets the error that it exists."""
    cores = [await make_core() for _ in range(2)]
    definition = Definition(name="twin", instructions="")
    done = await asyncio.gather(
        *(core.agents.create(definition) for core in cores for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(each, InvalidInput) for each in done) == 5
    assert sum(agent.definition.name == "twin" for agent in (await cores[0].agents.list()).items) == 1


async def test_changes_of_an_agent_at_once_are_all_kept(make_core: MakeCore):
    """When several processes change several fields of an agent at once, its newest version has all the changes."""
    cores = [await make_core() for _ in range(2)]
    await asyncio.gather(
        cores[0].agents.update("assistant", {"instructions": "Be long."}),
        cores[1].agents.update("assistant", {"controls": {"max_steps": 7}}),
        cores[1].agents.update("assistant", {"limits": {"max_context_messages": 9}}),
    )
    agent = await cores[0].agents.get("assistant")
    assert agent.version == 4
    assert agent.definition.instructions == "Be long."
    assert (agent.definition.controls.max_steps, agent.definition.limits.max_context_messages) == (7, 9)


async def test_files_that_two_processes_bring_are_stored_once(make_core: MakeCore):
    """Processes that start together with the same agent files do not get in each other's way."""
    cores = [await make_core() for _ in range(3)]
    files = [Definition(name=f"file {n}", instructions="") for n in range(3)]
    await asyncio.gather(*(core.agents.sync_files(files) for core in cores))
    assert [agent.version for agent in (await cores[0].agents.list()).items] == [1] * 4


async def test_an_agent_with_a_session_that_just_opened_is_not_deleted(core: Core, other: PostgresDatabase):
    """An agent is not removed under a session that another process is opening."""
    agent = await core.agents.create(Definition(name="brief", instructions=""))

    def open_there(connection: Connection) -> None:
        opening = sessions.NewSession(
            agent=catalog.find(connection, "brief").key, agent_id=agent.id, agent_version=1, snapshot="h", actor=ANN,
            metadata={}, address=None, marker="", now=1,
        )  # fmt: skip
        sessions.open_session(connection, opening, sessions.share_agent(connection, opening))

    async with held(other, open_there):
        deleting = asyncio.ensure_future(core.agents.delete("brief"))
        await waits(other)
    with pytest.raises(SessionOpen):
        await deleting
    assert len((await core.sessions(agent="brief")).items) == 1


async def test_no_session_is_opened_with_an_agent_that_was_just_deleted(core: Core, other: PostgresDatabase):
    """Opening a session while another process removes its agent fails with the error that there is none."""
    await core.agents.create(Definition(name="brief", instructions=""))
    async with held(other, lambda connection: catalog.delete(connection, catalog.find(connection, "brief"))):
        opening = asyncio.ensure_future(core.open_session(agent="brief", actor=ANN))
        await waits(other)
    with pytest.raises(NotFound, match="agent"):
        await opening

"""The queue: runs that wait are started in rounds by actor."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, insert, select, update

from agent_core.agents import Definition, Limits
from agent_core.channels import Channels
from agent_core.core import Core
from agent_core.engine.local import LocalEngine
from agent_core.messages import Actor
from agent_core.store import catalog, queue, runs
from agent_core.store import queue as due
from agent_core.store import queue as limits
from agent_core.store.database import Database
from agent_core.store.log import RUN, SESSION
from agent_core.store.queue import SERVED
from agent_core.testing import FakeClock, ScriptedProvider, pause, say
from tests.agent_core.scenes import SAFETY, idle, inbound, local, open_session
from tests.conftest import Fresh, MakeCore
from tests.polling import until

CAP = 2
"""How many runs of the second agent may run at once."""
FLOODERS = (Actor("eve", "visitor"), Actor("mal", "visitor"), Actor("ops", "service"))
ASKER = Actor("ada", "visitor")


@dataclass
class QueuedRun:
    """A queued run as the model of the queue has it."""

    key: int
    session: int
    actor: int
    agent: int


@dataclass
class QueueModel:
    """A queue of a database, and what is true of it in plain words."""

    agents: tuple[int, int]
    queued: list[QueuedRun] = field(default_factory=list)
    running: list[QueuedRun] = field(default_factory=list)
    sessions: dict[tuple[int, int, int], int] = field(default_factory=dict)
    passed: dict[int, set[int]] = field(default_factory=dict)
    now: int = 1_000

    def startable(self) -> list[QueuedRun]:
        """Return the first run of each session that is free, unless its agent is at its cap."""
        busy = {each.session for each in self.running}
        heads = {each.session: each for each in reversed(self.queued) if each.session not in busy}
        working = Counter(each.agent for each in self.running)
        return [each for each in heads.values() if each.agent == self.agents[0] or working[each.agent] < CAP]

    def check(self, chosen: QueuedRun) -> None:
        """Fail when *chosen* is not the run whose time has come."""
        working = Counter(each.actor for each in self.running)
        own = chosen.actor
        for other in {each.actor for each in self.startable()} - {own}:
            was_passed = other in self.passed.get(own, set())
            assert not was_passed or working[other] > working[own], "an actor waits while another starts twice"

    def start(self, chosen: QueuedRun) -> None:
        self.queued.remove(chosen)
        self.running.append(chosen)
        for others in self.passed.values():
            others.discard(chosen.actor)
        self.passed[chosen.actor] = {each.actor for each in self.startable()} - {chosen.actor}


def arrive(connection: Connection, model: QueueModel, actor: int, agent: int, room: int) -> None:
    """Queue a run of an actor in one of the actor's sessions."""
    place = (actor, agent, room)
    agent_key = model.agents[agent]
    if place not in model.sessions:
        values = {"project": 1, "id": f"ses {place}", "agent": agent_key, "agent_version": 1, "actor": str(actor)}
        values |= {"actor_kind": "visitor", "about": {}, "closed": False, "snapshot": "", "prefix": ""}
        values |= {"next_seq": 1, "window_seq": 1}
        model.sessions[place] = connection.execute(
            insert(SESSION).values(**values).returning(SESSION.c.key)
        ).scalar_one()
    session = model.sessions[place]
    row = {"project": 1, "id": f"run {model.now}", "session": session, "agent": agent_key, "agent_version": 1}
    row |= {"status": "queued", "epoch": 0, "input_seq": model.now, "first_seq": model.now, "snapshot": ""}
    row |= {"actor": actor, "queued_at": model.now}
    key = connection.execute(insert(RUN).values(**row).returning(RUN.c.key)).scalar_one()
    model.queued.append(QueuedRun(key, session, actor, agent_key))


def choose(connection: Connection, model: QueueModel) -> None:
    """Start the run that the sweep finds first; it must be there whenever one can start."""
    found = [each.key for each in due.due(connection, model.now, limit=1) if each.status == "queued"]
    able = model.startable()
    assert bool(found) == bool(able)
    if not found:
        return
    chosen = next(each for each in able if each.key == found[0])
    model.check(chosen)
    cap = CAP if chosen.agent == model.agents[1] else None
    assert limits.admits(connection, chosen.agent, cap, run=chosen.key), "what the sweep finds may start"
    connection.execute(update(RUN).where(RUN.c.key == chosen.key).values(status="running", owner="w"))
    queue.note_start(connection, runs.find(connection, *id_of(connection, chosen.key))[0], model.now)
    model.start(chosen)


def id_of(connection: Connection, key: int) -> tuple[str]:
    return (connection.execute(select(RUN.c.id).where(RUN.c.key == key)).scalar_one(),)


def end(connection: Connection, model: QueueModel, nth: int) -> None:
    """End one of the runs."""
    if model.running:
        ended = model.running.pop(nth % len(model.running))
        connection.execute(update(RUN).where(RUN.c.key == ended.key).values(status="completed"))


def play(connection: Connection, moves: list[tuple[int, ...]]) -> None:
    """Let runs arrive, start and end as *moves* say, in a database without any."""
    for table in (RUN, SESSION, SERVED):
        connection.execute(delete(table))
    catalog.ensure_project(connection)
    names = {"first": None, "second": CAP}
    model = QueueModel(tuple(agent_key(connection, name, cap) for name, cap in names.items()))  # type: ignore[arg-type]
    for kind, actor, agent, room in moves:
        model.now += 1
        match kind:
            case 0 | 1:
                for _ in range(1 + 3 * kind):
                    model.now += 1
                    arrive(connection, model, actor, agent, room)
            case 2 | 3:
                choose(connection, model)
            case _:
                end(connection, model, room)
    while model.startable():
        model.now += 1
        choose(connection, model)
        end(connection, model, 0)


def agent_key(connection: Connection, name: str, cap: int | None) -> int:
    wanted = Definition(name=name, instructions="Be brief.", limits=Limits(max_runs=cap))
    if name not in {each.definition.name for each in catalog.listed(connection, limit=9, after=0).items}:
        catalog.create(connection, wanted, channels=Channels(()), now=0)
    return catalog.key_of(connection, name)


MOVES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(0, 1), st.integers(0, 2)), min_size=4, max_size=60
)


@pytest.fixture(scope="module")
def database(fresh: Fresh):
    with fresh() as opened, asyncio.Runner() as runner:

        async def made() -> Database:
            return opened()

        found = runner.run(made())
        yield partial(lambda work: runner.run(found.write(work)))
        runner.run(found.close())


@settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES)
def test_runs_start_in_rounds_by_actor(database, moves: list[tuple[int, ...]]):
    """No actor waits while another with as many under way starts twice.

    A run that can start is always found, and may start.
    """
    database(partial(play, moves=moves))


async def test_one_who_asks_comes_before_the_second_of_any_who_flood(make_core: MakeCore):
    """Two visitors and an operator have filled the queue; who then asks is answered after at most one run of each."""
    order, gates, core = await flooded(make_core)
    asked = await open_session(core, actor=ASKER)
    before = len(order)
    await core.receive(asked, inbound("Just one thing", actor=ASKER))
    served: list[str] = []
    while not served or served[-1] != asked:
        await next_one(gates, order, core)
        served.append(order[-1])
    assert len(served) <= 1 + len(FLOODERS), (before, served)
    others = Counter([(await core.session(each)).actor.id for each in served[:-1]])
    assert [count for count in others.values() if count != 1] == [], others
    await drain(gates, order, core)


async def test_a_new_message_takes_no_room_from_those_that_wait(make_core: MakeCore):
    """What comes in between the end of a run and the next start waits with the others, though there is room."""
    order, gates, core = await flooded(make_core)
    again = await open_session(core, actor=FLOODERS[0])
    gates[order[-1]].set()
    await until(lambda: not local(core).pool.driven)
    await core.receive(again, inbound("And another", actor=FLOODERS[0]))
    async with asyncio.timeout(SAFETY):
        await core._providers["scripted"].asked(2)  # type: ignore[attr-defined]
    assert order[1] != again
    await drain(gates, order, core)


async def flooded(make_core: MakeCore) -> tuple[list[str], dict[str, asyncio.Event], Core]:
    """Start a core that drives one run at a time, with twelve runs of three who flood, eleven of which wait."""
    order: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    def answer(request):
        order.append(request.session)
        gates[request.session] = asyncio.Event()
        return [pause(gates[request.session]), say("Fine.")]

    provider = ScriptedProvider(answer)
    core = await make_core(provider, clock=FakeClock(), engine=partial(LocalEngine, max_runs=1))
    for _ in range(4):
        for actor in FLOODERS:
            await core.receive(await open_session(core, actor=actor), inbound("Spam", actor=actor))
    async with asyncio.timeout(SAFETY):
        await provider.asked(1)
    return order, gates, core


async def next_one(gates: dict[str, asyncio.Event], order: list[str], core: Core) -> None:
    """Let the run that works end, and return when the next one has begun."""
    n, session = len(order), order[-1]
    gates[session].set()
    await idle(core, session)
    async with asyncio.timeout(SAFETY):
        await core._providers["scripted"].asked(n + 1)  # type: ignore[attr-defined]


async def drain(gates: dict[str, asyncio.Event], order: list[str], core: Core) -> None:
    """Stop what still waits, so that the core can end."""
    for session in (await core.sessions(limit=100)).items:
        await core.stop_session(session.id, by=ASKER)
    gates[order[-1]].set()

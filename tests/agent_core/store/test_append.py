"""One transaction and one promise, fenced by the epoch."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace
from sqlalchemy import update

from agent_core.core import Core
from agent_core.errors import LostRun
from agent_core.events import (
    ContextAdded,
    Fact,
    FactBody,
    MessageCompleted,
    MessageReceived,
    RunCancelling,
    RunCompleted,
    StepStarted,
    ToolStarted,
)
from agent_core.messages import Usage
from agent_core.store import runs
from agent_core.store.hub import Subscriber
from agent_core.store.log import RUN, Appended, RunRef
from agent_core.testing import ScriptedProvider, pause
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import ANN, BOB, log_of, only, open_session, ref_of, send, types
from tests.conftest import MakeCore
from tests.polling import until

WRITERS, SESSIONS, APPENDS = 50, 10, 6
END = RunCompleted(stop_reason="end_turn", usage=Usage(None, None, None, None, None, None), cost=None)


def note(text: str) -> ContextAdded:
    return ContextAdded(source="note", text=text)


def notes(facts: Sequence[Fact]) -> list[str]:
    return [body.text for body in only(facts, ContextAdded)]


class DrivenRun:
    """A running run whose model says nothing, so that the test is its driver."""

    def __init__(self, core: Core, session: str, run: RunRef) -> None:
        self.core, self.session, self.run = core, session, run

    async def append(
        self,
        record: Sequence[FactBody] = (),
        announcement: Sequence[FactBody] = (),
        *,
        after: int | None = None,
        epoch: int | None = None,
        owner: str | None = None,
    ) -> Appended:
        run = self.run if epoch is None else replace(self.run, epoch=epoch)
        if after is None:
            after = await self.newest()
        return await self.core._store.append(run, record, announcement, after=after, owner=owner)

    async def newest(self) -> int:
        return (await log_of(self.core, self.session))[-1].seq

    def listen(self) -> Subscriber:
        return self.core._store.hub.subscribe(self.session)


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    silence = pause(asyncio.Event())
    return await make_core(ScriptedProvider(lambda _: [silence]))


async def sit_down(core: Core) -> DrivenRun:
    session = await open_session(core)
    return DrivenRun(core, session, await ref_of(core, (await send(core, session, "Hello")).run))


@pytest.fixture
async def desk(core: Core) -> DrivenRun:
    return await sit_down(core)


async def test_facts_of_many_writers_have_no_gap(core: Core):
    """Under fifty writers in ten sessions each session's seqs are gapless, and its readers receive them in order."""
    desks = [await sit_down(core) for _ in range(SESSIONS)]
    readers = [desk.listen() for desk in desks]
    mine: list[list[Fact]] = [[] for _ in range(WRITERS)]

    async def write(writer: int) -> None:
        desk = desks[writer % SESSIONS]
        for n in range(APPENDS):
            done = await desk.append([note(f"{writer}.{n}a"), note(f"{writer}.{n}b")], after=4)
            mine[writer] += done.fresh

    await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
    for place, (desk, reader) in enumerate(zip(desks, readers, strict=True)):
        facts = await log_of(core, desk.session)
        check_log(facts)
        assert len(facts) == 6 + 2 * APPENDS * WRITERS // SESSIONS
        raw = {fact.seq: fact.raw for fact in facts}
        for writer in range(place, WRITERS, SESSIONS):
            assert [raw[fact.seq] for fact in mine[writer]] == [fact.raw for fact in mine[writer]]
            assert notes(mine[writer]) == [f"{writer}.{n}{x}" for n in range(APPENDS) for x in "ab"]
        read = [event for event in reader.take() if isinstance(event, Fact)]
        assert [fact.seq for fact in read] == [fact.seq for fact in facts[6:]]


async def test_an_append_returns_what_it_wrote(desk: DrivenRun):
    """With nothing new in the session, an append returns its own facts, in order, as the log then holds them."""
    after = await desk.newest()
    done = await desk.append([note("happened")], [ToolStarted(call="call_1")], after=after)
    assert done.announced
    assert done.facts == done.fresh
    assert [(fact.seq, fact.type) for fact in done.facts] == [(after + 1, "context.added"), (after + 2, "tool.started")]
    stored = await log_of(desk.core, desk.session, after=after)
    assert [(f.seq, f.run, f.time, f.body) for f in stored] == [(f.seq, f.run, f.time, f.body) for f in done.facts]


async def test_news_of_the_run_leaves_the_announcement_out(desk: DrivenRun):
    """What happened is always written; what was decided is left out when a message to the run came after `after`."""
    after = await desk.newest()
    joined = await send(desk.core, desk.session, "Wait!", overlap="steer")
    assert joined.run == desk.run.id
    done = await desk.append([note("happened")], [END], after=after)
    assert not done.announced
    assert types(done.facts) == ["message.received", "context.added"]
    assert only(done.facts, MessageReceived)[0].actor == ANN
    assert types(done.fresh) == ["context.added"]
    stored = await log_of(desk.core, desk.session, after=after)
    assert types(stored) == ["message.received", "context.added"]
    assert (await desk.core.run(desk.run.id)).status == "running"
    again = await desk.append([], [note("decided again")], after=done.facts[-1].seq)
    assert again.announced
    assert [fact.seq for fact in again.facts] == [after + 3]


async def test_a_cancel_is_news(desk: DrivenRun):
    """No end of a run is written after a cancel that its driver has not seen."""
    after = await desk.newest()
    request = RunCancelling(by=BOB, reason="enough")
    cancel = partial(runs.cancel_named, finish=lambda _: [], owner=None, now=0)
    await desk.core._store.commit(None, cancel, desk.run.id, request)
    done = await desk.append([], [END], after=after)
    assert not done.announced
    assert types(done.facts) == ["run.cancelling"]


async def test_facts_of_other_runs_are_no_news(desk: DrivenRun):
    """A message for the next run delays no append; its facts come back before the append's own."""
    after = await desk.newest()
    queued = await send(desk.core, desk.session, "Later")
    done = await desk.append([note("happened")], [ToolStarted(call="call_1")], after=after)
    assert done.announced
    assert types(done.facts) == ["message.received", "run.queued", "context.added", "tool.started"]
    assert [fact.run for fact in done.facts] == [queued.run, queued.run, desk.run.id, desk.run.id]
    assert types(done.fresh) == ["context.added", "tool.started"]


@pytest.mark.parametrize("back", [0, 1, 3, 5])
async def test_an_append_returns_every_fact_after_the_cursor(desk: DrivenRun, back: int):
    """Whatever `after` says, exactly the facts after it come back, own ones last."""
    for n in range(5):
        await desk.append([note(str(n))])
    await send(desk.core, desk.session, "Later")
    newest = await desk.newest()
    done = await desk.append([note("own")], after=newest - back)
    assert [fact.seq for fact in done.facts] == list(range(newest - back + 1, newest + 2))
    assert notes(done.facts)[-1] == "own"
    assert notes(done.fresh) == ["own"]


@pytest.mark.parametrize("epoch", [0, 2])
async def test_another_epoch_is_refused(desk: DrivenRun, epoch: int):
    """An append with an epoch that is not the run's is refused, and nothing is written."""
    before = await log_of(desk.core, desk.session)
    with pytest.raises(LostRun, match=desk.run.id):
        await desk.append([note("zombie")], [END], epoch=epoch)
    assert [fact.seq for fact in await log_of(desk.core, desk.session)] == [fact.seq for fact in before]
    done = await desk.append([note("owner")])
    assert done.facts[0].seq == before[-1].seq + 1


@pytest.mark.parametrize("status", ["queued", "waiting", "requires_action", "completed", "failed", "cancelled"])
async def test_only_a_running_run_takes_appends(desk: DrivenRun, status: str):
    """An append to a run that waits, is queued or has ended is refused, and nothing is written."""
    await desk.core._store.write(lambda connection: connection.execute(update(RUN).values(status=status)).rowcount)
    before = await desk.newest()
    with pytest.raises(LostRun):
        await desk.append([note("late")])
    assert await desk.newest() == before


async def test_an_append_is_whole_or_nothing(desk: DrivenRun):
    """When one fact cannot be written, none of the append is, and the next append leaves no gap."""
    before = await desk.newest()
    unwritable = ToolStarted(call=object())  # type: ignore[arg-type] - on purpose
    with pytest.raises(TypeError):
        await desk.append([note("first")], [note("second"), unwritable])
    assert await desk.newest() == before
    assert (await desk.append([note("next")])).facts[0].seq == before + 1


async def test_one_failing_append_undoes_only_itself(desk: DrivenRun):
    """Appends that are asked together with refused ones are written, each of them, and gapless."""
    before = await desk.newest()
    results = await asyncio.gather(
        *(desk.append([note(str(n))], after=before, epoch=7 if n % 3 == 1 else None) for n in range(9)),
        return_exceptions=True,
    )
    assert [isinstance(result, LostRun) for result in results] == [n % 3 == 1 for n in range(9)]
    facts = await log_of(desk.core, desk.session, after=before)
    assert sorted(notes(facts)) == ["0", "2", "3", "5", "6", "8"]
    assert [fact.seq for fact in facts] == list(range(before + 1, before + 7))


async def test_a_cancelled_append_reaches_readers(desk: DrivenRun):
    """An append whose task is cancelled while it is written still reaches every reader."""
    reader, before = desk.listen(), await desk.newest()
    first = asyncio.create_task(desk.append([note("first")], after=before))
    await asyncio.sleep(0)
    first.cancel()
    await desk.append([note("second")], after=before)
    await until(lambda: len(reader.events) == 2)
    read = [event for event in reader.take() if isinstance(event, Fact)]
    assert sorted(notes(read)) == ["first", "second"]
    # Two commits may reach this process in either order; `follow` puts facts in order and reads those in between.
    assert sorted(fact.seq for fact in read) == [before + 1, before + 2]


async def test_the_end_of_a_run_starts_the_next_in_one_append(desk: DrivenRun):
    """The append that ends a run also starts the session's first queued one, and returns its facts and its owner."""
    waiting = [(await send(desk.core, desk.session, text)).run for text in ("one", "two")]
    message = only(await log_of(desk.core, desk.session), StepStarted)[0].message
    said = MessageCompleted(message=message, role="assistant", parts=(), stop="done")
    done = await desk.append([said], [END], owner=desk.core._engine.worker)
    assert done.announced
    assert types(done.facts) == ["message.completed", "run.completed", "run.started"]
    assert done.started is not None
    assert (done.started.id, done.started.epoch) == (waiting[0], 1)
    assert [(await desk.core.run(run)).status for run in waiting] == ["running", "queued"]
    assert (await desk.core.run(desk.run.id)).status == "completed"


async def test_takes_that_point_back_become_seqs(desk: DrivenRun):
    """A step may take what is written with it: its `takes` are real seqs in the log."""
    done = await desk.append(
        [note("held")],
        [note("noted"), StepStarted(n=2, attempt=1, message="msg_2", takes=(3, -2, -1), snapshot="h", controls=None)],
    )
    first = done.facts[0].seq
    assert only(done.facts, StepStarted)[0].takes == (3, first, first + 1)
    assert only(await log_of(desk.core, desk.session, after=first), StepStarted)[0].takes == (3, first, first + 1)

"""Fifty people, a timeout and a Stop at the same instant: one outcome, and at most one execution.

`make chaos` plays a thousand rounds on each database, `make test` a few.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest

from agent_core.agent.strategy import cancelled
from agent_core.core import Core
from agent_core.errors import AlreadyDecided, NotAnApprover
from agent_core.events import ApprovalDecided, RunCancelled, RunCancelling, RunCompleted, ToolCompleted
from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, Decider, Decision
from agent_core.store import runs
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, say
from agent_core.tools.base import CallContext
from agent_core.tools.functions import tool
from tests.agent_core.asking import EVE, OPERATOR, Till, asks
from tests.agent_core.engine.fleet import Fleet
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, PATIENCE, Stage, is_a
from tests.conftest import MakeCore

ROUNDS = int(os.environ.get("PARLEY_ROUNDS", "8"))
MANY = 100
"""Rounds from which on people said both yes and no first."""
PEOPLE = 50
TIMEOUT = 60
TICK = 0.1
SURFACES = ("slack", "web", "api", "terminal")
PAYS = by_step((call("pay", amount=5),), (say("Done."),))
HOOKS = (asks(edit=True, timeout_s=TIMEOUT),)
OUTCOMES = {"approved", "denied", "expired", "cancelled"}


def _votes(asked: ApprovalObject, dice: random.Random) -> Sequence[Decision]:
    """Return what fifty people say at once: yes, no, yes with corrections, and some who may not say anything."""
    strangers = [Decider(actor=Actor(f"stranger{n}", "user"), is_present=True) for n in range(5)]
    people = [Decider(actor=ANN, is_present=True), OPERATOR, Decider(actor=EVE), *strangers]
    votes: list[Decision] = []
    for n in range(PEOPLE):
        approved = dice.random() < 0.6
        corrected = {"amount": 1 + n} if approved and dice.random() < 0.3 else None
        surface, by = dice.choice(SURFACES), dice.choice(people)
        votes.append(Decision(approval=asked.id, by=by, approved=approved, surface=surface, arguments=corrected))
    return votes


async def _says(core: Core, vote: Decision) -> ApprovalObject | None:
    try:
        return await core.approvals.decide(vote)
    except (AlreadyDecided, NotAnApprover):
        return None


async def race(cores: Sequence[Core], clock: FakeClock, till: Till, dice: random.Random) -> str:
    """Ask, let everything happen at once, and return the outcome once everybody agrees on it."""
    session = await cores[0].open_session(agent="assistant", actor=ANN)
    stage = Stage(cores[0], ScriptedProvider([]), session.id)
    paid = len(till.paid)
    run = await stage.play()
    ((asked,),) = [(await cores[0].approvals.list(run=run.id)).items]

    async def late() -> None:
        clock.advance(TIMEOUT)

    acts = [_says(dice.choice(cores), vote) for vote in _votes(asked, dice)]
    acts += [late()] if dice.random() < 0.5 else []  # type: ignore[list-item]
    acts += [dice.choice(cores).cancel(run.id, by=ANN)] if dice.random() < 0.5 else []  # type: ignore[list-item]
    dice.shuffle(acts)
    said = await asyncio.gather(*acts)
    won = [each for each in said if isinstance(each, ApprovalObject) and each.status != "open"]
    await stage.until(is_a(ApprovalDecided))
    ended = await cores[0].settled(run.id, timeout=PATIENCE)
    assert ended.status in ("completed", "cancelled"), [fact.type for fact in await stage.log()][-5:]
    (decided,) = await stage.said(ApprovalDecided)
    outcome = (await cores[0].approvals.get(asked.id)).status
    assert outcome == decided.status
    assert len(won) == (outcome in ("approved", "denied")), "one vote wins, unless time or a Stop was first"
    assert len(till.paid) - paid <= (outcome == "approved"), "it ran at most once, and only after a yes"
    if outcome == "approved" and ended.status == "completed":
        assert till.paid[paid:] == [decided.arguments["amount"]], "what ran is what was approved"
    ends = await stage.said(RunCompleted) + await stage.said(RunCancelled)
    assert len(ends) == 1
    kinds = [line.kind for line in await cores[0].approvals.audit(approval=asked.id)]
    assert [kind for kind in kinds if kind in OUTCOMES] == [outcome], "the record has one outcome"
    check_log(await stage.log())
    return outcome


def check_outcomes(outcomes: Sequence[str]) -> None:
    """Print how the races ended; of many, none ended in one way alone."""
    print(f"{len(outcomes)} races: {dict(Counter(outcomes))}")
    assert set(outcomes) >= ({"approved", "denied"} if ROUNDS >= MANY else set()), outcomes


async def test_one_outcome_and_at_most_one_execution(make_core: MakeCore) -> None:
    """The first among fifty decisions, the timeout and a cancel wins; all others get its outcome."""
    till, clock, dice = Till(), FakeClock(), random.Random(14)  # noqa: S311 - dice, not secrets
    core = await make_core(ScriptedProvider(PAYS), tools=till.tools(), clock=clock, definition={"hooks": HOOKS})
    outcomes = [await race([core], clock, till, dice) for _ in range(ROUNDS)]
    check_outcomes(outcomes)


@contextmanager
def going_on(clock: FakeClock) -> Iterator[None]:
    """Let time go on by itself: after a leap a process may look dead, and its run wait for the next sweep."""
    loop, timer = asyncio.get_running_loop(), None

    def go() -> None:
        nonlocal timer
        clock.advance(2 * TICK)
        timer = loop.call_later(TICK, go)

    timer = loop.call_later(TICK, go)
    try:
        yield
    finally:
        timer.cancel()


@pytest.mark.postgres
async def test_one_outcome_over_several_processes(postgres_url: str) -> None:
    """The same holds when the decisions come to several processes, and others drive the runs."""
    till, clock, dice = Till(), FakeClock(), random.Random(15)  # noqa: S311 - as above
    fleet = Fleet(postgres_url)
    try:
        for kind in ("web", "worker", "both"):
            await fleet.join(PAYS, kind=kind, clock=clock, tools=till.tools())
        await fleet.cores[0].agents.update("assistant", {"hooks": msgspec.to_builtins(HOOKS)})
        with going_on(clock):
            outcomes = [
                await race(fleet.cores, clock, till, dice) for _ in range(ROUNDS if ROUNDS >= MANY else ROUNDS // 2)
            ]
    finally:
        await fleet.stop()
    check_outcomes(outcomes)


@pytest.mark.sampled(3)
@pytest.mark.sqlite
@pytest.mark.parametrize("beats", range(10))
async def test_a_stop_while_a_call_ends(make_core: MakeCore, beats: int) -> None:
    """Whenever a Stop comes while an approved call ends, the run is over at once, and its log has what the call did."""

    @tool(effect="write")
    async def pay(amount: int, context: CallContext) -> str:
        """Pay, and be stopped some rounds of the event loop later."""
        request = RunCancelling(by=ANN, reason=None)
        cancel = partial(runs.cancel_named, finish=cancelled, owner=None, now=0)
        done = await core._store.commit(None, cancel, context.run, request)
        assert done.running is not None
        asyncio.get_running_loop().call_soon(_after, beats, partial(core._engine.pool.interrupt, done.running.key))
        return f"Paid {amount}"

    model = ScriptedProvider(PAYS)
    core = await make_core(model, tools=(pay,), clock=FakeClock(), definition={"hooks": HOOKS})
    stage = Stage(core, model, (await core.open_session(agent="assistant", actor=ANN)).id)
    run = await stage.play()
    ((asked,),) = [(await core.approvals.list(run=run.id)).items]
    await core.approvals.decide(Decision(approval=asked.id, by=OPERATOR, approved=True, surface="api"))
    assert (await stage.done(run.id)).status == "cancelled"
    assert [fact.outcome for fact in await stage.said(ToolCompleted)] == ["done"]


def _after(beats: int, act: Callable[[], object]) -> None:
    """Do *act* after some rounds of the event loop."""
    if beats:
        asyncio.get_running_loop().call_soon(_after, beats - 1, act)
    else:
        act()

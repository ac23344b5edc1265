"""Waiting holds nothing: a thousand open questions cost rows, and a killed process loses none of them.

`make chaos` has a thousand of them on each database, `make test` a few; what they hold in memory is in the benchmarks.
"""

import asyncio
import gc
import os
import tracemalloc

import pytest

from agent_core.core import Core
from agent_core.testing import ScriptedProvider, by_step, call, say
from tests.agent_core.asking import Till, asks, no, yes
from tests.agent_core.laws import check_log
from tests.agent_core.stage import ANN, Stage
from tests.conftest import MakeCore

WAITING = int(os.environ.get("PARLEY_WAITING", "20"))
PAYS = by_step((call("pay", amount=5),), (say("Done."),))
AT_ONCE = 50


async def _start(make_core: MakeCore, till: Till) -> Core:
    definition = {"hooks": (asks(timeout_s=86_400),)}
    return await make_core(ScriptedProvider(PAYS, record=False), tools=till.tools(), definition=definition)


async def _ask(core: Core) -> Stage:
    stage = Stage(core, ScriptedProvider([]), (await core.open_session(agent="assistant", actor=ANN)).id)
    assert (await stage.play()).status == "waiting"
    return stage


async def test_every_open_question_outlives_the_process(make_core: MakeCore) -> None:
    """Asked before a restart and decided after it, every run goes on: those with a yes pay once, the others do not."""
    till = Till()
    first = await _start(make_core, till)
    stages = [await _ask(first) for _ in range(WAITING)]
    await first.stop(grace=0)
    second = await _start(make_core, till)
    asked = [each async for each in _open(second)]
    assert len(asked) == WAITING
    for at in range(0, WAITING, AT_ONCE):
        votes = [(yes if n % 2 else no)(each.id) for n, each in enumerate(asked[at : at + AT_ONCE], at)]
        await asyncio.gather(*(second.approvals.decide(vote) for vote in votes))
    runs = [await Stage(second, ScriptedProvider([]), each.session).done(each.run) for each in asked]
    assert {run.status for run in runs} == {"completed"}
    assert till.paid == [5] * (WAITING // 2)
    for stage in stages[:5]:
        check_log(await Stage(second, stage.provider, stage.session).log())


@pytest.mark.whole
async def test_waiting_holds_nothing_in_memory(make_core: MakeCore) -> None:
    """What a process holds for runs that wait is what it holds for any session that was used lately, and no more."""
    core = await _start(make_core, Till())
    await _ask(core)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(WAITING):
            await _ask(core)
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
        core._cache._cache.clear()  # those of sessions used lately, whether they wait or not, up to a bound
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    lately = (used - held) / 1024
    print(f"{WAITING} open approvals hold {held / 1024:.0f} KiB, their sessions as used lately {lately:.0f} KiB")
    assert len(core._engine.pool.driven) == 0  # type: ignore[attr-defined]
    assert held < 512 * 1024 + 512 * WAITING, "a waiting run keeps something"  # the first is what drivers cache


async def _open(core: Core):
    cursor = None
    while True:
        page = await core.approvals.list(status="open", cursor=cursor)
        for each in page.items:
            yield each
        if (cursor := page.next_cursor) is None:
            return

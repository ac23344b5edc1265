"""Counters: what is counted of the facts that a process commits."""

from decimal import Decimal

import msgspec
import pytest

from agent_core import events as e
from agent_core.agents import DeclaredTool
from agent_core.core import Core
from agent_core.counters import Counters
from agent_core.events import Fact, FactBody
from agent_core.messages import Usage
from agent_core.objects import RunObject
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, say
from tests.agent_core.asking import Till, asks, no, open_approvals, yes
from tests.agent_core.stage import ANN, Stage
from tests.conftest import MakeCore


def facts(*bodies: FactBody) -> list[Fact]:
    return [
        Fact(
            seq=seq,
            type=body.type,
            session="ses_1",
            run="run_1",
            parent_run=None,
            time=5,
            raw=msgspec.json.encode(body),
        )
        for seq, body in enumerate(bodies, 1)
    ]


def test_compactions_are_counted_and_their_calls_billed_to_their_model():
    """What a summary cost, also one that failed, is in the tokens and dollars of the model that was asked for it."""
    used, counters = Usage(10, 5, 0, 90, 0, None), Counters(FakeClock())
    made = e.ContextCompacted(kind="summary", from_seq=1, tokens_before=9, tokens_after=1, model="small", usage=used)
    failed = e.CompactionFailed(model="small", code="network", message="", usage=used, cost="0.2")
    cut = e.ContextCompacted(kind="cut", from_seq=1, tokens_before=9, tokens_after=1)
    counters.facts(facts(msgspec.structs.replace(made, cost="0.1"), failed, cut))
    assert counters.compactions == {"summary": 1, "failed": 1, "cut": 1}
    assert counters.tokens == {("small", "input"): 20, ("small", "output"): 10, ("small", "cache_read"): 180}
    assert counters.cost == {"small": Decimal("0.3")}


def test_cache_share_is_of_all_prompt_tokens():
    """Tokens read from the cache are held against all that the model was sent, per model; answers are no part."""
    counters = Counters(FakeClock())
    assert counters.cache_share() == {}
    for model, used in (("a", Usage(10, 99, 0, 70, 15, 5)), ("b", Usage(10, 99, 0, None, None, None))):
        body = msgspec.structs.replace(step(1), controls={"model": model})
        counters.facts(facts(body, e.StepCompleted(n=1, usage=used, cost=None)))
    assert counters.cache_share() == {"a": 0.7, "b": 0.0}
    counters.facts(facts(e.CacheMissed(n=1, expected=9, read=0, cause="expired")))
    assert counters.misses == {"expired": 1}


WHERE = DeclaredTool(name="where", kind="client", description="Where.", parameters={"type": "object"})


async def waiting_for(make_core: MakeCore, name: str) -> tuple[Stage, RunObject]:
    """Return a run that waits with a call of `pay`, for an approval, or `where`, for a client, after a restart."""
    till, script = Till(), by_step((call(name, **({"amount": 5} if name == "pay" else {})),), (say("Done."),))

    async def start() -> Core:
        definition = {"hooks": (asks(),), "tools": ("pay", "look", WHERE)}
        return await make_core(ScriptedProvider(script), tools=till.tools(), definition=definition)

    first = await start()
    stage = Stage(first, ScriptedProvider([]), (await first.open_session(agent="assistant", actor=ANN)).id)
    run = await stage.play()
    assert run.status in ("waiting", "requires_action")
    assert first.counters.calls.total() == 0
    await first.stop(grace=0)
    return Stage(await start(), stage.provider, stage.session), run


@pytest.mark.parametrize(("vote", "outcome"), [(yes, "done"), (no, "denied")])
async def test_call_that_a_person_decided_after_a_restart_counts_by_its_name(make_core: MakeCore, vote, outcome):
    """A call that waited for an approval is counted under its tool by the process that ends it."""
    stage, run = await waiting_for(make_core, "pay")
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(vote(asked.id))
    assert (await stage.done(run.id)).status == "completed"
    assert stage.core.counters.calls == {("pay", outcome): 1}


async def test_client_call_that_ends_after_a_restart_counts_by_its_name(make_core: MakeCore):
    """A call that a client executed is counted under its tool by the process that receives the output."""
    stage, run = await waiting_for(make_core, "where")
    await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="Bern")])
    assert (await stage.done(run.id)).status == "completed"
    assert stage.core.counters.calls == {("where", "done"): 1}


@pytest.mark.parametrize("name", ["pay", "where"])
async def test_waiting_call_that_is_cancelled_after_a_restart_counts_by_its_name(make_core: MakeCore, name: str):
    """A call that waits when its run is cancelled is counted under its tool."""
    stage, run = await waiting_for(make_core, name)
    assert (await stage.stop(run.id)).status == "cancelled"
    assert stage.core.counters.calls == {(name, "cancelled"): 1}


def test_declared_tools_beyond_a_bound_share_one_label():
    """However many tools agents declare for their clients, only so many get a series."""
    counters = Counters(FakeClock())
    for n in range(1000):
        pending = e.ToolPending(call=f"call_{n}", on="client", tool=f"tool_{n}", arguments={})
        ended = e.ToolCompleted(call=f"call_{n}", outcome="cancelled", parts=(), truncated=False)
        counters.facts(facts(pending, ended))
    assert len(counters.calls) <= 51


def step(attempt: int) -> e.StepStarted:
    return e.StepStarted(n=1, attempt=attempt, message="msg_1", takes=(), snapshot="s")


def test_attempt_counts_as_a_retry_only_after_a_failed_one():
    """A process that resumes a run asks its model again: that is no retry of a model that failed."""
    counters = Counters(FakeClock())
    counters.facts(facts(e.RunStarted(epoch=1), step(1), e.RunResumed(epoch=2, cause="crashed"), step(2)))
    assert counters.retries.total() == 0
    counters.facts(facts(e.StepFailed(n=1, attempt=2, code="network", message="", retryable=True), step(3)))
    assert counters.retries.total() == 1
    counters.facts(facts(e.RunResumed(epoch=3, cause="crashed"), step(4)))
    assert counters.retries.total() == 1

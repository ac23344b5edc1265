"""What a session cost, read from its log: billed, at best, and why there is a difference."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from agent_core import NotFound, RateLimited, Snapshot
from agent_core.caching.replay import LoggedCall, logged_calls
from agent_core.caching.report import SessionBill, session_cost
from agent_core.domain import events as e
from agent_core.domain.controls import ABLE, Abilities
from agent_core.domain.events import Fact
from agent_core.domain.messages import Text, Usage
from agent_core.providers import models
from agent_core.runtime.services import session_costs
from agent_core.store.reading.replaying import WholeLog
from agent_core.testing import FakeClock, call, say, usage
from tests.agent_core.stage import ANN, Stage, set_stage
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import PATIENCE, until

pytestmark = pytest.mark.whole

OPUS = "anthropic:claude-opus-5"
SYSTEM = Snapshot("hash", OPUS, "Be brief. " * 400, ())


def billed(*counts: int, output: int = 10):
    """Return an answer that was billed as plain, read, written and written for long."""
    plain, read, short, long = counts
    return [
        say("Done."),
        usage(input=plain, output=output, reasoning=0, cache_read=read, cache_write_short=short, cache_write_long=long),
    ]


async def stage_of(
    make_core: MakeCore,
    clock: FakeClock,
    *script,
    model: str = "claude-opus-5",
    provider: str = "anthropic",
    able: Abilities = ABLE,
) -> Stage:
    stage = await set_stage(make_core, list(script), clock=clock, name=provider, able=able)
    await stage.core.agents.update("assistant", {"model": f"{provider}:{model}", "instructions": "Be brief. " * 400})
    session = await stage.core.open_session(agent="assistant", actor=ANN)
    return Stage(stage.core, stage.provider, session.id)


async def test_a_conversation_with_a_pause(make_core: MakeCore):
    """Each call has its bill, its cheapest one and a cause; the sums are theirs, and each bill that of its step."""
    clock = FakeClock()
    script = [billed(3, 0, 2000, 0), billed(3, 2000, 100, 0), billed(3, 0, 2200, 0), billed(3, 2200, 100, 0)]
    stage = await stage_of(make_core, clock, *script)
    for pause in (0, 10, 1200, 10):
        clock.advance(pause)
        assert (await stage.play()).status == "completed"
    found = await stage.core.session_costs.of(stage.session)
    steps = await stage.said(e.StepCompleted)
    assert [call.billed for call in found.calls] == [step.cost for step in steps]
    # The newest message of each prompt ends a little before the end that was counted.
    assert [set(call.causes) - {"unread"} for call in found.calls] == [{"expired"}, {"expired"}, {"expired"}, set()]
    for each in found.calls:
        assert each.billed is not None
        assert each.ideal is not None
        assert sum(map(Decimal, each.causes.values())) == Decimal(each.billed) - Decimal(each.ideal)
    assert Decimal(found.billed) == sum(Decimal(step.cost or 0) for step in steps)
    assert sum(map(Decimal, found.causes.values())) == Decimal(found.billed) - Decimal(found.ideal)
    # Kept for an hour, 2,100 tokens would have been read: (2 - 1.25) of them more, (1.25 - 0.1) of them less.
    assert 0.4 * 2100 * 5e-6 * 0.98 < Decimal(found.causes["expired"]) < 0.4 * 2100 * 5e-6 * 1.02
    plain = sum(each.total for each in map(_counts, steps)) * 5 + sum(step.usage.output or 0 for step in steps) * 25
    assert Decimal(found.uncached) == Decimal(plain) / 1_000_000


class _Total(msgspec.Struct):
    total: int


def _counts(step: e.StepCompleted) -> _Total:
    use = step.usage
    cached = (use.cache_read, use.cache_write_short, use.cache_write_long)
    return _Total((use.input or 0) + sum(count or 0 for count in cached))


async def test_steps_of_one_exchange_and_a_restart(make_core: MakeCore):
    """The steps between calls of tools are calls of their own; another process reads the same from the log."""
    clock = FakeClock()
    asks = [call("no_such_tool"), usage(input=3, output=9, cache_read=0, cache_write_short=1500, cache_write_long=0)]
    stage = await stage_of(make_core, clock, asks, billed(3, 1500, 80, 0))
    await stage.play()
    found = await stage.core.session_costs.of(stage.session)
    assert [(each.n, each.kind) for each in found.calls] == [(1, "step"), (2, "step")]
    assert set(found.causes) == {"unread"}
    await stage.core.stop(grace=1.0)
    assert await (await make_core()).session_costs.of(stage.session) == found


async def test_a_named_provider_has_the_prices_of_its_kind(make_core: MakeCore):
    """Its calls are billed as their steps are, by the vendor's prices and rules, under the name they were asked by."""
    able = Abilities(listed_as=OPUS)
    clock, script = FakeClock(), [billed(3, 0, 2000, 0), billed(3, 0, 2100, 0)]
    stage = await stage_of(make_core, clock, *script, provider="claude", able=able)
    await stage.play()
    clock.advance(500)  # longer than the cache of this vendor keeps, shorter than that of one that is not known
    await stage.play()
    found = await stage.core.session_costs.of(stage.session)
    assert [(call.model, call.billed) for call in found.calls] == [
        ("claude:claude-opus-5", step.cost) for step in await stage.said(e.StepCompleted)
    ]
    assert None not in {call.billed for call in found.calls}
    assert (found.unknown, found.unpriced) == (0, ())
    assert set(found.causes) == {"unread"}


async def test_what_is_not_known_is_in_no_sum(make_core: MakeCore):
    """Calls whose tokens or prices are not known are counted by themselves, and no sum takes them for nothing."""
    stage = await stage_of(make_core, FakeClock(), [say("Done.")], billed(3, 0, 2000, 0))
    await stage.play()
    await stage.play(model="anthropic:claude-of-another-time")
    found = await stage.core.session_costs.of(stage.session)
    assert (found.unknown, found.unpriced) == (2, ("anthropic:claude-of-another-time",))
    assert [(call.billed, call.ideal) for call in found.calls] == [(None, None)] * 2
    assert (found.billed, found.ideal, found.uncached, found.causes) == ("0", "0", "0", {})


async def test_a_session_that_is_not_there(make_core: MakeCore):
    """A deleted session, and one that never was, are `NotFound`; a new one has cost nothing."""
    core = await make_core()
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    assert (await core.session_costs.of(session)).calls == ()
    await core.delete_session(session)
    for name in (session, "ses_none"):
        with pytest.raises(NotFound):
            await core.session_costs.of(name)


def facts(*bodies: Any) -> list[Fact]:
    """Return facts at these seconds; the third of a tuple is the parent of the run."""
    return [
        Fact(
            seq=n,
            type=body.type,
            session="ses_1",
            run="run_1" if not parent else "run_2",
            parent_run=parent[0] if parent else None,
            time=at * 1000,
            raw=msgspec.json.encode(body),
        )
        for n, (at, body, *parent) in enumerate(bodies, 1)
    ]


def step(
    at: int, *counts: int, takes: Sequence[int] = (), parent: Sequence[str] = (), cost: str | None = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the start and the end of a step that was billed as plain, read and written, at a recorded *cost*."""
    plain, read, short = counts
    started = e.StepStarted(
        n=1, attempt=1, message="msg_2", takes=tuple(takes), snapshot="hash", controls={"model": OPUS}
    )
    ended = e.StepCompleted(n=1, usage=Usage(plain, 10, 0, read, short, 0), cost=cost)
    return (at, started, *parent), (at + 2, ended, *parent)


def asked(*bodies) -> list[LoggedCall]:
    return logged_calls(facts(*bodies), {"hash": SYSTEM}, "")


def test_summaries_and_child_runs():
    """The call that wrote a summary is compared with its prompt; a child's is said apart, as its prompt is not here."""
    text = e.MessageReceived(message="msg_1", actor=ANN, parts=(Text("Go " * 200),))
    spent = Usage(50, 10, 0, 1200, 0, 0)
    summary = e.ContextCompacted(kind="cut", from_seq=1, tokens_before=None, tokens_after=None, model=OPUS, usage=spent)
    calls = asked((0, text), *step(1, 3, 0, 1200, takes=(1,)), *step(5, 9, 0, 900, parent=("run_1",)), (10, summary))
    assert [each.kind for each in calls] == ["step", "child", "summary"]
    found = session_cost("ses_1", calls)
    assert (found.apart, found.apart_billed, found.unknown) == (1, "0.00592", 0)
    assert found.causes == {}
    assert [each.ideal for each in found.calls] == [found.calls[0].billed, None, found.calls[2].billed]


@for_each("model, read, sent", [(OPUS, 1200, 2), (OPUS, 0, 1), ("anthropic:claude-haiku-5-5", 0, 1)])
def test_a_summary_has_the_prompt_that_was_sent(model, read, sent):
    """Alone what it is about, or all where the own model read it; at idle it has the controls of the last step."""
    texts = [e.MessageReceived(message=f"msg_{n}", actor=ANN, parts=(Text("Go " * 200),)) for n in range(2)]
    spent, controls = Usage(50, 10, 0, read, 0, 0), {"model": OPUS, "effort": "high"}
    started = [
        e.StepStarted(n=1, attempt=1, message="a", takes=(n,), snapshot="hash", controls=controls) for n in (1, 3)
    ]
    ended = e.StepCompleted(n=1, usage=Usage(3, 10, 0, 0, 1200, 0), cost=None)
    made = e.ContextCompacted(kind="summary", from_seq=4, tokens_before=1, tokens_after=1, model=model, usage=spent)
    log = facts((0, texts[0]), (1, started[0]), (2, texts[1]), (3, started[1]), (4, ended), (5, made))
    log[-1].run = "run_of_its_own"
    *_, step, summary = logged_calls(log, {"hash": SYSTEM}, "")
    keys = [each.key for each in step.pieces[:-1]]
    assert [each.key for each in summary.pieces[: len(keys) - 2 + sent]] == keys[: len(keys) - 2 + sent]
    assert len(summary.pieces) == len(keys) + sent


def test_what_was_billed_is_what_was_recorded():
    """A later change of the prices changes no bill: it is the cause `price`, and the causes add up as ever."""
    text = e.MessageReceived(message="msg_1", actor=ANN, parts=(Text("Go " * 200),))
    first, second = step(1, 3, 0, 1200, takes=(1,), cost="0.5"), step(9, 3, 0, 1200)
    found = session_cost("ses_1", asked((0, text), *first, *second))
    assert [each.billed for each in found.calls] == ["0.5", "0.007765"]
    assert [each.causes.get("price") for each in found.calls] == ["0.492235", None]
    assert [each.uncached for each in found.calls] == ["0.006265"] * 2
    for each in (*found.calls, found):
        assert sum(map(Decimal, each.causes.values())) == Decimal(each.billed or 0) - Decimal(each.ideal or 0)


@for_each(
    "model, used",
    [
        pytest.param("openai:gpt-5.6-sol", Usage(4000, 10, 0, 0, None, None), id="writes-not-counted"),
        pytest.param("openai:gpt-5.6-sol", Usage(8, 10, 0, None, 4012, None), id="reads-not-counted"),
        pytest.param(OPUS, Usage(300_000, 10, 0, None, None, None), id="nothing-of-the-cache"),
    ],
)
def test_a_missing_count_of_the_cache_is_none(model: str, used: Usage):
    """As in what a step records: the rest of the call is known, and so is its bill."""
    text = e.MessageReceived(message="msg_1", actor=ANN, parts=(Text("Go " * 200),))
    started, (at, ended) = step(1, 3, 0, 1200, takes=(1,))
    controls, recorded = {"model": model}, models.cost(model, used)
    asking = (started[0], msgspec.structs.replace(started[1], controls=controls))
    found = session_cost("ses_1", asked((0, text), asking, (at, msgspec.structs.replace(ended, usage=used))))
    assert recorded is not None
    assert (found.billed, found.unknown, found.calls[0].billed) == (recorded, 0, recorded)
    assert found.calls[0].uncached == models.uncached_cost(model, used)


def test_a_change_of_the_system_texts():
    """A new snapshot between two calls makes what follows it be written again, and is the cause."""
    text = e.MessageReceived(message="msg_1", actor=ANN, parts=(Text("Go " * 2000),))
    changed = Snapshot("other", OPUS, "Be kind. " * 400, ())
    first, second = step(1, 3, 0, 3000, takes=(1,)), step(9, 3, 0, 3000)
    started = msgspec.structs.replace(second[0][1], snapshot="other")
    found = facts((0, text), *first, (9, started), second[1])
    cost = session_cost("ses_1", logged_calls(found, {"hash": SYSTEM, "other": changed}, ""))
    assert set(cost.calls[1].causes) == {"system", "unread"}
    # Most of the prompt is the message, which would have been read.
    assert Decimal(cost.causes["system"]) > Decimal(1) / 1000


async def test_one_is_replayed_at_a_time(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """The next one begins once the thread has ended, also if its caller has gone; beyond a few, callers are refused."""
    core = await make_core()
    session = (await core.open_session(agent="assistant", actor=ANN)).id
    hold, began, open_now, most = threading.Event(), list[str](), set[int](), 0
    replay = session_costs._replayed

    def slow(session: str, found: WholeLog, listed: Callable[[str], str]) -> SessionBill:
        nonlocal most
        began.append(session)
        open_now.add(me := threading.get_ident())
        most = max(most, len(open_now))
        assert hold.wait(PATIENCE)
        open_now.remove(me)
        return replay(session, found, listed)

    monkeypatch.setattr(session_costs, "_replayed", slow)
    gone = asyncio.create_task(core.session_costs.of(session))
    await until(lambda: bool(began))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    waiting = [asyncio.create_task(core.session_costs.of(session)) for _ in range(session_costs.MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimited) as refused:
        await core.session_costs.of(session)
    assert (refused.value.limit, len(began)) == ("session_costs", 1)
    waiting.pop().cancel()
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(core.session_costs.of(session)))
    await asyncio.sleep(0)
    hold.set()
    found = await asyncio.gather(*waiting)
    assert [each.calls for each in found] == [()] * session_costs.MAX_WAITING
    assert (len(began), most) == (1 + session_costs.MAX_WAITING, 1)

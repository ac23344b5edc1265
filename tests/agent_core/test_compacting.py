"""The loop when a conversation grows long: what is summed up, by which model, and what happens when that fails."""

import asyncio
from collections.abc import Callable
from decimal import Decimal

import pytest

from agent_core.agent.entries import ASKED
from agent_core.agent.state import MAX_FAILURES
from agent_core.agents import Compaction, Limits
from agent_core.events import CompactionFailed, ContextCompacted, StepFailed, StepStarted
from agent_core.messages import text_of
from agent_core.providers.base import Request, UsageReport
from agent_core.testing import call, fail, finish, pause, say, step_of, think, usage
from agent_core.testing.scripted import Answer, Item
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import Stage, restart, set_stage, texts
from tests.conftest import MakeCore

SUMMARY = Compaction()
TEN = Limits(max_context_messages=10)
ENDLESS = Limits(max_context_messages=None)
FULL = fail("context_overflow", retryable=False)
PAID = usage(input=1_000, output=100, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)


def counting(tokens: int) -> UsageReport:
    """Return the usage of a call whose prompt has so many tokens, none of them in a cache."""
    return usage(input=tokens, output=10, reasoning=0, cache_read=0, cache_write_short=0, cache_write_long=0)


def asks_for_summary(request: Request) -> bool:
    return ASKED in text_of(request.messages[-1].message.parts)


def asked_for(stage: Stage) -> list[int]:
    """Return which of the requests asked for a summary."""
    return [place for place, request in enumerate(stage.provider.requests) if asks_for_summary(request)]


def answering(*summary: Item) -> Callable[[Request], Answer]:
    """Return a script that answers a request for a summary with *summary*, and repeats what people say."""

    def script(request: Request) -> Answer:
        if asks_for_summary(request):
            return summary or (say("They talked."),)
        return (think("Hm."), say(f"You said {texts(request)[-1][1]}."))

    return script


def size_of(request: Request) -> int:
    return sum(len(entry.wire) for entry in request.messages)


def within(most: int, script: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Return *script* of a model that takes *most* bytes of messages."""
    return lambda request: (FULL,) if size_of(request) > most else script(request)


def planted(request: Request) -> Answer:
    """Write a summary of all lines that say something planted, as a careful model would."""
    lines = [line for _, text in texts(request)[:-1] for line in text.split("\n") if "planted" in line]
    return (say("\n".join(dict.fromkeys(line.removeprefix("You said ") for line in lines))),)


async def test_a_long_conversation_is_summed_up(make_core: MakeCore):
    """Past its limit the older half of the window becomes a summary, which stands in front of what stays."""
    stage = await set_stage(make_core, answering(), limits=TEN, compaction=SUMMARY)
    for n in range(9):
        assert (await stage.play(f"m{n}")).text == f"You said m{n}."
    compactions = await stage.said(ContextCompacted)
    assert [(each.kind, each.summary, each.model) for each in compactions] == [("summary", "They talked.", "scripted")]
    first, *_ = asked_for(stage)
    after = texts(stage.provider.requests[first + 1])
    assert after[0][0] == "user"
    assert after[0][1].endswith("They talked.")
    assert [text for role, text in after if role == "user"][1:] == ["m4", "m5"]
    assert b"Hm." not in stage.provider.prefixes[first + 1], "earlier thinking is gone"
    assert max(len(each.messages) for each in stage.provider.requests if not asks_for_summary(each)) <= 10
    check_log(await stage.log())


async def test_the_request_for_a_summary_is_the_last_one_and_a_message(make_core: MakeCore):
    """It repeats the beginning of the last request byte by byte, so that the cache is read, and adds one message."""
    stage = await set_stage(make_core, answering(), limits=TEN, compaction=SUMMARY)
    for n in range(6):
        await stage.play(f"m{n}")
    (fork,) = asked_for(stage)
    before, request = stage.provider.requests[fork - 1], stage.provider.requests[fork]
    sent = b"".join(entry.wire for entry in request.messages[:-1])
    assert sent.startswith(b"".join(entry.wire for entry in before.messages))
    assert (request.snapshot, request.session, request.model) == (before.snapshot, before.session, before.model)
    assert request.controls == before.controls
    assert [text for role, text in texts(request)[:-1] if role == "user"] == ["m0", "m1", "m2", "m3", "m4"]
    assert "before the newest message that people wrote" in texts(request)[-1][1]


async def test_a_forced_call_and_a_schema_are_lifted(make_core: MakeCore):
    """A summary is a whole text: nothing that the agent asks of its answers may make it anything else, or cut it."""
    stage = await set_stage(make_core, answering(), limits=Limits(max_context_messages=4), compaction=SUMMARY)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    for n in range(3):
        await stage.play(f"m{n}", output_schema=schema, max_output_tokens=200)
    asked = [stage.provider.requests[place].controls for place in asked_for(stage)]
    assert asked
    assert [each for each in asked if not (each.output_schema is None and each.max_output_tokens is None)] == []


async def test_what_matters_survives(make_core: MakeCore):
    """Ids, decisions, open questions and a refusal are still in front of the model after several summaries."""
    facts = [
        "planted id: order A-1001/7",
        "planted decision: blue, because red is sold out",
        "planted question: who pays?",
        "planted refusal: no refund without a receipt",
    ]

    def script(request: Request) -> Answer:
        return planted(request) if asks_for_summary(request) else (say("Noted."),)

    stage = await set_stage(make_core, script, limits=Limits(max_context_messages=6), compaction=SUMMARY)
    for n, fact in enumerate(facts):
        await stage.play(fact)
        await stage.play(f"small talk {n}")
    for n in range(12):
        await stage.play(f"more {n}")
    assert len(await stage.said(ContextCompacted)) >= 5
    head = texts(stage.provider.requests[-1])[0][1]
    assert [line for line in head.split("\n") if "planted" in line] == facts
    again = await restart(make_core, stage, script)
    await again.play("And now?")
    assert again.provider.prefixes[-1].startswith(stage.provider.prefixes[-1])


async def test_after_three_failed_tries_a_run_goes_on_without(make_core: MakeCore):
    """Each step tries once; after three failures the run compacts no more, and nor do those that follow.

    After the first of them the model may call no tool: what is left in its cache is worth less than a summary.
    """

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"{n} is fine"

    def script(request: Request) -> Answer:
        if asks_for_summary(request):
            return (PAID, fail("overloaded"))
        n = step_of(request)
        return (call("look", n=n),) if n < 5 else (say("Fine."),)

    tiny = Limits(max_context_messages=2)
    stage = await set_stage(make_core, script, tools=[look], limits=tiny, compaction=SUMMARY)
    await stage.play("one")
    run = await stage.play("two")
    assert (run.status, run.text) == ("completed", "Fine.")
    failures = await stage.said(CompactionFailed, run.id)
    assert [failed.code for failed in failures] == ["overloaded"] * 3
    assert [failed.usage and failed.usage.input for failed in failures] == [1_000] * 3
    types = [kind for kind in await stage.types(run.id) if kind in ("compaction.failed", "step.started")]
    assert types == [*("compaction.failed", "step.started") * 3, *["step.started"] * 3]
    asked = [stage.provider.requests[place].controls.tool_choice for place in asked_for(stage)]
    assert asked == ["auto", "none", "none"]
    await stage.play("three")
    assert len(await stage.said(CompactionFailed)) == MAX_FAILURES


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((call("look"),), "tool_called"),
        ((say(" \n"),), "empty"),
        ((fail("auth", retryable=False),), "auth"),
        ((say("Half"), fail("network")), "network"),
        ((say("1. Goal: half a sent"), finish("length")), "length"),
    ],
    ids=["a call", "nothing", "no key", "broken off", "cut"],
)
async def test_no_summary_is_a_failure(make_core: MakeCore, answer, code):
    """Whatever is no whole text is a `compaction.failed`; the step is asked with the window as it is."""
    stage = await set_stage(make_core, answering(*answer), limits=Limits(max_context_messages=4), compaction=SUMMARY)
    for n in range(3):
        assert (await stage.play(f"m{n}")).text == f"You said m{n}."
    assert [failed.code for failed in await stage.said(CompactionFailed)] == [code]
    assert not await stage.said(ContextCompacted)
    assert len(stage.provider.requests[-1].messages) == 5


@pytest.mark.parametrize("kind", ["summary", "cut"])
async def test_an_overflow_is_answered_with_room(make_core: MakeCore, kind):
    """A prompt that the model refuses as too long is made shorter, and the step is tried again: nothing is lost."""
    stage = await set_stage(make_core, within(9_000, answering()), limits=ENDLESS, compaction=Compaction(kind=kind))
    for n in range(16):
        run = await stage.play(f"m{n} {'x' * 900}")
        assert run.status == "completed", run.error
    overflows = [failed for failed in await stage.said(StepFailed) if failed.code == "context_overflow"]
    compactions = await stage.said(ContextCompacted)
    assert overflows
    assert {each.kind for each in compactions} == {kind}
    assert len(compactions) <= len(overflows)
    tries = [(step.n, step.attempt) for step in await stage.said(StepStarted)]
    assert (1, 2) in tries, "it is the same step, in its next attempt"
    check_log(await stage.log())


async def test_off_ends_a_run_that_does_not_fit(make_core: MakeCore):
    """With `off` nothing is made shorter, by messages neither; an overflow ends the run as what it is."""
    stage = await set_stage(make_core, within(800, answering()), limits=Limits(2), compaction=Compaction(kind="off"))
    runs = [await stage.play(f"m{n} {'x' * 300}") for n in range(3)]
    assert [run.status for run in runs] == ["completed", "failed", "failed"]
    assert runs[-1].error
    assert runs[-1].error.code == "context_overflow"
    assert not await stage.said(ContextCompacted)


async def test_a_giant_message_does_not_take_the_conversation_with_it(make_core: MakeCore):
    """A message that can never fit ends its run, and says why; the next one is answered, without it."""
    stage = await set_stage(make_core, within(3_000, answering()), limits=ENDLESS, compaction=SUMMARY)
    await stage.play("hello")
    run = await stage.play("giant " + "x" * 20_000)
    assert run.error
    assert run.error.code == "context_overflow"
    assert "too long" in run.error.message
    again = await stage.play("still there?")
    assert again.text == "You said still there?."
    assert size_of(stage.provider.requests[-1]) < 3_000
    check_log(await stage.log())


async def test_a_stop_ends_a_summary_at_once(make_core: MakeCore):
    """A Stop during the call ends it and the run; the window stays as it was, and the next message goes on."""
    hold = asyncio.Event()
    script = answering(say("Half a"), PAID, pause(hold))
    stage = await set_stage(make_core, script, limits=Limits(max_context_messages=4), compaction=SUMMARY)
    await stage.play("m0")
    await stage.play("m1")
    run = await stage.send("m2")
    await stage.asked(3)
    stopped = await stage.stop(run)
    assert stopped.status == "cancelled"
    assert stage.provider.open == 0
    assert not await stage.said(ContextCompacted)
    assert {failed.code for failed in await stage.said(CompactionFailed)} <= {"cancelled"}
    hold.set()
    assert (await stage.play("m3")).text == "You said m3."
    check_log(await stage.log())


async def test_a_summary_is_billed(make_core: MakeCore):
    """What a summary costs is in its fact, and in the run's own sums."""
    model = "anthropic:claude-sonnet-5-5"
    script = answering(say("They talked."), PAID)
    tiny = Limits(max_context_messages=4)
    stage = await set_stage(make_core, script, name="anthropic", model=model, limits=tiny, compaction=SUMMARY)
    for n in range(2):
        await stage.play(f"m{n}")
    run = await stage.play("m2")
    (made,) = await stage.said(ContextCompacted, run.id)
    assert made.usage is not None
    assert (made.usage.input, made.usage.output) == (1_000, 100)
    assert Decimal(made.cost or "0") > 0


async def test_a_setting_names_the_model(make_core: MakeCore):
    """`compaction.model` writes the summaries; after it failed the conversation's own does, in runs of one step too."""
    policy = Compaction(model="scripted:other")

    def script(request: Request) -> Answer:
        if asks_for_summary(request):
            is_other = request.model == "other"
            return (PAID, fail("misconfigured", retryable=False) if is_other else say("By itself."))
        return (say("Fine."),)

    stage = await set_stage(make_core, script, limits=Limits(max_context_messages=4), compaction=policy)
    for n in range(6):
        assert (await stage.play(f"m{n}")).status == "completed"
    made = await stage.said(ContextCompacted)
    assert {each.model for each in made} == {"scripted"}
    assert [stage.provider.requests[place].model for place in asked_for(stage)] == ["other", "", "other"]
    assert [each.model for each in await stage.said(CompactionFailed)] == ["scripted:other"] * 2


async def test_a_full_window_is_summed_up_once(make_core: MakeCore):
    """Beyond the threshold one summary is made: what the last call was counted at says nothing of what is left."""

    def script(request: Request) -> Answer:
        if asks_for_summary(request):
            return (say("They talked."), PAID)
        return (say(f"You said {texts(request)[-1][1]}."), counting(4 * size_of(request)))

    model = "anthropic:claude-sonnet-5-5"
    stage = await set_stage(make_core, script, name="anthropic", model=model, limits=ENDLESS, compaction=SUMMARY)
    for n in range(14):
        await stage.play(f"m{n} {'x' * 1_800}")
    runs = [fact.run for fact in await stage.log() if isinstance(fact.body, ContextCompacted)]
    assert runs
    assert len(runs) == len(set(runs)) == len(asked_for(stage))


@pytest.mark.parametrize("policy", [SUMMARY, Compaction(kind="cut")], ids=["summary", "cut"])
@pytest.mark.parametrize("count", [0, 12, 300, 100_000])
async def test_an_overflow_is_repaired_whatever_the_server_counts(make_core: MakeCore, count: int, policy: Compaction):
    """A server that counts nothing, too little, too much or only what is new makes no conversation end at its limit."""

    def script(request: Request) -> Answer:
        return (usage(input=count, output=5), *answering()(request))

    stage = await set_stage(make_core, within(9_000, script), limits=ENDLESS, compaction=policy)
    for n in range(12):
        run = await stage.play(f"m{n} {'word ' * 300}")
        assert run.status == "completed", (n, run.error)
    assert {made.kind for made in await stage.said(ContextCompacted)} == {policy.kind}

"""Where no border of a conversation helps: long runs with one message, and summaries that cannot be made."""

import pytest

from agent_core.agent.state import MAX_FAILURES
from agent_core.agent.strategy import RESUME_NOTE
from agent_core.agents import Compaction, Controls
from agent_core.events import CompactionFailed, ContextCompacted, StepFailed
from agent_core.messages import ToolResult, text_of
from agent_core.providers.base import Request
from agent_core.testing import FakeClock, call, fail, finish, say, think
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import Hurried
from tests.agent_core.stage import restart, set_stage, texts, unmarked
from tests.agent_core.test_compacting import ENDLESS, PAID, SUMMARY, TEN, asks_for_summary, within
from tests.conftest import MakeCore

pytestmark = pytest.mark.whole

MANY = Controls(max_steps=50)


@tool
async def write(n: int, text: str) -> str:
    """Write."""
    return f"{n} is written"


@pytest.mark.parametrize("kind", ["summary", "cut"])
async def test_a_long_run_is_compacted_between_its_steps(make_core: MakeCore, kind):
    """One message and many steps whose arguments are long: older steps go, and what the person asked for stays."""
    steps = 0

    def script(request: Request) -> Answer:
        nonlocal steps
        if asks_for_summary(request):
            return (say("Some is written."),)
        if steps == 30:
            return (say("Done."),)
        steps += 1
        return (call("write", n=steps, text="x" * 600),)

    stage = await set_stage(
        make_core,
        within(9_000, script),
        tools=[write],
        limits=ENDLESS,
        compaction=Compaction(kind=kind),
        controls=MANY,
    )
    run = await stage.play("Write thirty, please.")
    assert (run.status, run.text) == ("completed", "Done."), run.error
    made = await stage.said(ContextCompacted)
    assert {each.kind for each in made} == {kind}
    assert 1 < len(made) < 15
    last = texts(stage.provider.requests[-1])
    assert [text for role, text in last if role == "user"][-1] == "Write thirty, please."
    assert sum("Some is written." in text for _, text in last) == (kind == "summary")
    check_log(await stage.log())
    again = await restart(make_core, stage, script, tools=[write])
    await again.play("Thanks.")
    assert again.provider.prefixes[-1].startswith(stage.provider.prefixes[-1])


@pytest.mark.parametrize("kind", ["summary", "cut"])
@pytest.mark.parametrize(("calls", "size"), [(5, 3_000), (1, 15_000)], ids=["many", "a giant"])
async def test_results_of_one_step_that_do_not_fit_are_left_out(make_core: MakeCore, kind, calls, size):
    """What is too large together, or alone, is summed up; with `cut` the model is asked to call for less at once."""

    @tool(concurrency_safe=True)
    async def page(n: int, most: int) -> str:
        """Read."""
        return f"page {n} " + "x" * most

    def script(request: Request) -> Answer:
        if asks_for_summary(request):
            return (say("All pages say x."),)
        if any("All pages say x." in text for _, text in texts(request)):
            return (say("x."),)
        last = request.messages[-1].message
        found = [unmarked(text_of(part.parts)) for part in last.parts if isinstance(part, ToolResult)]
        if all("ask for less" in text for text in found):
            return (
                (call("page", n=1, most=100),) if found else tuple(call("page", n=n, most=size) for n in range(calls))
            )
        return (say("x."),)

    policy = Compaction(kind=kind)
    stage = await set_stage(make_core, within(12_000, script), tools=[page], limits=ENDLESS, compaction=policy)
    run = await stage.play("What do the pages say?")
    assert (run.status, run.text) == ("completed", "x."), run.error
    made = [each.kind for each in await stage.said(ContextCompacted)]
    assert made == ["summary" if kind == "summary" else "prune"]
    check_log(await stage.log())
    again = await restart(make_core, stage, script, tools=[page])
    await again.play("Thanks.")
    assert again.provider.prefixes[-1].startswith(stage.provider.prefixes[-1])


async def test_where_no_summary_can_be_made_an_overflow_is_cut(make_core: MakeCore):
    """Three failures in a row end the tries, not the conversation: what does not fit is cut, and runs go on."""

    def script(request: Request) -> Answer:
        return (PAID, call("look")) if asks_for_summary(request) else (say("ok"),)

    stage = await set_stage(make_core, within(5_000, script), limits=ENDLESS, compaction=SUMMARY, clock=Hurried())
    for n in range(12):
        run = await stage.play(f"m{n} {'x' * 900}")
        assert run.status == "completed", run.error
    overflows = [failed for failed in await stage.said(StepFailed) if failed.code == "context_overflow"]
    assert {made.kind for made in await stage.said(ContextCompacted)} == {"cut"}
    assert len(await stage.said(CompactionFailed)) == MAX_FAILURES * len(overflows)
    check_log(await stage.log())


async def test_a_summary_that_keeps_failing_is_not_asked_for_by_every_run(make_core: MakeCore):
    """After three failures in a row the session's runs go on without; a day later they try again."""

    def script(request: Request) -> Answer:
        return (PAID, fail("misconfigured", retryable=False)) if asks_for_summary(request) else (say("ok"),)

    clock = FakeClock()
    stage = await set_stage(make_core, script, clock=clock, limits=TEN, compaction=SUMMARY)
    for n in range(12):
        await stage.play(f"m{n}")
    assert len(await stage.said(CompactionFailed)) == MAX_FAILURES
    clock.advance(86_400)
    for n in range(2):
        await stage.play(f"next day {n}")
    assert len(await stage.said(CompactionFailed)) > MAX_FAILURES


async def test_a_paused_answer_that_overflowed_is_not_continued_as_it_was(make_core: MakeCore):
    """A compaction leaves out what continues a paused answer, so that the model is asked in words to go on."""
    resumed: list[tuple[str, str]] = []

    def script(request: Request) -> Answer:
        last = texts(request)[-1]
        if RESUME_NOTE in last[1]:
            resumed.append(last)
            return (say(" the end."),)
        if "search" in last[1]:
            return (think("hm"), say("Searching" + "y" * 2_500), finish("continue"))
        return (say("ok"),)

    cut = Compaction(kind="cut")
    stage = await set_stage(make_core, within(3_700, script), limits=ENDLESS, compaction=cut)
    await stage.play("a " + "x" * 900)
    await stage.play("b " + "x" * 100)
    run = await stage.play("search " + "x" * 300)
    assert run.status == "completed", run.error
    assert [role for role, _ in resumed] == ["user"]
    last = stage.provider.requests[-1].messages
    assert [text_of(entry.message.parts)[:9] for entry in last if entry.message.role == "assistant"] == ["Searching"]

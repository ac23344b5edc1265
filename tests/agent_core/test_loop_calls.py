"""The loop with several calls in one step, and with the same call again and again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agent_core.events import MessageReceived, RunFailed, ToolCompleted, ToolRequested, ToolStarted
from agent_core.messages import text_of
from agent_core.providers.base import Request
from agent_core.testing import call, raw_call, say, step_of
from agent_core.testing.scripted import Answer
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import PATIENCE, is_a, results, set_stage
from tests.conftest import MakeCore


@dataclass
class Workshop:
    """Tools that wait until a test lets them end; *events* is what they did, in order."""

    doors: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: dict[str, asyncio.Event] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def door(self, name: str) -> asyncio.Event:
        return self.doors.setdefault(name, asyncio.Event())

    def has_begun(self, name: str) -> asyncio.Event:
        return self.begun.setdefault(name, asyncio.Event())

    async def open(self, *names: str) -> None:
        """Wait until these calls run, then let the first of them end."""
        async with asyncio.timeout(PATIENCE):
            for name in names:
                await self.has_begun(name).wait()
        self.door(names[0]).set()

    def tools(self) -> tuple[Tool, ...]:
        @tool(concurrency_safe=True)
        async def see(name: str) -> str:
            """Look at something."""
            return await self._work(name)

        @tool
        async def move(name: str) -> str:
            """Move something."""
            return await self._work(name)

        return see, move

    async def _work(self, name: str) -> str:
        self.events.append(f"{name} begins")
        self.has_begun(name).set()
        await self.door(name).wait()
        self.events.append(f"{name} ends")
        return f"{name} is fine"


async def test_safe_calls_of_a_step_run_at_the_same_time(make_core: MakeCore):
    """Concurrency-safe calls of one step run side by side: both have begun before either ends."""
    shop = Workshop()
    script = [(call("see", name="a"), call("see", name="b")), (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=shop.tools())
    run = await stage.send()
    await shop.open("b", "a")
    await shop.open("a")
    assert (await stage.done(run)).text == "Fine."
    assert set(shop.events[:2]) == {"a begins", "b begins"}


async def test_results_go_to_the_model_in_call_order(make_core: MakeCore):
    """Whichever call ends first, the model gets the results in the order in which it asked."""
    shop = Workshop()
    script = [(call("see", name="a"), call("see", name="b"), call("see", name="c")), (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=shop.tools())
    run = await stage.send()
    for name in ("c", "a", "b"):
        await shop.open(name)
        await stage.until(lambda event, name=name: _ends(event, f"{name} is fine"))
    await stage.done(run)
    assert shop.events[3:] == ["c ends", "a ends", "b ends"]
    logged = [text_of(end.parts) for end in await stage.said(ToolCompleted)]
    sent = [text_of(result.parts) for result in results(stage.provider.requests[1])]
    assert logged == ["c is fine", "a is fine", "b is fine"]
    assert sent == ["a is fine", "b is fine", "c is fine"]


async def test_the_end_of_a_sibling_is_in_the_log_at_once(make_core: MakeCore):
    """A call that ends while its sibling still runs is in the log, and seen by readers, at once."""
    shop = Workshop()
    stage = await set_stage(
        make_core, [(call("see", name="a"), call("see", name="b")), (say("Fine."),)], tools=shop.tools()
    )
    run = await stage.send()
    await shop.open("b", "a")
    await stage.until(is_a(ToolCompleted))
    assert "a ends" not in shop.events
    assert [text_of(end.parts) for end in await stage.said(ToolCompleted)] == ["b is fine"]
    shop.door("a").set()
    assert (await stage.done(run)).status == "completed"
    check_log(await stage.log())


async def test_other_calls_of_a_step_run_in_order(make_core: MakeCore):
    """Calls that are not concurrency-safe run one after the other, in call order, and alone."""
    shop = Workshop()
    names = ("a", "b", "c")
    script = [tuple(call("move", name=name) for name in names), (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=shop.tools())
    run = await stage.send()
    for name in names:
        await shop.open(name)
        await stage.until(lambda event, name=name: _ends(event, f"{name} is fine"))
    await stage.done(run)
    assert shop.events == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_safe_and_other_calls_keep_their_order(make_core: MakeCore):
    """Safe neighbours run together, and a call that is not safe waits for them and is waited for."""
    shop = Workshop()
    asked = (call("see", name="a"), call("see", name="b"), call("move", name="c"), call("see", name="d"))
    stage = await set_stage(make_core, [asked, (say("Fine."),)], tools=shop.tools())
    run = await stage.send()
    await shop.open("a", "b")
    await stage.until(lambda event: _ends(event, "a is fine"))
    assert "c begins" not in shop.events
    for name in ("b", "c", "d"):
        await shop.open(name)
    await stage.done(run)
    assert shop.events[4:] == ["c begins", "c ends", "d begins", "d ends"]


async def test_siblings_are_announced_together(make_core: MakeCore):
    """The starts of calls that run side by side are one append, before any of them runs."""
    shop = Workshop()
    stage = await set_stage(
        make_core, [(call("see", name="a"), call("see", name="b")), (say("Fine."),)], tools=shop.tools()
    )
    run = await stage.send()
    await shop.open("a", "b")
    assert len(await stage.said(ToolStarted)) == 2
    shop.door("b").set()
    await stage.done(run)


async def test_failing_call_does_not_stop_its_siblings(make_core: MakeCore):
    """When one of several parallel calls fails the others continue, and the model gets each result."""
    shop = Workshop()
    asked = (call("see", name="a"), call("see", wrong="b"), call("see", name="c"))
    stage = await set_stage(make_core, [asked, (say("Fine."),)], tools=shop.tools())
    run = await stage.send()
    await shop.open("a", "c")
    await shop.open("c")
    await stage.done(run)
    sent = results(stage.provider.requests[1])
    assert [result.outcome for result in sent] == ["done", "failed", "done"]


async def test_a_message_may_join_while_tools_run(make_core: MakeCore):
    """A message that joins while parallel calls run is in the log at once, and the model sees it after the results."""
    shop = Workshop()
    stage = await set_stage(
        make_core, [(call("see", name="a"), call("see", name="b")), (say("Fine."),)], tools=shop.tools()
    )
    run = await stage.send()
    await shop.open("b", "a")
    await stage.until(is_a(ToolCompleted))
    assert await stage.send("And hurry", overlap="steer") == run
    assert len(await stage.said(MessageReceived)) == 2
    shop.door("a").set()
    await stage.done(run)
    roles = [entry.message.role for entry in stage.provider.requests[1].messages]
    assert roles == ["user", "assistant", "tool", "user"]


def _ends(event, text: str) -> bool:
    return isinstance(event.body, ToolCompleted) and text_of(event.body.parts) == text


@tool(concurrency_safe=True)
async def ask(what: int = 0, extra: dict[str, int] | None = None) -> str:
    """Ask something."""
    return "no news"


async def test_third_identical_call_in_a_row_ends_as_doom_loop(make_core: MakeCore):
    """The third identical call in a row is requested and not run: it is cancelled and the run fails."""
    stage = await set_stage(make_core, lambda _: (call("ask", what=1),), tools=[ask])
    run = await stage.play()
    assert (run.status, run.steps) == ("failed", 3)
    assert run.error
    assert (run.error.code, run.error.retryable) == ("doom_loop", False)
    assert "`ask`" in run.error.message
    assert len(await stage.said(ToolRequested)) == 3
    assert len(await stage.said(ToolStarted)) == 2
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["done", "done", "cancelled"]
    check_log(await stage.log())


async def test_key_order_does_not_hide_a_doom_loop(make_core: MakeCore):
    """Calls whose arguments differ in key order and blanks alone are identical."""
    raws = ['{"what": 1, "extra": {"a": 1, "b": 2}}', '{"extra":{"b":2,"a":1},"what":1}']
    stage = await set_stage(make_core, lambda request: (raw_call("ask", raws[step_of(request) % 2]),), tools=[ask])
    run = await stage.play()
    assert run.error
    assert run.error.code == "doom_loop"
    assert len(await stage.said(ToolStarted)) == 2


async def test_unreadable_arguments_count_as_they_were_written(make_core: MakeCore):
    """Calls whose arguments are no JSON object are identical when their text is, and only then."""

    def mumble(*raws: str) -> Callable[[Request], Answer]:
        return lambda request: (raw_call("ask", raws[step_of(request) % len(raws)]),)

    doomed = await set_stage(make_core, mumble('{"what": '), tools=[ask])
    run = await doomed.play()
    assert run.error
    assert (run.error.code, run.steps) == ("doom_loop", 3)
    saved = await set_stage(make_core, mumble('{"what": ', '{"what": 1'), tools=[ask])
    assert (await saved.play(max_steps=6)).steps == 6
    assert not await saved.said(RunFailed)


async def test_parallel_calls_count_for_the_doom_loop(make_core: MakeCore):
    """Identical calls of one step count in their order: three at once fail the run, and none of them stays open."""
    stage = await set_stage(make_core, [(call("ask"), call("ask"), call("ask"))], tools=[ask])
    run = await stage.play()
    assert run.error
    assert run.error.code == "doom_loop"
    assert len(await stage.said(ToolRequested)) == 3
    assert "cancelled" in [end.outcome for end in await stage.said(ToolCompleted)]
    check_log(await stage.log())


async def test_doom_loop_counts_steps_and_parallel_calls(make_core: MakeCore):
    """A row of identical calls may begin in one step and end in the next."""
    script = [(call("ask", what=7), call("ask")), (call("ask"), call("ask"))]
    stage = await set_stage(make_core, script, tools=[ask])
    run = await stage.play()
    assert run.error
    assert run.error.code == "doom_loop"
    assert run.steps == 2


@pytest.mark.parametrize("between", [call("ask", what=2), call("nothing")])
async def test_another_call_in_between_resets_the_doom_loop(make_core: MakeCore, between):
    """Only calls in a row count: any other call in between, even one that fails, begins a new row."""
    script = [(call("ask"), call("ask")), (between,), (call("ask"), call("ask")), (say("No news."),)]
    stage = await set_stage(make_core, script, tools=[ask])
    run = await stage.play()
    assert (run.status, run.text) == ("completed", "No news.")


async def test_doom_loop_is_counted_per_run(make_core: MakeCore):
    """A new message starts over: calls of an earlier run do not count."""

    def twice(request: Request) -> Answer:
        return (call("ask"),) if step_of(request) < 2 else (say("No news."),)

    stage = await set_stage(make_core, twice, tools=[ask])
    assert [(await stage.play()).status for _ in range(3)] == ["completed"] * 3
    check_log(await stage.log())


async def test_session_continues_after_a_doom_loop(make_core: MakeCore):
    """A run that failed as a doom loop leaves a session whose next message is answered, with every call closed."""

    def script(request: Request) -> Answer:
        asked = sum(entry.message.role == "user" for entry in request.messages)
        return (call("ask"),) if asked == 1 else (say("Sorry."),)

    stage = await set_stage(make_core, script, tools=[ask])
    assert (await stage.play()).status == "failed"
    assert (await stage.play("And now?")).text == "Sorry."
    last = stage.provider.requests[-1]
    assert [result.outcome for result in results(last)] == ["done", "done", "cancelled"]

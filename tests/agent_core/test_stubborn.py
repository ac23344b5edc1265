"""Tools and models that do not behave: Stop, shutdown and the log hold all the same."""

import asyncio
import threading
from contextlib import suppress
from typing import Any, cast

from agent_core.agents import ToolSpec
from agent_core.events import RunFailed, RunResumed, ToolCompleted, ToolRequested, ToolStarted
from agent_core.messages import Text, text_of
from agent_core.testing import call, raw_call, say
from agent_core.tools.base import Done, Elicitation, Pending, ToolError
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.raising import RAISED
from tests.agent_core.stage import set_stage
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import PATIENCE


async def test_stop_does_not_wait_for_a_tool_that_will_not_stop(make_core: MakeCore):
    """A tool that ignores its cancellation is abandoned: the run ends at once and its call is unknown."""
    begun, released = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def cling() -> str:
        """Cling."""
        begun.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()
        return "late"

    stage = await set_stage(make_core, [(call("cling"),)], tools=[cling])
    run = await stage.send()
    await begun.wait()
    async with asyncio.timeout(PATIENCE):
        assert (await stage.stop(run)).status == "cancelled"
    assert [body.outcome for body in await stage.said(ToolCompleted)] == ["unknown"]
    check_log(await stage.log())
    released.set()


async def test_the_end_does_not_wait_for_a_blocking_tool(make_core: MakeCore):
    """A blocking tool runs in a thread of its own, which holds up neither Stop nor the process's end."""
    begun, released = threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Block."""
        begun.set()
        released.wait()
        return "late"

    stage = await set_stage(make_core, [(call("block"),)], tools=[block])
    await stage.send()
    assert await asyncio.get_running_loop().run_in_executor(None, begun.wait, PATIENCE)
    try:
        async with asyncio.timeout(PATIENCE):
            await stage.core.stop(grace=2.0)
    finally:
        released.set()


async def test_many_blocking_tools_run_side_by_side(make_core: MakeCore):
    """Blocking calls do not queue for threads: as many as the model asks for run at once."""
    together = threading.Barrier(24, timeout=PATIENCE)

    @tool(concurrency_safe=True)
    def meet(n: int) -> str:
        """Meet."""
        return f"{n} at {together.wait()}"

    stage = await set_stage(make_core, [tuple(call("meet", n=n) for n in range(24)), (say("Met."),)], tools=[meet])
    assert (await stage.play()).text == "Met."
    assert {body.outcome for body in await stage.said(ToolCompleted)} == {"done"}


async def test_what_had_ended_when_stop_came_is_kept(make_core: MakeCore):
    """A call that ended at the moment of the Stop is in the log with its result, not as unknown."""
    done = asyncio.Event()

    @tool(effect="write", concurrency_safe=True)
    async def book(room: str) -> str:
        """Book."""
        if room == "b":  # runs once both have returned, and before either result is processed
            asyncio.get_running_loop().call_soon(stage.core._engine.pool.interrupt, 1)
            done.set()
        return f"{room} booked"

    stage = await set_stage(make_core, [(call("book", room="a"), call("book", room="b")), (say("x"),)], tools=[book])
    run = await stage.send()
    await done.wait()
    await stage.stop(run)
    assert [body.outcome for body in await stage.said(ToolCompleted)] == ["done", "done"]


async def test_a_second_stop_does_not_disturb_the_first(make_core: MakeCore):
    """A second Stop, while a tool that will not stop is given its moment, takes nothing from what had ended."""
    stopping, released = asyncio.Event(), asyncio.Event()

    @tool(effect="write", concurrency_safe=True)
    async def book(room: str) -> str:
        """Book."""
        if room == "b":  # runs once both have returned, and before either result is processed
            asyncio.get_running_loop().call_soon(stage.core._engine.pool.interrupt, 1)
        return f"{room} booked"

    @tool(concurrency_safe=True)
    async def cling() -> str:
        """Cling."""
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                stopping.set()
        return "late"

    calls = (call("cling"), call("book", room="a"), call("book", room="b"))
    stage = await set_stage(make_core, [calls], tools=[book, cling])
    run = await stage.send()
    await stopping.wait()
    async with asyncio.timeout(PATIENCE):
        assert (await stage.stop(run)).status == "cancelled"
    released.set()
    ends = {body.call: body.outcome for body in await stage.said(ToolCompleted)}
    assert [ends[body.call] for body in await stage.said(ToolRequested)] == ["cancelled", "done", "done"]
    assert not await stage.said(RunResumed)


async def test_a_result_that_no_utf8_can_hold_is_fixed(make_core: MakeCore):
    """A lone surrogate in a tool's result becomes U+FFFD; the run continues."""

    @tool
    async def odd() -> str:
        """Return what cannot be kept."""
        return "a\ud800b"

    stage = await set_stage(make_core, [(call("odd"),), (say("Fine."),)], tools=[odd])
    assert (await stage.play()).text == "Fine."
    assert [text_of(body.parts) for body in await stage.said(ToolCompleted)] == ["a\ufffdb"]


async def test_whatever_a_tool_raises_is_a_failed_call(make_core: MakeCore):
    """What would end the process, or its task, ends the call of a tool: in the loop as in a thread."""

    @tool
    async def here(n: int) -> None:
        """Raise."""
        raise RAISED[n][0]

    @tool
    def there(n: int) -> None:
        """Raise in a thread."""
        raise RAISED[n][0]

    calls = tuple(call(name, n=n) for n in range(len(RAISED)) for name in ("here", "there"))
    stage = await set_stage(make_core, [calls, (say("Fine."),)], tools=[here, there])
    async with asyncio.timeout(PATIENCE):
        assert (await stage.play()).text == "Fine."
    ends = [(body.outcome, text_of(body.parts)) for body in await stage.said(ToolCompleted)]
    assert ends == [("failed", f"`{name}` failed: {said}") for _, said in RAISED for name in ("here", "there")]


async def test_work_that_was_done_is_told_as_done(make_core: MakeCore):
    """What a tool of any kind returns that cannot be stored is not shown, half characters are replaced."""

    class Careless:
        """A tool that keeps to no port."""

        def __init__(self, name: str, returned: Any) -> None:
            self.spec, self.returned = ToolSpec(name=name, description="", parameters={"type": "object"}), returned

        async def call(self, _arguments: Any, _context: Any) -> Any:
            return self.returned

    returned = (
        None,
        Done((Text(cast("Any", 5)),)),
        Done(cast("Any", 5)),
        Done((Text('{"\\ud83d": "\\ud83d\ud83d"}'),)),
    )
    tools = [Careless(f"t{n}", each) for n, each in enumerate(returned)]
    calls = tuple(call(each.spec.name) for each in tools)
    stage = await set_stage(make_core, [calls, (say("Fine."),)], tools=tools)
    assert (await stage.play()).text == "Fine."
    *unseen, seen = await stage.said(ToolCompleted)
    assert {(body.outcome, text_of(body.parts)[:34]) for body in unseen} == {
        ("done", "It ran; its result cannot be shown")
    }
    assert (seen.outcome, text_of(seen.parts)) == ("done", '{"\\ufffd": "\\ufffd\ufffd"}')


async def test_unreadable_calls_are_a_doom_loop_too(make_core: MakeCore):
    """The third call in a row with the same unreadable arguments is requested, not run, and the run fails."""

    @tool
    async def look(what: str) -> str:
        """Look."""
        return what

    stage = await set_stage(make_core, lambda _: (raw_call("look", '{"what": '),), tools=[look])
    run = await stage.play()
    assert run.error
    assert run.error.code == "doom_loop"
    assert len(await stage.said(ToolRequested)) == 3
    assert not await stage.said(ToolStarted)
    assert [body.outcome for body in await stage.said(ToolCompleted)] == ["failed", "failed", "cancelled"]
    assert len(await stage.said(RunFailed)) == 1


@for_each(
    "made, outcome",
    [
        (lambda: ToolError(cast("Any", 5)), "failed"),
        (lambda: Done((Text("x"),), renders=cast("Any", "abc")), "done"),
        (lambda: Pending(cast("Any", 5)), "done"),
        (lambda: Pending(cast("Any", "\ud83d")), "done"),
        (lambda: Elicitation("t", cast("Any", 5)), "done"),
        (lambda: Elicitation(cast("Any", 5), {"type": "object", "properties": {}}), "done"),
        (lambda: Elicitation("t", {"type": "object", "properties": {}}, state=cast("Any", 5)), "done"),
    ],
)
async def test_an_outcome_with_unfit_fields_ends_its_call(make_core: MakeCore, made, outcome: str):
    """The tool ran, once: the call is over, the run goes on, and its log can be read."""
    calls: list[int] = []

    @tool
    async def odd() -> Any:
        """Return an outcome that is none."""
        calls.append(1)
        return made()

    stage = await set_stage(make_core, [(call("odd"),), (say("On."),)], tools=[odd])
    run = await stage.play()
    assert (run.status, run.text, len(calls)) == ("completed", "On.", 1)
    assert [body.outcome for body in await stage.said(ToolCompleted)] == [outcome]

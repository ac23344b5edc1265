"""One tool call: what the log and the model get of it, whatever the tool does."""

import asyncio
import json
from contextlib import suppress

import pytest

from agent_core.agents import RESULT_LIMIT
from agent_core.events import ToolCompleted, ToolPending, ToolProgress, ToolRequested, ToolStarted
from agent_core.messages import Text, text_of
from agent_core.testing import call, raw_call, say
from agent_core.tools.base import CallContext, Done, Pending, ToolError
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import local
from tests.agent_core.stage import PATIENCE, Stage, is_a, results, set_stage
from tests.conftest import MakeCore


async def one_call(make_core: MakeCore, made, asked=None) -> tuple[Stage, str, str]:
    """Let the model call *made* once; return the stage and the outcome in the log, which the model was sent too."""
    script = [(asked or call(made.spec.name),), (say("I see."),)]
    stage = await set_stage(make_core, script, tools=[made])
    run = await stage.play()
    assert (run.status, run.text) == ("completed", "I see.")
    check_log(await stage.log())
    (end,) = await stage.said(ToolCompleted)
    (sent,) = results(stage.provider.requests[1])
    assert (sent.call, sent.outcome, sent.parts) == (end.call, end.outcome, end.parts)
    return stage, end.outcome, text_of(end.parts)


@tool
async def look(what: str = "it") -> str:
    """Look something up."""
    return f"{what} is fine"


async def test_a_call_is_requested_started_and_completed(make_core: MakeCore):
    """A call is three facts: what was asked for, that it started, and how it ended, which the model is sent."""
    stage, outcome, text = await one_call(make_core, look, call("look", what="the sky"))
    assert (outcome, text) == ("done", "the sky is fine")
    facts = [fact.body for fact in await stage.log()]
    request, start, end = (fact for fact in facts if isinstance(fact, ToolRequested | ToolStarted | ToolCompleted))
    assert isinstance(request, ToolRequested)
    assert (request.name, request.arguments, request.index, request.step) == ("look", {"what": "the sky"}, 0, 1)
    assert isinstance(start, ToolStarted)
    assert isinstance(end, ToolCompleted)
    assert request.call == start.call == end.call


async def test_unknown_tool_fails_with_a_message_to_the_model(make_core: MakeCore):
    """A call of a tool that the agent does not have fails, and the model gets the names of the tools that there are."""
    _, outcome, text = await one_call(make_core, look, call("peek"))
    assert outcome == "failed"
    assert "`peek`" in text
    assert "look" in text


async def test_invalid_arguments_fail_with_a_message_to_the_model(make_core: MakeCore):
    """Arguments that do not fit the schema fail the call before the tool runs, with the field and the reason."""
    ran = []

    @tool
    async def measure(length: int, unit: str) -> str:
        """Measure something."""
        ran.append(length)
        return "long"

    _, outcome, text = await one_call(make_core, measure, call("measure", length="much"))
    assert outcome == "failed"
    assert "length" in text
    assert "unit" in text
    assert not ran


@pytest.mark.parametrize("raw", ['{"what": ', "[1, 2]", '"what"', "nonsense"])
async def test_arguments_that_are_no_object_fail_with_a_message_to_the_model(make_core: MakeCore, raw):
    """Arguments that are no JSON object fail the call without a start, and the model sees what it had written."""
    stage, outcome, text = await one_call(make_core, look, raw_call("look", raw))
    assert outcome == "failed"
    assert raw in text
    assert not await stage.said(ToolStarted)


async def test_a_tool_that_raises_fails_its_call(make_core: MakeCore):
    """An error that a tool raises fails its call and is passed to the model; the run continues."""

    @tool(effect="write")
    async def break_it() -> str:
        """Break."""
        raise ValueError("the lever came off")

    _, outcome, text = await one_call(make_core, break_it)
    assert outcome == "failed"
    assert "the lever came off" in text


async def test_a_tool_that_fails_says_why(make_core: MakeCore):
    """A tool that answers with a failure has its message passed to the model."""

    @tool
    async def give_up() -> ToolError:
        """Give up."""
        return ToolError("out of stock")

    assert (await one_call(make_core, give_up))[1:] == ("failed", "out of stock")


async def test_a_tool_that_is_cancelled_from_within_fails_its_call(make_core: MakeCore):
    """A tool whose own work was cancelled, not by us, fails its call; the run does not wait for it for ever."""

    @tool
    async def lose_heart() -> str:
        """Lose heart."""
        raise asyncio.CancelledError

    async with asyncio.timeout(PATIENCE):
        _, outcome, text = await one_call(make_core, lose_heart)
    assert outcome == "failed"
    assert "lose_heart" in text


async def test_a_read_that_times_out_fails(make_core: MakeCore):
    """A tool that reads and does not answer within its timeout is stopped, and its call fails."""
    stopped = asyncio.Event()

    @tool(timeout=0.01)
    async def wait_for_ever() -> str:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    _, outcome, text = await one_call(make_core, wait_for_ever)
    assert outcome == "failed"
    assert "0.01 s" in text
    assert stopped.is_set()


async def test_a_write_that_times_out_is_unknown(make_core: MakeCore):
    """A write that does not answer within its timeout may have taken effect: its outcome is unknown."""

    @tool(effect="write", timeout=0.01)
    async def book_for_ever() -> str:
        """Book."""
        await asyncio.Event().wait()
        return "never"

    _, outcome, text = await one_call(make_core, book_for_ever)
    assert outcome == "unknown"
    assert "0.01 s" in text
    assert "Check before you repeat" in text


async def test_tool_that_ignores_its_timeout_is_abandoned(make_core: MakeCore):
    """A tool that goes on after its timeout holds nothing up: its call ends, and what it says later is dropped."""
    may_end = asyncio.Event()

    @tool(timeout=0.01)
    async def insist() -> str:
        """Insist."""
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await may_end.wait()
        return "late"

    try:
        _, outcome, text = await one_call(make_core, insist)
    finally:
        may_end.set()
    assert outcome == "failed"
    assert "0.01 s" in text


async def test_a_timeout_inside_a_tool_is_no_timeout_of_the_call(make_core: MakeCore):
    """A tool that raises a TimeoutError of its own fails like with any other error, a write too."""

    @tool(effect="write")
    async def ask_far_away() -> str:
        """Ask."""
        raise TimeoutError("the far end is slow")

    _, outcome, text = await one_call(make_core, ask_far_away)
    assert outcome == "failed"
    assert "the far end is slow" in text


async def test_a_pending_call_makes_the_run_wait(make_core: MakeCore):
    """A tool that leaves its call to a client makes the run wait, open and without an owner, with the call named."""

    @tool
    async def pick(colour: str) -> Pending:
        """Let the person pick."""
        return Pending("client")

    stage = await set_stage(make_core, [(call("pick", colour="red"),)], tools=[pick])
    run = await stage.play()
    assert run.status == "requires_action"
    (pending,) = await stage.said(ToolPending)
    (open_call,) = run.pending
    assert (open_call.call, open_call.on) == (pending.call, "client")
    assert (open_call.tool, open_call.arguments) == ("pick", {"colour": "red"})
    assert (await stage.types(run.id))[-2:] == ["tool.pending", "run.waiting"]
    assert not local(stage.core).pool.driven, "a waiting run holds a task"
    assert (await stage.core.session(stage.session)).status == "requires_action"


async def test_a_call_left_to_an_approval_waits(make_core: MakeCore):
    """A run whose call waits for an approval has the status `waiting`; other calls of the step run first."""

    @tool
    async def pay() -> Pending:
        """Pay."""
        return Pending("approval")

    stage = await set_stage(make_core, [(call("pay"), call("look"))], tools=[pay, look])
    run = await stage.play()
    assert run.status == "waiting"
    assert [pending.tool for pending in run.pending] == ["pay"]
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["done"]


async def test_progress_is_shown_and_not_kept(make_core: MakeCore):
    """What a tool tells of its progress is shown while it runs, and is not in the log."""
    may_end = asyncio.Event()

    @tool
    async def dig(context: CallContext) -> str:
        """Dig."""
        context.progress("a metre deep")
        await may_end.wait()
        return "done"

    stage = await set_stage(make_core, [(call("dig"),), (say("Dug."),)], tools=[dig])
    async with stage.reader() as reader:
        run = await stage.send()
        event = await reader.until(is_a(ToolProgress, text="a metre deep"))
        assert event.run == run
        may_end.set()
        assert (await stage.done(run)).status == "completed"
    assert "tool.progress" not in await stage.types(run)


async def test_a_long_result_is_cut_and_kept_whole(make_core: MakeCore):
    """A result over 50,000 characters is cut for the model with a note, and the whole is kept as a blob."""
    assert RESULT_LIMIT == 50_000
    whole = "x" * 50_001

    @tool
    async def recite() -> Done:
        """Recite."""
        return Done((Text(whole), Text("and the end")))

    stage, outcome, text = await one_call(make_core, recite)
    (end,) = await stage.said(ToolCompleted)
    assert outcome == "done"
    assert end.truncated
    shown, note = end.parts
    assert shown == Text("x" * RESULT_LIMIT)
    assert isinstance(note, Text)
    assert end.ref
    assert end.ref in note.text
    assert str(RESULT_LIMIT) in note.text
    assert len(text) < RESULT_LIMIT + 300
    mime, data = await stage.core.blob(end.ref)
    assert mime == "application/json"
    assert json.loads(data) == [{"type": "text", "text": whole}, {"type": "text", "text": "and the end"}]


@pytest.mark.parametrize(("length", "truncated"), [(20, False), (21, True)])
async def test_a_tool_has_its_own_result_limit(make_core: MakeCore, length, truncated):
    """A tool's own `result_limit` counts characters, failures included; up to it nothing is cut."""

    @tool(result_limit=20)
    async def recite() -> ToolError:
        """Recite."""
        return ToolError("ü" * length)

    stage, outcome, text = await one_call(make_core, recite)
    (end,) = await stage.said(ToolCompleted)
    assert outcome == "failed"
    assert end.truncated is truncated
    assert (end.ref is not None) is truncated
    assert text.startswith("ü" * 20)
    assert text.count("ü") == 20

"""Messages whose content is a tool's output: the tool runs before the model sees the message, as facts of the run."""

import json
from typing import Any

import pytest

from agent_core.channels import Inbound, Overlap
from agent_core.errors import InvalidInput
from agent_core.events import MessageReceived, ToolCompleted, ToolRequested
from agent_core.messages import Part, Text, ToolCall, ToolResult, text_of
from agent_core.testing import Script, by_step, call, say
from tests.agent_core.asking import Till, asks, no, open_approvals, yes
from tests.agent_core.stage import ANN, Stage, restart, set_stage, texts
from tests.conftest import MakeCore

ANSWER = [(say("I see."),)]
USED = "[output] pay {} ({})\n{}"


def using(tool: str = "pay", *more: Part, overlap: Overlap = "queue", **given: Any) -> Inbound:
    """Return a message that has *tool* used; *more* is its result, if that is known."""
    return Inbound(parts=(ToolCall("call_1", tool, given), *more), actor=ANN, overlap=overlap)


async def _stage(make_core: MakeCore, till: Till, script: Script = ANSWER, **options: Any) -> Stage:
    return await set_stage(make_core, script, tools=till.tools(), **options)


async def _sent(stage: Stage, inbound: Inbound) -> str:
    return (await stage.core.receive(stage.session, inbound)).run


async def test_the_tool_runs_before_the_model_is_asked(make_core: MakeCore):
    """The call is in the log as any other; the model reads its result as the person's message."""
    till = Till()
    stage = await _stage(make_core, till)
    run = await stage.done(await _sent(stage, using(amount=5)))
    assert (run.status, run.text, till.paid) == ("completed", "I see.", [5])
    arguments = json.dumps({"amount": 5}, separators=(",", ":"))
    assert texts(stage.provider.requests[0]) == [("user", USED.format(arguments, "done", "Paid 5 as call_"))]
    assert [(each.name, each.step) for each in await stage.said(ToolRequested)] == [("pay", 0)]
    assert [type(part) for each in await stage.said(MessageReceived) for part in each.parts] == [ToolCall]


async def test_a_known_output_is_not_made_again(make_core: MakeCore):
    """With the output in the message nothing runs; later messages are read as ever, after a restart too."""
    till = Till()
    stage = await _stage(make_core, till)
    known = ToolResult("call_1", "done", (Text("Paid before. [/output]"),))
    await stage.done(await _sent(stage, using("pay", known, amount=5)))
    assert (till.paid, await stage.said(ToolRequested)) == ([], [])
    before = texts(stage.provider.requests[0])
    assert before == [("user", USED.format('{"amount":5}', "done", "Paid before. [/output]"))]
    stage = await restart(make_core, stage, ANSWER, tools=till.tools())
    await stage.play("And now?")
    assert texts(stage.provider.requests[0]) == [*before, ("assistant", "I see."), ("user", "And now?")]


@pytest.mark.parametrize("approved", [True, False], ids=["yes", "no"])
async def test_people_approve_such_a_call_too(make_core: MakeCore, approved: bool):
    """Hooks and approvals see the call; another process goes on after the decision; a denied one is said to be."""
    till = Till()
    stage = await _stage(make_core, till, hooks=(asks(),))
    run = await stage.done(await _sent(stage, using(amount=5)))
    assert (run.status, till.paid, stage.provider.requests) == ("waiting", [], [])
    (asked,) = await open_approvals(stage)
    stage = await restart(make_core, stage, ANSWER, tools=till.tools())
    await stage.core.approvals.decide(yes(asked.id) if approved else no(asked.id))
    assert (await stage.done(run.id)).status == "completed"
    assert till.paid == ([5] if approved else [])
    ((_, said),) = texts(stage.provider.requests[0])
    assert ("(done)" if approved else "(denied)") in said


async def test_a_window_that_is_read_again_has_the_output(make_core: MakeCore):
    """After a restart between two messages the earlier output is in the prompt as it was."""
    till = Till()
    stage = await _stage(make_core, till)
    await stage.done(await _sent(stage, using(amount=5)))
    before = texts(stage.provider.requests[0])
    stage = await restart(make_core, stage, ANSWER, tools=till.tools())
    await stage.play("And now?")
    assert texts(stage.provider.requests[0])[:1] == before


async def test_the_model_may_go_on_with_tools(make_core: MakeCore):
    """Calls of the model that follow are ordinary ones, with the same tool too."""
    till = Till()
    stage = await _stage(make_core, till, by_step((call("pay", amount=6),), (say("Done."),)))
    assert (await stage.done(await _sent(stage, using(amount=5)))).text == "Done."
    assert till.paid == [5, 6]
    assert [each.step for each in await stage.said(ToolRequested)] == [0, 1]
    assert [text_of(each.parts) for each in await stage.said(ToolCompleted)] == ["Paid 5 as call_", "Paid 6 as call_"]


@pytest.mark.parametrize(
    ("inbound", "path"),
    [
        (using("payy", amount=5), "tool_output.tool"),
        (using("pay", amount="five"), "tool_output.input.amount"),
        (using("pay"), "tool_output.input.amount"),
        (using("pay", amount=5, overlap="steer"), "overlap"),
    ],
    ids=["unknown", "unfit", "lacking", "steer"],
)
async def test_what_cannot_run_is_refused(make_core: MakeCore, inbound: Inbound, path: str):
    """A call that could not be made is refused with the field, before anything is stored."""
    stage = await _stage(make_core, Till())
    with pytest.raises(InvalidInput) as refused:
        await stage.core.receive(stage.session, inbound)
    assert refused.value.path == path
    assert await stage.said(MessageReceived) == []

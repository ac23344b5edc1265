"""Tools that the client executes, and tools without an executor."""

import pytest

from agent_core.agents import DeclaredTool
from agent_core.errors import AlreadyDecided, InvalidInput, NotFound
from agent_core.events import RunResumed, ToolStarted
from agent_core.messages import text_of
from agent_core.runtime.segments import ToolOutput
from agent_core.testing import by_step, call, say
from tests.agent_core.asking import Till, asks, open_approvals, yes
from tests.agent_core.stage import results, set_stage
from tests.conftest import MakeCore

SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
WHERE = DeclaredTool(name="where", kind="client", description="Where the person is.", parameters=SCHEMA)
REPORT = DeclaredTool(name="report", kind="none", description="The report.", parameters=SCHEMA)
TWO = by_step((call("where", what="home"), call("where", what="work")), (say("There."),))


async def test_the_client_executes_its_tools(make_core: MakeCore) -> None:
    """A run waits for the client's outputs, all of them, and goes on with them."""
    stage = await set_stage(make_core, TWO, declared=(WHERE,))
    run = await stage.play()
    assert (run.status, [each.on for each in run.pending]) == ("requires_action", ["client", "client"])
    assert (await stage.core.session(stage.session)).status == "requires_action"
    assert await stage.said(ToolStarted) == []
    first, second = (each.call for each in run.pending)
    run = await stage.core.submit(run.id, [ToolOutput(call=second, output={"place": "Bern"})])
    assert (run.status, [each.call for each in run.pending]) == ("requires_action", [first])
    await stage.core.submit(run.id, [ToolOutput(call=first, error="No idea.")])
    assert (await stage.done(run.id)).text == "There."
    sent = [(result.outcome, text_of(result.parts)) for result in results(stage.provider.requests[1])]
    assert sent == [("failed", "No idea."), ("done", '{"place":"Bern"}')]
    assert len(await stage.said(RunResumed)) == 1


async def test_outputs_of_calls_that_do_not_wait_are_refused(make_core: MakeCore) -> None:
    """Unknown, repeated and answered calls are named, and nothing of such a request is taken."""
    stage = await set_stage(make_core, TWO, declared=(WHERE,))
    run = await stage.play()
    first, second = (each.call for each in run.pending)
    with pytest.raises(InvalidInput, match=r"outputs\[1\]\.call.*call_unknown"):
        await stage.core.submit(run.id, [ToolOutput(call=first), ToolOutput(call="call_unknown")])
    with pytest.raises(InvalidInput, match="twice"):
        await stage.core.submit(run.id, [ToolOutput(call=first), ToolOutput(call=first)])
    with pytest.raises(InvalidInput, match="between 1 and"):
        await stage.core.submit(run.id, [])
    with pytest.raises(NotFound):
        await stage.core.submit("run_nothing", [ToolOutput(call=first)])
    assert len((await stage.core.run(run.id)).pending) == 2
    await stage.core.submit(run.id, [ToolOutput(call=first, output="a")])
    with pytest.raises(AlreadyDecided):
        await stage.core.submit(run.id, [ToolOutput(call=first, output="b")])
    await stage.core.submit(run.id, [ToolOutput(call=second, output="c")])
    await stage.done(run.id)
    with pytest.raises(AlreadyDecided):
        await stage.core.submit(run.id, [ToolOutput(call=first, output="d")])


async def test_a_client_call_waits_beside_an_approval(make_core: MakeCore) -> None:
    """A run may wait for a client and for people at once; what is decided first runs first."""
    till = Till()
    script = by_step((call("pay", amount=1), call("where", what="home")), (say("Done."),))
    stage = await set_stage(make_core, script, tools=till.tools(), declared=(WHERE,), hooks=(asks(),))
    run = await stage.play()
    assert (run.status, {each.on for each in run.pending}) == ("requires_action", {"approval", "client"})
    (asked,) = await open_approvals(stage)
    await stage.core.approvals.decide(yes(asked.id))
    run = await stage.done(run.id)
    assert (run.status, till.paid) == ("requires_action", [1])
    await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="here")])
    assert (await stage.done(run.id)).status == "completed"


async def test_people_may_be_asked_before_a_client_is(make_core: MakeCore) -> None:
    """A client tool with an approval hook becomes the client's only after a yes."""
    script = by_step((call("where", what="home"),), (say("Done."),))
    stage = await set_stage(make_core, script, declared=(WHERE,), hooks=(asks("where"),))
    run = await stage.play()
    assert run.status == "waiting"
    (asked,) = await open_approvals(stage)
    with pytest.raises(InvalidInput):
        await stage.core.submit(run.id, [ToolOutput(call=asked.call, output="here")])
    await stage.core.approvals.decide(yes(asked.id))
    assert (await stage.done(run.id)).status == "requires_action"


async def test_a_call_without_an_executor_is_the_answer(make_core: MakeCore) -> None:
    """The arguments of a call without an executor end the run as its structured answer, and the next run goes on."""
    script = by_step((call("report", what="all well"),), (say("Hello."),))
    stage = await set_stage(make_core, script, declared=(REPORT,))
    run = await stage.play()
    assert (run.status, run.stop_reason, run.structured) == ("completed", "no_executor", {"what": "all well"})
    assert len(stage.provider.requests) == 1
    again = await stage.play("And now?")
    assert again.stop_reason == "no_executor"
    assert [result.outcome for result in results(stage.provider.requests[1])] == ["done"]


async def test_an_invalid_answer_is_returned_to_the_model(make_core: MakeCore) -> None:
    """Arguments that miss the schema are no answer: the model gets the error and tries again."""
    script = by_step((call("report"),), (call("report", what="all well"),))
    stage = await set_stage(make_core, script, declared=(REPORT,))
    run = await stage.play()
    assert (run.stop_reason, run.structured, run.steps) == ("no_executor", {"what": "all well"}, 2)


async def test_a_stop_ends_what_a_client_owes(make_core: MakeCore) -> None:
    """A cancel closes the calls that wait for a client; a later output is refused."""
    stage = await set_stage(make_core, TWO, declared=(WHERE,))
    run = await stage.play()
    assert (await stage.stop(run.id)).status == "cancelled"
    with pytest.raises(AlreadyDecided):
        await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="late")])

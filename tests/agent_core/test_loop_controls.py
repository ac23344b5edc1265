"""Controls in the loop: refused and forced calls, structured answers, stop conditions, budgets, resumes."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.agents import Controls, DeclaredTool
from agent_core.controls import UNABLE, Budget, Defaults, HasToolCall, NamedTool, Override, StepRule
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.events import (
    ContextAdded,
    MessageCompleted,
    RunCompleted,
    StepFailed,
    StepStarted,
    ToolCompleted,
    ToolStarted,
)
from agent_core.messages import text_of
from agent_core.runtime.segments import Changes, ToolOutput
from agent_core.testing import ScriptedProvider, call, fail, finish, say, usage
from agent_core.tools.base import CallContext
from agent_core.tools.functions import tool
from tests.agent_core.asking import Till, asks, open_approvals
from tests.agent_core.laws import check_log
from tests.agent_core.scenes import inbound
from tests.agent_core.stage import Stage, set_stage, texts
from tests.conftest import MakeCore

pytestmark = pytest.mark.sampled(3)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ANSWER = DeclaredTool(name="answer", kind="none", description="Answer.", parameters=SCHEMA)
PICK = DeclaredTool(name="pick", kind="client", description="Pick.", parameters={"type": "object"})


@tool(concurrency_safe=True)
async def look(what: str = "it") -> str:
    """Look something up."""
    return f"{what} is fine"


@tool
async def write(text: str) -> str:
    """Write something."""
    return f"wrote {text}"


def stop_at(name: str) -> tuple[HasToolCall, ...]:
    return (HasToolCall(type="has_tool_call", tool=name),)


async def end_of(stage: Stage) -> RunCompleted:
    """Return how the newest run ended."""
    return (await stage.said(RunCompleted))[-1]


def choices(stage: Stage) -> list[Any]:
    return [request.controls.tool_choice for request in stage.provider.requests]


async def test_a_call_that_the_step_may_not_make_is_refused(make_core: MakeCore):
    """The call never starts and the model reads which tools it may call; other calls of the step run."""
    script = [(call("write", text="x"), call("look", what="a")), (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=[look, write])
    run = await stage.play(active_tools=("look",))
    assert (run.status, run.text, run.steps) == ("completed", "Fine.", 2)
    refused, done = await stage.said(ToolCompleted)
    assert (refused.outcome, done.outcome) == ("denied", "done")
    assert text_of(refused.parts) == "Not run: `write` may not be called in this step. You may call `look`."
    assert len(await stage.said(ToolStarted)) == 1
    assert [spec.name for spec in stage.provider.requests[0].snapshot.tools] == ["look", "write"]
    check_log(await stage.log())


async def test_refused_call_opens_no_approval(make_core: MakeCore):
    """A refused call asks for no approval and is not executed."""
    till = Till()
    stage = await set_stage(
        make_core, [(call("pay", amount=3),), (say("Then not."),)], tools=till.tools(), hooks=[asks()]
    )
    run = await stage.play(active_tools=("look",))
    assert (run.status, till.paid, await open_approvals(stage)) == ("completed", [], [])
    assert [ended.outcome for ended in await stage.said(ToolCompleted)] == ["denied"]


async def test_rules_are_for_their_step_alone(make_core: MakeCore):
    """A rule holds in the step that it names; a refused call of one step may be made in the next."""
    script = [(call("write", text="x"),), (call("write", text="x"),), (say("Done."),)]
    rules = (StepRule(step=1, tool_choice="required", active_tools=("look",)),)
    stage = await set_stage(make_core, script, tools=[look, write], controls=Controls(step_rules=rules))
    assert (await stage.play()).status == "completed"
    assert [ended.outcome for ended in await stage.said(ToolCompleted)] == ["denied", "done"]
    assert choices(stage) == ["required", "auto", "auto"]


async def test_text_in_place_of_a_required_call_is_rejected_once(make_core: MakeCore):
    """The step is attempted once more with a note; the first answer is withdrawn, and the call counts."""
    script = [(say("I would rather talk."),), (call("look"),), (say("Well."),)]
    stage = await set_stage(make_core, script, tools=[look, write])
    run = await stage.play(step_rules=(StepRule(step=1, tool_choice=NamedTool("look")),))
    assert (run.text, run.steps) == ("Well.", 2)
    (failed,) = await stage.said(StepFailed)
    assert (failed.n, failed.code, failed.partial) == (1, "choice_ignored", True)
    assert "call `look` now" in texts(stage.provider.requests[1])[-1][1]
    assert not any("rather" in text_of(message.parts) for message in await stage.said(MessageCompleted))
    check_log(await stage.log())


async def test_second_answer_without_the_required_call_counts(make_core: MakeCore):
    """A second answer without the call is accepted: the model is not asked a third time."""
    stage = await set_stage(make_core, [(say("No."),), (say("Really not."),)], tools=[look])
    run = await stage.play(tool_choice="required")
    assert (run.status, run.stop_reason, run.text) == ("completed", "end_turn", "Really not.")
    assert stage.provider.calls == 2


async def test_controls_that_the_api_refuses_go_into_a_note(make_core: MakeCore):
    """The call is repeated once without the controls and with a note instead; later steps do the same."""
    script = [(fail("controls_refused", retryable=False),), (call("look"),), (call("look", what="b"),), (say("Ok."),)]
    stage = await set_stage(make_core, script, tools=[look, write])
    run = await stage.play(active_tools=("look",), step_rules=(StepRule(step=1, tool_choice="required"),))
    assert (run.status, run.text) == ("completed", "Ok.")
    asked = stage.provider.requests
    assert (choices(stage)[:2], asked[0].controls.active_tools, asked[1].controls.active_tools) == (
        ["required", "auto"],
        ("look",),
        None,
    )
    assert {(request.controls.tool_choice, request.controls.active_tools) for request in asked[1:]} == {("auto", None)}
    notes = [added.text for added in await stage.said(ContextAdded)]
    assert len(notes) == 2, "one for the call that must come, one when it need not any more"
    assert "must be a call of `look`" in notes[0]
    assert "call `look` only" in notes[1]
    first = (await stage.said(StepStarted))[1]
    assert first.controls is None, "the step may do what it might: only the way that the model gets it changed"


async def test_an_api_that_refuses_everything_fails_the_run(make_core: MakeCore):
    """A second refusal, or one of a request without controls, fails the run."""
    refusal = (fail("controls_refused", retryable=False),)
    stage = await set_stage(make_core, [refusal] * 3, tools=[look])
    assert (await stage.play(tool_choice="required")).status == "failed"
    assert stage.provider.calls == 2
    assert (await stage.play()).status == "failed"
    assert stage.provider.calls == 3


async def test_a_forced_choice_that_is_ignored_after_a_refusal_is_given_up(make_core: MakeCore):
    """There is one repair: text that follows the note is the answer."""
    script = [(fail("controls_refused", retryable=False),), (say("I cannot."),)]
    stage = await set_stage(make_core, script, tools=[look])
    run = await stage.play(tool_choice="required")
    assert (run.status, run.text, stage.provider.calls) == ("completed", "I cannot.", 2)


async def test_withheld_tools_cost_no_cache_unless_they_are_called(make_core: MakeCore):
    """If a change of `tool_choice` costs the cache, the last step has a note; after a call it is asked with `none`."""
    script = [(call("look"),), (call("look", what="b"),), (say("So far."),)]
    provider = ScriptedProvider(script, able=UNABLE)
    core = await make_core(provider, tools=(look,), definition={})
    stage = await open_stage(core, provider)
    run = await stage.play(max_steps=2)
    assert (run.stop_reason, run.text) == ("max_steps", "So far.")
    assert choices(stage) == ["auto", "auto", "none"]
    assert "Call no tools any more" in texts(provider.requests[1])[-1][1]


async def open_stage(core: Core, provider: ScriptedProvider) -> Stage:
    return Stage(core, provider, (await core.open_session(agent="assistant", actor=inbound("").actor)).id)


async def test_an_answer_that_fits_is_the_structured_one(make_core: MakeCore):
    """The value of the final answer is in `run.completed` and in the run; without a schema there is none."""
    stage = await set_stage(make_core, [(call("look"),), (say('{"n": 7}'),), (say("Plain."),)], tools=[look])
    run = await stage.play(output_schema=SCHEMA)
    assert (run.structured, (await end_of(stage)).structured) == ({"n": 7}, {"n": 7})
    assert stage.provider.requests[0].controls.output_schema == SCHEMA
    await stage.play()
    raw = [fact.raw for fact in await stage.log() if fact.type == "run.completed"]
    assert [b"structured" in each for each in raw] == [True, False]


async def test_an_answer_that_does_not_fit_is_repaired_once(make_core: MakeCore):
    """The model gets the errors, and its second answer is the run's."""
    stage = await set_stage(make_core, [(say('{"n": "seven"}'),), (say('```json\n{"n": 7}\n```'),)])
    run = await stage.play(output_schema=SCHEMA)
    assert (run.structured, run.steps, run.stop_reason) == ({"n": 7}, 2, "end_turn")
    assert "$.n: 'seven' is not of type 'integer'" in texts(stage.provider.requests[1])[-1][1]
    check_log(await stage.log())


@pytest.mark.parametrize(
    ("controls", "answers"),
    [({}, ["seven", "still seven"]), ({"max_steps": 1}, ["seven"])],
    ids=["after one repair", "with no step left"],
)
async def test_an_answer_that_never_fits_is_null(make_core: MakeCore, controls, answers):
    """The run completes with its text and `structured: null`; a repair is a step, and the cap holds for it."""
    stage = await set_stage(make_core, [(say(answer),) for answer in answers])
    run = await stage.play(output_schema=SCHEMA, **controls)
    assert (run.status, run.structured, run.text) == ("completed", None, answers[-1])
    assert stage.provider.calls == len(answers)
    ends = [fact.raw for fact in await stage.log() if fact.type == "run.completed"]
    assert b'"structured":null' in ends[-1]


async def test_a_cut_answer_is_read_with_its_continuation(make_core: MakeCore):
    """Continuations are joined before the whole is read as a value."""
    stage = await set_stage(make_core, [(say('{"n":'), finish("length")), (say(" 7}"),)])
    run = await stage.play(output_schema=SCHEMA)
    assert (run.structured, run.text, stage.provider.calls) == ({"n": 7}, '{"n": 7}', 2)


async def test_every_question_has_its_own_repair(make_core: MakeCore):
    """A message that joins the run is answered in the form too, and repaired if it must be."""
    stage = await set_stage(make_core, [(say("a"),), (say('{"n": 1}'),), (say("b"),), (say('{"n": 2}'),)])
    assert (await stage.play(output_schema=SCHEMA)).structured == {"n": 1}
    assert (await stage.play(output_schema=SCHEMA)).structured == {"n": 2}


async def test_required_call_without_executor_is_the_answer(make_core: MakeCore):
    """`tool_choice: required` with such a tool gives its arguments as the structured answer, in a single step too."""
    options: list[dict[str, Any]] = [{}, {"max_steps": 1}]
    for controls in options:
        stage = await set_stage(make_core, [(call("answer", n=7),)], declared=[ANSWER], tools=[look])
        run = await stage.play(tool_choice="required", **controls)
        assert (run.status, run.stop_reason, run.structured) == ("completed", "no_executor", {"n": 7})


async def test_a_stop_condition_waits_for_the_whole_step(make_core: MakeCore):
    """All calls of the step are executed and recorded; the model is not asked again."""
    stage = await set_stage(make_core, [(call("look"), call("write", text="x"))], tools=[look, write])
    run = await stage.play(stop_conditions=stop_at("look"))
    assert (run.stop_reason, run.steps) == ("stop_condition", 1)
    assert [ended.outcome for ended in await stage.said(ToolCompleted)] == ["done", "done"]
    check_log(await stage.log())


async def test_refused_call_fulfils_no_stop_condition(make_core: MakeCore):
    """A call that was not executed fulfils no stop condition."""
    stage = await set_stage(make_core, [(call("write", text="x"),), (say("Well."),)], tools=[look, write])
    run = await stage.play(stop_conditions=stop_at("write"), active_tools=("look",))
    assert (run.stop_reason, run.text) == ("end_turn", "Well.")


@pytest.mark.parametrize(
    ("budget", "used", "calls", "reason"),
    [
        (Budget(tokens=40), {"input": 10, "output": 5}, 3, "budget"),
        (Budget(tokens=1000), {"input": 10, "output": 5}, 4, "end_turn"),
        (Budget(tokens=40), {}, 4, "end_turn"),
        (Budget(usd="1"), {"input": 10, "output": 5}, 4, "end_turn"),
    ],
    ids=["spent", "enough", "of unknown use", "of unknown price"],
)
async def test_a_budget_ends_a_run_before_its_next_question(make_core: MakeCore, budget, used, calls, reason):
    """The calls of a step are recorded; the model is not asked again once the budget is used, as far as is known."""
    script = [(call("look", what=str(n)), usage(**used)) for n in range(3)]
    stage = await set_stage(make_core, [*script, (say("Done."), usage(**used))], tools=[look])
    run = await stage.play(budget=budget)
    assert (run.status, run.stop_reason, stage.provider.calls) == ("completed", reason, calls)
    check_log(await stage.log())


async def test_a_budget_without_a_price_is_logged(make_core: MakeCore):
    """An operator learns once per run that its budget in dollars could not be held; one in tokens needs no word."""
    script = [(call("look", what="a"), usage(input=10, output=5)), (say("Done."), usage(input=10, output=5))]
    stage = await set_stage(make_core, [*script, *script], tools=[look])
    with capture_logs() as logs:
        await stage.play(budget=Budget(usd="1"))
        await stage.play(budget=Budget(tokens=1000))
    (said,) = [line for line in logs if line["event"] == "budget.unknown_cost"]
    assert (said["log_level"], "tokens" in said["remedy"]) == ("warning", True)


async def test_complete_answer_is_kept_beyond_the_budget(make_core: MakeCore):
    """A run whose answer is there ends with it, whatever it cost."""
    stage = await set_stage(make_core, [(say("Here."), usage(input=1000, output=1000))])
    assert (await stage.play(budget=Budget(tokens=1))).stop_reason == "end_turn"


async def resumed(make_core: MakeCore, script: Any, change: Changes, **controls: Any) -> Stage:
    """Return a run that waited for the client and was resumed with a *change*."""
    stage = await set_stage(make_core, [(call("pick"),), *script], tools=[look, write], declared=[PICK])
    run = await stage.play(**controls)
    assert run.status == "requires_action"
    await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="that")], change)
    await stage.done(run.id)
    check_log(await stage.log())
    return stage


async def test_an_override_is_for_the_next_step_alone(make_core: MakeCore):
    """The override holds for every attempt of the next step, and for no later step."""
    script = [(fail("network", retry_after=0),), (call("look"),), (say("Done."),)]
    stage = await resumed(make_core, script, Changes(next=Override(tool_choice=NamedTool("look"))))
    assert choices(stage) == ["auto", NamedTool("look"), NamedTool("look"), "auto"]


async def test_defaults_of_a_resume_are_for_the_rest_of_the_run(make_core: MakeCore):
    """The defaults override those of the run and the agent, and do not apply to the next run."""
    change = Changes(defaults=Defaults(active_tools=("look",), max_output_tokens=9))
    script = [(call("write", text="x"),), (say("Done."),), (say("Again."),)]
    stage = await resumed(make_core, script, change, max_output_tokens=5, active_tools=("pick", "write"))
    assert [request.controls.max_output_tokens for request in stage.provider.requests] == [5, 9, 9]
    assert [ended.outcome for ended in await stage.said(ToolCompleted)] == ["done", "denied"]
    await stage.play()
    assert stage.provider.requests[-1].controls.max_output_tokens is None


async def test_rules_of_a_resume_are_for_the_steps_that_they_name(make_core: MakeCore):
    """Steps are counted from the run's first; the rules go before the agent's own, and with other defaults."""
    changes = Changes(rules=(StepRule(step=3, tool_choice="none"),), defaults=Defaults(max_output_tokens=9))
    stage = await resumed(make_core, [(call("look"),), (say("Done."),)], changes)
    assert choices(stage) == ["auto", "auto", "none"]
    assert [request.controls.max_output_tokens for request in stage.provider.requests] == [None, 9, 9]


async def test_rules_of_a_resume_keep_the_rules_of_the_run_for_other_steps(make_core: MakeCore):
    """A rule of a resume replaces the run's rule for the same step and no other."""
    own = (StepRule(step=2, tool_choice="none"), StepRule(step=3, tool_choice="none"))
    changes = Changes(rules=(StepRule(step=2, tool_choice="required"),), defaults=Defaults(tool_choice="auto"))
    stage = await resumed(make_core, [(call("look"),), (say("Done."),)], changes, step_rules=own)
    assert choices(stage) == ["auto", "required", "none"]


async def test_tool_context_of_a_resume_is_passed_to_the_tools(make_core: MakeCore):
    """The tool context of a resume replaces the run's, which otherwise stays; neither is in a fact."""

    @tool
    async def ask(context: CallContext) -> str:
        """Tell the context's token."""
        tokens.append(context.tool_context.get("token"))
        return "asked"

    tokens: list[Any] = []
    for changes, token in ((None, "s3cret-1"), (Changes(tool_context={"token": "s3cret-2"}), "s3cret-2")):
        script = [(call("ask"), call("pick")), (call("ask"),), (say("Done."),)]
        stage = await set_stage(make_core, script, tools=[ask], declared=[PICK])
        run = await stage.play(tool_context={"token": "s3cret-1"})
        await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="that")], changes)
        await stage.done(run.id)
        assert tokens[-2:] == ["s3cret-1", token]
        assert not any(b"s3cret" in fact.raw for fact in await stage.log())
        assert "s3cret" not in repr(changes)


async def test_invalid_changes_leave_a_run_as_it_is(make_core: MakeCore):
    """The field is named, no output is taken, and the run still waits."""
    stage = await set_stage(make_core, [(call("pick"),), (say("Done."),)], tools=[look], declared=[PICK])
    run = await stage.play()
    rule = StepRule(step=2, tool_choice="none")
    for changes, path in (
        (Changes(next=Override(tool_choice=NamedTool("gone"))), "tool_choice.tool"),
        (Changes(next=Override(active_tools=("gone",))), "active_tools"),
        (Changes(rules=(rule, rule)), "step_rules[1].step"),
        (Changes(defaults=Defaults(max_steps=0)), "defaults.max_steps"),
        (Changes(rules=(rule,), defaults=Defaults(step_rules=(rule,))), "step_rules"),
        (Changes(tool_context={"token": "x" * 64_000}), "tool_context"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await stage.core.submit(run.id, [ToolOutput(call=run.pending[0].call, output="that")], changes)
        assert refused.value.path == path
    assert (await stage.core.run(run.id)).pending == run.pending

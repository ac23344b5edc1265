"""The loop, step by step: how many there are, what the last one may do, and how a run ends."""

import pytest

from agent_core.agent.strategy import CONTINUE_NOTE, EMPTY_NOTE
from agent_core.agents import DEFAULT_MAX_STEPS, Controls
from agent_core.errors import InvalidInput
from agent_core.events import (
    ContextAdded,
    MessageCompleted,
    StepCompleted,
    StepFailed,
    StepStarted,
    ToolCompleted,
    ToolRequested,
)
from agent_core.messages import Text, Usage
from agent_core.providers.base import Request
from agent_core.runtime.drive import out_of_steps
from agent_core.testing import call, finish, refuse, say, step_of, think, usage
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import is_a, set_stage, texts
from tests.conftest import MakeCore

pytestmark = pytest.mark.sampled(3)


@tool(concurrency_safe=True)
async def look(what: int = 0) -> str:
    """Look something up."""
    return f"{what} is fine"


def restless(request: Request) -> Answer:
    """Call a tool as long as that is allowed, another one each time."""
    if request.controls.tool_choice == "none":
        return (say("That is all I found."),)
    return (call("look", what=step_of(request)),)


async def test_a_plain_answer_is_one_step(make_core: MakeCore):
    """A message and an answer without calls are seven facts and one model call."""
    stage = await set_stage(make_core, [(think("Hm."), say("Hel", "lo."))])
    run = await stage.play("Hi")
    assert (run.status, run.stop_reason, run.text, run.steps) == ("completed", "end_turn", "Hello.", 1)
    assert await stage.types(run.id) == [
        "message.received",
        "run.queued",
        "run.started",
        "step.started",
        "message.completed",
        "step.completed",
        "run.completed",
    ]
    assert stage.provider.calls == 1
    assert (await stage.core.session(stage.session)).status == "idle"


async def test_a_run_has_25_steps_by_default(make_core: MakeCore):
    """A model that never stops calling tools is asked 25 times, the last time without its tools."""
    stage = await set_stage(make_core, restless, tools=[look])
    run = await stage.play()
    assert DEFAULT_MAX_STEPS == 25
    assert (run.status, run.stop_reason, run.steps) == ("completed", "max_steps", 25)
    assert run.text == "That is all I found."
    assert stage.provider.calls == 25
    chosen = [request.controls.tool_choice for request in stage.provider.requests]
    assert chosen == ["auto"] * 24 + ["none"]
    check_log(await stage.log())


@pytest.mark.parametrize(
    ("agent", "run", "steps"),
    [(Controls(max_steps=3), {}, 3), (Controls(max_steps=3), {"max_steps": 2}, 2), (Controls(), {"max_steps": 30}, 30)],
    ids=["of the agent", "of the run before the agent's", "above the default"],
)
async def test_the_number_of_steps_is_configurable(make_core: MakeCore, agent, run, steps):
    """An agent may have its own `max_steps`, and a run its own before that."""
    stage = await set_stage(make_core, restless, tools=[look], controls=agent)
    done = await stage.play(**run)
    assert (done.steps, done.stop_reason, stage.provider.calls) == (steps, "max_steps", steps)


@pytest.mark.parametrize("steps", [0, -1, 201])
async def test_an_impossible_number_of_steps_is_refused(make_core: MakeCore, steps):
    """A `max_steps` that no run could keep is refused with the field's name, and no message is taken in."""
    stage = await set_stage(make_core, restless)
    with pytest.raises(InvalidInput, match="max_steps"):
        await stage.send(max_steps=steps)
    assert len(await stage.log()) == 2


async def test_the_tool_list_stays_when_tools_are_withheld(make_core: MakeCore):
    """In the last step the tools are withheld by policy alone: the list stays in the prefix, byte by byte."""
    stage = await set_stage(make_core, restless, tools=[look])
    await stage.play(max_steps=3)
    last = stage.provider.requests[-1]
    assert last.controls.tool_choice == "none"
    assert [spec.name for spec in last.snapshot.tools] == ["look"]
    assert stage.provider.prefixes[-1].startswith(stage.provider.prefixes[-2])


async def test_a_single_call_is_a_plain_answer(make_core: MakeCore):
    """With a cap of one step the tools are withheld from the first, and a plain answer ends as `end_turn`."""
    stage = await set_stage(make_core, restless, tools=[look])
    run = await stage.play(max_steps=1)
    assert (run.status, run.stop_reason, run.text, run.steps) == ("completed", "end_turn", "That is all I found.", 1)
    assert stage.provider.requests[0].controls.tool_choice == "none"


async def test_an_agent_without_tools_never_ends_as_max_steps(make_core: MakeCore):
    """At its cap an agent without tools ends as `end_turn`: nothing was withheld from it."""
    stage = await set_stage(make_core, [(say("1"), finish("continue")), (say("2"), finish("continue"))])
    run = await stage.play(max_steps=2)
    assert (run.stop_reason, run.steps, run.text) == ("end_turn", 2, "12")


async def test_a_call_before_the_cap_is_no_max_steps(make_core: MakeCore):
    """A run that answers before its cap ends as `end_turn`."""
    stage = await set_stage(make_core, [(call("look"),), (say("Fine."),)], tools=[look])
    run = await stage.play(max_steps=3)
    assert (run.stop_reason, run.steps) == ("end_turn", 2)


async def test_a_call_made_anyway_is_refused_and_asked_again(make_core: MakeCore):
    """A call in the last step is denied and the step asked once more, with a note that tells why; then it answers."""
    script = [(call("look", what=1),), (say("One more: "), call("look", what=2)), (say("Now I answer."),)]
    stage = await set_stage(make_core, script, tools=[look])
    run = await stage.play(max_steps=2)
    assert (run.status, run.stop_reason, run.text) == ("completed", "max_steps", "Now I answer.")
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["done", "denied"]
    assert [(step.n, step.attempt) for step in await stage.said(StepStarted)] == [(1, 1), (2, 1), (2, 2)]
    (note,) = await stage.said(ContextAdded)
    assert texts(stage.provider.requests[2])[-1] == ("user", f"[note] {note.text}")
    assert stage.provider.prefixes[2].startswith(stage.provider.prefixes[1])
    check_log(await stage.log())


async def test_second_withheld_call_ends_the_run_with_the_text(make_core: MakeCore):
    """A model that calls a withheld tool in both tries ends the run with what it said the second time."""
    insist = (say("I insist."), call("look", what=2))
    stage = await set_stage(make_core, [(call("look", what=1),), insist, insist], tools=[look])
    run = await stage.play(max_steps=2)
    assert (run.status, run.stop_reason, run.text) == ("completed", "max_steps", "I insist.")
    assert stage.provider.calls == 3
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["done", "denied"]
    assert len(await stage.said(ToolRequested)) == 2
    assert not any(part for part in run.parts if not isinstance(part, Text))


@pytest.mark.parametrize(
    "last",
    [
        [(call("look", what=2),), (call("look", what=3),)],
        [(call("look", what=2),), (think("Hm."),)],
        [(think("Hm."),), (call("look", what=3),), ()],
        [(), ()],
    ],
    ids=["calls twice", "calls, then thinks", "thinks, calls, then nothing", "nothing twice"],
)
async def test_a_last_step_that_finds_no_words_tells_the_person_so(make_core: MakeCore, last):
    """A model that is asked for words once more and has none leaves the person with a sentence, not with nothing."""
    stage = await set_stage(make_core, [(call("look"), call("look", what=1)), *last, (say("Go on."),)], tools=[look])
    run = await stage.play(max_steps=2)
    assert (run.status, run.stop_reason, run.steps) == ("completed", "max_steps", 2)
    assert run.text == out_of_steps(2, 2)
    (_, end) = await stage.said(MessageCompleted)
    assert (end.parts, end.stop, end.partial) == ((Text(run.text),), "done", False)
    assert 1 <= len(await stage.said(ContextAdded)) <= 2
    check_log(await stage.log())
    await stage.play("Go on")
    assert ("assistant", run.text) in texts(stage.provider.requests[-1])


async def test_an_empty_last_answer_is_asked_for_in_words(make_core: MakeCore):
    """An empty answer in the last step is tried once more, with a note, and the words that come then are the answer."""
    stage = await set_stage(make_core, [(call("look"),), (think("Hm."),), (say("It is fine."),)], tools=[look])
    run = await stage.play(max_steps=2)
    assert (run.stop_reason, run.text, run.steps) == ("max_steps", "It is fine.", 2)
    assert [failed.code for failed in await stage.said(StepFailed)] == ["empty_answer"]
    assert texts(stage.provider.requests[2])[-1] == ("user", f"[note] {EMPTY_NOTE}")
    assert stage.provider.prefixes[2].startswith(stage.provider.prefixes[1])


async def test_withheld_tools_are_refused_all_at_once(make_core: MakeCore):
    """Of several calls in a step that may not call, each is denied and none runs."""
    stage = await set_stage(make_core, [(call("look"), call("look", what=2)), (say("Well."),)], tools=[look])
    run = await stage.play(max_steps=1)
    assert (run.status, run.stop_reason, run.text) == ("completed", "end_turn", "Well.")
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["denied", "denied"]


async def test_a_run_may_withhold_its_tools_itself(make_core: MakeCore):
    """A run that was asked to use no tools refuses calls in any step, and ends as `end_turn`."""
    stage = await set_stage(make_core, [(call("look"),), (say("Without looking: fine."),)], tools=[look])
    run = await stage.play(tool_choice="none")
    assert (run.stop_reason, run.text, run.steps) == ("end_turn", "Without looking: fine.", 1)
    assert [end.outcome for end in await stage.said(ToolCompleted)] == ["denied"]


async def test_an_empty_answer_is_asked_for_once_more(make_core: MakeCore):
    """A model that says nothing gets a note and is asked again; its second answer counts."""
    stage = await set_stage(make_core, [(think("Hm."),), (say("Here."),)])
    run = await stage.play()
    assert (run.status, run.text, run.steps) == ("completed", "Here.", 2)
    assert texts(stage.provider.requests[1]) == [("user", "Go"), ("user", f"[note] {EMPTY_NOTE}")]


async def test_a_model_that_stays_silent_ends_the_run(make_core: MakeCore):
    """A model that says nothing twice ends the run with an empty message; no one waits for text that never comes."""
    stage = await set_stage(make_core, [(), ()])
    run = await stage.play()
    assert (run.status, run.stop_reason, run.text, run.parts) == ("completed", "end_turn", "", ())


async def test_refusal_withdraws_its_text(make_core: MakeCore):
    """A model that refuses after some text ends the run as `refused`, with a message without parts."""
    stage = await set_stage(make_core, [(say("Sure, you "), refuse()), (say("Hello."),)])
    async with stage.reader() as reader:
        run = await stage.play()
        end = await reader.until(is_a(MessageCompleted))
    assert (run.status, run.stop_reason, run.text, run.parts) == ("completed", "refused", "", ())
    assert isinstance(end.body, MessageCompleted)
    assert (end.body.stop, end.body.parts) == ("refused", ())
    assert any(event.type == "text.delta" for event in reader.events)
    assert (await stage.play("And now?")).text == "Hello."
    assert texts(stage.provider.requests[1]) == [("user", "Go"), ("user", "And now?")]


async def test_a_cut_answer_is_continued(make_core: MakeCore):
    """An answer cut by the token limit is continued, with a note to the model; the run's text is the parts joined."""
    script = [(say("One, "), finish("length")), (say("two, "), finish("length")), (say("three."),)]
    stage = await set_stage(make_core, script)
    run = await stage.play()
    assert (run.status, run.stop_reason, run.text, run.steps) == ("completed", "end_turn", "One, two, three.", 3)
    assert texts(stage.provider.requests[2]) == [
        ("user", "Go"),
        ("assistant", "One, "),
        ("user", f"[note] {CONTINUE_NOTE}"),
        ("assistant", "two, "),
        ("user", f"[note] {CONTINUE_NOTE}"),
    ]
    assert [end.stop for end in await stage.said(MessageCompleted)] == ["length", "length", "done"]


async def test_a_fourth_cut_ends_the_run(make_core: MakeCore):
    """An answer is continued up to three times; cut once more, the run ends with what there is as `max_tokens`."""
    stage = await set_stage(make_core, lambda _: (say("more "), finish("length")))
    run = await stage.play()
    assert (run.status, run.stop_reason, run.text) == ("completed", "max_tokens", "more " * 4)
    assert stage.provider.calls == 4


async def test_calls_under_a_cut_never_run(make_core: MakeCore):
    """Calls of an answer that was cut are dropped, whole or not, and the model is informed when it continues."""
    script = [(say("I look. "), call("look", what=1), finish("length")), (say("I could not."),)]
    stage = await set_stage(make_core, script, tools=[look])
    run = await stage.play()
    assert run.text == "I look. I could not."
    assert not await stage.said(ToolRequested)
    assert "a tool call that was cut has not run" in texts(stage.provider.requests[1])[-1][1]


async def test_a_continuation_counts_as_a_step(make_core: MakeCore):
    """A continuation after a cut answer uses up one of the run's steps."""
    stage = await set_stage(make_core, lambda _: (say("more "), finish("length")))
    run = await stage.play(max_steps=2)
    assert (run.steps, run.text, run.stop_reason) == (2, "more more ", "max_tokens")


async def test_usage_is_summed(make_core: MakeCore):
    """A run's usage is the sum of its steps; what no provider reported stays null."""
    script = [(call("look"), usage(input=10, output=2, cache_read=0)), (say("Fine."), usage(input=15, output=3))]
    stage = await set_stage(make_core, script, tools=[look])
    run = await stage.play()
    assert run.usage == Usage(25, 5, None, None, None, None)
    assert run.cost is None
    assert [step.usage.input for step in await stage.said(StepCompleted)] == [10, 15]


async def test_a_step_without_a_report_makes_the_sum_unknown(make_core: MakeCore):
    """One step that reported no tokens makes the run's sum unknown, never too small."""
    script = [(call("look"), usage(input=10, output=2)), (say("Fine."),)]
    stage = await set_stage(make_core, script, tools=[look])
    assert (await stage.play()).usage == Usage(None, None, None, None, None, None)


async def test_failed_attempts_count_in_the_usage(make_core: MakeCore):
    """Tokens that a withheld try cost are part of the run's usage."""
    script = [(call("look"), usage(input=10, output=2)), (say("Fine."), usage(input=12, output=3))]
    stage = await set_stage(make_core, script, tools=[look])
    run = await stage.play(max_steps=1)
    assert [failed.usage and failed.usage.input for failed in await stage.said(StepFailed)] == [10]
    assert (run.usage.input, run.usage.output) == (22, 5)

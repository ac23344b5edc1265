"""Conversations that go oddly: refusals, pauses, cut answers, quirks of small servers, and changes of the wire."""

import asyncio

import pytest

from agent_core.agents import Limits
from agent_core.events import MessageCompleted, StepCompleted, StepFailed, ToolCompleted
from agent_core.messages import Message, Reasoning, Text, ToolResult, text_of
from agent_core.testing import FakeClock, call, fail, finish, pause, raw_call, refuse, say, think
from agent_core.testing.models import Options, Quirks, native, redacted
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS, by_text, extends
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES
from tests.agent_core.stage import PATIENCE, asleep

pytestmark = pytest.mark.whole

STALE = "stale_reasoning"
ONE_LOOK = by_text(
    One=[[think("Hm."), say("Looking."), call("look", what="a"), call("look", what="b")], [say("Fine.")]],
    Two=[[think("Again."), call("look", what="c")], [think("Oh."), say("Fine too.")]],
    Three=[[call("list_all")], [say("All fine.")]],
)
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


async def test_a_refusal_withdraws_the_text_and_stays_out_of_history(scene, wire):
    """What a model said before it refused is not kept, and no later request repeats it."""
    stage = await scene(wire, by_text(One=[[think("Hm."), say("Well, "), refuse("No.")]], Two=[[say("Yes.")]]))
    run = await stage.play("One")
    assert (run.status, run.stop_reason) == ("completed", "refused")
    (message,) = await stage.said(MessageCompleted)
    assert (message.parts, message.stop, message.native) == ((), "refused", None)
    await stage.play("Two")
    assert b"Well" not in b"".join(stage.requests[1])


async def test_a_paused_answer_is_sent_back_unchanged(scene):
    """After `pause_turn` the answer so far goes back as it is, with its server tools and thinking, and no word more."""
    steps = [[think("Search."), native(SEARCH), finish("continue")], [native(FOUND), say("Found it.")]]
    answers = iter([*steps, [say("You are welcome.")]])
    stage = await scene(MESSAGES, lambda asked: next(answers))
    assert (await stage.play("One")).status == "completed"
    first, second = stage.line.models.asked
    assert len(second.body["messages"]) == len(first.body["messages"]) + 1
    content = second.body["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["thinking", "server_tool_use"]
    assert content[1] == SEARCH
    assert (await stage.play("Two")).status == "completed"
    assert await stage.said(StepFailed) == []


async def test_an_answer_cut_at_the_limit_continues_and_its_calls_do_not_run(scene, wire):
    """An answer that reached its limit is continued; a call in it is not run, whole or not."""
    cut = [think("Hm."), say("One, "), call("look", what="a"), raw_call("look", '{"wh'), finish("length")]
    answers = iter([cut, [say("two.")], [say("You are welcome.")]])
    stage = await scene(wire, lambda asked: next(answers), tools=TOOLS)
    assert (await stage.play("One")).status == "completed"
    assert (await stage.play("Two")).status == "completed"
    assert await stage.said(ToolCompleted) == []
    assert await stage.said(StepFailed) == []
    said = [text_of(message.parts) for message in await stage.said(MessageCompleted)]
    assert said == ["One, ", "two.", "You are welcome."]


async def test_an_answer_that_is_cut_each_time_ends_as_max_tokens(scene, wire):
    """After its last continuation a cut answer ends the run with what there is; a call in it is not run."""
    cut = [say("more "), call("look", what="a"), finish("length")]
    stage = await scene(wire, lambda asked: cut, tools=TOOLS)
    run = await stage.play("One")
    assert (run.status, run.stop_reason, run.text) == ("completed", "max_tokens", "more " * 4)
    assert stage.line.models.calls == 4
    assert await stage.said(ToolCompleted) == []


@pytest.mark.parametrize("failures", [(), ("network",), (STALE,), ("network", STALE)])
async def test_a_message_during_a_paused_answer_goes_with_the_step_after_it(scene, failures):
    """Nothing but its continuation may follow a paused answer: what is said meanwhile waits, and is not lost."""
    paused, go_on = asyncio.Event(), asyncio.Event()
    steps = [[think("Hm."), say("Well. "), native(SEARCH), pause(go_on), finish("continue")]]
    steps += [[fail(kind)] for kind in failures]
    answers = iter([*steps, [native(FOUND), say("Red."), call("list_all")], [say("Blue, then.")]])
    clock = FakeClock()

    def script(asked):
        paused.set()
        return next(answers)

    stage = await scene(MESSAGES, script, tools=TOOLS, clock=clock)
    run = await stage.send("Paint it")
    async with asyncio.timeout(PATIENCE):
        await paused.wait()
    assert await stage.send("In blue", overlap="steer") == run
    go_on.set()
    if "network" in failures:
        await asleep(clock, 3)
        clock.advance(20)
    assert (await stage.done(run)).status == "completed"
    assert [failed.code for failed in await stage.said(StepFailed)] == list(failures)
    included = [b"In blue" in b"".join(messages) for messages in stage.requests]
    whole = len(failures) + (1 if STALE in failures else 2)
    assert included == [False] * whole + [True] * (len(included) - whole)
    check_log(await stage.log())


async def test_a_session_outlives_an_answer_that_stayed_paused(scene):
    """A run that ends while its answer is paused leaves calls of the server's open; the next run goes well."""
    answers = iter([[say("Well. "), native(SEARCH), finish("continue")], [say("Yes.")], [say("Yes.")]])
    stage = await scene(MESSAGES, lambda asked: next(answers))
    await stage.play("One", max_steps=1)
    assert (await stage.play("Two")).status == "completed"


async def test_thinking_shows_on_every_wire(scene, wire):
    """A model that thinks shows it, in the log as in the stream; OpenAI's summarizes it because it is asked to."""
    stage = await scene(wire, lambda asked: [think("Hm, a greeting."), say("Hi.")])
    await stage.play("Hello")
    (message,) = await stage.said(MessageCompleted)
    assert message.parts == (Reasoning("Hm, a greeting."), Text("Hi."))


async def test_an_organization_without_summaries_is_answered(scene):
    """OpenAI refuses to summarize for some: that costs one try, after which no summary is asked for."""
    server = {"options": Options(verified=False)}
    stage = await scene(RESPONSES, lambda asked: [think("Hm."), say("Hi.")], server=server)
    assert [(await stage.play(text)).status for text in ("One", "Two")] == ["completed"] * 2
    assert [failed.code for failed in await stage.said(StepFailed)] == ["error"]
    asked = stage.line.models.asked
    assert ["reasoning" in each.body for each in asked] == [True, False, False]
    assert [message.parts for message in await stage.said(MessageCompleted)] == [(Text("Hi."),)] * 2


PAUSED = {
    "text": [[say("Well. "), native(SEARCH), finish("continue")]],
    "thinking": [[think("a"), native(SEARCH), finish("continue")]],
    "after a tool": [
        [think("a"), call("look", what="a")],
        [think("b"), say("Well. "), native(SEARCH), finish("continue")],
    ],
    "twice": [
        [think("a"), native(SEARCH), finish("continue")],
        [native(FOUND), think("b"), say("Well. "), native({**SEARCH, "id": "srvtoolu_2"}), finish("continue")],
    ],
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", PAUSED)
@pytest.mark.parametrize("end", [[], [say("It is"), finish("length")], [native(FOUND), say("It"), finish("length")]])
async def test_a_paused_answer_that_never_goes_on_is_sent_rightly_at_once(scene, case, end):
    """A run ends while an answer is paused, or its continuation is cut: the next request is not refused first."""
    if case == "twice" and end and end[0] == native(FOUND):
        end = [native({**FOUND, "tool_use_id": "srvtoolu_2"}), *end[1:]]
    answers = iter([*PAUSED[case], *([end] if end else []), [think("c"), say("Yes.")], [say("Bye.")]])
    stage = await scene(MESSAGES, lambda asked: next(answers), tools=TOOLS)
    steps = len(PAUSED[case]) + bool(end)
    assert [(await stage.play("One", max_steps=steps)).status, (await stage.play("Two")).status] == ["completed"] * 2
    assert await stage.said(StepFailed) == []
    assert (await stage.play("Three")).status == "completed"


@pytest.mark.parametrize(
    "odd",
    [
        [think("a"), say("Well. "), call("look", what="a"), think("b"), say("So."), finish("length")],
        [think("a"), say("Well. "), think("b"), raw_call("look", '{"what"'), finish("length")],
        [say(" "), think("a"), say("Well.")],
        [think("a"), say("\n"), think("b"), redacted(), say("Well.")],
        [think("a"), say(""), think("b"), call("look", what="a")],
    ],
)
async def test_thinking_is_never_refused_because_of_what_was_dropped_before_it(scene, odd):
    """Blank text and calls that were cut do not go back, nor does thinking that is bound to them."""
    answers = iter([odd, [think("Hm."), say("Fine.")], [say("You are welcome.")], [say("Bye.")]])
    stage = await scene(MESSAGES, lambda asked: next(answers), tools=TOOLS)
    assert [(await stage.play(text)).status for text in ("One", "Two")] == ["completed"] * 2
    assert await stage.said(StepFailed) == []


async def test_an_empty_answer_is_asked_for_again(scene, wire):
    """A model that says nothing, or only thinks, is asked once more; nothing empty is sent back."""
    answers = iter([[think("Hm.")], [say(" \n")], [say("You are welcome.")]])
    stage = await scene(wire, lambda asked: next(answers))
    await stage.play("One")
    assert (await stage.play("Two")).status == "completed"
    assert await stage.said(StepFailed) == []


async def test_a_message_in_the_middle_of_a_tool_loop_is_read_in_the_next_step(scene, wire):
    """A steered message goes after the results of the calls, and the thinking before it stays valid."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        """Work for a while."""
        begun.set()
        await go_on.wait()
        return "worked"

    answers = iter([[think("Hm."), call("work")], [think("Oh, blue."), call("work")], [think("So."), say("Blue.")]])
    stage = await scene(wire, lambda asked: next(answers), tools=[work])
    run = await stage.send("Paint it")
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    assert await stage.send("In blue", overlap="steer") == run
    go_on.set()
    assert (await stage.done(run)).status == "completed"
    assert b"In blue" in stage.requests[1][-1]
    before, after = stage.line.models.asked[1:]
    assert extends(before, after, wire.sent)
    assert await stage.said(StepFailed) == []


async def test_the_last_step_withholds_the_tools_and_keeps_the_prefix(scene, wire):
    """In the last step a model may not call; the request says so in the way that keeps the cached prefix."""
    steps = [[think("Hm."), call("look", what="a")], [say("So far so good.")]]
    stage = await scene(wire, lambda asked: steps[asked.step], tools=TOOLS)
    assert (await stage.play("Go", max_steps=2)).status == "completed"
    first, second = stage.line.models.asked
    assert extends(first, second, wire.sent)
    if wire is MESSAGES:  # another choice would bill every message again
        assert (second.body.get("tool_choice"), b"Call no tools" in second.raw) == (None, True)
    else:
        assert (second.body["tool_choice"], b"Call no tools" in second.raw) == ("none", False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(index="zero"),
        Quirks(index="none"),
        Quirks(repeat=True),
        Quirks(empty_ids=True, index="zero"),
        Quirks(lump=True, index="zero", repeat=True),
        Quirks(stop=True, reasoning="reasoning"),
        Quirks(usage="each", done=False),
        Quirks(usage="never"),
    ],
    ids=lambda quirks: " ".join(f"{name}={value}" for name, value in _differing(quirks).items()),
)
async def test_a_conversation_goes_well_with_a_server_of_quirks(scene, quirks):
    """Compatible servers number, name and end things in their own ways; conversations go well all the same."""
    stage = await scene(CHAT, ONE_LOOK, tools=TOOLS, server={"options": Options(quirks=quirks)})
    runs = [await stage.play(text) for text in ("One", "Two", "Three")]
    assert [run.status for run in runs] == ["completed"] * 3
    assert [done.outcome for done in await stage.said(ToolCompleted)] == ["done"] * 4
    assert await stage.said(StepFailed) == []
    known = [step.usage.output is not None for step in await stage.said(StepCompleted)]
    assert known == [quirks.usage != "never"] * 6


@pytest.mark.parametrize(
    ("wire", "other"), [(MESSAGES, RESPONSES), (RESPONSES, CHAT), (CHAT, MESSAGES)], ids=lambda wire: wire.name
)
async def test_a_session_may_change_its_wire_and_come_back(scene, dial, wire, other):
    """A run with another provider's model reads the whole history, and so does the first one after it."""
    guest = await dial(other, ONE_LOOK)
    stage = await scene(wire, ONE_LOOK, tools=TOOLS, stand_in=guest, limits=Limits(None))
    runs = [await stage.play("One"), await stage.play("Two", model=other.full), await stage.play("Three")]
    assert [run.status for run in runs] == ["completed"] * 3
    assert (stage.line.models.calls, guest.models.calls) == (4, 2)
    assert b"Fine." in guest.models.asked[0].raw
    assert b"Fine too." in stage.line.models.asked[-1].raw
    assert await stage.said(StepFailed) == []
    check_log(await stage.log())


async def test_a_request_that_breaks_a_rule_would_be_refused(dial, wire):
    """The server holds requests against the vendors' rules: what passes in this suite passes them."""
    line = await dial(wire, [[say("Never.")]])
    orphan = Message("tool", (ToolResult("call_1", "done", (Text("a result of no call"),)),))
    assert (await line.receive(Message("user", (Text("Go"),)), orphan)).end == "invalid"


def _differing(quirks: Quirks) -> dict[str, object]:
    usual = Quirks()
    names = Quirks.__dataclass_fields__
    return {name: value for name in names if (value := getattr(quirks, name)) != getattr(usual, name)}

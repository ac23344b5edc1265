"""The demo provider: what a person without a model key gets to see."""

import asyncio
import json
import re
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import validate

from agent_core.agent.entries import in_window, instruction
from agent_core.agent.frames import Frames
from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from agent_core.messages import UNKNOWN_USAGE, Message, Text, ToolCall, ToolResult
from agent_core.providers import base as b
from agent_core.providers import demo
from agent_core.providers.demo import HEADING
from agent_core.testing import FakeClock
from agent_core.tools.render import render_tools
from tests.agent_core.providers.demo_asked import WindowItem, answer, asked, calls, request, result, text, user
from tests.cases import for_each
from tests.polling import PATIENCE

RENDERS = ("render_chart", "render_table")


def test_it_is_a_provider():
    """The demo provider is an ordinary provider that speaks neutral JSON."""
    provider: b.Provider = demo.DemoProvider(FakeClock())
    assert provider.name == "demo"
    message = Message("user", (Text("hi"),))
    assert msgspec.json.decode(provider.encoder("")(message, {}), type=Message) == message


@for_each(
    "said, expression",
    [
        ("What is 12 * 7?", "12 * 7"),
        ("12*7", "12 * 7"),
        ("3 x 4", "3 * 4"),
        ("3 × 4 please", "3 * 4"),
        ("10 ÷ 4", "10 / 4"),
        ("5 − 8", "5 - 8"),
        ("2^10", "2 ** 10"),
        ("1,000 * 3.5", "1000 * 3.5"),
        ("12 times 7", "12 * 7"),
        ("six? no: 6 divided by 4", "6 / 4"),
        ("-5 + -3", "-5 + -3"),
        ("(2 + 3) * 4 and more", "(2 + 3) * 4"),
        ("is it (2+3)?", "(2 + 3)"),
        ("half open (2+3, I think", "2 + 3"),
        ("wrongly closed 2+3), I think", "2 + 3"),
        ("1 + 2 * 3 - 4", "1 + 2 * 3 - 4"),
        ("On 2026-11-21 it was 5 % 3", "5 % 3"),
        ("3 + 4, then 5 + 6", "3 + 4"),
    ],
)
async def test_arithmetic_calls_calculate(said, expression):
    """Any `a op b` in the text becomes one call of `calculate`, in plain operators."""
    assert await calls(user(said)) == {"calculate": {"expression": expression}}


@for_each("said", ["hello", "a * b", "on 2026-11-21", "release v1.2-3", "timeless", "24 hours", ""])
async def test_other_text_calls_no_tool(said):
    """Where there is nothing to do for a tool, the help text says what to try."""
    assert await calls(user(said)) == {}
    assert "12 * 7" in await text(user(said))


@for_each(
    "said, zone",
    [
        ("What time is it?", "UTC"),
        ("TIME!", "UTC"),
        ("the time in Europe/Berlin", "Europe/Berlin"),
        ("time in America/Argentina/Salta now", "America/Argentina/Salta"),
    ],
)
async def test_the_word_time_calls_current_time(said, zone):
    """The tool is asked for the zone that the person named, or UTC."""
    assert await calls(user(said)) == {"current_time": {"timezone": zone}}


async def test_both_tools_are_called_in_one_step():
    """A message that wants both gets both at once, each with raw arguments that are its JSON."""
    deltas = await answer(user("What time is it, and what is 2 + 2?"))
    ends = [d for d in deltas if isinstance(d, b.ToolEnd)]
    assert [d.name for d in deltas if isinstance(d, b.ToolStart)] == ["calculate", "current_time"]
    assert [json.loads(end.raw) for end in ends] == [end.arguments for end in ends]
    assert len({d.call_id for d in deltas if isinstance(d, b.ToolStart)}) == 2
    assert deltas[-1] == b.Finished("tools")
    assert not any(isinstance(d, b.ModelTextDelta) for d in deltas)


async def test_results_are_described_in_words():
    """After its tools the demo answers with what they said, and calls none of them again."""
    window = (
        user("What time is it, and what is 12 * 7?"),
        WindowItem(
            "assistant",
            ToolCall("1", "calculate", {"expression": "12 * 7"}),
            ToolCall("2", "current_time", {"timezone": "UTC"}),
        ),
        WindowItem("tool", ToolResult("1", "done", (Text("84"),)), ToolResult("2", "done", (Text("noon"),))),
    )
    assert await calls(*window) == {}
    said = await text(*window)
    assert said.startswith("12 * 7 is 84.\n\nIt is noon.")
    assert "demonstration" in said


async def test_a_failed_tool_is_described_too():
    """What a tool said of its failure reaches the person."""
    window = (user("1 / 0"), asked("calculate", expression="1 / 0"), result("calculate", "Division.", "failed"))
    assert "`calculate` gave no result (failed). Division." in await text(*window)


async def test_a_new_message_starts_over():
    """Results that were described are not described again, and each message may use each tool once."""
    first = (user("1 + 1"), asked("calculate", expression="1 + 1"), result("calculate", "2"))
    window = (*first, WindowItem("assistant", Text("1 + 1 is 2.")), user("2 + 2"))
    assert await calls(*window) == {"calculate": {"expression": "2 + 2"}}
    then = (asked("calculate", expression="2 + 2"), result("calculate", "4"))
    said = await text(*window, *then)
    assert "2 + 2 is 4." in said
    assert "1 + 1" not in said


async def test_a_steered_message_is_answered_with_the_one_before():
    """A message that joins in the middle gets its own call, and the answer tells both results."""
    first = (user("1 + 1"), asked("calculate", expression="1 + 1"), result("calculate", "2"))
    assert await calls(*first, user("and 2 + 2")) == {"calculate": {"expression": "2 + 2"}}
    then = (WindowItem("assistant", ToolCall("b", "calculate", {"expression": "2 + 2"})), result("b", "4"))
    assert (await text(*first, user("and 2 + 2"), *then)).startswith("1 + 1 is 2.\n\n2 + 2 is 4.")


async def test_notes_are_not_questions():
    """What Parley itself tells the model, such as the time, is not taken for the person's words."""
    assert await calls(user("2 + 2"), user("[clock] The time is 10:00.")) == {"calculate": {"expression": "2 + 2"}}


async def test_it_calls_only_what_is_there():
    """Tools outside the snapshot are not called; the answer says what is missing."""
    assert await calls(user("time, 2 + 2"), tools=["calculate"]) == {"calculate": {"expression": "2 + 2"}}
    assert "`calculate`, which is not here" in await text(user("2 + 2"), tools=())


async def test_it_calls_nothing_when_it_must_not():
    """With tool choice `none` the answer is words."""
    deltas = await answer(user("2 + 2"), choice="none")
    assert not any(isinstance(d, b.ToolStart) for d in deltas)
    assert deltas[-1] == b.Finished("done")
    assert "may not use" in await text(user("2 + 2"), choice="none")


@for_each(
    "said, tool, shown",
    [
        ("Show me a sample table.", "render_table", "table"),
        ("Draw me a sample bar chart.", "render_chart", "bar chart"),
        ("a sample chart", "render_chart", "bar chart"),
        ("sample column chart", "render_chart", "bar chart"),
        ("Sample Line Chart", "render_chart", "line chart"),
        ("a sample area chart please", "render_chart", "area chart"),
        ("a sample pie chart", "render_chart", "pie chart"),
        ("a sample scatter plot", "render_chart", "scatter chart"),
        ("a sample heatmap", "render_chart", "heatmap"),
    ],
)
async def test_a_sample_is_drawn_by_its_tool(said, tool, shown):
    """A sample calls its render tool when there is one, with arguments that it takes, and one sentence goes with it."""
    asks = user(said)
    ((name, arguments),) = (await calls(asks, tools=RENDERS)).items()
    assert name == tool
    spec = render_tools(None)[tool].spec
    validate(arguments, spec.parameters)
    assert f"`{tool}`, which is not here" in await text(asks)
    window = (asks, asked(tool, **arguments), result(tool, "shown"))
    assert (await text(*window, tools=RENDERS)).startswith(f"Here is the sample {shown}.\n")


@for_each("kind", ["bar", "line", "area", "pie", "scatter", "heatmap"])
async def test_all_samples_but_one_are_plain_charts(kind):
    """A sample chart is what its name says, and one of them is drawn as a picture."""
    spec = (await calls(user(f"sample {kind} {'chart' if kind != 'heatmap' else ''}"), tools=RENDERS))["render_chart"]
    plain = reduced(checked(spec["vega_lite_spec"]))
    assert (plain.type if plain else "heatmap") == kind


async def test_a_table_and_a_chart_are_drawn_in_one_answer():
    """Each render tool is called once, also where several samples are asked for; other tables are not samples."""
    said = user("a sample table, a sample pie chart and a sample line chart")
    assert list(await calls(said, tools=RENDERS)) == ["render_table", "render_chart"]
    window = (user("x"), asked("render_chart", title="Mine"), result("render_chart", "shown"))
    assert (await text(*window, tools=RENDERS)).startswith("Here is the chart.")


async def test_other_tools_are_described_plainly():
    """A result that the demo knows nothing about is passed on."""
    window = (user("hello"), asked("dice"), result("dice", "six"))
    assert "`dice` answered: six" in await text(*window)


@given(st.text(max_size=40))
def test_a_long_answer_is_long_varied_and_structured(words):
    """Whatever else is said, "at length" streams 300 to 500 deltas of markdown."""
    said = demo.essay(words)
    assert 300 <= len(demo.words(said)) <= 480
    assert said.count("\n## ") == len(demo.SECTIONS)
    assert re.search(r"(?m)^1\. ", said)
    assert said.count("```") == 2
    assert "demonstration" in said


async def test_at_length_streams_one_delta_per_word():
    """A long answer arrives as 300 to 500 deltas, also together with a tool's result."""
    window = (user("2 + 2 at length"), asked("calculate", expression="2 + 2"), result("calculate", "4"))
    for items in ([user("Explain at length, please.")], window):
        deltas = [d for d in await answer(*items) if isinstance(d, b.ModelTextDelta)]
        assert 300 <= len(deltas) <= 500
    assert await text(*window) != await text(user("Another one at length"))


@for_each("said", ["hello", "at length", "2 + 2", "sample chart"])
async def test_it_never_claims_to_be_a_model(said):
    """Every answer in words says that this is a demonstration."""
    assert "demonstration" in await text(user(said), choice="none")


async def test_the_same_request_gets_the_same_answer():
    """The demo is deterministic, down to the ids."""
    for said in ("hello", "at length", "2 + 2, what time?"):
        assert await answer(user(said)) == await answer(user(said))


async def test_it_reports_no_usage_that_it_does_not_know():
    """There is no model, so the tokens are unknown; the report comes before the end."""
    assert (await answer(user("hi")))[-2:] == [b.UsageReport(UNKNOWN_USAGE), b.Finished("done")]


@given(st.text())
def test_words_are_the_whole_text(said):
    """Deltas joined are the text again, and none is empty."""
    assert "".join(demo.words(said)) == said
    assert all(demo.words(said))


@given(st.text(alphabet="0123456789+-*/^%(),. x\u00d7plus", max_size=60))
def test_any_text_can_be_read(said):
    """No mixture of digits and operators breaks the search, and what it finds is plain arithmetic."""
    for wish in demo.wanted_calls(said):
        if wish.tool == "calculate":
            assert re.fullmatch(r"[-0-9.+*/%() ]+", wish.arguments["expression"])


@pytest.mark.whole
@for_each(
    "said",
    ["1", "1 ", "(", "1+", "1,", "-", "(1", "1)", "A/", "Aa", "1 + ", "2026-1", " ", "use a ", "use a {", "use a {}"],
)
async def test_long_texts_are_read_quickly(said):
    """A text of 200,000 characters, whatever it repeats, takes no time that grows with its square: that is minutes."""
    async with asyncio.timeout(PATIENCE):
        assert await answer(user(said * (200_000 // len(said))))


async def test_it_keeps_its_rate():
    """At 50 deltas per second each word comes 20 ms after the one before, the first at once."""
    clock, hello = FakeClock(0), request(user("hello"))
    provider, batches = demo.DemoProvider(clock, rate=50), []

    async def watch():
        batches.extend([(clock.now(), batch) async for batch in provider.stream(hello)])

    task = asyncio.create_task(watch())
    expected = len(demo.words(demo.help_text(hello.snapshot.tools)))
    for _ in range(expected - 1):
        assert await clock.advance_to_next() == pytest.approx(0.02)
    await task
    texts = [(time, batch) for time, batch in batches if isinstance(batch[0], b.ModelTextDelta)]
    assert [time for time, _ in texts] == [20 * n for n in range(expected)]
    assert [(_, batch) for _, batch in texts if len(batch) != 1] == []


async def test_a_clock_that_is_set_back_does_not_stop_it():
    """A pause is never longer than one interval."""
    clock = FakeClock()
    provider = demo.DemoProvider(clock, rate=50)
    stream = provider.stream(request(user("hello")))
    async with aclosing(stream):
        await anext(stream)
        await anext(stream)
        clock._now -= 3_600_000_000
        task = asyncio.create_task(anext(stream))
        assert await clock.advance_to_next() == pytest.approx(0.02)
        await task


async def test_others_run_while_it_streams_flat_out():
    """Without pauses the stream still gives control back, so that Stop works."""
    provider = demo.DemoProvider(FakeClock(), rate=0)
    batches = []

    async def watch():
        batches.extend([batch async for batch in provider.stream(request(user("at length")))])

    task = asyncio.create_task(watch())
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert not batches


@for_each("rate", [0.0, 100.0, 400.0])
async def test_a_slow_reader_gets_larger_batches(rate: float):
    """A driver under pressure pauses after each batch: the words that became due meanwhile come as one batch."""
    clock, batches = FakeClock(), []
    provider = demo.DemoProvider(clock, rate=rate)
    async for batch in provider.stream(request(user("Explain at length"))):
        batches.append(batch)
        clock.advance(0.1)
    texts = [[delta.text for delta in batch if isinstance(delta, b.ModelTextDelta)] for batch in batches]
    words = demo.words(f"{demo.essay('Explain at length')}\n\n{demo.MARK}")
    assert [text for batch in texts for text in batch] == words
    assert len(batches) <= len(words) / 9 + 4


async def test_a_summary_has_what_people_asked():
    """Asked to sum up it lists what people asked, those of an earlier summary first, and calls nothing."""
    frames = Frames("abcdefghij")
    before = user(frames.context("summary", in_window(f"{HEADING}\n- What is 1 + 1?")))
    talk = (before, user("What time is it?"), WindowItem("assistant", Text("Noon.")), user("And 12 * 7?"))
    ask = user(frames.context("note", instruction(1_000)))
    assert await text(*talk, ask) == f"{HEADING}\n- What is 1 + 1?\n- What time is it?\n- And 12 * 7?"
    assert await calls(*talk, ask) == {}

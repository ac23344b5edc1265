"""The scripted provider: every answer that a model could give, on demand."""

import asyncio
import json
from contextlib import aclosing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import testing as s
from agent_core.agents import Controls, Snapshot
from agent_core.messages import Message, Text, ToolCall, ToolResult, Usage
from agent_core.providers import base as b
from tests.agent_core.providers.demo_asked import WindowItem
from tests.cases import for_each


def request(*items: WindowItem, instructions: str = "Be brief.") -> b.Request:
    return b.Request("m", Snapshot("h", "m", instructions, ()), items, Controls(), "ses_1")


HELLO = request(WindowItem("user", Text("hello")))


async def play(*items: s.Item, **options) -> list:
    provider = s.ScriptedProvider([items], **options)
    return [tuple(batch) async for batch in provider.stream(HELLO)]


async def deltas(*items: s.Item) -> list:
    return [delta for batch in await play(*items) for delta in batch][1:]


async def test_it_is_a_provider():
    """A scripted provider satisfies the protocol of a provider, under any name."""
    provider: b.Provider = s.ScriptedProvider([], name="anthropic")
    assert provider.name == "anthropic"
    message = Message("user", (Text("hi"),))
    assert msgspec.json.decode(provider.encoder("")(message, {}), type=Message) == message


async def test_it_says_text_in_pieces():
    """Each string is one delta, each delta one batch, all of one part; the end fits what was said."""
    assert await play(s.say("a", "b"), s.say("c")) == [
        (b.Started("answer_1", "m"),),
        (b.ModelTextDelta(0, "a"),),
        (b.ModelTextDelta(0, "b"),),
        (b.ModelTextDelta(0, "c"),),
        (b.Finished("done"),),
    ]


@given(st.text(), st.integers(1, 9))
def test_a_cut_text_is_whole_again(text, pieces):
    """However a text is cut, its pieces are not empty and make the text again."""
    said = s.say(text, cut=pieces)
    assert "".join(said.pieces) == text
    assert pieces == 1 or all(said.pieces)
    assert len(said.pieces) <= pieces


async def test_parts_have_slots_of_their_own():
    """Thinking, text and calls are parts of their own, text after a call is a new one."""
    played = await deltas(s.think("hm"), s.say("a"), s.call("t"), s.say("b"))
    assert [getattr(delta, "slot", None) for delta in played] == [0, 1, 2, 2, 2, 3, None]


async def test_it_calls_tools():
    """Several calls make several slots with ids of their own, and the answer ends with `tools`."""
    played = await deltas(s.call("add", a=1, b="é"), s.call("now"))
    raw = '{"a": 1, "b": "é"}'
    assert played == [
        b.ToolStart(0, "answer_1_0", "add"),
        b.ToolArgsDelta(0, raw),
        b.ToolEnd(0, raw, {"a": 1, "b": "é"}),
        b.ToolStart(1, "answer_1_1", "now"),
        b.ToolArgsDelta(1, "{}"),
        b.ToolEnd(1, "{}", {}),
        b.Finished("tools"),
    ]


@for_each(
    "raw, parsed",
    [('{"a": ', None), ("[1]", None), ("nonsense", None), ("", {}), ("null", {}), (' {"a": 1} ', {"a": 1})],
)
async def test_arguments_may_be_anything(raw, parsed):
    """What is no JSON object arrives as such; nothing at all counts as no arguments, as with real models."""
    end = next(delta for delta in await deltas(s.raw_call("t", raw)) if isinstance(delta, b.ToolEnd))
    assert (end.raw, end.arguments) == (raw, parsed)


async def test_arguments_come_in_pieces():
    """The raw arguments of a call can be cut, too."""
    played = await deltas(s.raw_call("t", '{"a": 1}', cut=3))
    assert "".join(each.text for each in played if isinstance(each, b.ToolArgsDelta)) == '{"a": 1}'
    assert sum(isinstance(each, b.ToolArgsDelta) for each in played) == 3


async def test_one_read_may_bring_several_deltas():
    """What is said together is one batch."""
    batches = await play(s.together(s.say("a", "b"), s.call("t"), s.finish("tools")))
    assert len(batches) == 1
    assert [type(each).__name__ for each in batches[0]][:3] == ["Started", "ModelTextDelta", "ModelTextDelta"]


async def test_usage_is_what_was_said_and_else_unknown():
    """A usage report leaves out nothing and invents nothing."""
    assert (await deltas(s.usage(input=3)))[0] == b.UsageReport(Usage(3, None, None, None, None, None))


async def test_it_refuses():
    """A refusal after text ends as `refused`."""
    assert (await deltas(s.say("Well"), s.refuse("No.")))[1:] == [b.Refusal("No."), b.Finished("refused")]


async def test_it_ends_for_any_reason():
    """`finish` names the reason, and nothing after it is played."""
    assert await deltas(s.say("a"), s.finish("length"), s.say("b")) == [
        b.ModelTextDelta(0, "a"),
        b.Finished("length"),
    ]


async def test_it_fails_before_the_first_token():
    """A request that is turned away never started."""
    failed = b.CallFailed("rate_limited", "Slow down.", retryable=True, retry_after=2.5)
    assert await play(s.fail("rate_limited", retry_after=2.5, message="Slow down.")) == [(failed,)]


async def test_it_fails_in_the_middle():
    """After the first token a failure is the last thing of the stream."""
    played = await deltas(s.say("a"), s.fail("auth", retryable=False), s.say("b"))
    assert isinstance(played[-1], b.CallFailed)
    assert (played[-1].kind, played[-1].retryable) == ("auth", False)


async def test_it_breaks_off():
    """A cut stream ends without `Finished` or `CallFailed`."""
    assert await deltas(s.say("a"), s.cut(), s.say("b")) == [b.ModelTextDelta(0, "a")]


async def test_it_breaks():
    """A bug is an exception out of the stream."""
    with pytest.raises(ZeroDivisionError):
        await play(s.say("a"), s.bug(ZeroDivisionError()))
    with pytest.raises(RuntimeError, match="raised this error on request"):
        await play(s.bug())


async def test_it_pauses_for_an_event():
    """A pause holds the stream until the test sets its event."""
    gate, seen = asyncio.Event(), []
    provider = s.ScriptedProvider([[s.say("a"), s.pause(gate), s.say("b")]])

    async def watch():
        async for batch in provider.stream(HELLO):
            seen.extend(batch)

    task = asyncio.create_task(watch())
    await provider.asked()
    for _ in range(10):
        await asyncio.sleep(0)
    assert seen[-1] == b.ModelTextDelta(0, "a")
    assert provider.open == 1
    gate.set()
    await task
    assert seen[-2:] == [b.ModelTextDelta(0, "b"), b.Finished("done")]
    assert provider.open == 0


async def test_it_sleeps_on_the_clock():
    """A sleep is over when the test has moved the clock."""
    clock = s.FakeClock()
    task = asyncio.create_task(play(s.sleep(3), s.say("a"), clock=clock))
    assert await clock.advance_to_next() == 3
    assert len(await task) == 3


async def test_closing_ends_the_call():
    """Closing the stream leaves no open call, and the next call is answered."""
    provider = s.ScriptedProvider(lambda _: [s.say("a", "b", "c")])
    async with aclosing(provider.stream(HELLO)) as stream:
        await anext(stream)
        assert provider.open == 1
    assert provider.open == 0
    assert len([batch async for batch in provider.stream(HELLO)]) == 5


async def test_a_list_is_used_up_in_order():
    """Each model call takes the next answer, and one too many is an error that says what to do."""
    provider = s.ScriptedProvider([[s.say("one")], [s.say("two")]])
    for word in ("one", "two"):
        assert [d.text async for x in provider.stream(HELLO) for d in x if isinstance(d, b.ModelTextDelta)] == [word]
    with pytest.raises(s.ScriptExhausted, match=r"Model call 3 .* ends at 2"):
        await anext(provider.stream(HELLO))
    await provider.asked(3)
    assert provider.calls == 3


async def test_a_function_answers_by_the_request():
    """An answer may depend on what was asked."""

    def echo(asked: b.Request) -> s.Answer:
        return [s.say(asked.snapshot.instructions)]

    provider = s.ScriptedProvider(echo)
    batches = [batch async for batch in provider.stream(request(instructions="Sing."))]
    assert batches[1] == (b.ModelTextDelta(0, "Sing."),)


async def test_a_repeated_step_gets_the_same_answer():
    """`by_step` looks at the request alone, so that a call repeated after a crash gets the same answer."""
    script = s.by_step([s.call("t")], [s.say("done")])
    asked, called = WindowItem("user", Text("go")), WindowItem("assistant", ToolCall("c", "t", {}))
    result = WindowItem("tool", ToolResult("c", "done", (Text("1"),)))
    assert script(request(asked)) == script(request(asked)) == [s.call("t")]
    assert script(request(asked, called, result)) == [s.say("done")]
    assert script(request(asked, called, result, asked)) == [s.call("t")]
    with pytest.raises(s.ScriptExhausted, match="Step 3"):
        script(request(asked, called, result, called))


async def test_it_remembers_what_it_was_asked():
    """Requests are kept as they were, even if the window grows afterwards, and can be compared byte by byte."""
    provider = s.ScriptedProvider(lambda _: [s.say("ok")])
    window = [WindowItem("user", Text("one"))]
    snapshot = Snapshot("h", "m", "Be brief.", ())
    for text in ("two", "three"):
        asked = b.Request("m", snapshot, window, Controls(), "ses_1")
        assert [batch async for batch in provider.stream(asked)]
        window.append(WindowItem("user", Text(text)))
    assert [len(each.messages) for each in provider.requests] == [1, 2]
    first, second = provider.prefixes
    assert second.startswith(first)
    assert first == s.prefix_of(provider.requests[0])
    assert json.loads(first.splitlines()[1]) == "Be brief."


async def test_another_prefix_is_seen():
    """Other instructions, or a changed older message, are no prefix."""
    base = request(WindowItem("user", Text("one")))
    longer = request(WindowItem("user", Text("one")), WindowItem("user", Text("two")), instructions="Be long.")
    changed = request(WindowItem("user", Text("one!")), WindowItem("user", Text("two")))
    assert not s.prefix_of(longer).startswith(s.prefix_of(base))
    assert not s.prefix_of(changed).startswith(s.prefix_of(base))


async def test_a_bench_keeps_nothing():
    """With `record` off a provider remembers no request."""
    provider = s.ScriptedProvider([[s.flat(3)]], record=False)
    assert [batch async for batch in provider.stream(HELLO)]
    assert (provider.requests, provider.prefixes, provider.calls) == ([], [], 1)


async def test_a_flat_answer_has_exactly_so_many_deltas():
    """Prebuilt batches come in full reads and one rest."""
    batches = await play(s.flat(10, text="x", per_batch=4))
    assert [len(batch) for batch in batches] == [1, 4, 4, 2, 1]
    assert batches[-1] == (b.Finished("done"),)


async def test_a_flat_answer_keeps_its_rate():
    """At a rate the batches lie evenly in time, however late one of them was."""
    clock, at = s.FakeClock(0), []
    provider = s.ScriptedProvider([[s.flat(8, per_batch=2, rate=50)]], clock=clock)

    async def watch():
        at.extend([(type(batch[0]), clock.now()) async for batch in provider.stream(HELLO)])

    task = asyncio.create_task(watch())
    await clock.slept()
    clock.advance(0.07)  # a stall
    await clock.advance_to_next()
    await clock.advance_to_next()
    await task
    assert [time for kind, time in at if kind is b.ModelTextDelta] == [0, 70, 80, 120]


@pytest.mark.whole
@for_each("answer", [[s.flat(100_000)], [s.say("x" * 100_000, cut=100_000)]])
async def test_others_run_while_it_streams_flat_out(answer):
    """A stream without pauses gives control back after each batch, so that a cancel works."""
    provider = s.ScriptedProvider([answer])

    async def watch():
        async for _ in provider.stream(HELLO):
            pass

    task = asyncio.create_task(watch())
    await provider.asked()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert provider.open == 0

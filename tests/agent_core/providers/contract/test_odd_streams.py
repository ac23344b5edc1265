"""Streams that no well-behaved server sends, and that real ones did: each means the same on every wire."""

import json

import pytest

from agent_core.events import StepCompleted
from agent_core.testing import say, usage
from tests.agent_core.providers.contract import written as w
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)

A, B = ("call", "look", {"what": "a"}), ("call", "look", {"what": "b"})
NOTHING = ("call", "list_all", {})


def _interleaved(first: list[w.Json], second: list[w.Json]) -> list[w.Json]:
    """Return the events of two items in turns."""
    longer = max(len(first), len(second))
    turns = zip(*(part + [None] * (longer - len(part)) for part in (first, second)), strict=True)
    return [event for pair in turns for event in pair if event is not None]


def _chat_calls(*deltas: w.Json) -> bytes:
    return w.chat(*deltas, finish="tool_calls")


CASES = {
    "interleaved calls": (
        {
            "anthropic": w.messages(
                *_interleaved(
                    w.tool_use(0, "t_1", "look", '{"wh', 'at": "a"}'), w.tool_use(1, "t_2", "look", '{"what":', ' "b"}')
                ),
                reason="tool_use",
            ),
            "openai": w.responses(
                *_interleaved(
                    w.function_call(0, "t_1", "look", '{"wh', 'at": "a"}'),
                    w.function_call(1, "t_2", "look", '{"what":', ' "b"}'),
                )
            ),
            "openai-compatible": _chat_calls(
                w.tool_call('{"wh', index=0, id="t_1", name="look"),
                w.tool_call('{"what":', index=1, id="t_2", name="look"),
                w.tool_call('at": "a"}', index=0),
                w.tool_call(' "b"}', index=1),
            ),
        },
        (A, B),
        "tools",
    ),
    "a call that never got a delta": (
        {
            "anthropic": w.messages(*w.tool_use(0, "t_1", "list_all"), reason="tool_use"),
            "openai": w.responses(*w.function_call(0, "t_1", "list_all")),
            "openai-compatible": _chat_calls(w.tool_call(index=0, id="t_1", name="list_all")),
        },
        (NOTHING,),
        "tools",
    ),
    "a call whose first delta is empty": (
        {
            "anthropic": w.messages(*w.tool_use(0, "t_1", "look", "", '{"what": "a"}'), reason="tool_use"),
            "openai": w.responses(*w.function_call(0, "t_1", "look", "", '{"what": "a"}')),
            "openai-compatible": _chat_calls(
                w.tool_call("", index=0, id="t_1", name="look"), w.tool_call('{"what": "a"}', index=0)
            ),
        },
        (A,),
        "tools",
    ),
    "arguments that come with the end alone": (
        {
            "anthropic": w.messages(*w.tool_use(0, "t_1", "look", '{"what": "a"}'), reason="tool_use"),
            "openai": w.responses(*w.function_call(0, "t_1", "look", whole='{"what": "a"}')),
            "openai-compatible": _chat_calls(w.tool_call('{"what": "a"}', index=0, id="t_1", name="look")),
        },
        (A,),
        "tools",
    ),
    "a stop reason that forgets the calls": (
        {
            "anthropic": w.messages(*w.tool_use(0, "t_1", "look", '{"what": "a"}'), reason="end_turn"),
            "openai": w.responses(*w.function_call(0, "t_1", "look", '{"what": "a"}'), end=w.responses_end([])),
            "openai-compatible": w.chat(w.tool_call('{"what": "a"}', index=0, id="t_1", name="look"), finish="stop"),
        },
        (A,),
        ("tools", "done"),
    ),
    "unknown events": (
        {
            "anthropic": b": a comment\n\n"
            + w.messages(
                {"type": "ping"},
                {"type": "novelty", "index": 4, "content_block": None},
                *w.block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}, {"type": "odd_delta"}),
                *w.block(1, {"type": "novel_block", "payload": [1, {"a": None}]}),
            ),
            "openai": b": a comment\n\n"
            + w.responses(
                {"type": "response.in_progress", "response": {}},
                {"type": "response.novelty", "output_index": 7, "item": 3, "delta": None},
                *w.text_item(0, "Hi"),
                {"type": "response.output_item.done", "output_index": 1, "item": {"type": "novel_item", "id": "n_1"}},
            ),
            "openai-compatible": b": a comment\n\n"
            + w.chat({"role": "assistant", "content": None, "novelty": {}}, {"content": "Hi", "tool_calls": None}),
        },
        (("text", "Hi"),),
        "done",
    ),
    "lines that end as Windows ends them": (
        {
            "anthropic": w.messages(*w.text_block(0, "H", "i")).replace(b"\n", b"\r\n"),
            "openai": w.responses(*w.text_item(0, "H", "i")).replace(b"\n", b"\r\n"),
            "openai-compatible": w.chat({"content": "H"}, {"content": "i"}).replace(b"\n", b"\r\n"),
        },
        (("text", "Hi"),),
        "done",
    ),
    "no blank line after the last event": (
        {
            "anthropic": w.messages(*w.text_block(0, "Hi")).rstrip(),
            "openai": w.responses(*w.text_item(0, "Hi")).rstrip(),
            "openai-compatible": w.chat({"content": "Hi"}).rstrip(),
        },
        (("text", "Hi"),),
        "done",
    ),
    "words after the end": (
        {
            "anthropic": w.messages(*w.text_block(0, "Hi")) + w.sse(*w.text_block(1, "more"), {"type": "message_stop"}),
            "openai": w.responses(*w.text_item(0, "Hi")) + w.sse(*w.text_item(1, "more"), w.responses_end([])),
            "openai-compatible": w.chat({"content": "Hi"}) + w.chat({"content": "more"}),
        },
        (("text", "Hi"),),
        "done",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_real_servers_did_is_understood(case, wire, ask):
    """A stream with its vendor's known oddities means what the vendor meant, on every wire."""
    bodies, parts, ends = CASES[case]
    received = await ask([w.stream(bodies[wire.name])])
    assert received.parts == parts
    assert received.end in ends if isinstance(ends, tuple) else received.end == ends


async def test_an_event_of_any_size_is_whole(wire, ask):
    """An event of millions of characters, in many network reads, is one text."""
    text = "x" * 4_000_000
    streams = {MESSAGES: w.messages(*w.text_block(0, text)), RESPONSES: w.responses(*w.text_item(0, text))}
    received = await ask([w.stream(streams.get(wire) or w.chat({"content": text}))])
    assert received.parts == (("text", text),)
    assert received.end == "done"


async def test_half_a_character_spoils_no_answer(wire, ask):
    """Servers that cut a text in the middle of a character beyond the 16-bit plane lose it alone; whole ones stay."""
    pieces = ("a\ud83d", "\ude00b \\ud83d ", "🙂")
    streams = {MESSAGES: w.messages(*w.text_block(0, *pieces)), CHAT: w.chat(*({"content": each} for each in pieces))}
    received = await ask([w.stream(streams.get(wire) or w.responses(*w.text_item(0, *pieces)))])
    assert received.parts == (("text", "a\ufffd\ufffdb \\ud83d 🙂"),)
    assert received.end == "done"


CALLS = {
    "no index at all": [
        w.tool_call('{"what": "a"}', id="t_1", name="look"),
        w.tool_call('{"what": "b"}', id="t_2", name="look"),
    ],
    "an index that is null": [
        w.tool_call('{"what": "a"}', index=None, id="t_1", name="look"),
        w.tool_call('{"what": "b"}', index=None, id="t_2", name="look"),
    ],
    "index 0 for every call": [
        w.tool_call('{"what": "a"}', index=0, id="t_1", name="look"),
        w.tool_call('{"what": "b"}', index=0, id="t_2", name="look"),
    ],
    "index 0 and no ids": [
        w.tool_call('{"what": "a"}', index=0, name="look"),
        w.tool_call('{"what": "b"}', index=0, name="look"),
    ],
    "name and id in every delta": [
        w.tool_call('{"what"', index=0, id="t_1", name="look"),
        w.tool_call(': "a"}', index=0, id="t_1", name="look"),
        w.tool_call('{"what"', index=1, id="t_2", name="look"),
        w.tool_call(': "b"}', index=1, id="t_2", name="look"),
    ],
    "empty ids later": [
        w.tool_call('{"what"', index=0, id="t_1", name="look"),
        w.tool_call(': "a"}', index=0, id="", name=""),
        w.tool_call('{"what"', index=1, id="t_2", name="look"),
        w.tool_call(': "b"}', index=1, id="", name=None),
    ],
    "both in one delta": [
        {
            "tool_calls": [
                *w.tool_call('{"what": "a"}', index=0, id="t_1", name="look")["tool_calls"],
                *w.tool_call('{"what": "b"}', index=1, id="t_2", name="look")["tool_calls"],
            ]
        }
    ],
}


@for_each("case", CALLS)
async def test_calls_are_kept_apart_whatever_the_server_leaves_out(case, dial):
    """Two calls stay two calls with missing or repeated indexes, ids and names, and each has an id of its own."""
    line = await dial(CHAT, [[w.stream(_chat_calls(*CALLS[case]))]])
    received = await line.receive()
    assert received.parts == (A, B)
    assert len(set(received.ids)) == 2
    assert all(received.ids)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_of_compatible_servers_is_read_under_both_names(field, dial):
    """Compatible servers send thinking under one of two names."""
    line = await dial(
        CHAT, [[w.stream(w.chat({field: "Hm", "content": None}, {field: "m.", "content": ""}, {"content": "Yes."}))]]
    )
    assert (await line.receive()).parts == (("thinking", "Hmm."), ("text", "Yes."))


async def test_usage_in_every_chunk_is_not_added_up(dial):
    """Of usage that comes with every chunk the last report counts."""
    chunks = [
        w.chunk({"content": text}, usage={"prompt_tokens": 9, "completion_tokens": n, "total_tokens": 9 + n})
        for n, text in enumerate("Hey", 1)
    ]
    line = await dial(CHAT, [[w.stream(w.sse(*chunks, w.chunk({}, "stop"), named=False) + b"data: [DONE]\n\n")]])
    received = await line.receive()
    assert received.usage is not None
    assert (received.usage.input, received.usage.output) == (9, 3)


async def test_usage_after_the_stop_reason_counts(dial):
    """The chunk without choices that follows the stop reason is read before the answer ends."""
    last = {**w.chunk({}), "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    body = w.chat({"content": "Hi"}, done=False) + w.sse(last, named=False) + b"data: [DONE]\n\n"
    received = await (await dial(CHAT, [[w.stream(body)]])).receive()
    assert received.usage is not None
    assert (received.usage.input, received.usage.output) == (9, 4)


async def test_an_end_without_done_is_an_end(dial):
    """A compatible server that gives its stop reason and no `[DONE]` has answered."""
    received = await (await dial(CHAT, [[w.stream(w.chat({"content": "Hi"}, done=False))]])).receive()
    assert (received.parts, received.end) == ((("text", "Hi"),), "done")


async def test_usage_of_messages_is_overwritten_not_added(dial):
    """Each `message_delta` says how many tokens there were in all."""
    first = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}}
    received = await (await dial(MESSAGES, [[w.stream(w.messages(*w.text_block(0, "Hi"), first))]])).receive()
    assert received.usage is not None
    assert (received.usage.input, received.usage.output) == (9, 7)


@for_each("count, read", [("12", 12), (12.0, 12), (-3, None), ("many", None), ([], None), (True, None)])
async def test_a_count_of_any_form_spoils_no_answer(dial, count, read):
    """Tokens are read where they can be a number, and are unknown else; the answer is whole."""
    odd = {"type": "message_delta", "delta": {}, "usage": {"cache_read_input_tokens": count, "cache_creation": count}}
    usage = {"prompt_tokens": 99, "prompt_tokens_details": {"cached_tokens": count}, "completion_tokens_details": count}
    response = {"input_tokens": 99, "input_tokens_details": {"cached_tokens": count}, "output_tokens_details": count}
    end = w.responses_end([])
    end["response"]["usage"] = response
    bodies = {
        MESSAGES: w.messages(*w.text_block(0, "Hi"), odd),
        CHAT: w.chat({"content": "Hi"}, done=False)
        + w.sse({**w.chunk({}), "choices": [], "usage": usage}, named=False),
        RESPONSES: w.responses(*w.text_item(0, "Hi"), end=end),
    }
    for wire, body in bodies.items():
        received = await (await dial(wire, [[w.stream(body)]])).receive()
        assert (received.parts, received.end) == ((("text", "Hi"),), "done"), wire.name
        assert received.usage is not None
        assert received.usage.cache_read == read, wire.name


async def test_a_count_that_no_number_holds_spoils_no_answer(dial):
    """What cannot even be read as JSON is no count."""
    end = w.responses_end([])
    end["response"]["usage"] = {"input_tokens": 77_777}
    bodies = {
        MESSAGES: w.messages(*w.text_block(0, "Hi"), {"type": "message_delta", "delta": {}, "usage": {"n": 77_777}}),
        CHAT: w.chat({"content": "Hi"}, done=False)
        + w.sse({**w.chunk({}), "choices": [], "usage": {"prompt_tokens": 77_777}}, named=False),
        RESPONSES: w.responses(*w.text_item(0, "Hi"), end=end),
    }
    for wire, body in bodies.items():
        received = await (await dial(wire, [[w.stream(body.replace(b"77777", b"1e999"))]])).receive()
        assert (received.parts, received.end) == ((("text", "Hi"),), "done"), wire.name


async def test_what_is_native_is_kept_byte_for_byte(dial):
    """Thinking with its signature, hidden thinking and items of server tools are kept as they came."""
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}, "caller": None}
    events = [
        *w.block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "signature_delta", "signature": "c2lnbg=="},
        ),
        *w.block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"}),
        *w.block(2, search),
        *w.text_block(3, "Found."),
    ]
    received = await (await dial(MESSAGES, [[w.stream(w.messages(*events))]])).receive()
    items = [json.loads(item) for item in received.native]
    assert items[0] == {"type": "thinking", "thinking": "", "signature": "c2lnbg=="}
    assert items[1:3] == [{"type": "redacted_thinking", "data": "b3BhcXVl"}, search]
    assert items[3] == {"type": "text", "text": "Found."}


async def test_reasoning_is_kept_as_in_its_final_item(dial):
    """Encrypted reasoning is final in the item's end, not in its beginning."""
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "encrypted_content": "early"}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**item, "encrypted_content": "final"}}
    received = await (await dial(RESPONSES, [[w.stream(w.responses(added, done, *w.text_item(1, "Hi")))]])).receive()
    assert json.loads(received.native[0])["encrypted_content"] == "final"
    assert not any("early" in native for native in received.native)


async def test_counts_that_cannot_be_true_end_nothing(scene, wire):
    """Tokens below zero, or more than a database's numbers hold, are unknown; the answer and the sums are there."""
    stage = await scene(wire, [[say("Hi."), usage(input=2**63, output=-9, cache_read=0)]])
    assert (await stage.play()).status == "completed"
    (step,) = await stage.said(StepCompleted)
    assert (step.usage.input, step.usage.output, step.usage.cache_read) == (None, None, 0)
    (item,) = (await stage.core.costs.listed("day")).items
    assert (item.steps, item.unmeasured) == (1, 1)
    assert stage.line.models.calls == 1

"""Chat Completions streams, byte for byte: what each means, whatever the server leaves out, repeats or mixes up."""

import json

import msgspec
import pytest

from agent_core.messages import Usage
from agent_core.net.sse import EventSplitter
from agent_core.providers import base as p
from agent_core.providers.compatible import ChatFold
from tests.agent_core.providers.contract import written as w
from tests.agent_core.providers.contract.received import Received, joined, received
from tests.cases import for_each

DONE = b"data: [DONE]\n\n"
A, B = ("call", "look", {"what": "a"}), ("call", "look", {"what": "b"})
ARGS_A, ARGS_B = '{"what": "a"}', '{"what": "b"}'


def play(data: bytes, *cuts: int) -> list[p.ModelDelta]:
    """Return the deltas of *data*, read in pieces that end at *cuts*."""
    frames, fold, found = EventSplitter(), ChatFold("openai-compatible", "llama-4"), []
    for begin, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        found += fold.take(frames.feed(data[begin:end]))
    return [*found, *fold.take(frames.end()), *fold.end()]


def receive(data: bytes) -> Received:
    return received(play(data))


def chunks(*bodies: object, done: bool = True) -> bytes:
    return b"".join(f"data: {json.dumps(body)}\n\n".encode() for body in bodies) + (DONE if done else b"")


def sent(id_: str, arguments: str, **extra: object) -> str:
    """Return a call as it goes back to its server."""
    call = {"id": id_, "type": "function", "function": {"name": "look", "arguments": arguments}, **extra}
    return msgspec.json.encode(call).decode()


RICH = (
    b": ping\r\n\r\n"
    + w.chat(
        {"role": "assistant", "content": "", "reasoning_content": "Hm, "},
        {"reasoning_content": "éé…"},
        {"content": "Ich "},
        {"content": "schaue 👀 nach."},
        w.tool_call("", index=0, id="t_1", name="look"),
        w.tool_call('{"what":', index=0),
        w.tool_call('{"what": "b', index=1, id="t_2", name="look"),
        w.tool_call(' "a"}', index=0),
        w.tool_call('"}', index=1),
        finish="tool_calls",
        done=False,
    )
    + chunks({"id": "c_1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
)


def test_a_rich_answer_is_reported_in_order():
    """Thinking, text and interleaved calls come out as parts, with usage and one end."""
    assert joined(play(RICH)) == [
        p.Started("c_1", "llama-4"),
        p.ModelReasoningDelta(0, "Hm, éé…"),
        p.ModelTextDelta(1, "Ich schaue 👀 nach."),
        p.ToolStart(2, "t_1", "look"),
        p.ToolArgsDelta(2, ARGS_A),
        p.ToolStart(3, "t_2", "look"),
        p.ToolArgsDelta(3, ARGS_B),
        p.UsageReport(Usage(9, 4, None, None, None, None)),
        p.ToolEnd(2, ARGS_A, {"what": "a"}),
        p.ToolEnd(3, ARGS_B, {"what": "b"}),
        p.NativeItem(
            (
                '{"role":"assistant","content":',
                1,
                ',"reasoning_content":',
                0,
                f',"tool_calls":[{sent("t_1", ARGS_A)},{sent("t_2", ARGS_B)}]',
                "}",
            ),
            2,
        ),
        p.Finished("tools", "tool_calls"),
    ]


@pytest.mark.whole
def test_the_network_may_cut_anywhere():
    """Wherever a read ends, in the middle of a character too, the same is said."""
    whole = joined(play(RICH))
    for cut in range(1, len(RICH)):
        assert joined(play(RICH, cut)) == whole, cut
    assert joined(play(RICH, *range(1, len(RICH)))) == whole


def test_texts_of_one_read_are_one_delta():
    """What came in one read is shown at once."""
    data = w.chat({"reasoning": "a"}, {"reasoning": "b"}, {"content": "c"}, {"content": "d"})
    assert play(data)[1:3] == [p.ModelReasoningDelta(0, "ab"), p.ModelTextDelta(1, "cd")]


CALLS = {
    "no index at all": [w.tool_call(ARGS_A, id="1", name="look"), w.tool_call(ARGS_B, id="2", name="look")],
    "index 0 for all": [
        w.tool_call(ARGS_A, index=0, id="1", name="look"),
        w.tool_call(ARGS_B, index=0, id="2", name="look"),
    ],
    "one index and interleaved ids": [
        w.tool_call('{"what"', id="1", name="look"),
        w.tool_call('{"what"', id="2", name="look"),
        w.tool_call(': "a"}', id="1"),
        w.tool_call(': "b"}', id="2"),
    ],
    "an id alone tells the second": [
        w.tool_call(ARGS_A, index=0, id="1", name="look"),
        w.tool_call(ARGS_B, index=0, id="2"),
    ],
    "arguments that start again": [w.tool_call(ARGS_A, index=0, name="look"), w.tool_call(ARGS_B, index=0)],
    "arguments that start again in pieces": [
        w.tool_call('{"what": ', name="look"),
        w.tool_call('"a"}'),
        w.tool_call('{"what": '),
        w.tool_call('"b"}'),
    ],
    "one id for all": [
        w.tool_call(ARGS_A, index=0, id="x", name="look"),
        w.tool_call(ARGS_B, index=1, id="x", name="look"),
    ],
    "name and id repeated": [
        w.tool_call(piece, index=n, id=str(n), name="look") for n, args in enumerate((ARGS_A, ARGS_B)) for piece in args
    ],
    "a new id in each delta": [
        w.tool_call(piece, index=n, id=f"{n}{i}", **({} if i else {"name": "look"}))
        for n, args in enumerate((ARGS_A, ARGS_B))
        for i, piece in enumerate((args[:5], args[5:]))
    ],
    "an object instead of text": [
        {"tool_calls": [{"index": n, "id": str(n), "function": {"name": "look", "arguments": {"what": what}}}]}
        for n, what in enumerate("ab")
    ],
    "a name that comes late": [
        w.tool_call('{"what":', index=0, id="1"),
        w.tool_call(' "a"}', index=0, name="look"),
        w.tool_call(ARGS_B, index=1, id="2", name="look"),
    ],
    "an index that comes late": [
        w.tool_call(id="1", name="look"),
        w.tool_call(ARGS_A, index=0),
        w.tool_call(ARGS_B, index=1, id="2", name="look"),
    ],
    "a lump that is repeated": [
        w.tool_call(ARGS_A, index=0, id="1", name="look"),
        w.tool_call(ARGS_A, index=0, id="1", name="look"),
        w.tool_call(ARGS_B, index=1, id="2", name="look"),
    ],
    "a placeholder before the arguments": [
        w.tool_call("{}", index=0, id="1", name="look"),
        w.tool_call('{"what": ', index=0),
        w.tool_call('"a"}', index=0),
        w.tool_call(ARGS_B, index=1, id="2", name="look"),
    ],
    "nulls and nothing between": [
        {"tool_calls": None},
        {"tool_calls": []},
        {"tool_calls": [None, {}, {"index": 0, "function": None}]},
        {"tool_calls": [{"index": 0, "id": "1", "function": {"name": "look", "arguments": None}}]},
        {"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": ARGS_A}}]},
        {"tool_calls": [{"index": 0, "id": "", "function": None}]},
        w.tool_call(ARGS_B, index=1, id=2, name="look"),
    ],
}


@for_each("case", CALLS)
def test_calls_are_kept_apart(case):
    """Two calls stay two, each with its own arguments and an id, whatever the server leaves out or repeats."""
    found = receive(w.chat(*CALLS[case], finish="tool_calls"))
    assert (found.parts, found.end) == ((A, B), "tools")
    assert len({*found.ids} - {""}) == 2


@pytest.mark.whole
def test_long_arguments_are_read_piece_by_piece():
    """A call with the text of a book in it, a word at a time, is one call."""
    words = [f'{{"n": {n}}} ' for n in range(20_000)]
    pieces = ['{"text": "', *(json.dumps(word)[1:-1] for word in words), '"}']
    found = receive(w.chat(*(w.tool_call(piece, index=0, id="1", name="look") for piece in pieces)))
    assert found.parts == (("call", "look", {"text": "".join(words)}),)


def test_different_names_are_different_calls():
    """Without ids and indexes a new name begins a new call."""
    found = receive(w.chat(w.tool_call(name="list_all"), w.tool_call(ARGS_A, name="look")))
    assert found.parts == (("call", "list_all", {}), A)


@for_each("raw", [None, "", "null", "{}", " "])
def test_no_arguments_are_an_empty_object(raw):
    """A call without arguments is a call with none, however a server says so."""
    assert receive(w.chat(w.tool_call(raw, index=0, id="1", name="look"))).parts == (("call", "look", {}),)


@for_each("raw", ['{"what": "a', "[1]", "3", "{} {}", '{"a": 1}, {"b": 2}'])
def test_bad_arguments_are_kept_as_they_came(raw):
    """What is no JSON object never becomes arguments; the model gets its raw text back."""
    found = receive(w.chat(w.tool_call(raw, index=0, id="1", name="look"), finish="tool_calls"))
    assert (found.parts, found.raw, found.end) == ((("call", "look", None),), (raw,), "tools")


ENDS = {
    ("stop", False): ("done", "done"),
    ("length", False): ("length", "length"),
    ("length", True): ("length", "length"),
    ("content_filter", False): ("refused", "refused"),
    ("tool_calls", False): ("done", "done"),
    ("stop", True): ("tools", "tools"),
    (None, True): ("tools", "network"),
    (None, False): ("done", "network"),
    ("novelty", True): ("tools", "tools"),
    ("error", False): ("error", "error"),
    ("insufficient_system_resource", True): ("overloaded", "overloaded"),
}


@for_each("finish, calls", ENDS)
def test_the_end_follows_from_calls_and_finish_reason(finish, calls):
    """Calls decide whether tools run; an answer without `[DONE]` is whole when it gave a reason, else it was cut."""
    said = [{"content": "Hi"}, *([w.tool_call(ARGS_A, index=0, id="1", name="look")] if calls else [])]
    found = [receive(w.chat(*said, finish=finish, done=done)) for done in (True, False)]
    assert tuple(each.end for each in found) == ENDS[finish, calls]
    assert found[0].parts[1:] == ((A,) if found[0].end == "tools" else ())


def test_an_empty_stream_is_a_failure():
    """Neither nothing nor a bare `[DONE]` is an answer."""
    assert [receive(data).end for data in (b"", DONE, b": ping\n\n")] == ["network"] * 3


@for_each("done", [b"data: [DONE]\n\n", b"data:[DONE]\n\n", b"data:   [DONE]  \r\n\r\n", b"data: [ DONE ]"])
def test_done_may_have_spaces(done):
    """However `[DONE]` is written, it is the end, and nothing after it is read."""
    assert receive(w.chat({"content": "Hi"}, done=False) + done + b"\n\n" + w.chat({"content": "more"})).parts == (
        ("text", "Hi"),
    )


def test_a_refusal_withdraws_the_answer():
    """A refusal counts whatever the `finish_reason` says."""
    found = receive(w.chat({"content": "Well"}, {"refusal": "I can"}, {"refusal": "not."}, finish="stop"))
    assert (found.refused, found.end) == (True, "refused")


ERRORS = {
    '{"error": {"message": "Out of memory", "type": "server_error", "code": null}}': "error",
    '{"error": {"message": "Slow", "type": "rate_limit_error"}}': "rate_limited",
    '{"error": {"message": "Too many", "code": 429}}': "rate_limited",
    '{"error": {"message": "No key", "code": "401"}, "choices": []}': "auth",
    '{"error": {"message": "Busy", "code": 503}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}': (
        "overloaded"
    ),
    '{"choices": [{"delta": {}, "error": {"message": "Busy", "code": 503}}]}': "overloaded",
    '{"error": "maximum context length is 4096 tokens"}': "context_overflow",
    '{"error": ["odd"]}': "error",
    '{"object": "error", "message": "maximum context length is 4096", "type": "BadRequestError", "code": 400}': (
        "context_overflow"
    ),
    '{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}': "overloaded",
    '{"detail": "Internal Server Error"}': "error",
    '{"message": "insufficient_quota"}': "quota",
}


@for_each("before", [0, 1])
@for_each("error", ERRORS)
def test_an_error_in_the_stream_is_a_failure(error, before):
    """An error chunk, in any shape, ends the answer as a failure of its kind; what follows is not read."""
    said = w.chat({"content": "Hal"}, finish=None, done=False) * before
    found = receive(said + f"data: {error}\n\n".encode() + w.chat({"content": "more"}))
    assert found.end == ERRORS[error], found.failure
    assert found.parts == (("text", "Hal"),) * before


ODD = {
    "no choices": [
        {},
        {"id": "c", "choices": []},
        {"choices": None},
        {"choices": [None]},
        w.chunk({"content": "Hi"}),
        None,
    ],
    "null delta": [{"choices": [{"delta": None}]}, w.chunk({"content": None}), w.chunk({"content": "Hi"})],
    "a whole message": [{"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}],
    "a message after deltas": [w.chunk({"content": "Hi"}), {"choices": [{"message": {"content": "Hi"}}]}],
    "content in parts": [w.chunk({"content": [{"type": "text", "text": "H"}, {"type": "odd"}, 3, {"text": "i"}]})],
    "fields of another kind": [{**w.chunk({"content": "Hi", "reasoning": {"odd": 1}, "refusal": []}), "id": 7}],
    "unknown fields": [{**w.chunk({"content": "Hi", "audio": {}, "novelty": [1]}), "system_fingerprint": None}],
    "usage of its own kind": [{**w.chunk({"content": "Hi"}), "usage": {"prompt_tokens": "many"}}],
}


@for_each("case", ODD)
def test_odd_chunks_are_understood(case):
    """Missing, empty and unknown fields spoil no answer."""
    found = receive(chunks(*ODD[case]))
    assert (found.parts, found.end, found.usage) == ((("text", "Hi"),), "done", None)


def test_an_answer_without_streaming_is_read():
    """A whole completion as plain JSON, with its calls, is an answer too."""
    call = w.tool_call(ARGS_A, id="t_1", name="look")["tool_calls"]
    choice = {"message": {"content": "Hi", "tool_calls": call}, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "c_1", "choices": [choice], "usage": {"prompt_tokens": 3}}, indent=2).encode()
    found = receive(body)
    assert (found.parts, found.end) == ((("text", "Hi"), A), "tools")


def test_a_json_error_with_status_200_is_a_failure():
    """A gateway that answers 200 with an error as plain JSON is understood."""
    assert receive(b'{"error": {"message": "no", "type": "insufficient_quota"}}').end == "quota"


@for_each("field", ["reasoning_content", "reasoning"])
def test_thinking_has_two_names(field):
    """Thinking is read under either name, and once when a server uses both."""
    assert receive(w.chat({field: "Hm"}, {"content": "Yes"})).parts == (("thinking", "Hm"), ("text", "Yes"))
    both = {"reasoning_content": "Hm", "reasoning": "Hm"}
    assert receive(w.chat(both)).parts == (("thinking", "Hm"),)


USAGE = [
    ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(9, 4, None, None, None, None)),
    (
        {"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": None},
        Usage(9, None, None, None, None, None),
    ),
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 40,
            "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        Usage(16, 40, 30, 64, 20, None),
    ),
    ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(0, 0, None, None, None, None)),
    ({}, None),
    (None, None),
]


@for_each("given, usage", USAGE)
def test_usage_is_parted_and_what_is_unknown_stays_so(given, usage):
    """The input count excludes cached tokens; no number is ever invented."""
    assert receive(chunks(w.chunk({"content": "Hi"}), {"choices": [], "usage": given})).usage == usage


def test_the_last_usage_counts():
    """Usage in every chunk is not added up, and a null after it takes nothing away."""
    said = [w.chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in range(1, 4)]
    usage = receive(chunks(*said, w.chunk({}, "stop", usage=None))).usage
    assert usage == Usage(9, 3, None, None, None, None)


@for_each("data", [b"data: {\n\n", b"data: [1]\n\n", b'data: {"choices": 7}\n\n', b"data: \xff\n\n"])
def test_an_unreadable_chunk_raises(data):
    """What cannot be read raises the one error that the client turns into a failure."""
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        play(data + b"data: x\n\n")

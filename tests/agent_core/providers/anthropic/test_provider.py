"""The Messages stream as deltas: what Claude's API sends, and what goes wrong with it."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import UnionType
from typing import Any

import pytest

from agent_core.messages import Usage
from agent_core.net.sse import EventSplitter
from agent_core.providers.anthropic import AnthropicFold
from agent_core.providers.base import (
    CallFailed,
    Finished,
    ModelDelta,
    ModelReasoningDelta,
    ModelTextDelta,
    NativeItem,
    Refusal,
    Started,
    ToolArgsDelta,
    ToolEnd,
    ToolStart,
    UsageReport,
)
from tests.agent_core.providers.anthropic.messages_events import (
    TEXT,
    arguments,
    begin,
    call,
    change,
    close,
    sse,
    start,
    stop,
    text,
    thinking,
    words,
)
from tests.cases import for_each


def played(stream: bytes, cuts: Iterable[int] = ()) -> list[ModelDelta]:
    """Feed *stream*, cut at *cuts*, as the client does, and return all deltas."""
    fold, frames, out = AnthropicFold(), EventSplitter(), []
    edges = [0, *cuts, len(stream)]
    for first, end in pairwise(edges):
        out += fold.take(frames.feed(stream[first:end]))
    return [*out, *fold.take(frames.end()), *fold.end()]


def deltas(*events: dict | list[dict]) -> list[ModelDelta]:
    flat = [each for event in events for each in (event if isinstance(event, list) else [event])]
    return played(b"".join(sse(event) for event in flat))


def answered(*blocks: list[dict], reason: str = "end_turn") -> list[ModelDelta]:
    return deltas(start(), *blocks, stop(reason))


def replayed(*blocks: list[dict], reason: str = "end_turn") -> list[ModelDelta]:
    """Return the deltas of *blocks*; a thought at their end, which does not go back, asks for their native form."""
    return answered(*blocks, [begin(90, {"type": "redacted_thinking", "data": "eA=="}), close(90)], reason=reason)


def test_a_plain_answer_has_no_native_form():
    """Text and calls with nothing about them are replayed in the neutral form: nothing is stored of them twice."""
    assert native(deltas(start(), text(0, "Hi."), call(1, "{}"), stop("tool_use"))) == []
    assert len(native(deltas(start(), text(0, "Hi."), thinking(1, "Hm."), call(2, "{}"), stop("tool_use")))) == 3


def of(kind: type | UnionType, found: Sequence[ModelDelta]) -> list:
    return [delta for delta in found if isinstance(delta, kind)]


def native(found: Sequence[ModelDelta]) -> list:
    """Return the native items as JSON values, the text of each slot put in."""
    said: dict[int, str] = {}
    for delta in of(ModelTextDelta | ModelReasoningDelta, found):
        said[delta.slot] = said.get(delta.slot, "") + delta.text

    def put(piece: str | int | tuple[int, int, int]) -> str:
        if isinstance(piece, str):
            return piece
        slot, start, end = piece if isinstance(piece, tuple) else (piece, 0, None)
        return json.dumps(said[slot][start:end])

    return [json.loads("".join(map(put, item.pieces))) for item in of(NativeItem, found)]


def joined(found: Sequence[Any]) -> list:
    """Return *found* with neighbouring text of one slot made one."""
    out: list[Any] = []
    for delta in found:
        grows = (
            isinstance(delta, ModelTextDelta | ModelReasoningDelta | ToolArgsDelta)
            and out
            and type(out[-1]) is type(delta)
        )
        if grows and out[-1].slot == delta.slot:
            out[-1] = type(delta)(delta.slot, out[-1].text + delta.text)
        else:
            out.append(delta)
    return out


def test_an_answer_comes_as_neutral_deltas():
    """Thinking, text and a call come in order, then the items to send back, the end last."""
    found = answered(
        thinking(0, "Hm", "."), text(1, "Let me ", "look."), call(2, "", '{"q":', '"x"}'), reason="tool_use"
    )
    assert found[0] == Started("msg_1", "claude-opus-5")
    assert [each for each in found if not isinstance(each, UsageReport | NativeItem)][1:] == [
        ModelReasoningDelta(0, "Hm."),
        ModelTextDelta(1, "Let me look."),
        ToolStart(2, "toolu_2", "search"),
        ToolArgsDelta(2, '{"q":'),
        ToolArgsDelta(2, '"x"}'),
        ToolEnd(2, '{"q":"x"}', {"q": "x"}),
        Finished("tools", "tool_use"),
    ]
    assert native(found) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_2", "name": "search", "input": {"q": "x"}},
    ]
    assert 1 in of(NativeItem, found)[1].pieces, "text is not stored twice"


def rich() -> bytes:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "https://a.b/ü"}]}
    events = [
        start(),
        {"type": "ping"},
        *thinking(0, "Größe ", "🙂?"),
        *[begin(1, search), *arguments(1, "", '{"query":"ü"}'), close(1)],
        *[begin(2, result), close(2)],
        *text(3, "Zwölf ", "\r\n", "🙂"),
        *call(4, '{"a"', ":1}"),
        *call(5),
        *stop("tool_use"),
    ]
    return b": hello\n\n" + b"".join(sse(event) for event in events)


@pytest.mark.whole
def test_the_wire_may_be_cut_anywhere():
    """However the network cuts the stream, in two at any byte or byte by byte, the answer is the same."""
    stream = rich()
    whole = joined(played(stream))
    assert len(native(whole)) == 6
    for at in range(1, len(stream)):
        assert joined(played(stream, [at])) == whole, at
    for size in (1, 7, 4_096):
        assert joined(played(stream, range(size, len(stream), size))) == whole, size
    assert joined(played(stream.replace(b"\n", b"\r\n"), range(1, len(stream)))) == whole


@for_each("blank", ["", " ", "\n\n"])
def test_blank_text_is_not_sent_back(blank):
    """A text block without a word is no item: replaying it would be refused."""
    found = replayed(text(0, blank), call(1, "{}"), reason="tool_use")
    assert [item["type"] for item in native(found)] == ["tool_use"]


@for_each("texts, raw", [((), "{}"), (("",), "{}"), (("null",), "null"), (("{}",), "{}"), (("", "{", "}"), "{}")])
def test_a_call_without_arguments_has_none(texts, raw):
    """No delta, empty text, null and an empty object all are a call without arguments."""
    found = replayed(call(0, *texts), reason="tool_use")
    assert of(ToolEnd, found) == [ToolEnd(0, raw, {})]
    assert native(found)[0]["input"] == {}


@for_each("raw", ['{"q": "a', '{"q" 1}', "[1]", '"text"', "7", "[" * 5_000, '{"q":"\\ud800"}'])
def test_invalid_arguments_are_reported_and_replayed_as_none(raw):
    """Arguments that are cut or no JSON object are not run, and what is sent back is still JSON."""
    found = replayed(call(0, raw), reason="tool_use")
    assert of(ToolEnd, found) == [ToolEnd(0, raw, None)]
    assert native(found)[0]["input"] == {}


def test_arguments_may_come_whole():
    """A server that sends the arguments with the start of the call, and not in deltas, is understood."""
    found = replayed(call(0, input={"q": [1]}), reason="tool_use")
    assert of(ToolEnd, found)[0].arguments == {"q": [1]}
    assert native(found)[0]["input"] == {"q": [1]}


def test_text_may_begin_with_its_block():
    """Text that comes with the start of a block is its first text."""
    found = replayed([begin(0, {"type": "text", "text": "He"}), *words(0, "llo"), close(0)])
    assert of(ModelTextDelta, found) == [ModelTextDelta(0, "Hello")]
    assert native(found) == [{"type": "text", "text": "Hello"}]


def test_blocks_may_be_interleaved():
    """Deltas belong to the block of their index, whatever came between."""
    two = [begin(0, TEXT), begin(1, {"type": "tool_use", "id": "a", "name": "f", "input": {}}), *words(0, "a")]
    found = replayed([*two, *arguments(1, '{"x":'), *words(0, "b"), *arguments(1, "1}"), close(1), close(0)])
    assert "".join(delta.text for delta in of(ModelTextDelta, found)) == "ab"
    assert of(ToolEnd, found) == [ToolEnd(1, '{"x":1}', {"x": 1})]
    assert [item["type"] for item in native(found)] == ["text", "tool_use"]


def test_an_index_may_come_twice_or_not_at_all():
    """Servers that give each block the same index, no index, no id, or no end lose nothing."""
    first = {"type": "tool_use", "name": "f", "input": {}}
    events = [*text(0, "a"), begin(0, first), *arguments(0, '{"x":1}'), begin(0, first), *arguments(0, '{"x":2}')]
    for each in events:
        del each["index"]
    found = replayed(events, reason="tool_use")
    assert [end.arguments for end in of(ToolEnd, found)] == [{"x": 1}, {"x": 2}]
    ids = [begun.call_id for begun in of(ToolStart, found)]
    assert len(set(ids)) == 2
    assert [item.get("id") for item in native(found)] == [None, *ids]


def test_extra_members_of_a_call_stay():
    """The caller and the toolset of a call are sent back unchanged."""
    more = {"caller": {"type": "direct"}, "toolset_name": None, "input": {}}
    found = answered(call(0, '{"q":1}', **more), reason="tool_use")
    assert native(found) == [{"type": "tool_use", "id": "toolu_0", "name": "search", **more, "input": {"q": 1}}]


def test_thinking_without_text_keeps_its_signature():
    """Thinking that is not shown is replayed with its signature, and so is what is redacted."""
    redacted = {"type": "redacted_thinking", "data": "ZW5j"}
    found = answered(thinking(0, signature="abc"), [begin(1, redacted), close(1)], text(2, "Hi"))
    assert of(ModelReasoningDelta, found) == []
    assert native(found)[:2] == [{"type": "thinking", "thinking": "", "signature": "abc"}, redacted]


def test_thinking_without_signature_is_not_sent_back():
    """Thinking that was cut before its signature is shown, and never replayed."""
    found = answered(thinking(0, "Hm", signature=""), text(1, "Hi"))
    assert of(ModelReasoningDelta, found) == [ModelReasoningDelta(0, "Hm")]
    assert [item["type"] for item in native(found)] == ["text"]


def test_thinking_after_a_block_that_is_dropped_is_not_sent_back():
    """Thinking is bound to everything before it: after blank text, and unsigned thinking, it would be refused."""
    said = answered(thinking(0, "a"), text(1, " "), thinking(2, "b"), call(3, "{}"), reason="tool_use")
    assert [item.get("thinking") or item["type"] for item in native(said)] == ["a", "tool_use"]
    said = answered(thinking(0, "a", signature=""), text(1, "Hm."), thinking(2, "b"), text(3, "So."))
    assert [item["type"] for item in native(said)] == ["text", "text"]


def test_thinking_after_a_call_goes_with_the_call():
    """A call of an answer that was cut is dropped, and with it the thinking that is bound to it."""
    said = answered(thinking(0, "a"), text(1, "b"), call(2, "{}"), thinking(3, "c"), text(4, "d"), reason="max_tokens")
    assert [item.call for item in of(NativeItem, said)] == [None, None, 2, 2, None]


def test_no_answer_ends_with_thinking():
    """Thinking goes back only with what follows it: the API refuses an answer that ends with it."""
    found = answered(text(0, "a"), thinking(1, "b"), call(2, '{"q'), reason="max_tokens")
    assert [(item.call, native(found)[n]["type"]) for n, item in enumerate(of(NativeItem, found))] == [
        (None, "text"),
        (2, "thinking"),
        (2, "tool_use"),
    ]
    assert [item["type"] for item in native(answered(text(0, "a"), thinking(1, "b")))] == ["text"]
    assert len(native(answered(text(0, "a"), thinking(1, "b"), reason="pause_turn"))) == 2


def test_citations_are_kept_with_their_text():
    """Text with citations is replayed with them."""
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    block = [begin(0, {"citations": [], **TEXT}), *words(0, "See"), change(0, "citations_delta", citation=cited)]
    found = answered([*block, change(0, "citations_delta", citation=cited), *words(0, "!"), close(0)])
    assert native(found) == [{"type": "text", "text": "See!", "citations": [cited, cited]}]


def test_blocks_of_the_server_go_back_verbatim():
    """Server tools with their streamed input, compactions, fallbacks and unknown blocks are kept as they are."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    compaction = {"type": "compaction", "content": None, "signature": "x"}
    other = [{"type": "fallback", "from": {"model": "a"}}, {"type": "unheard_of", "n": 1.50, "deep": [{"a": None}]}]
    found = answered(
        [begin(0, search), *arguments(0, '{"query":', '"x"}'), close(0)],
        [begin(1, compaction), change(1, "compaction_delta", content="All so far"), close(1)],
        *[[begin(n + 2, block), close(n + 2)] for n, block in enumerate(other)],
        reason="pause_turn",
    )
    assert native(found) == [{**search, "input": {"query": "x"}}, {**compaction, "content": "All so far"}, *other]
    assert found[-1] == Finished("continue", "pause_turn")
    assert "1.5" in "".join(str(piece) for piece in of(NativeItem, found)[3].pieces)


@for_each(
    "native_reason, reason",
    [
        ("end_turn", "done"),
        ("stop_sequence", "done"),
        ("max_tokens", "length"),
        ("compaction", "continue"),
        ("of_a_later_year", "done"),
        (None, "done"),
    ],
)
def test_stop_reasons_have_neutral_names(native_reason, reason):
    """Each stop reason is mapped to the neutral one; an unknown one is an end."""
    found = deltas(start(), text(0, "Hi"), stop(native_reason))
    assert found[-1] == Finished(reason, native_reason or "")


@for_each(
    "details, said",
    [
        ({"type": "refusal", "category": "bio", "explanation": "Not this."}, "Not this."),
        ({"type": "refusal", "category": "bio", "explanation": None}, "bio"),
        (None, ""),
    ],
)
def test_a_refusal_after_text_withdraws_it(details, said):
    """A refusal is reported with the provider's reason, and nothing of the answer is to be sent back."""
    found = deltas(start(), text(0, "First, "), stop("refusal", stop_details=details))
    assert found[-2:] == [Refusal(said), Finished("refused", "refusal")]
    assert of(NativeItem, found) == []


def test_what_was_said_before_the_window_was_full_is_kept():
    """An answer that filled the context window is one that was cut: its text was paid for, and was read."""
    found = deltas(start(), text(0, "Hi"), stop("model_context_window_exceeded"))
    assert "".join(delta.text for delta in of(ModelTextDelta, found)) == "Hi"
    assert found[-1] == Finished("length", "model_context_window_exceeded")


@for_each("said", [[], text(0, " \n")])
def test_a_window_that_is_full_before_a_word_is_a_failure(said):
    """An answer of which nothing can be read is a failed call that says what to do."""
    found = deltas(start(), said, stop("model_context_window_exceeded"))
    assert isinstance(found[-1], CallFailed)
    assert (found[-1].kind, found[-1].retryable) == ("context_overflow", False)
    assert of(Finished, found) == []


def test_an_error_after_the_start_is_a_failure():
    """An error event in a stream ends it, classified by its type, and nothing comes after it."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    found = deltas(start(), words(0, "?"), error, text(1, "no"), stop("end_turn"))
    assert isinstance(found[-1], CallFailed)
    assert (found[-1].kind, found[-1].retryable) == ("overloaded", True)
    assert of(ModelTextDelta, found) == []


@for_each("events", [[], [start()], [start(), *text(0, "Hi")], [start(), *text(0, "Hi"), stop("end_turn")[0]]])
def test_a_stream_without_its_last_event_is_broken(events):
    """A stream that ends in silence is a failed call, however much of it came."""
    found = deltas(events)
    assert isinstance(found[-1], CallFailed)
    assert (found[-1].kind, found[-1].retryable) == ("network", True)
    assert of(Finished, found) == []


def test_unknown_events_are_ignored():
    """Unknown events and deltas, deltas of no block, nulls, and whatever follows the end change nothing."""
    odd: list[dict] = [
        {"type": "ping"},
        {"type": "of_a_later_year", "index": 0, "delta": {"type": "text_delta", "text": "no"}},
        change(7, "text_delta", text="no"),
        change(0, "sound_delta", text="no", sound=[1]),
        *[begin(1, TEXT), *arguments(1, "{}"), close(1)],
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "message_delta", "delta": None, "usage": None},
        {"type": "content_block_start", "index": 9, "content_block": None},
        {"type": None},
        close(3),
    ]
    found = answered([begin(0, TEXT), *odd, *words(0, "Hi"), close(0)], [])
    more = deltas(start(), text(0, "Hi"), stop("end_turn"), text(1, "no"), stop("end_turn"))
    assert joined(found) == joined(more)


def test_the_last_reported_usage_counts():
    """The counts of the start hold until a later one replaces them; what an answer costs is known at its end."""
    final = {"output_tokens": 50, "input_tokens": 20, "output_tokens_details": {"thinking_tokens": 30}}
    ends = stop("end_turn")
    ends[0]["usage"] = {**final, "cache_creation_input_tokens": None}
    reports = of(UsageReport, deltas(start(), text(0, "Hi"), ends))
    assert reports[0].usage == Usage(12, None, None, 2_000, 30, 70)
    assert reports[-1].usage == Usage(20, 50, 30, 2_000, 30, 70)


def test_unknown_usage_stays_unknown():
    """A count that no event reported is unknown, and a cache write of unknown lifetime counts as a short one."""
    only = {"type": "message_start", "message": {"id": "m", "model": "x", "usage": {"input_tokens": 3}}}
    assert of(UsageReport, deltas(only))[0].usage == Usage(3, None, None, None, None, None)
    assert of(UsageReport, deltas(start(cache_creation=None)))[0].usage == Usage(12, None, None, 2_000, 100, 0)
    assert of(UsageReport, deltas({"type": "message_start", "message": {"id": "m", "usage": None}})) == []

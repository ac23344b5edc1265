"""The Responses stream: what OpenAI's events mean, the odd ones included."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from agent_core.messages import Usage
from agent_core.net.sse import EventSplitter
from agent_core.providers import base as p
from agent_core.providers.failing import refused
from agent_core.providers.openai import ResponsesFold
from tests.cases import for_each

Json = dict[str, Any]


def fold(*events: Json, end: bool = False) -> list[p.ModelDelta]:
    """Return what *events* fold to, one network read each; *end* when the stream ends after them."""
    folded = ResponsesFold("openai", "gpt-6.1-sol")
    deltas = [delta for event in events for delta in folded.take([json.dumps(event).encode()])]
    return [*deltas, *(folded.end() if end else [])]


def created() -> Json:
    return {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-6.1-sol-2026-10-01", "output": []}}


def added(index: int, **item: Any) -> Json:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> Json:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, text: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, "item_id": f"i_{text}", **fields}


def completed(kind: str = "completed", **response: Any) -> Json:
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "model": "m", "status": kind, **response}}


def message(text: str, **fields: Any) -> Json:
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
    return {"id": "msg_1", "type": "message", "status": "completed", "content": content, "role": "assistant", **fields}


def call(call_id: str, arguments: Any, **fields: Any) -> Json:
    item = {"id": f"fc_{call_id}", "type": "function_call", "status": "completed", "call_id": call_id, "name": "look"}
    return {**item, "arguments": arguments, **fields}


def reasoning(**fields: Any) -> Json:
    return {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA=", **fields}


def native(deltas: Sequence[p.ModelDelta]) -> list[Json]:
    """Return the native items, their texts in place."""
    return [json.loads(_whole(item, deltas)) for item in deltas if isinstance(item, p.NativeItem)]


def _whole(item: p.NativeItem, deltas: Sequence[p.ModelDelta]) -> str:
    kinds = p.ModelTextDelta | p.ModelReasoningDelta
    found: list[str] = []
    for each in item.pieces:
        assert not isinstance(each, tuple), "OpenAI's texts are whole parts"
        found.append(each if isinstance(each, str) else json.dumps(said(deltas, kinds, each)))
    return "".join(found)


def said(deltas: Sequence[Any], kind: Any, slot: int | None = None) -> str:
    return "".join(d.text for d in deltas if isinstance(d, kind) and slot in (None, d.slot))


def ends(deltas: Sequence[p.ModelDelta]) -> list[tuple[Any, Any]]:
    return [(each.raw, each.arguments) for each in deltas if isinstance(each, p.ToolEnd)]


RICH = [
    created(),
    added(0, type="reasoning", id="rs_0", summary=[], encrypted_content="early"),
    delta("reasoning_summary_text", 0, "**Hmm", summary_index=0, obfuscation="x1"),
    delta("reasoning_summary_text", 0, "**", summary_index=0),
    delta("reasoning_summary_text", 0, "So.", summary_index=1),
    done(
        0, **reasoning(summary=[{"type": "summary_text", "text": "**Hmm**"}, {"type": "summary_text", "text": "So."}])
    ),
    added(1, type="message", id="msg_0", content=[], role="assistant", status="in_progress", phase="commentary"),
    delta("output_text", 1, "Grüße ", content_index=0, logprobs=[]),
    delta("output_text", 1, "🙂", content_index=0),
    {"type": "response.output_text.done", "output_index": 1, "content_index": 0, "text": "Grüße 🙂"},
    done(1, **message("Grüße 🙂", phase="commentary")),
    added(2, **call("call_a", "", status="in_progress")),
    added(3, **call("call_b", "", status="in_progress")),
    delta("function_call_arguments", 2, '{"what"'),
    delta("function_call_arguments", 3, '{"what": '),
    delta("function_call_arguments", 2, ': "ä"}'),
    delta("function_call_arguments", 3, '"b"}'),
    {"type": "response.function_call_arguments.done", "output_index": 3, "arguments": '{"what": "b"}'},
    done(3, **call("call_b", '{"what": "b"}')),
    done(2, **call("call_a", '{"what": "ä"}')),
    completed(usage={"input_tokens": 9, "output_tokens": 2}),
]


def test_a_rich_answer_is_reported_in_order():
    """Thinking, text and interleaved calls each have a slot, and their items are kept in the response's order."""
    deltas = fold(*RICH)
    assert deltas[0] == p.Started("resp_1", "gpt-6.1-sol-2026-10-01")
    assert said(deltas, p.ModelReasoningDelta) == "**Hmm**So."
    assert said(deltas, p.ModelTextDelta) == "Grüße 🙂"
    assert [each.call_id for each in deltas if isinstance(each, p.ToolStart)] == ["call_a", "call_b"]
    assert dict(ends(deltas)) == {'{"what": "b"}': {"what": "b"}, '{"what": "ä"}': {"what": "ä"}}
    kept = [each["item"] for each in RICH if each["type"] == "response.output_item.done"]
    assert native(deltas) == [kept[0], kept[1], kept[3], kept[2]]
    assert deltas[-1] == p.Finished("tools", "completed")


def test_texts_are_kept_once():
    """A native item refers to the text that is kept anyway."""
    items = [each for each in fold(*RICH) if isinstance(each, p.NativeItem)]
    assert not any("Grüße" in each or "Hmm" in each for item in items for each in item.pieces if isinstance(each, str))


@pytest.mark.whole
def test_the_network_may_cut_a_stream_anywhere():
    """A stream that is cut at any byte gives the same answer."""
    wire = b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in RICH)
    whole = _joined(fold(*RICH))
    for cut in range(1, len(wire)):
        folded, frames = ResponsesFold("openai", "m"), EventSplitter()
        deltas = [*folded.take(frames.feed(wire[:cut])), *folded.take(frames.feed(wire[cut:]))]
        assert _joined(deltas) == whole, cut
    assert whole[-1] == p.Finished("tools", "completed")


def _joined(deltas: Sequence[p.ModelDelta]) -> list[Any]:
    """Return *deltas* with neighbouring texts of a slot made one."""
    found: list[Any] = []
    for each in deltas:
        last: Any = found[-1] if found else None
        texts = isinstance(each, p.ModelTextDelta | p.ModelReasoningDelta | p.ToolArgsDelta)
        if texts and type(last) is type(each) and last.slot == each.slot:
            found[-1] = type(each)(each.slot, last.text + each.text)
        else:
            found.append(each)
    return found


def test_texts_of_one_read_come_as_one():
    """What one network read says in one part is one delta."""
    folded = ResponsesFold("openai", "m")
    events = [delta("output_text", 0, text, content_index=0) for text in ("a", "b", "c")]
    events.append(delta("output_text", 0, "d", content_index=1))
    deltas = folded.take([json.dumps(event).encode() for event in events])
    assert deltas == [p.Started("", "m"), p.ModelTextDelta(0, "abc"), p.ModelTextDelta(1, "d")]


@for_each(
    "events",
    [
        [{"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hello"}],
        [done(0, **message("Hello"))],
        [delta("output_text", 0, "Hel", content_index=0), done(0, **message("Hello"))],
        [completed(output=[message("Hello")])],
        [added(0, type="message"), completed(output=[message("Hello")])],
        [done(0, **message("Hello")), delta("output_text", 0, "Hello", content_index=0)],
    ],
)
def test_text_that_deltas_left_out_is_reported(events):
    """Text that comes whole, or the rest of it, is reported once, wherever the server put it."""
    assert said(fold(created(), *events, completed()), p.ModelTextDelta) == "Hello"


def test_a_text_that_ends_otherwise_is_replayed_as_it_ended():
    """When the end of a text is not what was streamed, the model reads its own words again."""
    whole = message("Hello", phase="final_answer")
    deltas = fold(created(), delta("output_text", 0, "Helo", content_index=0), done(0, **whole), completed())
    assert (said(deltas, p.ModelTextDelta), native(deltas)) == ("Helo", [whole])


def test_a_plain_answer_has_no_native_form():
    """Text and calls with nothing about them are replayed in the neutral form: nothing is stored of them twice."""
    plain = [done(0, **message("Hi.")), done(1, **call("c", "{}"))]
    assert native(fold(created(), *plain, completed())) == []
    assert len(native(fold(created(), *plain, done(2, **reasoning()), done(3, **call("d", "{}")), completed()))) == 4


@for_each(
    "raw, arguments",
    [("", {}), (" ", {}), ("null", {}), ("{}", {}), ('{"a": 1}', {"a": 1}), ('{"a": ', None), ("[1]", None), (7, None)],
)
def test_arguments_are_an_object_or_nothing(raw, arguments):
    """A call without arguments is one; arguments that are cut, broken or no object are none."""
    deltas = fold(created(), added(0, **call("c", "")), done(0, **call("c", raw)), completed())
    assert [found for _, found in ends(deltas)] == [arguments]


def test_an_incomplete_call_has_no_arguments():
    """A call that the server itself calls incomplete never runs, even when its text happens to parse."""
    deltas = fold(created(), done(0, **call("c", '{"a": 1}', status="incomplete")), completed())
    assert ends(deltas) == [('{"a": 1}', None)]


def test_a_call_is_answered_under_its_call_id():
    """The id of a call is its `call_id`, not the id of its item; one that is missing is made up and kept."""
    calls = [done(0, **call("call_1", "{}")), done(1, **call("", "{}", id=None))]
    deltas = fold(created(), *calls, done(2, **reasoning()), completed())
    ids = [each.call_id for each in deltas if isinstance(each, p.ToolStart)]
    assert ids[0] == "call_1"
    assert ids[1].startswith("call_1_")
    assert [each["call_id"] for each in native(deltas)] == ids


def test_a_call_that_nothing_closed_ends_with_the_response():
    """Where a server leaves out the end of a call, the end of a completed response is it."""
    opened = [created(), added(0, **call("c", "")), delta("function_call_arguments", 0, '{"a": 1}')]
    assert ends(fold(*opened, completed())) == [('{"a": 1}', {"a": 1})]
    assert ends(fold(*opened, completed("incomplete"))) == []


def test_a_custom_call_is_kept_as_a_call_of_a_function():
    """Free text for a custom tool is its `input`, and its result is sent like any other's."""
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "sql", "input": "select 1"}
    deltas = fold(created(), added(0, **{**item, "input": ""}), done(0, **item), completed())
    assert ends(deltas) == [('{"input":"select 1"}', {"input": "select 1"})]
    kept = {"type": "function_call", "call_id": "c", "name": "sql", "arguments": '{"input":"select 1"}'}
    assert native(deltas) == [kept]


def test_unknown_events_are_passed_over_and_unknown_items_kept():
    """What a newer server adds does not disturb an answer, and its items go back to it as they came."""
    item = {"type": "tool_search_call", "arguments": {"q": [1.50, None]}, "id": "ts_1", "status": "completed"}
    odd = {"type": "response.novelty.delta", "delta": {"x": 1}, "output_index": 0, "item": 3}
    events = [{"type": "response.queued"}, odd, done(0, **item), done(1, **message("Hi")), completed()]
    deltas = fold(created(), *events)
    assert native(deltas) == [item, message("Hi")]
    assert deltas[-1] == p.Finished("done", "completed")


def test_reasoning_is_kept_with_the_item_that_it_led_to():
    """Reasoning is kept with the item after it: with a call only while that call is kept, and never alone."""
    events = [done(0, **reasoning()), done(1, **call("c", "{}")), done(2, **reasoning(id="rs_2"))]
    deltas = fold(created(), *events, completed())
    slot = next(each.slot for each in deltas if isinstance(each, p.ToolStart))
    items = [each for each in deltas if isinstance(each, p.NativeItem)]
    assert [each.call for each in items] == [slot, slot]
    assert [each["id"] for each in native(deltas)] == ["rs_1", "fc_c"]


@for_each("content, kept", [(None, 1), ([], 1), ([{"type": "reasoning_text", "text": "Hm."}], 2)])
def test_thoughts_without_their_content_are_not_sent_back(content, kept):
    """A server that stores nothing refuses reasoning that is no more than its id."""
    thought = reasoning(encrypted_content=None, content=content)
    assert len(native(fold(created(), done(0, **thought), done(1, **message("Hi")), completed()))) == kept


def test_blank_texts_are_not_sent_back():
    """A message of blank text is left out, a blank part of one too; thinking goes on to what follows."""
    both = {**message("Hi"), "content": [*message(" ")["content"], *message("Hi")["content"]]}
    deltas = fold(created(), done(0, **reasoning()), done(1, **message("\n")), done(2, **both), completed())
    assert native(deltas) == [reasoning(), message("Hi")]


def test_a_text_that_nothing_closed_is_kept_as_a_message():
    """Text of an answer that was cut at its limit is replayed, even when its item never ended."""
    events = [done(0, **reasoning()), delta("output_text", 1, "Half", content_index=0)]
    deltas = fold(created(), *events, completed("incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert native(deltas) == [{"role": "assistant", "content": "Half"}]
    assert deltas[-1] == p.Finished("length", "max_output_tokens")


@for_each(
    "events",
    [
        [delta("refusal", 0, "I can"), delta("refusal", 0, "not."), done(0, **message("Well"))],
        [{"type": "response.refusal.done", "output_index": 0, "refusal": "I cannot."}],
        [done(0, type="message", content=[{"type": "refusal", "refusal": "I cannot."}])],
    ],
)
def test_a_refusal_is_reported_once(events):
    """A refusal, in deltas or whole, ends the answer as refused."""
    deltas = fold(created(), delta("output_text", 0, "Well", content_index=0), *events, completed())
    assert "".join(each.text for each in deltas if isinstance(each, p.Refusal)) == "I cannot."
    assert deltas[-1] == p.Finished("refused", "completed")


@for_each("reason, end", [("content_filter", "refused"), ("max_output_tokens", "length"), ("novel", "length")])
def test_an_incomplete_response_says_why(reason, end):
    """A filter refuses; any other reason means that the answer is cut."""
    deltas = fold(created(), completed("incomplete", incomplete_details={"reason": reason}))
    assert deltas[-1] == p.Finished(end, reason)


@for_each(
    "event, kind",
    [
        (
            {"type": "error", "code": "context_length_exceeded", "message": "Too long.", "param": None},
            "context_overflow",
        ),
        ({"type": "error", "error": {"type": "server_error", "code": None, "message": "Sorry."}}, "error"),
        ({"type": "error", "error": {"code": "insufficient_quota", "message": "Pay."}}, "quota"),
        ({"error": {"message": "Slow down", "type": "x"}}, "overloaded"),
        (completed("failed", error={"code": "rate_limit_exceeded", "message": "Slow."}), "rate_limited"),
        (completed("failed", error={"code": "invalid_image_format", "message": "No image."}), "file_refused"),
        (completed("failed", error=None), "error"),
        ({"type": "response.failed"}, "error"),
    ],
)
def test_an_error_in_the_stream_fails_the_call(event, kind):
    """An error after HTTP 200 is classified in both of its shapes, and nothing comes after it."""
    deltas = fold(created(), delta("output_text", 0, "Hal", content_index=0), event, completed(), end=True)
    failure = deltas[-1]
    assert isinstance(failure, p.CallFailed)
    assert failure.kind == kind
    assert len([each for each in deltas if isinstance(each, p.CallFailed | p.Finished)]) == 1


@for_each(
    "text",
    [
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
    ],
)
def test_thoughts_that_do_not_fit_are_left_out_and_the_call_repeated(text):
    """OpenAI's refusals of reasoning that is alone or missing are repaired like thinking that is stale."""
    error = {"error": {"message": text, "type": "invalid_request_error", "param": "input", "code": None}}
    assert refused("openai", 400, error, {}).kind == "stale_reasoning"


def test_a_policy_error_is_a_refusal():
    """An error that is a policy's is the model's refusal, not a fault to be tried again."""
    deltas = fold(created(), completed("failed", error={"code": "bio_policy", "message": "Not this."}))
    assert deltas[-2:] == [p.Refusal("Not this."), p.Finished("refused", "bio_policy")]


def test_a_stream_without_its_end_is_broken():
    """Silence is no end: the call failed and may be tried again; after an end nothing is due."""
    failure = fold(created(), done(0, **message("All")), end=True)[-1]
    assert isinstance(failure, p.CallFailed)
    assert (failure.kind, failure.retryable) == ("network", True)
    assert fold(created(), completed(), end=True)[-1] == p.Finished("done", "completed")


DETAILS = {"cached_tokens": 40, "cache_write_tokens": 35}
WRITTEN = {**DETAILS, "cache_write_tokens_details": {"ttl_30m_tokens": 30, "ttl_12h_tokens": 5}}


@for_each(
    "details, usage",
    [
        (None, Usage(100, 20, 8, None, None, None)),
        ({"cached_tokens": 40}, Usage(60, 20, 8, 40, None, None)),
        (DETAILS, Usage(25, 20, 8, 40, 35, None)),
        (WRITTEN, Usage(25, 20, 8, 40, 30, 5)),
    ],
)
@for_each("kind", ["completed", "incomplete", "failed"])
def test_tokens_are_counted_apart(details, usage, kind):
    """Plain input is what was neither read from the cache nor written to it; what is not reported is unknown."""
    counts = {"input_tokens": 100, "input_tokens_details": details, "output_tokens": 20}
    counts["output_tokens_details"] = {"reasoning_tokens": 8}
    deltas = fold(created(), completed(kind, usage=counts))
    assert [each.usage for each in deltas if isinstance(each, p.UsageReport)] == [usage]


def test_missing_usage_is_not_reported():
    """A server that counts nothing has reported nothing."""
    assert not [each for each in fold(created(), completed(usage=None)) if isinstance(each, p.UsageReport)]


def test_what_is_no_event_is_unreadable():
    """What is no valid JSON of this wire raises an error that the client handles."""
    with pytest.raises(msgspec.DecodeError):
        ResponsesFold("openai", "m").take([b"[1]"])

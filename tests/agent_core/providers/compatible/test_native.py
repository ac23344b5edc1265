"""What is kept of a Chat Completions answer besides its parts, so that its server gets it back."""

import json

from agent_core.providers import base as p
from tests.agent_core.providers.compatible.test_provider import ARGS_A, play, receive, sent
from tests.agent_core.providers.contract import written as w
from tests.cases import for_each

CALL = w.tool_call(ARGS_A, index=0, id="call_00_x", name="look")
SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}


def kept(*deltas, **fields):
    """Return the native items of an answer in *deltas*."""
    return [delta for delta in play(w.chat(*deltas, **fields)) if isinstance(delta, p.NativeItem)]


def message(*deltas):
    """Return the message that goes back."""
    (native,) = receive(w.chat(*deltas)).native
    return json.loads(native)


def test_plain_text_needs_nothing():
    """An answer of words alone is whole in its parts."""
    assert kept({"content": "Hi."}) == []


def test_of_plain_calls_the_ids_are_kept():
    """Calls without additions are whole in their parts, but for the server's ids."""
    assert kept({"content": "Hm."}, CALL) == [p.NativeItem((), 2)]


@for_each("field", ["reasoning_content", "reasoning"])
@for_each("calls", [(), (CALL,)])
def test_thinking_goes_back_under_the_name_it_came_by(field, calls):
    """Thinking is kept by its place, in an answer with calls and in one without, which may end a tool loop."""
    found = message({field: "Let me "}, {field: "see."}, {"content": "Well."}, *calls)
    assert list(found) == ["role", "content", field, *(["tool_calls"] if calls else [])]
    assert (found[field], found["content"]) == ("Let me see.", "Well.")


@for_each("blank", ["", " \n"])
def test_an_empty_thought_goes_back_too(blank):
    """DeepSeek refuses an answer without its thinking even where it thought nothing, which it says."""
    for more in (CALL, {"content": "Hi."}):
        assert message({"reasoning_content": blank}, more)["reasoning_content"] == blank
    assert kept({"reasoning_content": None}, {"content": "Hi."}) == []


def test_what_a_server_adds_to_a_call_goes_back_with_it():
    """A signature stays on its own call; the other call of the answer has none."""
    calls = [w.tool_call(ARGS_A, index=n, id=f"f{n}", name="look") for n in range(2)]
    calls[0]["tool_calls"][0] |= SIGNED
    found = message(*calls)
    assert found == {"role": "assistant", "content": None, "tool_calls": found["tool_calls"]}
    assert found["tool_calls"] == [json.loads(sent("f0", ARGS_A, **SIGNED)), json.loads(sent("f1", ARGS_A))]


def test_a_signature_may_come_after_its_call():
    """What comes in a later delta of the call belongs to it too."""
    later = {"tool_calls": [{"index": 0, **SIGNED}]}
    assert message(CALL, later)["tool_calls"] == [json.loads(sent("call_00_x", ARGS_A, **SIGNED))]


@for_each("raw, back", [('{"what": "a', "{}"), ("", "{}"), ("null", "{}"), ("[1]", "{}")])
def test_arguments_that_a_server_cannot_read_are_empty(raw, back):
    """A template of the server parses the arguments: those that are no JSON object would break it."""
    (call,) = message({"reasoning_content": "Hm"}, w.tool_call(raw, index=0, id="1", name="look"))["tool_calls"]
    assert call["function"]["arguments"] == back


DETAILS = [
    {"type": "reasoning.text", "text": "Let me ", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": "see.", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "YQ==", "id": "rs_1", "index": 1},
    {"type": "reasoning.encrypted", "data": "Yg==", "id": "rs_2", "index": 1},
]


def test_reasoning_details_go_back_whole():
    """Pieces of a text are joined, with their signature; encrypted data stays as it came, and the text is kept once."""
    texts = [{"reasoning": detail.get("text", ""), "reasoning_details": [detail]} for detail in DETAILS]
    deltas = [*texts, CALL]
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "signature": "c2ln"}
    assert message(*deltas)["reasoning_details"] == [{**text, "text": "Let me see."}, *DETAILS[3:]]
    (item,) = kept(*deltas)
    assert 0 in item.pieces
    assert not any("see." in piece for piece in item.pieces if isinstance(piece, str))


def test_details_that_differ_from_what_was_shown_are_kept_themselves():
    """Two texts of one answer, a summary, and what is no detail at all."""
    odd = [
        {"type": "reasoning.text", "text": "b", "index": 1},
        {"type": "reasoning.summary", "summary": "c", "index": 2},
    ]
    deltas = [
        {"reasoning": "a", "reasoning_details": [DETAILS[0]]},
        {"reasoning": "b", "reasoning_details": [None, *odd]},
    ]
    assert message(*deltas, CALL)["reasoning_details"] == [DETAILS[0], *odd]


@for_each("end", ["length", "content_filter"])
def test_nothing_is_kept_of_an_answer_that_does_not_count(end):
    """A cut answer is sent back as its text, a refused one not at all."""
    assert kept({"reasoning_content": "Hm"}, {"content": "Well, "}, CALL, finish=end) == []


def test_an_id_that_a_server_left_out_is_made_up_once_per_answer():
    """Without an id, or with one that another call has, a call gets one that is another in each answer."""
    call = w.tool_call(ARGS_A, index=0, name="look")
    found = {id_: receive(w.chat(call, id=id_)).ids for id_ in ("c_1", "c_2")}
    assert found["c_1"] != found["c_2"]
    assert [ids for ids in found.values() if not (len(ids[0]) == 9 and ids[0].isalnum())] == []
    assert found["c_1"] == receive(w.chat(call, id="c_1")).ids

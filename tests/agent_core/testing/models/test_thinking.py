"""Thinking that comes back is checked as the vendors check it."""

import copy

from agent_core.testing.models import Options, redacted
from agent_core.testing.scripted import call, finish, say, think
from tests.agent_core.testing.models.asking import asking, user
from tests.cases import for_each

STEP = [think("First I think."), say("Then I say."), call("now")]
STALE = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def always(answer):
    return lambda _: answer


def follow(body, reply):
    """Return the request that answers the calls of *reply*."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "noon"}
        for block in reply.json["content"]
        if block["type"] == "tool_use"
    ]
    said = {"role": "assistant", "content": reply.json["content"]}
    return {**body, "messages": [*body["messages"], said, {"role": "user", "content": results}]}


async def conversation(asker, steps=3, **fields):
    """Hold a conversation of *steps* steps, and return the request of the next."""
    body = {**user("What time is it?"), "system": "Be brief.", **fields}
    for _ in range(steps):
        reply = await asker.ask(body)
        assert reply.status == 200, reply.text
        body = follow(body, reply)
    return body


def thoughts(body):
    return [
        (message["content"], block)
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if "thinking" in block["type"]
    ]


def move_marks(body):
    body["messages"][0]["content"] = [
        {"type": "text", "text": "What time is it?", "cache_control": {"type": "ephemeral"}}
    ]


def drop_first(body):
    content, block = thoughts(body)[0]
    content.remove(block)


def drop_first_two(body):
    for content, block in thoughts(body)[:2]:
        content.remove(block)


def drop_all(body):
    for content, block in thoughts(body):
        content.remove(block)


def append(body):
    body["messages"].append({"role": "system", "content": "Hurry."})


def drop_second(body):
    content, block = thoughts(body)[1]
    content.remove(block)


def edit_thought(body):
    thoughts(body)[0][1]["thinking"] = "I never thought that."


def edit_signature(body):
    thoughts(body)[0][1]["signature"] = "bm9uZQ=="


def edit_system(body):
    body["system"] = "Be verbose."


def edit_tools(body):
    body["tools"] = [{"name": "now", "input_schema": {"type": "object"}}]


def edit_question(body):
    body["messages"][0]["content"] = "What day is it?"


def edit_result(body):
    body["messages"][2]["content"][0]["content"] = "midnight"


def move_thought(body):
    content, block = thoughts(body)[0]
    content.remove(block)
    content.insert(1, block)


def swap_thoughts(body):
    (one, first), (other, second) = thoughts(body)[:2]
    one[one.index(first)], other[other.index(second)] = second, first


def change_model(body):
    body["model"] = "claude-sonnet-5-5"


@for_each("change", [move_marks, drop_first, drop_first_two, drop_all, append])
async def test_what_keeps_the_prefix_is_allowed(change):
    """Cache marks may move, messages may follow, and thinking may be dropped from the front."""
    async with asking(always(STEP)) as asker:
        body = await conversation(asker)
        change(body)
        assert (await asker.ask(body)).status == 200


@for_each(
    "change",
    [
        drop_second,
        edit_thought,
        edit_signature,
        edit_system,
        edit_tools,
        edit_question,
        edit_result,
        move_thought,
        swap_thoughts,
        change_model,
    ],
)
async def test_what_changes_the_prefix_is_refused(change):
    """Thinking after a change, from between, edited, moved, or of another model gets the vendor's 400."""
    async with asking(always(STEP)) as asker:
        body = await conversation(asker)
        change(body)
        reply = await asker.ask(body)
    assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
    where, _, said = reply.said.partition(": ")
    assert (where.split(".")[0], said) == ("messages", STALE)


async def test_thinking_that_was_left_out_stays_out():
    """Once a model has produced thinking after a cut, the thinking from before it can never come back."""
    async with asking(always(STEP)) as asker:
        whole = await conversation(asker, 2)
        cut = copy.deepcopy(whole)
        drop_all(cut)
        reply = await asker.ask(cut)
        assert (await asker.ask(follow(cut, reply))).status == 200
        assert STALE in (await asker.ask(follow(whole, reply))).said


@for_each("answer", [[redacted(), *STEP], [think("a"), say("b"), think("c"), call("now")], STEP])
async def test_every_kind_of_thinking_can_be_sent_back(answer):
    """Redacted thinking, thinking between text, and thinking without its text come back as they went."""
    async with asking(always(answer)) as asker:
        for display in ("summarized", "omitted"):
            body = await conversation(asker, thinking={"type": "adaptive", "display": display})
            assert (await asker.ask(body)).status == 200
            kept = {block.get("thinking", "") for _, block in thoughts(body)}
            assert kept <= {"", "a", "c", "First I think."}
            assert (kept == {""}) == (display == "omitted")


@for_each("answer, place, status", [([think("hm"), say("")], 1, 200), ([say(""), think("hm")], 0, 400)])
async def test_empty_text_must_be_left_out(answer, place, status):
    """A blank text block may not be sent back; thinking that follows one is bound to it, and lost with it."""
    async with asking(always([*answer, call("now")])) as asker:
        body = await conversation(asker, 1)
        assert "must be non-empty" in (await asker.ask(body)).said
        body["messages"][1]["content"].pop(place)
        assert (await asker.ask(body)).status == status


async def test_signatures_outlive_their_server():
    """Thinking of one server is good on the next: a restart ends no conversation."""
    async with asking(always(STEP)) as asker:
        body = await conversation(asker)
    async with asking(always(STEP)) as asker:
        assert (await asker.ask(body)).status == 200


async def test_only_named_models_can_be_checked():
    """With the option `sealed` the thinking of other models is not looked at."""
    async with asking(always(STEP), options=Options(sealed=("claude-fable",))) as asker:
        body = await conversation(asker)
        edit_system(body)
        assert (await asker.ask(body)).status == 200
        assert (await asker.ask({**body, "model": "claude-fable-5-1"})).status == 400


async def test_reasoning_is_bound_to_its_model():
    """A reasoning item comes back to the model that made it, and to no other."""
    async with asking([[think("hm"), call("now")], [think("hm"), finish()], [say("x")]]) as asker:
        body = user("hi", "responses")
        first = await asker.ask(body, "responses")
        output = first.json["output"]
        result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "noon"}
        body["input"] += [*output, result]
        assert (await asker.ask(body, "responses")).status == 200
        other = await asker.ask({**body, "model": "gpt-6-luna"}, "responses")
        assert (other.status, other.json["error"]["code"]) == (400, "invalid_encrypted_content")
        output[0]["encrypted_content"] = "gAAAAAearly"
        assert (await asker.ask(body, "responses")).json["error"]["code"] == "invalid_encrypted_content"

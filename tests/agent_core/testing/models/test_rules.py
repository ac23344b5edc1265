"""Requests that a vendor would refuse are refused here, in the vendor's words."""

from agent_core.testing.models import Options
from agent_core.testing.scripted import say
from tests.agent_core.testing.models.asking import VERSION, WIRES, asking, user
from tests.cases import for_each

HELLO = {"role": "user", "content": "Hello"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}
TEXT = {"type": "text", "text": "x"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
MARK = {"cache_control": {"type": "ephemeral"}}
CHOICE = {"type": "object", "anyOf": [{"required": ["a"]}]}
ODD = {"type": "object", "properties": {"$filter": {}}}
NAMED = {"type": "function", "name": "now"}
TOOL = {"name": "now", "input_schema": {"type": "object"}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
CALLS = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "now"}}]}
NOON = {"role": "tool", "tool_call_id": "call_1", "content": "noon"}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def users(*blocks):
    return {"role": "user", "content": list(blocks)}


async def refused(body, wire="messages", **options):
    """Send a request that must be refused, and return the message of the refusal."""
    async with asking([[say("x")]]) as asker:
        reply = await asker.ask({**user("hi", wire), **body}, wire, **options)
    assert (reply.status, asker.fake.calls) == (400, 1)
    return reply


async def accepted(body, wire="messages"):
    async with asking([[say("x")]]) as asker:
        reply = await asker.ask({**user("hi", wire), **body}, wire)
    assert reply.status == 200, reply.text


@for_each(
    "messages, said",
    [
        ([], "at least one message is required"),
        ([assistant(TEXT), HELLO], 'first message must use the "user" role'),
        ([{"role": "robot", "content": "x"}], "messages.0.role: Input should be"),
        ([users()], "non-empty content"),
        ([{"role": "user", "content": ""}], "text content blocks must be non-empty"),
        ([users({"type": "text", "text": " \n"})], "must contain non-whitespace text"),
        ([HELLO, assistant(USE)], "`tool_use` ids were found without `tool_result` blocks"),
        ([HELLO, assistant(USE), HELLO], "`tool_use` ids were found without `tool_result` blocks"),
        ([HELLO, assistant(TEXT), users(RESULT)], "unexpected `tool_use_id` found in `tool_result` blocks"),
        ([HELLO, assistant(USE), users(TEXT, RESULT)], "`tool_result` blocks must come first"),
        ([HELLO, assistant(USE), users(RESULT, RESULT)], "Found multiple `tool_result` blocks with id"),
        ([HELLO, assistant(USE, USE), users(RESULT)], "`tool_use` ids must be unique"),
        ([HELLO, assistant(TEXT)], "does not support assistant message prefill"),
        ([HELLO, assistant(SEARCH), HELLO], "`web_search` tool use with id `srvtoolu_1` was found without"),
        ([HELLO, assistant(SEARCH, USE), users(RESULT, TEXT)], "without a corresponding `web_search_tool_result`"),
        ([HELLO, assistant({"type": "document"}), HELLO], "`document` blocks are not permitted"),
        ([users(USE)], "`tool_use` blocks can only be in `assistant` messages"),
        ([HELLO, assistant(RESULT), HELLO], "`tool_result` blocks can only be in `user` messages"),
        ([{"role": "system", "content": "x"}, HELLO], "role 'system' must follow a 'user' message"),
        ([users(*[{**TEXT, **MARK}] * 5)], "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (
            [users({**TEXT, **MARK}, {**TEXT, "cache_control": {"type": "ephemeral", "ttl": "1h"}})],
            "a ttl='1h' cache_control block must not come after a ttl='5m'",
        ),
        ([users({"type": "text", "text": "", **MARK})], "cache_control cannot be set for empty text blocks"),
        ([HELLO, assistant({"type": "thinking", "thinking": "x", "signature": "s", **MARK}), HELLO], "Extra inputs"),
    ],
)
async def test_messages_have_an_order(messages, said):
    """Anthropic's rules for roles, blocks, calls with their results, and cache marks hold."""
    reply = await refused({"messages": messages})
    assert said in reply.said
    assert (reply.json["type"], reply.json["error"]["type"]) == ("error", "invalid_request_error")
    assert reply.json["request_id"] == reply.headers["request-id"]


@for_each(
    "model, fields, said",
    [
        ("gpt-6.1-sol", {"reasoning": {"effort": "none"}}, "'low', 'medium', 'high', 'xhigh', and 'max'."),
        (
            "gpt-6-astra",
            {"reasoning": {"effort": "minimal"}},
            "'minimal' is not supported with the 'gpt-6-astra' model",
        ),
        ("gpt-5.5-2026-04-23", {"reasoning": {"effort": "max"}}, "'max' is not supported"),
        ("gpt-6.1-sol", {"temperature": 0.5}, "Unsupported parameter: 'temperature'"),
        ("gpt-5.1", {"temperature": 0.5, "reasoning": {"effort": "low"}}, "Unsupported parameter: 'temperature'"),
    ],
)
async def test_a_model_of_openais_has_its_own_efforts(model, fields, said):
    """An effort that a model does not have is refused, and so is a temperature while it thinks."""
    assert said in (await refused({"model": model, **fields}, "responses")).said


@for_each(
    "model, fields",
    [
        ("gpt-6-sol", {"temperature": 0.5, "reasoning": {"effort": "none"}}),
        ("gpt-5.4-2026-03-05", {"temperature": 0.5}),
        ("gpt-6.1-sol", {"reasoning": {"effort": "max"}}),
        ("gpt-99", {"temperature": 0.5, "reasoning": {"effort": "none"}}),
    ],
)
async def test_what_a_model_takes_is_taken(model, fields):
    """Efforts that a model has are taken, a temperature without thinking, and anything by an unknown model."""
    await accepted({"model": model, **fields}, "responses")


@for_each(
    "fields, said",
    [
        ({"temperature": 1.0}, "temperature: Extra inputs are not permitted"),
        ({"max_output_tokens": 5}, "max_output_tokens: Extra inputs are not permitted"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": -1}, "max_tokens: Input should be a valid integer"),
        ({"thinking": {"type": "on"}}, "thinking: Input tag"),
        ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
        ({"tools": [{"name": "now"}]}, "input_schema.type: Input should be 'object'"),
        ({"tools": [{"name": "now", "input_schema": CHOICE}]}, "does not support oneOf, allOf, or anyOf"),
        ({"tools": [{"name": "now", "input_schema": ODD}]}, "Property keys should match pattern"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "then"}}, "Tool 'then' not found"),
        ({"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}}, "Thinking may not"),
        ({"system": [{"type": "text", "text": ""}]}, "system: text content blocks must be non-empty"),
    ],
)
async def test_requests_of_messages_have_their_fields(fields, said):
    """Anthropic's rules for the fields of a request hold."""
    assert said in (await refused(fields)).said


@for_each(
    "messages",
    [
        [HELLO, assistant(TEXT, USE), users(RESULT, TEXT)],
        [HELLO, assistant(USE), users(RESULT), {"role": "system", "content": "Be brief."}],
        [HELLO, HELLO],
        [HELLO, assistant({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})],
    ],
)
async def test_orderly_messages_are_answered(messages):
    """Text after results, a late system message, two messages of a user and a paused answer are all in order."""
    await accepted({"messages": messages})


async def test_older_versions_take_a_temperature():
    """Sampling parameters are refused from the version of the API on that took them away."""
    async with asking([[say("x")]]) as asker:
        headers = {**asker.headers, "anthropic-version": "2023-06-01"}
        assert (await asker.ask({**user("hi"), "temperature": 0.5}, headers=headers)).status == 200
        missing = {key: value for key, value in asker.headers.items() if key not in VERSION}
        assert "anthropic-version" in (await asker.ask("hi", headers=missing)).said


@for_each(
    "fields, said, code",
    [
        ({"max_tokens": 5}, "Unknown parameter: 'max_tokens'.", "unknown_parameter"),
        ({"input": None}, "Missing required parameter: 'input'.", "missing_required_parameter"),
        ({"input": []}, "empty array", None),
        ({"input": [{"role": "tool", "content": "x"}]}, "Invalid value: 'tool'.", "invalid_value"),
        ({"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]}, "'refusal'", None),
        ({"input": [HELLO, OUTPUT]}, "No tool call found for function call output with call_id call_1.", None),
        ({"input": [HELLO, CALL]}, "No tool output found for function call call_1.", None),
        ({"input": [HELLO, {**CALL, "call_id": None}]}, "input[1].call_id", "missing_required_parameter"),
        ({"input": [{**HELLO, "id": "msg_1"}, {**HELLO, "id": "msg_1"}]}, "Duplicate item found with id msg_1.", None),
        ({"input": [HELLO, {"type": "reasoning", "id": "rs_1", "summary": []}]}, "required following item", None),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tools[0].name", "missing_required_parameter"),
        ({"tools": [{**NAMED, "parameters": CHOICE}]}, "not have 'oneOf'", "invalid_function_parameters"),
        ({"previous_response_id": "resp_1"}, "'resp_1' not found", "previous_response_not_found"),
    ],
)
async def test_items_have_an_order(fields, said, code):
    """OpenAI's rules for the fields and items of a response's request hold."""
    reply = await refused(fields, "responses")
    assert said in reply.said
    assert code in (None, reply.json["error"]["code"])


@for_each(
    "fields, said",
    [
        ({"thinking": {}}, "Unknown parameter: 'thinking'."),
        ({"messages": None}, "Missing required parameter: 'messages'."),
        ({"messages": []}, "empty array"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "Invalid value: 'bot'."),
        ({"messages": [HELLO, {"role": "assistant", "content": None}]}, "expected a string, got null"),
        ({"messages": [HELLO, CALLS]}, "must be followed by tool messages"),
        ({"messages": [HELLO, CALLS, HELLO]}, "did not have response messages: call_1"),
        ({"messages": [HELLO, NOON]}, "must be a response to a preceeding message"),
        ({"messages": [HELLO, CALLS, NOON, NOON]}, "must be a response to a preceeding message"),
        ({"tools": [{"type": "function", "name": "now"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {"name": "x", "parameters": CHOICE}}]}, "not have 'oneOf'"),
    ],
)
async def test_chat_messages_have_an_order(fields, said):
    """OpenAI's rules for the fields and messages of Chat Completions hold."""
    assert said in (await refused(fields, "chat")).said


async def test_orderly_conversations_are_answered():
    """Calls with their outputs are in order on both of OpenAI's wires."""
    await accepted({"input": [HELLO, CALL, OUTPUT, {"role": "assistant", "content": "Noon."}, HELLO]}, "responses")
    await accepted({"input": "Hello"}, "responses")
    await accepted({"messages": [HELLO, CALLS, NOON, HELLO]}, "chat")


@for_each("wire", WIRES)
async def test_a_key_is_needed(wire):
    """Without a key, and with the bad one, requests are refused; any other key is good."""
    async with asking([[say("x")]]) as asker:
        for headers in (VERSION, {**VERSION, "authorization": "Bearer bad-key"}):
            reply = await asker.ask("hi", wire, headers=headers)
            assert reply.status == 401
            assert "bad-key" not in reply.text
        assert (await asker.ask("hi", wire)).status == 200


@for_each("wire", WIRES)
async def test_what_is_no_json_is_refused(wire):
    """A body that is no JSON object gets the vendor's 400."""
    async with asking([[say("x")]]) as asker:
        for body in (b"{", b"[]", b'{"model": 5}', b'{"messages": "hi", "input": 5}'):
            assert (await asker.ask(body, wire)).status == 400


@for_each("wire", WIRES)
async def test_a_lenient_server_takes_anything(wire):
    """With `check` off a request is answered whatever is in it."""
    async with asking([[say("x")]], check=False) as asker:
        assert (await asker.ask({**user("hi", wire), "nonsense": 1}, wire, headers={})).status == 200


async def test_a_refused_request_takes_no_answer():
    """A request that breaks a rule counts as a call, and leaves the script where it is."""
    async with asking([[say("x")]], options=Options()) as asker:
        assert (await asker.ask({**user("hi"), "x": 1})).status == 400
        assert (await asker.ask("hi")).status == 200
        assert asker.fake.calls == 2


@for_each(
    "model, role, part, said",
    [
        ("gpt-5.5", "user", "input_text", "is not supported with this model"),
        ("o3", "user", "input_text", "is not supported with this model"),
        ("gpt-6.1-sol", "assistant", "output_text", "Unknown parameter"),
        ("gpt-5.6-sol", "user", "input_text", None),
        ("gpt-6.1-sol", "developer", "input_text", None),
    ],
)
async def test_where_a_cache_breakpoint_may_be(model, role, part, said):
    """Models from 5.6 on take an explicit breakpoint on parts of the input; others, and other parts, take none."""
    content = [{"type": part, "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}]
    body = {"model": model, "input": [{"role": role, "content": content}]}
    if said is None:
        await accepted(body, "responses")
    else:
        assert said in (await refused(body, "responses")).said

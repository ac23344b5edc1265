"""Chat Completions requests: what each message becomes, and what is asked beside the messages."""

import asyncio
import base64
from functools import partial
from typing import Any

import msgspec
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from agent_core.agent.frames import Frames
from agent_core.agent.snapshot import freeze
from agent_core.agent.window import WindowEntry
from agent_core.agents import Controls, ToolSpec
from agent_core.messages import File, Message, Native, Reasoning, Render, Text, ToolCall, ToolResult
from agent_core.providers import compatible as wire
from agent_core.providers.base import Request
from agent_core.providers.compatible import Wants, call_id, compatible, wants_of
from agent_core.providers.openai_items import NO_CACHE
from tests.cases import for_each

PARAMS = TypeAdapter(CompletionCreateParamsStreaming)
TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {"b": {}, "a": {}}})
PNG = File("blob_1", "cat.png", "image/png", 3)
PDF = File("blob_2", "paper.pdf", "application/pdf", 4)
NOTES = File("blob_3", "notes.txt", "text/plain; charset=utf-8", 5)
ZIP = File("blob_4", "all.zip", "application/zip", 6)
READER = "openai-compatible:qwen3"
encode = partial(wire.encode, READER, Wants())
FILES = {"blob_1": b"png", "blob_2": b"%PDF", "blob_3": b"h\xc3\xa9y\xff", "blob_4": b"PK"}
ID_1 = "Bu09e4fdz"
TALK = (
    Message("user", (Text("Look"), PNG, PDF, NOTES, ZIP)),
    Message("assistant", (Reasoning("Hm"), Text("I look."), ToolCall("call_1", "look", {"b": 1, "a": [None]}))),
    Message("tool", (ToolResult("call_1", "done", (Text("Seen"), PNG)),)),
    Message("assistant", (Text("A cat."),)),
    Message("user", (Text("Thanks"),)),
)


def encoded(*messages: Message, files: dict[str, bytes] = FILES) -> list[dict[str, Any]]:
    """Return the messages of a request that *messages* become."""
    return [each for message in messages for each in msgspec.json.decode(b"[" + encode(message, files) + b"]")]


async def read_file(blob: str) -> bytes | None:
    return FILES.get(blob)


def body(*messages: Message, url: str | None = "http://localhost:11434/v1", model: str = "qwen3", **given: Any) -> Any:
    """Return the request for *messages*, checked against the SDK's own types."""
    tools, instructions = given.pop("tools", (TOOL,)), given.pop("instructions", "Be brief.")
    snapshot = freeze(model="m", instructions=instructions, tools=tools)
    entries = [WindowEntry(n, message, encode) for n, message in enumerate(messages)]
    for entry in entries:
        asyncio.run(entry.load(read_file, Frames()))
    provider = compatible(api_key=None, base_url=url)
    raw = provider._body(Request(model, snapshot, entries, Controls(**given), "s"))
    assert raw == provider._body(Request(model, snapshot, entries, Controls(**given), "s"))
    PARAMS.validate_json(raw)
    return msgspec.json.decode(raw)


def test_a_request_is_what_the_sdk_would_send():
    """System, messages and tools are in their places; nothing is asked that was not wished for."""
    asked = body(*TALK)
    assert {name: value for name, value in asked.items() if name != "messages"} == {
        "model": "qwen3",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": TOOL.parameters}}
        ],
    }
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert asked["messages"][1:] == encoded(*TALK)


def test_the_schema_of_a_tool_goes_out_as_the_snapshot_has_it():
    """A snapshot has sorted keys, whichever way a schema was written, and the wire changes no order."""
    assert list(body()["tools"][0]["function"]["parameters"]["properties"]) == ["a", "b"]


@for_each(
    "controls, asked",
    [
        ({}, {}),
        ({"tool_choice": "auto"}, {}),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        ({"tool_choice": "none", "tools": ()}, {}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"effort": "high"}, {"reasoning_effort": "high"}),
        ({"max_output_tokens": 9, "url": None}, {"max_completion_tokens": 9}),
        ({"max_output_tokens": 9, "url": "https://api.openai.com/v1/"}, {"max_completion_tokens": 9}),
        ({"max_output_tokens": 9, "url": "https://api.openai.com.example.org/v1"}, {"max_tokens": 9}),
        ({"temperature": 0.5, "url": None, "model": "gpt-5.5"}, {}),
        ({"effort": "max", "url": None, "model": "gpt-5.5"}, {"reasoning_effort": "xhigh"}),
        ({"effort": "max", "url": None, "model": "gpt-6-sol"}, {"reasoning_effort": "xhigh", **NO_CACHE}),
        (
            {"temperature": 0.5, "effort": "none", "url": None, "model": "gpt-6-sol"},
            {"temperature": 0.5, "reasoning_effort": "none", **NO_CACHE},
        ),
        ({"effort": "max", "model": "gpt-5.5"}, {"reasoning_effort": "max"}),
    ],
)
def test_controls_are_asked_as_the_server_takes_them(controls, asked):
    """Small servers get the older names and what was wished; OpenAI's own gets what its table says."""
    found = body(TALK[-1], **controls)
    plain = {"model", "stream", "stream_options", "messages", "tools"}
    assert {name: value for name, value in found.items() if name not in plain} == asked


def test_no_instructions_are_no_message():
    """Blank instructions send no system message; a request may then begin with the question, or be empty."""
    assert body(TALK[-1], instructions=" ")["messages"] == [{"role": "user", "content": "Thanks"}]
    assert body(TALK[-1], Message("user", (Text(" "),)), instructions="")["messages"] == encoded(TALK[-1])


def test_heads_are_distinguished():
    """Two snapshots on one provider keep their own instructions, however often they alternate."""
    provider = compatible(api_key=None, base_url=None)
    for n in [*range(70), 0, 69, 1]:
        snapshot = freeze(model="m", instructions=f"Instructions {n}.", tools=())
        asked = msgspec.json.decode(provider._body(Request("m", snapshot, (), Controls(), "s")))
        assert asked["messages"] == [{"role": "system", "content": f"Instructions {n}."}]


def test_plain_text_is_a_string():
    """Text alone goes out as a string, which every server takes; blank text is left out."""
    message = Message("user", (Text("One"), Text(" \n"), Text("Two"), Render("r_1")))
    assert encoded(message) == [{"role": "user", "content": "One\n\nTwo"}]


def test_files_go_as_what_the_wire_has_for_them():
    """Images and PDFs go as data, text as text with its name; what cannot be read is named."""
    url = f"data:image/png;base64,{base64.b64encode(b'png').decode()}"
    content = encoded(TALK[0])[0]["content"]
    assert content[:2] == [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": url}}]
    assert content[2]["type"] == "file"
    assert content[2]["file"] == {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    assert content[3] == {"type": "text", "text": "[File notes.txt]\nhéy\ufffd"}
    assert content[4]["text"].startswith("[File all.zip (application/zip, 6 bytes)")


def test_a_file_that_is_gone_is_named():
    """A file whose bytes are no longer stored leaves a note in its place."""
    assert encoded(Message("user", (PNG,)), files={}) == [
        {"role": "user", "content": "[File cat.png (image/png, 3 bytes): it is no longer stored]"}
    ]


def test_an_answer_is_its_text_and_calls():
    """Thinking stays out; calls go under ids that every server takes, with their arguments as JSON text."""
    call = {"name": "look", "arguments": '{"b":1,"a":[null]}'}
    assert encoded(TALK[1]) == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": ID_1, "type": "function", "function": call}],
        }
    ]


def test_an_id_that_every_server_takes_is_always_the_same():
    """It is nine letters and digits, on Mistral's account, and differs for each call."""
    ids = [call_id(f"call_{n}") for n in range(1000)]
    assert call_id("call_1") == ID_1
    assert len(set(ids)) == 1000
    assert [each for each in ids if not (len(each) == 9 and each.isascii() and each.isalnum())] == []


def test_native_items_of_others_are_not_sent():
    """What another provider wrote in its own words goes as text and calls, under made ids on both sides."""
    native = Native("anthropic:claude-sonnet-5-5", ('{"type":"thinking"}',), ("toolu_1",))
    for message in TALK[1:3]:
        assert encode(Message(message.role, message.parts, native), FILES) == encode(message, FILES)


def test_a_call_without_text_has_no_content():
    """An answer of calls alone invents no text."""
    assert encoded(Message("assistant", (Text(" "), ToolCall("call_1", "look", {}))))[0]["content"] is None


@for_each("name, sent", [("look it/up", "look_it_up"), ("", "unnamed"), ("x" * 99, "x" * 64)])
def test_an_invented_name_can_be_sent_back(name, sent):
    """A name that no server takes is made one that it does."""
    assert encoded(Message("assistant", (ToolCall("c", name, {}),)))[0]["tool_calls"][0]["function"]["name"] == sent


@for_each("role", ["user", "assistant"])
@for_each("parts", [(), (Text(""),), (Text(" \n"), Reasoning("Hm")), (Render("r_1"),)])
def test_nothing_to_say_is_no_message(role, parts):
    """A message with nothing left is not sent."""
    assert encode(Message(role, parts), {}) == b""


def test_results_follow_in_the_order_of_their_calls():
    """Each result is a message of its own; an empty one is still a result, and one that failed says so."""
    results = (
        ToolResult("call_1", "done", (Text("Seen"), Text("Twice"))),
        ToolResult("call_2", "done", (Text(" "),)),
        ToolResult("call_3", "denied", (Text("Not allowed."),)),
        ToolResult("call_4", "cancelled", ()),
    )
    assert encoded(Message("tool", results)) == [
        {"role": "tool", "tool_call_id": call_id("call_1"), "content": "Seen\n\nTwice"},
        {"role": "tool", "tool_call_id": call_id("call_2"), "content": "(no output)"},
        {
            "role": "tool",
            "tool_call_id": call_id("call_3"),
            "content": "[This call did not succeed: denied]\n\nNot allowed.",
        },
        {"role": "tool", "tool_call_id": call_id("call_4"), "content": "[This call did not succeed: cancelled]"},
    ]


def test_images_in_results_follow_as_a_users_message():
    """A result is text alone here: its images come after all results, and the result says so."""
    results = (ToolResult("call_1", "done", (PNG, NOTES)), ToolResult("call_2", "done", (Text("Seen"),)))
    first, second, shown = encoded(Message("tool", results))
    assert first["content"].startswith("[File cat.png (image/png, 3 bytes): it follows")
    assert "héy" in first["content"]
    assert (second["tool_call_id"], shown["role"]) == (call_id("call_2"), "user")
    assert [part["type"] for part in shown["content"]] == ["text", "image_url"]


def test_the_same_message_is_the_same_bytes():
    """A message never changes between requests, so a server's prefix cache stays warm."""
    assert [encode(message, FILES) for message in TALK] == [encode(message, dict(FILES)) for message in TALK]


def test_the_encoder_of_a_model_stays_the_same():
    """A model's encoder is one function, so that its messages are encoded once; another model has another."""
    provider = compatible(api_key=None, base_url=None)
    assert provider.encoder("a") is provider.encoder("a") is compatible(api_key=None, base_url=None).encoder("a")
    assert provider.encoder("a") is not provider.encoder("b")
    assert [provider.accepts(model) for model in ("qwen3:8b", "org/model", " ", "")] == [True, True, False, False]


NATIVE = Native(
    READER, ('{"role":"assistant","content":', 1, ',"reasoning_content":', 0, ',"tool_calls":[{"id":"x"}]}'), ("x",)
)


def test_a_model_reads_what_it_wrote_itself():
    """Its own answer goes back as it came, with text from its place, and the results go under its own ids."""
    answer, results = (Message(m.role, m.parts, NATIVE) for m in TALK[1:3])
    assert encoded(answer) == [
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm", "tool_calls": [{"id": "x"}]}
    ]
    assert encoded(results)[0]["tool_call_id"] == "x"


def test_a_server_that_takes_no_thinking_gets_its_ids():
    """Its own answer goes from its parts then, and still under its own ids."""
    answer = msgspec.json.decode(wire.encode(READER, Wants("never"), Message("assistant", TALK[1].parts, NATIVE), {}))
    assert "reasoning_content" not in answer
    assert (answer["content"], answer["tool_calls"][0]["id"]) == ("I look.", "x")


def test_ids_alone_are_a_native_form():
    """An answer of plain text and calls is sent from its parts, under the server's own ids on both sides."""
    native = Native(READER, calls=("chatcmpl-tool-1",))
    answer, results = (Message(m.role, m.parts, native) for m in TALK[1:3])
    assert encoded(answer)[0]["tool_calls"][0]["id"] == encoded(results)[0]["tool_call_id"] == "chatcmpl-tool-1"
    assert "reasoning_content" not in encoded(answer)[0]


@for_each(
    "wants, thinking, extra",
    [
        (Wants(), None, None),
        (Wants("always"), "", None),
        (Wants("never"), None, None),
        (Wants(signature=True), None, {"google": {"thought_signature": "skip_thought_signature_validator"}}),
    ],
)
def test_an_answer_of_another_model_has_what_its_server_wants(wants, thinking, extra):
    """A server that refuses answers without thinking gets an empty one, one that wants a signature its own stand-in."""
    calls = tuple(ToolCall(f"call_{n}", "look", {}) for n in (1, 2))
    found = msgspec.json.decode(wire.encode(READER, wants, Message("assistant", calls), {}))
    assert found.get("reasoning_content") == thinking
    assert [call.get("extra_content") for call in found["tool_calls"]] == [extra, None]


@for_each(
    "url, wants",
    [
        ("https://api.deepseek.com/v1", Wants("always")),
        ("https://generativelanguage.googleapis.com/v1beta/openai", Wants(signature=True)),
        ("https://api.openai.com/v1", Wants()),
        ("https://notdeepseek.com/v1", Wants()),
        ("http://localhost:11434/v1", Wants()),
    ],
)
def test_what_a_known_server_wants(url, wants):
    """Two servers are known by their host; all others are asked first."""
    assert wants_of(url) == wants

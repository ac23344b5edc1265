"""Messages and bodies as Claude's API takes them, checked against the SDK's own request types."""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter

from agent_core.agent.window import WindowEntry
from agent_core.agents import Controls, Snapshot, ToolSpec
from agent_core.messages import File, Message, Native, Part, Reasoning, Render, Text, ToolCall, ToolResult
from agent_core.providers.anthropic import anthropic, body_of, encoder_of, prefix_of
from agent_core.providers.base import Request
from tests.cases import for_each

OPUS, SONNET, HAIKU = "claude-opus-5", "claude-sonnet-5-5", "claude-haiku-4-5"
ME = f"anthropic:{OPUS}"
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
SEARCH = ToolSpec(name="search", description="Find.", parameters=SCHEMA)
BODY = TypeAdapter(MessageCreateParamsStreaming)
HELLO = Message("user", (Text("Hello"),))
THOUGHT = '{"type":"thinking","thinking":'
CALLED = '{"type":"tool_use","id":"toolu_1","name":"search","input":{ "q": 1.50 }}'
NATIVE = Native(ME, (THOUGHT, 0, ',"signature":"s"},', CALLED), ("toolu_1",))
ASKED = Message("assistant", (Reasoning('Hm \u2028"x"'), ToolCall("call_1", "search", {"q": 1.5})), NATIVE)
FOUND = Message("tool", (ToolResult("call_1", "done", (Text("Yes"),)),), Native(ME, calls=("toolu_1",)))


def encoded(message: Message, files: Mapping[str, bytes] | None = None, model: str = ME) -> Any:
    wire = encoder_of(model)(message, files or {})
    return json.loads(wire) if wire else None


def said(*parts: Part, files: Mapping[str, bytes] | None = None) -> Any:
    return encoded(Message("user", parts), files)["content"]


def request(*messages: Message, model: str = OPUS, tools: tuple[ToolSpec, ...] = (SEARCH,), **controls: Any) -> Request:
    entries = [WindowEntry(n, message, encoder_of(f"anthropic:{model}")) for n, message in enumerate(messages)]
    return Request(model, Snapshot("h", f"anthropic:{model}", "Be brief.", tools), entries, Controls(**controls), "s")


def body(*messages: Message, **how: Any) -> dict[str, Any]:
    """Return the body as the API gets it, after the SDK's types have found nothing wrong with it."""
    asked = request(*(messages or (HELLO,)), **how)
    raw = body_of(asked, prefix_of(asked.snapshot))
    read(BODY.validate_python(json.loads(raw), strict=True, extra="forbid"))
    return json.loads(raw)


def read(value: Any) -> None:
    """Read all of *value*: pydantic checks an iterable only as far as it is read."""
    for each in value.values() if isinstance(value, dict) else () if isinstance(value, str) else value:
        if isinstance(each, Iterable):
            read(each)


def test_an_answer_goes_back_verbatim_to_its_model():
    """The model that wrote an answer gets the very bytes of it, texts put in, and results under its own call ids."""
    wire = encoder_of(ME)(ASKED, {})
    text = '"Hm \u2028\\"x\\""'
    assert wire.decode() == '{"role":"assistant","content":[' + THOUGHT + text + ',"signature":"s"},' + CALLED + "]}"
    assert encoded(FOUND)["content"][0]["tool_use_id"] == "toolu_1"


@for_each("model", ["anthropic:claude-opus-5-5", "openai:claude-opus-5"])
def test_another_model_gets_the_plain_answer(model):
    """Any other model gets text and calls under our ids, on both sides, and no thinking."""
    use = {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": 1.5}}
    assert encoded(ASKED, model=model) == {"role": "assistant", "content": [use]}
    assert encoded(FOUND, model=model)["content"][0]["tool_use_id"] == "call_1"


@for_each(
    "message",
    [
        Message("assistant", (Reasoning("Hm"), Text(" \n"))),
        Message("assistant", ()),
        Message("user", (Text(""), Text("\t"))),
        Message("user", (Render("render_1"),)),
    ],
)
def test_nothing_left_is_nothing_sent(message):
    """A message without a word is left out of the request."""
    assert encoder_of(ME)(message, {}) == b""
    assert body(HELLO, message)["messages"] == [encoded(HELLO)]


def test_all_results_of_an_answer_are_one_message():
    """Results go in the order of the calls, failed ones marked, empty ones too, and nothing but results."""
    results = (
        ToolResult("call_1", "done", (Text("Yes"), Text(" "), Text("No"))),
        ToolResult("call_2", "done", ()),
        ToolResult("call_3", "denied", (Text("You may not."),)),
        ToolResult("call_4", "cancelled", ()),
    )
    assert encoded(Message("tool", results)) == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": [{"type": "text", "text": "Yes"}, {"type": "text", "text": "No"}],
            },
            {"type": "tool_result", "tool_use_id": "call_2"},
            {
                "type": "tool_result",
                "tool_use_id": "call_3",
                "is_error": True,
                "content": [{"type": "text", "text": "You may not."}],
            },
            {
                "type": "tool_result",
                "tool_use_id": "call_4",
                "is_error": True,
                "content": [{"type": "text", "text": "The call ended as cancelled, without a word."}],
            },
        ],
    }


@for_each("mime", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_images_are_shown(mime):
    """The model sees a picture, in a message and in a tool's result."""
    image = {"type": "base64", "media_type": mime, "data": base64.b64encode(b"\x89\xff").decode()}
    part = File("blob_1", "a.png", mime, 2)
    assert said(part, files={"blob_1": b"\x89\xff"}) == [{"type": "image", "source": image}]
    result = Message("tool", (ToolResult("call_1", "done", (part,)),))
    assert encoded(result, {"blob_1": b"\x89\xff"})["content"][0]["content"] == [{"type": "image", "source": image}]


def test_documents_and_texts_are_read():
    """The model reads a PDF as a document, and a text file as text with its name."""
    files = {"blob_1": b"%PDF", "blob_2": "Grüße\xff".encode("latin-1")}
    parts = (File("blob_1", "a.pdf", "application/pdf", 4), File("blob_2", "b.csv", "text/csv; charset=utf-8", 6))
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    assert said(*parts, files=files) == [
        {"type": "document", "source": source, "title": "a.pdf"},
        {"type": "text", "text": "[File b.csv]\nGr\ufffd\ufffde\ufffd"},
    ]


@for_each(
    "mime, data, why",
    [
        ("application/zip", b"PK", "files of this type cannot be read"),
        ("image/png", None, "it is no longer stored"),
        ("image/png", b"", "it is empty"),
    ],
)
def test_a_file_that_cannot_be_shown_is_named(mime, data, why):
    """The model gets the name of a file that it cannot read, and the reason."""
    files = {} if data is None else {"blob_1": data}
    note = f"[File a ({mime}, 9 bytes): {why}]"
    assert said(File("blob_1", "a", mime, 9), files=files) == [{"type": "text", "text": note}]


def test_a_file_in_an_answer_is_named():
    """The API takes no documents in an answer, so a file in one is replaced by its name."""
    content = encoded(Message("assistant", (File("b", "a.pdf", "application/pdf", 4),)), {"b": b"%PDF"})["content"]
    assert content[0]["text"] == "[File a.pdf (application/pdf, 4 bytes): an answer holds text alone]"


@for_each("name, sent", [("a.b c", "a_b_c"), ("", "unnamed"), ("größe", "gr__e"), ("x" * 300, "x" * 128)])
def test_odd_names_of_tools_are_made_fit(name, sent):
    """A call by a name that the API refuses does not spoil the conversation."""
    assert encoded(Message("assistant", (ToolCall("call_1", name, {}),)))["content"][0]["name"] == sent


def test_each_message_ends_where_a_cache_mark_goes():
    """Every message ends with its last block, so that a mark can be added without encoding it again."""
    for message in (HELLO, ASKED, FOUND, Message("tool", (ToolResult("c", "done", ()),))):
        assert encoder_of(ME)(message, {}).endswith(b"}]}")


async def test_encoding_is_the_same_each_time():
    """One model has one encoder for all callers, and one message always the same bytes."""
    one, two = anthropic(api_key="key"), anthropic(api_key="other")
    assert one.encoder(OPUS) is two.encoder(OPUS)
    assert one.encoder(OPUS) is not one.encoder(SONNET)
    assert len({one.encoder(OPUS)(ASKED, {}) for _ in range(3)}) == 1
    assert one.accepts(OPUS)
    assert not one.accepts(" ")


def test_a_body_has_the_frozen_prefix_and_the_messages():
    """System, tools and messages go out as they are, in one streaming request, without a temperature."""
    asked = body(HELLO, ASKED, FOUND, HELLO, temperature=0.5)
    assert asked == {
        "model": OPUS,
        "max_tokens": 128_000,
        "stream": True,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "search", "description": "Find.", "input_schema": SEARCH.parameters}],
        "messages": [encoded(message) for message in (HELLO, ASKED, FOUND, HELLO)],
    }


def test_blank_instructions_and_no_tools_are_left_out():
    """A body holds no empty system and no empty list of tools."""
    raw = body_of(request(HELLO), prefix_of(Snapshot("h", ME, " \n", ())))
    assert not {"system", "tools"} & json.loads(raw).keys()


def test_tools_are_withheld_without_touching_the_prefix():
    """A step without tools keeps them in the request, and forbids their use."""
    assert body(tool_choice="none")["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in body(tool_choice="auto")
    assert "tool_choice" not in body(tool_choice="none", tools=())


@for_each(
    "model, wish, room",
    [
        (OPUS, None, 128_000),
        (OPUS, 500, 500),
        (HAIKU, None, 64_000),
        (HAIKU, 100_000, 64_000),
        ("claude-of-a-later-year", None, 32_000),
        ("claude-of-a-later-year", 100_000, 100_000),
    ],
)
def test_an_answer_has_the_room_that_the_model_gives(model, wish, room):
    """The wish counts up to the model's limit; without one it is the limit itself."""
    assert body(model=model, max_output_tokens=wish)["max_tokens"] == room


SUMMARIZED = {"type": "adaptive", "display": "summarized"}


@for_each(
    "model, effort, thinking, level",
    [
        (OPUS, None, SUMMARIZED, None),
        (OPUS, "xhigh", SUMMARIZED, "xhigh"),
        (OPUS, "minimal", SUMMARIZED, "low"),
        (OPUS, "none", {"type": "disabled"}, "low"),
        ("claude-opus-4-6", "xhigh", SUMMARIZED, "high"),
        (SONNET, "none", {"type": "between_tools"}, "low"),
        (f"{SONNET}-20260928", "none", {"type": "between_tools"}, "low"),
        ("claude-opus-5-5", "none", SUMMARIZED, "low"),
        ("claude-fable-5-2", None, SUMMARIZED, None),
        (HAIKU, None, None, None),
        (HAIKU, "none", None, None),
        (HAIKU, "minimal", {"type": "enabled", "budget_tokens": 1_024}, None),
        (HAIKU, "max", {"type": "enabled", "budget_tokens": 32_000}, None),
        ("claude-opus-4-5", "max", {"type": "enabled", "budget_tokens": 32_000}, "high"),
        ("claude-of-a-later-year", "high", None, None),
    ],
)
def test_thinking_and_effort_are_asked_for_as_the_model_takes_them(model, effort, thinking, level):
    """Each generation of models is asked to think in its own way; an unknown one is asked for nothing."""
    asked = body(model=model, effort=effort)
    assert asked.get("thinking") == thinking
    assert asked.get("output_config") == (None if level is None else {"effort": level})


def test_a_budget_leaves_room_for_the_answer():
    """Thinking takes at most half of a small answer, and none of one that is too small to think in."""
    assert body(model=HAIKU, effort="max", max_output_tokens=4_000)["thinking"]["budget_tokens"] == 2_000
    assert "thinking" not in body(model=HAIKU, effort="max", max_output_tokens=2_000)


def test_a_budget_waits_for_the_end_of_a_loop_without_thinking():
    """A tool loop whose thinking was dropped goes on without: the API refuses thinking in the middle of one."""
    mine = Native(f"anthropic:{HAIKU}", NATIVE.pieces, NATIVE.calls)
    thought = Message("assistant", ASKED.parts, mine)
    again = Message("assistant", (ToolCall("call_1", "search", {}),), Native(mine.model, (CALLED,), ("toolu_1",)))
    result = Message("tool", FOUND.parts, Native(mine.model, calls=("toolu_1",)))
    how: dict[str, Any] = {"model": HAIKU, "effort": "low"}
    assert "thinking" in body(HELLO, thought, result, again, result, **how)
    assert "thinking" not in body(HELLO, again, result, thought, result, **how)
    assert "thinking" not in body(HELLO, ASKED, FOUND, **how)
    assert "thinking" in body(HELLO, ASKED, FOUND, HELLO, **how)

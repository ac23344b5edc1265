"""Requests to OpenAI: what the window, the snapshot and the controls become."""

import asyncio
import base64
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from agent_core.agent.snapshot import freeze
from agent_core.agent.window import WindowEntry
from agent_core.agents import Controls, ToolSpec
from agent_core.messages import File, Message, Native, Part, Reasoning, Render, Text, ToolCall, ToolResult
from agent_core.providers.base import CallFailed, Finished, ModelTextDelta, Request
from agent_core.providers.openai import OpenAIProvider, openai
from agent_core.providers.openai_items import NO_CACHE
from tests.polling import PATIENCE

MODEL = "gpt-6.1-sol"
OWN = f"openai:{MODEL}"
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
BODY: TypeAdapter[Any] = TypeAdapter(with_config(ConfigDict(extra="forbid"))(ResponseCreateParamsStreaming))
PIXEL = b"\x89PNG"
TOOLS = [
    ToolSpec(name="b", description="Second.", parameters={"type": "object", "properties": {}}),
    ToolSpec(name="a", description="First.", parameters={"type": "object", "properties": {"x": {"type": "string"}}}),
]


@pytest.fixture
def provider() -> OpenAIProvider:
    return openai(api_key="sk-test")


def items(provider: OpenAIProvider, message: Message, **files: bytes) -> list[Any]:
    """Return the items of *message*, each checked against the SDK's own types."""
    found = json.loads(b"[" + provider.encoder(MODEL)(message, files) + b"]")
    for item in found:
        ITEM.validate_python(item)
    return found


def body(
    provider: OpenAIProvider, *messages: Message, model: str = MODEL, tools: Sequence[ToolSpec] = TOOLS, **more: Any
):
    """Return the request, checked against the SDK's own types: it has no other field than theirs."""
    snapshot = freeze(model=f"openai:{model}", instructions=more.pop("instructions", "Be brief."), tools=tools)
    entries = [WindowEntry(seq, message, provider.encoder(model)) for seq, message in enumerate(messages)]
    request = Request(model, snapshot, entries, Controls(**more), "session_1")
    found = json.loads(provider._body(request))
    BODY.validate_python(found)
    return found


def user(*parts: Part) -> Message:
    return Message("user", parts)


def test_what_a_person_says_is_one_item(provider):
    """The texts of a message are parts of one item, and blank ones are left out."""
    [item] = items(provider, user(Text("Hi"), Text(" \n"), Text("there"), Render("render_1")))
    texts = [{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": "there"}]
    assert item == {"type": "message", "role": "user", "content": texts}
    assert items(provider, user(Text(" "))) == []


def file(mime: str, name: str = "f") -> File:
    return File("blob_1", name, mime, 4)


def test_files_are_sent_as_the_wire_takes_them(provider):
    """Images and PDFs go as data, texts as text under their name."""
    coded = base64.b64encode(PIXEL).decode()
    for mime in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        [item] = items(provider, user(file(mime)), blob_1=PIXEL)
        assert item["content"] == [
            {"type": "input_image", "detail": "auto", "image_url": f"data:{mime};base64,{coded}"}
        ]
    [item] = items(provider, user(file("application/pdf", "a.pdf")), blob_1=PIXEL)
    data = f"data:application/pdf;base64,{coded}"
    assert item["content"] == [{"type": "input_file", "filename": "a.pdf", "file_data": data}]
    [item] = items(provider, user(file("text/csv; charset=utf-8", "a.csv")), blob_1="ä,1\xff".encode("latin-1"))
    assert item["content"][0]["text"].startswith("[File a.csv]\n")


def test_files_that_cannot_be_sent_are_named(provider):
    """A file that is gone, or of a type that the model cannot read, is replaced by its name and the reason."""
    [gone] = items(provider, user(file("image/png", "a.png")))
    [odd] = items(provider, user(file("application/zip", "a.zip")), blob_1=PIXEL)
    assert gone["content"][0]["text"] == "[File a.png (image/png, 4 bytes): it is no longer stored]"
    assert odd["content"][0]["text"] == "[File a.zip (application/zip, 4 bytes): files of this type cannot be read]"


ANSWER = (Reasoning("Hm."), Text("Looking."), ToolCall("call_ours", "look", {"what": "ä"}), Text("  "))
PIECES = (
    '{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":',
    0,
    '}],"encrypted_content":"g="},{"x":',
    1,
    "}",
)


def test_the_models_own_answer_is_sent_back_verbatim(provider):
    """Its native items go back byte for byte, with the texts in their places."""
    message = Message("assistant", ANSWER, Native(OWN, PIECES, ("call_theirs",)))
    wire = provider.encoder(MODEL)(message, {})
    assert wire.decode() == f'{PIECES[0]}"Hm."{PIECES[2]}"Looking."}}'


@pytest.mark.parametrize(
    "native", [None, Native("openai:gpt-6-sol", PIECES, ("x",)), Native("anthropic:m", PIECES, ("x",))]
)
def test_the_answer_of_another_model_is_sent_as_text_and_calls(provider, native):
    """What another model wrote goes without its thinking and under our own call ids, on both sides."""
    said, called = items(provider, Message("assistant", ANSWER, native))
    assert said == {"type": "message", "role": "assistant", "content": "Looking."}
    assert called == {"type": "function_call", "call_id": "call_ours", "name": "look", "arguments": '{"what":"ä"}'}
    results = (ToolResult("call_ours", "done", (Text("7"),)),)
    [result] = items(provider, Message("tool", results, Native(native.model, calls=("x",)) if native else None))
    assert result["call_id"] == "call_ours"


def test_an_answer_with_nothing_to_say_is_not_sent(provider):
    """An answer of thinking or blank text alone is left out."""
    assert provider.encoder(MODEL)(Message("assistant", (Reasoning("Hm."), Text(" "))), {}) == b""


def test_a_name_that_the_wire_refuses_is_made_one_that_it_takes(provider):
    """A tool name that another model made up does not spoil every later request."""
    parts = (ToolCall("c", "functions.läs!", {}), ToolCall("d", "", {}), ToolCall("e", "x" * 99, {}))
    names = [item["name"] for item in items(provider, Message("assistant", parts))]
    assert names == ["functions_l_s_", "unnamed", "x" * 64]


def test_results_carry_the_models_own_call_ids(provider):
    """Each result of a step is an item, in the order of the calls, that says how the call went."""
    results = (
        ToolResult("call_1", "done", (Text("7"), Text("8"))),
        ToolResult("call_2", "failed", (Text("No."),)),
        ToolResult("call_3", "done", ()),
        ToolResult("call_4", "denied", ()),
    )
    native = Native(OWN, calls=("t_1", "t_2", "t_3", "t_4"))
    found = items(provider, Message("tool", results, native))
    assert [item["call_id"] for item in found] == ["t_1", "t_2", "t_3", "t_4"]
    assert {item["type"] for item in found} == {"function_call_output"}
    assert [item["output"] for item in found] == [
        "7\n\n8",
        "[This call did not succeed: failed]\n\nNo.",
        "(no output)",
        "[This call did not succeed: denied]",
    ]


def test_a_result_may_hold_a_picture(provider):
    """Files in a result make it a list of parts."""
    result = ToolResult("call_1", "done", (Text("See:"), file("image/png")))
    [item] = items(provider, Message("tool", (result,)), blob_1=PIXEL)
    assert [part["type"] for part in item["output"]] == ["input_text", "input_image"]


def test_a_request_stores_nothing_and_leads_with_the_instructions(provider):
    """The instructions are a developer message, the tools are sorted, and their schemas go as they are."""
    found = body(provider, user(Text("Hi")), tool_choice="auto")
    assert (found["model"], found["stream"], found["store"], found["tool_choice"]) == (MODEL, True, False, "auto")
    first, second = found["input"]
    assert first == {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}
    assert second["role"] == "user"
    assert [tool["name"] for tool in found["tools"]] == ["a", "b"]
    assert found["tools"][0]["parameters"] == TOOLS[1].parameters
    assert not any(tool["strict"] for tool in found["tools"])


def test_a_request_leaves_out_what_there_is_not(provider):
    """Without tools, instructions or wishes there is no field of them; an empty message leaves no gap."""
    found = body(provider, user(Text(" ")), user(Text("Hi")), instructions=" ", tools=())
    assert found.keys() == {"input", "model", "stream", "store", "include", "reasoning", *NO_CACHE}
    assert len(found["input"]) == 1


def test_tools_that_may_not_be_called_stay(provider):
    """A step without tools keeps their list, for the prompt cache, and forbids to call them."""
    found = body(provider, user(Text("Hi")), tool_choice="none")
    assert (len(found["tools"]), found["tool_choice"]) == (2, "none")


SUMMARY = {"summary": "auto"}


@pytest.mark.parametrize(
    ("model", "controls", "settings"),
    [
        (MODEL, {"effort": "high"}, {"reasoning": {"effort": "high", **SUMMARY}}),
        (MODEL, {"effort": "none"}, {"reasoning": {"effort": "low", **SUMMARY}}),
        (MODEL, {"effort": "max"}, {"reasoning": {"effort": "max", **SUMMARY}}),
        ("gpt-5.5", {"effort": "max"}, {"reasoning": {"effort": "xhigh", **SUMMARY}}),
        ("gpt-6-sol", {"effort": "minimal"}, {"reasoning": {"effort": "none"}}),
        (MODEL, {"temperature": 0.5}, {}),
        ("gpt-6-sol", {"temperature": 0.5}, {}),
        ("gpt-6-sol", {"temperature": 0.5, "effort": "low"}, {"reasoning": {"effort": "low", **SUMMARY}}),
        ("gpt-6-sol", {"temperature": 0.5, "effort": "none"}, {"temperature": 0.5, "reasoning": {"effort": "none"}}),
        ("gpt-5.2", {"temperature": 0.5}, {"temperature": 0.5}),
        ("gpt-99", {"temperature": 0.0, "effort": "max"}, {"temperature": 0.0, "reasoning": {"effort": "max"}}),
        (MODEL, {"max_output_tokens": 900}, {"max_output_tokens": 900}),
        (MODEL, {"max_output_tokens": 1}, {"max_output_tokens": 16}),
    ],
)
def test_controls_are_asked_as_the_model_takes_them(provider, model, controls, settings):
    """A known model is asked in its own levels and without what it refuses, an unknown one as was wished."""
    plain = body(provider, user(Text("Hi")), model=model)
    assert body(provider, user(Text("Hi")), model=model, **controls) == {**plain, **settings}


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        (MODEL, {"reasoning": SUMMARY, "include": ["reasoning.encrypted_content"]}),
        ("gpt-5.4-mini", {"reasoning": SUMMARY, "include": ["reasoning.encrypted_content"]}),
        ("gpt-4.1", {}),
        ("gpt-99", {}),
    ],
)
def test_a_model_that_thinks_is_asked_to_show_it(provider, model, asked):
    """One that thinks shows a summary and gives its thinking for the next request; others would refuse to."""
    found = body(provider, user(Text("Hi")), model=model)
    assert {name: value for name, value in found.items() if name in ("reasoning", "include")} == asked


def test_a_request_that_the_sdk_does_not_know_is_found():
    """The check against the SDK's types sees a field that is not theirs."""
    with pytest.raises(ValidationError):
        BODY.validate_python({"model": MODEL, "stream": True, "novel": 1})


def test_an_encoder_is_made_once_per_model(provider):
    """The same model has the same encoder, so that a window is not encoded again."""
    assert provider.encoder("a") is provider.encoder("a")
    assert provider.encoder("a") is not provider.encoder("b")


def test_any_name_of_a_model_is_accepted(provider):
    """OpenAI says itself which models it has; only an empty name is none."""
    assert (provider.accepts("gpt-99"), provider.accepts(" ")) == (True, False)


class RecordingServer:
    """A server that answers every request with *answer* and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked = answer, b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        self.asked = head + await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(self.answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def ask(answer: bytes) -> tuple[list[Any], bytes]:
    """Ask over a real socket; return the deltas and the request."""
    server = RecordingServer(answer)
    async with asyncio.timeout(PATIENCE), await asyncio.start_server(server, "127.0.0.1") as listening:
        port = listening.sockets[0].getsockname()[1]
        provider = openai(api_key="sk-test-1234567", base_url=f"http://127.0.0.1:{port}/v1", idle=10)
        await provider.prepare()
        entry = WindowEntry(1, user(Text("Hi")), provider.encoder(MODEL))
        request = Request(MODEL, freeze(model=OWN, instructions="", tools=()), [entry], Controls(), "s")
        async with aclosing(provider.stream(request)) as stream:
            deltas = [delta async for batch in stream for delta in batch]
        await provider.close()
    return deltas, server.asked


async def test_an_answer_comes_over_the_wire():
    """The SDK's client carries the request, with its key, and the answer comes back as it was streamed."""
    events = [
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hello"},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    deltas, asked = await ask((head + stream).encode())
    assert ModelTextDelta(0, "Hello") in deltas
    assert deltas[-1] == Finished("done", "completed")
    assert asked.startswith(b"POST /v1/responses HTTP/1.1\r\n")
    assert b"authorization: bearer sk-test-1234567" in asked.lower()


async def test_a_refused_request_is_a_failure():
    """An error answer is classified by its code."""
    error = b'{"error": {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}}'
    head = b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    [failure], _ = await ask(head % len(error) + error)
    assert isinstance(failure, CallFailed)
    assert failure.kind == "context_overflow"

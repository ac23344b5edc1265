"""Streams written by hand, as the vendors' servers write them, for what no well-behaved server would send."""

import json
from collections.abc import Sequence
from typing import Any

from agent_core.testing.models import status
from agent_core.testing.models.asked import WholeResponse

Json = dict[str, Any]
_USAGE = {"input_tokens": 9, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def stream(data: bytes, *, content_type: str = "text/event-stream") -> WholeResponse:
    """Return an HTTP answer of 200 whose body is *data*."""
    return status(200, data, {"content-type": content_type})


def sse(*events: Json, named: bool = True, end: str = "\n") -> bytes:
    """Return *events* as the wire writes them, each with its name when *named*."""
    lines = [
        (f"event: {each['type']}{end}" if named else "") + f"data: {json.dumps(each)}{end}{end}" for each in events
    ]
    return "".join(lines).encode()


# -- Anthropic Messages ------------------------------------------------------------------------------


def messages_start() -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": _USAGE}}


def messages_end(reason: str) -> tuple[Json, Json]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}, {"type": "message_stop"}


def block(index: int, begins: Json, *deltas: Json) -> list[Json]:
    """Return the events of one content block."""
    start = {"type": "content_block_start", "index": index, "content_block": begins}
    parts = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [start, *parts, {"type": "content_block_stop", "index": index}]


def tool_use(index: int, id: str, name: str, *pieces: str) -> list[Json]:
    begins = {"type": "tool_use", "id": id, "name": name, "input": {}}
    return block(index, begins, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def text_block(index: int, *pieces: str) -> list[Json]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def messages(*events: Json, reason: str = "end_turn") -> bytes:
    return sse(messages_start(), *events, *messages_end(reason))


# -- OpenAI Responses --------------------------------------------------------------------------------


def responses_start() -> Json:
    response = {"id": "resp_1", "object": "response", "model": "gpt-6.1-sol", "status": "in_progress", "output": []}
    return {"type": "response.created", "response": response}


def responses_end(output: Sequence[Json], kind: str = "completed") -> Json:
    response = {"id": "resp_1", "object": "response", "model": "gpt-6.1-sol", "status": kind, "output": list(output)}
    usage = {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16}
    return {"type": f"response.{kind}", "response": {**response, "usage": usage}}


def function_call(index: int, id: str, name: str, *pieces: str, whole: str | None = None) -> list[Json]:
    """Return the events of one function call; *whole* is what its end says, by default the pieces joined."""
    arguments = "".join(pieces) if whole is None else whole
    item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name}
    delta = {"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": index}
    done = {"type": "response.function_call_arguments.done", "item_id": item["id"], "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}},
        *({**delta, "delta": piece} for piece in pieces),
        {**done, "arguments": arguments},
        {"type": "response.output_item.done", "output_index": index, "item": {**item, "arguments": arguments}},
    ]


def text_item(index: int, *pieces: str) -> list[Json]:
    text = "".join(pieces)
    item = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "in_progress"}
    at = {"item_id": item["id"], "output_index": index, "content_index": 0}
    part = {"type": "output_text", "text": text, "annotations": []}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": piece} for piece in pieces),
        {"type": "response.output_text.done", **at, "text": text},
        {"type": "response.content_part.done", **at, "part": part},
        {
            "type": "response.output_item.done",
            "output_index": index,
            "item": {**item, "status": "completed", "content": [part]},
        },
    ]


def responses(*events: Json, end: Json | None = None) -> bytes:
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    every = [responses_start(), *events, end or responses_end(items)]
    return sse(*({**event, "sequence_number": n} for n, event in enumerate(every)))


# -- Chat Completions --------------------------------------------------------------------------------


def chunk(delta: Json, finish: str | None = None, **fields: Any) -> Json:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c_1", "object": "chat.completion.chunk", "model": "llama-4", "choices": choices, **fields}


def tool_call(arguments: str | None = None, **fields: Any) -> Json:
    """Return a delta of one call; *fields* are `index`, `id` and `name` as far as the server sends them."""
    name = {"name": fields.pop("name")} if "name" in fields else {}
    given = {} if arguments is None else {"arguments": arguments}
    return {"tool_calls": [{"type": "function", **fields, "function": {**name, **given}}]}


def chat(*deltas: Json, finish: str | None = "stop", done: bool = True, **fields: Any) -> bytes:
    chunks = [chunk(delta, **fields) for delta in deltas]
    last = [chunk({}, finish, **fields)] if finish else []
    return sse(*chunks, *last, named=False) + (b"data: [DONE]\n\n" if done else b"")

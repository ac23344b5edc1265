"""Events of the Messages stream, written by hand."""

import json

START_USAGE = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 2_000,
    "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70},
    "output_tokens": 1,
}
TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def sse(event: dict) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def start(**usage) -> dict:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-opus-5"}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": {**START_USAGE, **usage}}}


def begin(index: int, block: dict) -> dict:
    return {"type": "content_block_start", "index": index, "content_block": block}


def change(index: int, type_: str, **members) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type_, **members}}


def words(index: int, *texts: str) -> list[dict]:
    return [change(index, "text_delta", text=text) for text in texts]


def arguments(index: int, *texts: str) -> list[dict]:
    return [change(index, "input_json_delta", partial_json=text) for text in texts]


def close(index: int) -> dict:
    return {"type": "content_block_stop", "index": index}


def text(index: int, *texts: str) -> list[dict]:
    return [begin(index, TEXT), *words(index, *texts), close(index)]


def thinking(index: int, *texts: str, signature: str = "c2ln") -> list[dict]:
    thoughts = [change(index, "thinking_delta", thinking=each) for each in texts]
    signed = [change(index, "signature_delta", signature=signature)] if signature else []
    return [begin(index, THINKING), *thoughts, *signed, close(index)]


def call(index: int, *texts: str, **more) -> list[dict]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": "search", "input": {}, **more}
    return [begin(index, block), *arguments(index, *texts), close(index)]


def stop(reason: str | None, **delta) -> list[dict]:
    ended = {"stop_reason": reason, "stop_sequence": None, **delta}
    return [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]

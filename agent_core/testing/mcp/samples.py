"""The tools of the made-up MCP server that `python -m agent_core.testing.mcp` serves."""

import asyncio
from typing import Any

from agent_core.testing.mcp.script import FakeCall, FakeTool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""
COLOURS: dict[str, Any] = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
}
_TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
_SECONDS: dict[str, Any] = {
    "type": "object",
    "properties": {"seconds": {"type": "number", "description": "How long, 60 at most."}},
    "required": ["seconds"],
}
READ = {"readOnlyHint": True}


async def _wait(call: FakeCall) -> str:
    seconds = min(60.0, call.arguments["seconds"])
    await call.progress(1, 2, "half of it")
    await asyncio.sleep(seconds)
    return f"waited {seconds:g} s"


async def _paint(call: FakeCall) -> str:
    answer = await call.ask("Which colour?", COLOURS)
    return f"painted {answer['content']['colour']}" if answer["action"] == "accept" else f"not painted: {answer}"


def _fail(_call: FakeCall) -> str:
    raise ValueError("the paint is out")


def _pixel(_call: FakeCall) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "a pixel"}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}]


def _order(call: FakeCall) -> dict[str, Any]:
    return {"content": [], "structuredContent": {"id": call.arguments["text"], "status": "shipped"}}


def sample_tools() -> list[FakeTool]:
    """Return one tool of each kind: text, sums, waits, questions, failures, images and structured content."""
    return [
        FakeTool("echo", "Say the text again.", _TEXT, lambda call: call.arguments["text"], READ),
        FakeTool("add", "Add two numbers.", _NUMBERS, lambda call: f"{call.arguments['a'] + call.arguments['b']:g}"),
        FakeTool("wait", "Wait for some seconds.", _SECONDS, _wait, READ),
        FakeTool("paint", "Paint the wall in a colour that the person picks.", answer=_paint, annotations=READ),
        FakeTool("fail", "Fail.", answer=_fail),
        FakeTool("pixel", "Return a picture of one pixel.", answer=_pixel, annotations=READ),
        FakeTool("get_order", "Return an order.", _TEXT, _order, READ, {"_meta": {"resource": "orders"}}),
    ]

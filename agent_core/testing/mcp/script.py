"""What a made-up MCP server is scripted with: its tools, one use of them, and what it was asked."""

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Send = Callable[[dict[str, Any]], Awaitable[None]]
Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


class FakeProtocolError(Exception):
    """The server answers with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class InputRequired(Exception):
    """The call ends with questions, and is made again with their answers."""

    def __init__(self, requests: dict[str, Any], state: str) -> None:
        super().__init__("input required")
        self.requests, self.state = requests, state


@dataclass(frozen=True, slots=True)
class McpAsked:
    """One message that the server got: its *method*, *params* and HTTP *headers* (lower case; none over stdio)."""

    method: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass(slots=True)
class FakeCall:
    """One use of a tool, as its `answer` sees it."""

    name: str
    arguments: dict[str, Any]
    headers: Mapping[str, str]
    modern: bool
    token: str | int | None
    send: Send
    elicit: Ask
    die: Callable[[], None]
    """End the connection, over stdio the process, without a word."""
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    questions: int = 0

    async def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Report how far the call is, if the client wants to know."""
        if self.token is None:
            return
        params = {"progressToken": self.token, "progress": done, "total": total, "message": text}
        params = {key: value for key, value in params.items() if value is not None}
        await self.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    async def ask(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        """Return what the person answered: `{action, content?}`; in the modern era the call ends and comes back."""
        return await self.question({"mode": "form", "message": message, "requestedSchema": schema})

    async def question(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to an `elicitation/create` with *params*, of any kind."""
        self.questions += 1
        key = f"question-{self.questions}"
        if not self.modern:
            return await self.elicit(params)
        if key not in self.answers:
            request = {"method": "elicitation/create", "params": params}
            raise InputRequired({key: request}, sealed(self.answers))
        return self.answers[key]


Content = str | list[dict[str, Any]] | dict[str, Any] | None
FakeAnswers = Callable[[FakeCall], Content | Awaitable[Content]]
"""Answers a call: with text, a list of content blocks, or a whole result; what it raises is the tool's failure."""


def _nothing(_call: FakeCall) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class FakeTool:
    """One tool of a made-up server; *more* are further fields of its entry in the list, such as `_meta`."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: dict(NO_ARGUMENTS))
    answer: FakeAnswers = _nothing
    annotations: dict[str, Any] = field(default_factory=dict[str, Any])
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def listed(self) -> dict[str, Any]:
        """Return the tool's entry in the list."""
        entry = {"name": self.name, "description": self.description, "inputSchema": self.parameters}
        return {**entry, **({"annotations": self.annotations} if self.annotations else {}), **self.more}

    async def result(self, call: FakeCall) -> dict[str, Any]:
        """Return the result of *call*; the tool's failure is one with `isError`."""
        try:
            answer = self.answer(call)
            content = await answer if inspect.isawaitable(answer) else answer
        except (FakeProtocolError, InputRequired):
            raise
        except Exception as error:  # noqa: BLE001 - as every MCP server does
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        if isinstance(content, dict):
            return content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        return {"content": blocks}


def sealed(answers: Mapping[str, Any]) -> str:
    """Return the `requestState` that holds *answers*."""
    return base64.urlsafe_b64encode(json.dumps(dict(answers)).encode()).decode()


def opened(state: str | None) -> dict[str, Any]:
    """Return the answers in a `requestState`; raises `FakeProtocolError` for one of no server like this."""
    if not state:
        return {}
    try:
        return json.loads(base64.urlsafe_b64decode(state))
    except ValueError:
        raise FakeProtocolError(-32602, "Invalid or expired requestState") from None


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

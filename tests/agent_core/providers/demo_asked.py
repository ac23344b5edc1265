"""The demo provider, asked: a window of messages, and what it calls or says."""

import msgspec

from agent_core.agents import Snapshot, ToolSpec
from agent_core.controls import Controls, ToolChoice
from agent_core.messages import CallOutcome, Message, Part, Text, ToolCall, ToolResult
from agent_core.providers import base as b
from agent_core.providers import demo
from agent_core.testing import FakeClock

TOOLS = ("calculate", "current_time")


class WindowItem:
    """A message of a window."""

    def __init__(self, role, *parts: Part) -> None:
        self.message = Message(role, parts)
        self.wire = msgspec.json.encode(self.message)


def user(text: str) -> WindowItem:
    return WindowItem("user", Text(text))


def asked(name: str, **arguments) -> WindowItem:
    return WindowItem("assistant", ToolCall(name, name, arguments))


def result(name: str, text: str, outcome: CallOutcome = "done") -> WindowItem:
    return WindowItem("tool", ToolResult(name, outcome, (Text(text),)))


LOOKUP = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "most": {"type": "integer"}, "by": {"enum": ["day", "week"]}},
    "required": ["order", "by"],
}


def request(*items: WindowItem, tools=TOOLS, choice: ToolChoice = "auto") -> b.Request:
    schemas = {"lookup_order": LOOKUP}
    specs = tuple(ToolSpec(name=name, description=name, parameters=schemas.get(name, {})) for name in sorted(tools))
    controls = Controls(tool_choice=choice)
    return b.Request("demo", Snapshot("h", "demo", "Be brief.", specs), items, controls, "ses_1")


async def answer(*items: WindowItem, **options) -> list[b.ModelDelta]:
    provider = demo.DemoProvider(FakeClock(), rate=0)
    return [delta async for batch in provider.stream(request(*items, **options)) for delta in batch]


async def text(*items: WindowItem, **options) -> str:
    return "".join(d.text for d in await answer(*items, **options) if isinstance(d, b.ModelTextDelta))


async def calls(*items: WindowItem, **options) -> dict:
    return {
        start.name: end.arguments
        for deltas in [await answer(*items, **options)]
        for start in deltas
        if isinstance(start, b.ToolStart)
        for end in deltas
        if isinstance(end, b.ToolEnd) and end.slot == start.slot
    }

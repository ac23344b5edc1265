"""Calls through the router as channels show them."""

from agent_core import events as e
from agent_core.messages import ToolCall
from tests.channels.logs import Emitter, fold


def test_a_call_through_the_router_is_shown_as_the_tool_that_it_means():
    """The message names `call_tool`; the request names the tool, and so does what people see from then on."""
    emit, wish = Emitter(), ToolCall("call_1", "call_tool", {"name": "buy", "arguments": {}})
    said = e.MessageCompleted(message="msg_2", role="assistant", parts=(wish,), stop="tools")
    asked = e.ToolRequested(call="call_1", name="buy", arguments={}, index=0, step=1, via="call_tool")
    step = e.StepStarted(n=1, attempt=1, message="msg_2", takes=(), snapshot="s")
    body = fold([emit(step), emit(said), emit(asked), emit(e.ToolStarted(call="call_1"))])
    assert [(shown.id, shown.name, shown.status) for shown in body.recent[-1].calls] == [("call_1", "buy", "running")]

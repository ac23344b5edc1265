"""What people read of a call: its tool's title, and how long it took."""

from dataclasses import replace

from agent_core import events as e
from agent_core.messages import ToolCall
from channels.text import ended
from tests.channels.logs import Emitter, fold
from tests.channels.test_view import last, started


def test_a_title_is_what_people_read_of_a_tool():
    """A call is shown by its tool's title, where it has one, and with how long it took from a second on."""
    emit = Emitter()
    parts = (ToolCall("call_1", "look_up", {}),)
    said = e.MessageCompleted(message="msg_2", role="assistant", parts=parts, stop="tools")
    asked = e.ToolRequested(call="call_1", name="look_up", arguments={}, index=0, step=1, title="Looking up your order")
    body = fold([emit(started()), emit(said), emit(asked)])
    (shown,) = last(body).calls
    assert (shown.shown, shown.name) == ("Looking up your order", "look_up")
    ends = [(None, "done"), (0.4, "done"), (3.2, "done · 3 s"), (65.0, "done · 1 min 5 s")]
    assert [ended(replace(shown, status="done", seconds=seconds)) for seconds, _ in ends] == [said for _, said in ends]

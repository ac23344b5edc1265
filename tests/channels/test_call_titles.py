"""What people read for a call of a tool."""

from agent_core import events as e
from agent_core.messages import CallOutcome
from channels.spec import CallView
from tests.channels.logs import Emitter, fold


def test_a_call_reads_as_what_it_does_and_then_as_what_it_did():
    """The title is shown while a call runs or when it failed, its past form once it is done; else the name."""
    emit = Emitter()
    titles = {"title": "Looking up your order", "title_done": "Looked up your order"}
    asked = e.ToolRequested(call="call_1", name="find_order", arguments={}, index=0, step=1, **titles)
    ends: list[tuple[CallOutcome, str]] = [("done", "Looked up your order"), ("failed", "Looking up your order")]
    for outcome, said in ends:
        events = [
            emit(e.StepStarted(n=1, attempt=1, message="msg_2", takes=(), snapshot="s")),
            emit(asked),
            emit(e.ToolStarted(call="call_1")),
        ]
        assert fold(events).messages[-1].calls[0].shown == "Looking up your order"
        done = e.ToolCompleted(call="call_1", outcome=outcome, parts=(), truncated=False)
        assert fold([*events, emit(done)]).messages[-1].calls[0].shown == said
    assert CallView("call_1", "find_order", "done").shown == "find_order"

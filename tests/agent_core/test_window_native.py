"""What a model wrote itself, in the window: kept with answers and results, dropped where it would not be valid."""

import pytest

from agent_core import File, Message, Reasoning, Text, ToolCall
from agent_core import events as e
from agent_core.context.window import Window
from agent_core.events import FactBody
from agent_core.messages import Native
from agent_core.providers.base import Files
from agent_core.state import REPAIR
from tests.agent_core.history import ANN, closed, ended, history, opened, received, requested, started, wish

MODEL = "anthropic:claude"
WROTE = Native(MODEL, ('{"type":"thinking"},{"type":"tool_use"}',), ("toolu_1",))


def encode(message: Message, files: Files) -> bytes:
    return b"".join(files.values()) or message.role.encode()


def window_of(*bodies: FactBody) -> Window:
    window = Window(encode)
    window.apply(history(*bodies))
    return window


def answer(
    n: int, *parts: Text | Reasoning | ToolCall, native: Native | None = WROTE, stop: e.Stop = "tools"
) -> e.MessageCompleted:
    return e.MessageCompleted(message=f"msg_{n}", role="assistant", parts=parts, stop=stop, native=native)


def natives(window: Window) -> list[tuple[str, Native | None]]:
    return [(entry.message.role, entry.message.native) for entry in window.entries]


CALLED = [
    *opened("one"),
    started(takes=(1,)),
    answer(1, Reasoning("Hm."), wish("c1")),
    closed(1),
    requested(wish("c1")),
    e.ToolStarted(call="c1"),
]


def test_results_carry_the_provider_s_own_ids():
    """An answer keeps its native items, and the results of its calls the ids that the provider gave them."""
    window = window_of(*CALLED, ended("c1"))
    assert natives(window) == [("user", None), ("assistant", WROTE), ("tool", Native(MODEL, calls=("toolu_1",)))]


def test_a_repair_drops_native_items_on_both_sides():
    """Once thinking was left out, calls and their results go by our ids: those of before, and one still to come."""
    repair = e.SnapshotFrozen(hash="s", reason=REPAIR)
    before, between = window_of(*CALLED, ended("c1"), repair), window_of(*CALLED, repair, ended("c1"))
    assert [native for _, native in natives(before)] == [None, None, None]
    assert [native for _, native in natives(between)] == [None, None, None]
    assert [len(entry.message.parts) for entry in before.entries] == [1, 1, 1]


def test_an_answer_that_pauses_is_replayed_without_any_text():
    """An answer of the provider's own items alone goes on in the next step; its parts are nothing, its items all."""
    paused = answer(1, native=Native(MODEL, ('{"type":"server_tool_use"}',)), stop="continue")
    window = window_of(*opened("one"), started(takes=(1,)), paused, closed(1))
    assert natives(window)[1] == ("assistant", paused.native)


@pytest.mark.parametrize("parts", [(), (Text("Let me look."),)], ids=["silent", "with text"])
def test_a_paused_answer_that_nothing_continues_keeps_its_text_alone(parts):
    """A call of the server's tool that never got a result would be refused: a run that ended there leaves the text."""
    items = Native(MODEL, ('{"type":"server_tool_use"}',))
    paused = [*opened("one"), started(takes=(1,)), answer(1, *parts, native=items, stop="continue"), closed(1)]
    assert natives(window_of(*paused))[1:] == [("assistant", items)], "it may still be continued"
    later = [received("two"), e.RunQueued(), started(2, takes=(8,))]
    entries = window_of(*paused, e.RunCancelled(by=ANN, reason="user"), *later).entries
    messages = [Message("user", (Text("one"),)), *(Message("assistant", parts) for _ in parts)]
    assert [entry.message for entry in entries] == [*messages, Message("user", (Text("two"),))]


def test_an_answer_that_only_thought_is_not_replayed():
    """Thinking without a word after it says nothing to anybody, and some providers refuse such a message."""
    window = window_of(*opened("one"), started(takes=(1,)), answer(1, Reasoning("Hm."), stop="done"), closed(1))
    assert [role for role, _ in natives(window)] == ["user"]


def test_a_file_is_read_once():
    """An entry names the files that its request JSON needs, gets their bytes, and names none once it is made."""
    file = File("blob_1", "cat.png", "image/png", 3)
    message = e.MessageReceived(message="in_2", actor=received("x").actor, parts=(Text("Look:"), file))
    window = window_of(message, e.RunQueued(), e.RunStarted(epoch=1), started(takes=(1,)))
    (entry,) = window.entries
    assert entry.files == ["blob_1"]
    assert window.tokens() > 0, "its size is estimated before it is made"
    entry.load({"blob_1": b"PNG"})
    assert (entry.wire, entry.files, entry.wire) == (b"PNG", (), b"PNG")

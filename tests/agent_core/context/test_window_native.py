"""What a model wrote itself, in the window: kept with answers and results, dropped where it would not be valid."""

from functools import partial

from agent_core import events as e
from agent_core.agent.frames import STOPPED_NOTE
from agent_core.agent.state import REPAIR
from agent_core.agent.window import Window
from agent_core.events import FactBody
from agent_core.messages import File, Message, Native, Reasoning, Text, ToolCall
from agent_core.providers.base import Files
from tests.agent_core.history import (
    ANN,
    closed,
    ended,
    failed,
    history,
    opened,
    received,
    requested,
    started,
    wish,
)
from tests.cases import for_each

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


SEARCHES = Native(MODEL, ('{"type":"server_tool_use"}',))
FOUND = Native(MODEL, ('{"type":"web_search_tool_result"}',))
LOOK, MORE = Text("Let me look."), Text("More.")


def paused(n: int, *parts: Text) -> list[FactBody]:
    """Return a step whose answer pauses, and the start of the one that continues it."""
    return [answer(n, *parts, native=SEARCHES, stop="continue"), closed(n), started(n + 1)]


def given_up(*bodies: FactBody) -> list[FactBody]:
    """Return a run of *bodies* that is stopped, and another question."""
    before = [*opened("one"), started(takes=(1,)), *bodies, e.RunCancelled(by=ANN, reason="user")]
    return [*before, received("two"), e.RunQueued(), started(9, takes=(len(before) + 1,))]


def left(window: Window) -> list[Message]:
    """Return what is left between the first question and the last."""
    first, *between, last = [entry.message for entry in window.entries]
    assert (first, last) == (Message("user", (Text("one"),)), Message("user", (Text("two"),)))
    return between


@for_each("texts, kept", [([()], []), ([(LOOK,)], [LOOK]), ([(LOOK,), (MORE,)], [LOOK, MORE]), ([(LOOK,), ()], [LOOK])])
def test_paused_answers_that_nothing_continues_keep_their_text_alone(texts, kept):
    """A call of the server's tool without a result is refused; it may be in any of the answers that continued another.

    The same by a window that spoke another wire in the meantime.
    """
    facts = history(*given_up(*(fact for n, parts in enumerate(texts, 1) for fact in paused(n, *parts))))
    for seen in range(len(facts)):
        window = Window(encode)
        window.apply(facts[:seen])
        window.recode(partial(encode))
        window.apply(facts)
        assert left(window) == [Message("assistant", (part,)) for part in kept], seen


def test_a_paused_answer_that_may_be_continued_stays_as_it_is():
    """While its run goes on nothing of it is given up, be the step that continues it tried again."""
    window = window_of(*opened("one"), started(takes=(1,)), *paused(1, LOOK), failed(2), started(2, attempt=2))
    assert natives(window)[1:] == [("assistant", SEARCHES)]


@for_each("rest", [answer(2, MORE, native=FOUND, stop="done"), answer(2, MORE, native=None, stop="done")])
def test_paused_answer_that_was_continued_stays(rest):
    """It was sent like this, and holds what the server's tools found; an answer of text alone continues one, too."""
    window = window_of(*given_up(*paused(1, LOOK), rest, closed(2)))
    assert left(window) == [Message("assistant", (LOOK,), SEARCHES), Message("assistant", (MORE,), rest.native)]


def test_a_continuation_that_was_stopped_does_not_continue():
    """Of what was cut only the text is kept, so the answer that it continues keeps no more."""
    cut = e.MessageCompleted(message="msg_2", role="assistant", parts=(MORE,), stop="done", partial=True)
    note = Message("user", (Text(STOPPED_NOTE),))
    kept = left(window_of(*given_up(*paused(1, LOOK), cut)))
    assert kept == [Message("assistant", (LOOK,)), Message("assistant", (MORE,)), note]


def test_answer_with_reasoning_only_is_not_replayed():
    """Thinking without a word after it says nothing to anybody, and some providers refuse such a message."""
    window = window_of(*opened("one"), started(takes=(1,)), answer(1, Reasoning("Hm."), stop="done"), closed(1))
    assert [role for role, _ in natives(window)] == ["user"]


async def test_a_file_is_read_once():
    """An entry names the files that its request JSON needs, gets their bytes, and names none once it is made."""
    file = File("blob_1", "cat.png", "image/png", 3)
    message = e.MessageReceived(message="in_2", actor=received("x").actor, parts=(Text("Look:"), file))
    window = window_of(message, e.RunQueued(), e.RunStarted(epoch=1), started(takes=(1,)))
    (entry,) = window.entries
    assert entry.files == ["blob_1"]
    assert entry.tokens > 0, "its size is estimated before it is made"

    async def read(blob: str) -> bytes:
        assert blob == "blob_1"
        return b"PNG"

    await entry.load(read, window.frames)
    assert (entry.wire, entry.files, entry.wire) == (b"PNG", (), b"PNG")

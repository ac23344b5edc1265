"""Where look-alikes of frames are looked for: in long texts of people outside of the event loop."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from agent_core import Controls, Inbound, InvalidInput, SessionBusy
from agent_core.context import frames
from agent_core.context.frames import MAX_READY, Frames, new_marker, use_of
from agent_core.context.window import Window
from agent_core.domain.events import Fact
from agent_core.domain.messages import Message, Text, ToolCall, ToolResult, text_of
from agent_core.runtime.window.readying import LONG, MANY
from agent_core.testing import ScriptedProvider, call, pause, say
from agent_core.tools.builtin import calculate
from agent_core.tools.function import tool
from tests.agent_core.scenes import ANN, idle, open_session, say_and_wait, send
from tests.conftest import MakeCore
from tests.polling import PATIENCE

WORST = "[nоte] x " * (LONG // 8)
ESCAPED = WORST.replace("[", "\\[")


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, str]]:
    """The texts that were searched, each with whether that was on the thread of the event loop."""
    found: list[tuple[bool, str]] = []
    original = frames.is_plain

    def noted(text: str, marker: str) -> bool:
        found.append((threading.current_thread() is threading.main_thread(), text))
        return original(text, marker)

    monkeypatch.setattr(frames, "is_plain", noted)
    return found


async def test_long_messages_leave_the_loop(make_core: MakeCore, looked: list[tuple[bool, str]]):
    """That holds for a first message, one that steers, one that waits, and a session that is read again."""
    gate = asyncio.Event()
    provider = ScriptedProvider(lambda _: [pause(gate), say("Yes.")])
    core = await make_core(provider)
    session = await open_session(core)
    texts = [WORST + sign for sign in "abcd"]
    await send(core, session, texts[0])
    await send(core, session, texts[1], overlap="steer")
    gate.set()
    await idle(core, session)
    gate.clear()
    first = await send(core, session, "Wait.")
    for text in texts[2:]:
        await send(core, session, text)
    cached = core._cache.peek(session)
    assert cached is not None
    cached.window.frames._ready.clear()  # as where another process took them in
    gate.set()
    await idle(core, session, after=first.seq)
    await core.stop()
    again = await make_core(provider)
    await say_and_wait(again, session, "Short.")
    assert {text for _, text in looked} >= {*texts, "Short."}
    assert [len(text) for on_loop, text in looked if on_loop and len(text) > LONG] == []
    said = [text_of(entry.message.parts) for entry in provider.requests[-1].messages]
    assert [each for each in said if " x " in each] == [ESCAPED + sign for sign in "abcd"]


async def test_a_long_history_leaves_the_loop(make_core: MakeCore, looked: list[tuple[bool, str]]):
    """That holds for imported messages, one long one or many short ones, and for what a tool gave with a message."""
    provider = ScriptedProvider(lambda _: [say("Yes.")])
    core = await make_core(provider, tools=(calculate,))
    agent = (await core.agents.get("assistant")).id
    used = ToolCall("call_1", "calculate", {"expression": WORST})
    result = ToolResult("call_1", "done", (Text(WORST + "b"),))
    short = [f"{WORST[:100]}{n}" for n in range(LONG // 100)]
    history = (Message("user", (Text(WORST),)), *(Message("user", (Text(text),)) for text in short))
    receipt = await core.run_agent(agent, Inbound(parts=(used, result), actor=ANN, history=history))
    await core.settled(receipt.run, timeout=PATIENCE)
    assert {text for _, text in looked} >= {WORST, *short, WORST + "b", use_of(used)}
    assert [text for on_loop, text in looked if on_loop] == []
    said = "".join(text_of(entry.message.parts) for entry in provider.requests[-1].messages)
    assert said.count(ESCAPED) == 1
    assert said.count(ESCAPED[:90]) >= len(short)


async def test_what_is_refused_is_forgotten(make_core: MakeCore, looked: list[tuple[bool, str]]):
    """No window keeps the texts of a message that was not written, or that waits for its run."""
    gate = asyncio.Event()
    core = await make_core(ScriptedProvider(lambda _: [pause(gate), say("Yes.")]))
    session = await open_session(core)
    await send(core, session, "Wait.")
    cached = core._cache.peek(session)
    assert cached is not None
    with pytest.raises(SessionBusy):
        await send(core, session, WORST, overlap="reject")
    unserved = Inbound(parts=(Text(WORST + "a"),), actor=ANN, controls=Controls(model="unknown:none"))
    with pytest.raises(InvalidInput):
        await core.receive(session, unserved)
    await send(core, session, WORST + "b")
    assert {text for _, text in looked} >= {WORST, WORST + "a", WORST + "b"}
    assert cached.window.frames._ready == {}
    gate.set()
    await idle(core, session)


async def test_a_history_of_thousands_leaves_the_loop(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch):
    """Its driver folds it in a thread, whether its run starts at once or joins a session that was here."""
    folded: list[int] = []
    original = Window.apply

    def noted(window: Window, facts: Sequence[Fact]) -> None:
        if threading.current_thread() is threading.main_thread():
            folded.append(len(facts))
        original(window, facts)

    monkeypatch.setattr(Window, "apply", noted)
    provider = ScriptedProvider(lambda _: [say("Yes.")])
    core = await make_core(provider)
    session = await open_session(core)
    agent = (await core.agents.get("assistant")).id
    history = tuple(Message("user", (Text(f"{n}."),)) for n in range(3 * MANY))
    for place in (None, session):
        inbound = Inbound(parts=(Text("So?"),), actor=ANN, history=history)
        receipt = await core.run_agent(agent, inbound, session=place)
        run = await core.settled(receipt.run, timeout=PATIENCE)
        assert run.status == "completed"
        said = [text_of(entry.message.parts) for entry in provider.requests[-1].messages]
        shown = [each for each in said if each[0].isdigit()]
        assert shown == [f"{n}." for n in range(3 * MANY)][-len(shown) :] != []
        assert said[-1] == "So?"
    assert max(folded) < MANY


async def test_long_results_leave_the_loop(make_core: MakeCore, looked: list[tuple[bool, str]]):
    """What a tool returns is looked at in a thread too."""

    @tool
    async def page() -> str:
        """Return a page."""
        return WORST

    core = await make_core(ScriptedProvider([[call("page")], [say("Yes.")]]), tools=(page,))
    await say_and_wait(core, await open_session(core), "Read.")
    assert (False, WORST) in looked
    assert [len(text) for on_loop, text in looked if on_loop and len(text) > LONG] == []


def test_what_is_ready_is_used_once_and_bounded():
    """A text that was searched before gives the same; so many are kept, and none that was used."""
    marker = new_marker()
    known, plain = Frames(marker), Frames(marker)
    texts = [f"{WORST}{n}" for n in range(MAX_READY // len(WORST) + 3)]
    known.ready(texts)
    kept = [text for text, _ in known._ready]
    assert kept == texts[-len(kept) :]
    assert MAX_READY - 2 * len(WORST) < sum(map(len, kept)) <= MAX_READY
    for text in (texts[0], texts[-1]):
        assert known.of_people((Text(text),)) == plain.of_people((Text(text),)) != (Text(text),)
    assert (texts[-1], False) not in known._ready
    assert known == plain


def test_what_occurs_twice_is_ready_twice():
    """A text that occurs several times is known as often, and of tools it is another than of people."""
    known = Frames(new_marker())
    known.ready([WORST, WORST])
    known.ready([WORST], of_tools=True)
    for _ in range(2):
        assert len(known._ready) == 2
        assert known.of_people((Text(WORST),)) == (Text(ESCAPED),)
    assert list(known._ready) == [(WORST, True)]
    assert known.of_tools((Text(WORST),)) == (Text(WORST),)
    assert known._ready == {}

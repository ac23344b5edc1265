"""Where look-alikes of frames are looked for: in long texts of people outside of the event loop."""

import asyncio
import threading

import pytest

from agent_core.context import frames
from agent_core.context.frames import MOST_READY, Frames, new_marker
from agent_core.domain.messages import Text, text_of
from agent_core.runtime.window.readying import LONG
from agent_core.testing import ScriptedProvider, pause, say
from tests.agent_core.scenes import idle, open_session, say_and_wait, send
from tests.conftest import MakeCore

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


def test_what_is_ready_is_used_once_and_bounded():
    """A text that was searched before gives the same; so many are kept, and none that was used."""
    marker = new_marker()
    known, plain = Frames(marker), Frames(marker)
    texts = [f"{WORST}{n}" for n in range(MOST_READY // len(WORST) + 3)]
    known.ready(texts)
    assert list(known._ready) == texts[-len(known._ready) :]
    assert MOST_READY - 2 * len(WORST) < sum(map(len, known._ready)) <= MOST_READY
    for text in (texts[0], texts[-1]):
        assert known.of_people((Text(text),)) == plain.of_people((Text(text),)) != (Text(text),)
    assert texts[-1] not in known._ready
    assert known == plain

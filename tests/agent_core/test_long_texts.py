"""Where a long window is folded: outside of the event loop."""

import threading
from collections.abc import Sequence

import pytest

from agent_core.agent.window import Window
from agent_core.channels import Inbound
from agent_core.events import Fact
from agent_core.messages import Message, Text, text_of
from agent_core.runtime.session_cache import MANY
from agent_core.testing import ScriptedProvider, say
from tests.agent_core.scenes import ANN, open_session
from tests.conftest import MakeCore
from tests.polling import PATIENCE


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

"""The loop and its context: how much of a session the model sees, and what a restart changes of it (nothing)."""

import pytest

from agent_core.agents import DEFAULT_CONTEXT_MESSAGES, Limits
from agent_core.channels import Inbound
from agent_core.errors import InvalidInput
from agent_core.events import ContextCompacted, SnapshotFrozen, StepStarted
from agent_core.messages import Message, Text
from agent_core.providers.base import Request
from agent_core.testing import call, say, step_of, think
from agent_core.testing.scripted import Answer
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.stage import restart, set_stage, texts
from tests.conftest import ANN, MakeCore


def echo(request: Request) -> Answer:
    """Repeat the newest message, with a thought."""
    return (think("Hm."), say(f"You said {texts(request)[-1][1]}."))


def window(request: Request) -> list[str]:
    """Return the texts that people said, as the model saw them."""
    return [text for role, text in texts(request) if role == "user"]


async def test_a_long_session_is_cut_to_half(make_core: MakeCore):
    """Past `max_context_messages` the window is cut to half, so that a request begins with a message of a person."""
    stage = await set_stage(make_core, echo, limits=Limits(max_context_messages=10))
    for n in range(12):
        assert (await stage.play(f"m{n}")).text == f"You said m{n}."
    sizes = [len(request.messages) for request in stage.provider.requests]
    assert max(sizes) == 9
    assert sizes == [1, 3, 5, 7, 9, 5, 7, 9, 5, 7, 9, 5]
    assert window(stage.provider.requests[5]) == ["m3", "m4", "m5"]
    assert [request for request in stage.provider.requests if texts(request)[0][0] != "user"] == []
    cuts = await stage.said(ContextCompacted)
    assert [cut.kind for cut in cuts] == ["cut"] * 3
    assert [
        cut for cut in cuts if not (cut.tokens_before and cut.tokens_after and cut.tokens_after < cut.tokens_before)
    ] == []
    check_log(await stage.log())


async def test_the_default_keeps_200_messages(make_core: MakeCore):
    """Without a setting a window holds up to 200 messages."""
    assert DEFAULT_CONTEXT_MESSAGES == 200
    stage = await set_stage(make_core, [])
    assert (await stage.core.agents.get("assistant")).definition.limits.max_context_messages == 200


async def test_null_keeps_everything(make_core: MakeCore):
    """With `max_context_messages: null` nothing is ever cut."""
    stage = await set_stage(make_core, echo, limits=Limits(max_context_messages=None))
    for n in range(DEFAULT_CONTEXT_MESSAGES // 2 + 1):
        await stage.play(f"m{n}")
    assert len(stage.provider.requests[-1].messages) == DEFAULT_CONTEXT_MESSAGES + 1
    assert not await stage.said(ContextCompacted)


@pytest.mark.parametrize("limit", [0, 1, -3])
async def test_a_window_holds_a_question_and_its_answer(make_core: MakeCore, limit):
    """A window too small for a question and its answer is refused when the agent is written."""
    with pytest.raises(InvalidInput, match="max_context_messages"):
        await set_stage(make_core, echo, limits=Limits(max_context_messages=limit))


async def test_a_run_is_not_cut_in_its_middle(make_core: MakeCore):
    """A long run with many calls stays whole: a window is cut where a person spoke, never between call and result."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        return f"{n} is fine"

    def script(request: Request) -> Answer:
        return (call("look", n=step_of(request)),) if step_of(request) < 6 else (say("All fine."),)

    stage = await set_stage(make_core, script, tools=[look], limits=Limits(max_context_messages=4))
    await stage.play("one")
    last = stage.provider.requests[-1]
    assert (len(last.messages), window(last)) == (13, ["one"])
    await stage.play("two")
    assert window(stage.provider.requests[7]) == ["two"], "a new question is a border: what is before it may go whole"


@pytest.mark.parametrize("limit", [2, 3, 10])
async def test_imported_history_keeps_the_limit_too(make_core: MakeCore, limit: int):
    """The limit is the history depth too: of a longer imported history the model sees the newest part."""
    stage = await set_stage(make_core, echo, limits=Limits(max_context_messages=limit))
    history = tuple(Message("assistant" if n % 2 else "user", (Text(f"h{n}"),)) for n in range(40))
    inbound = Inbound(parts=(Text("now"),), actor=ANN, history=history)
    await stage.done((await stage.core.receive(stage.session, inbound)).run)
    await stage.play("then")
    for request in stage.provider.requests:
        assert len(request.messages) <= limit
        assert request.messages[0].message.role == "user"
    assert window(stage.provider.requests[0])[-1] == "now"
    assert window(stage.provider.requests[1])[-1] == "then"


async def test_reasoning_from_before_a_cut_is_dropped(make_core: MakeCore):
    """After a cut the answers that stay are replayed without their reasoning from then on."""
    stage = await set_stage(make_core, echo, limits=Limits(max_context_messages=6))
    for n in range(4):
        await stage.play(f"m{n}")
    thinking = [b"Hm." in prefix for prefix in stage.provider.prefixes]
    assert thinking == [False, True, True, False]
    await stage.play("m4")
    assert stage.provider.prefixes[4].startswith(stage.provider.prefixes[3])
    assert stage.provider.prefixes[4].count(b"Hm.") == 1


async def test_a_message_after_a_cut_and_a_restart_is_seen(make_core: MakeCore):
    """After a cut and a restart the next message is taken and seen, and the window goes on where it was."""
    stage = await set_stage(make_core, echo, limits=Limits(max_context_messages=6))
    for n in range(4):
        await stage.play(f"m{n}")
    again = await restart(make_core, stage, echo)
    assert (await again.play("m4")).text == "You said m4."
    assert again.provider.prefixes[0].startswith(stage.provider.prefixes[-1])
    assert window(again.provider.requests[0]) == ["m2", "m3", "m4"]
    taken = [seq for step in await again.said(StepStarted) for seq in step.takes]
    received = [fact.seq for fact in await again.log() if fact.type == "message.received"]
    assert taken == received
    assert len(await again.said(SnapshotFrozen)) == 1


async def test_an_untouched_session_is_rebuilt_whole(make_core: MakeCore):
    """After a restart a session that was never cut is seen byte by byte as before."""
    stage = await set_stage(make_core, echo)
    for n in range(3):
        await stage.play(f"m{n}")
    again = await restart(make_core, stage, echo)
    await again.play("m3")
    assert again.provider.prefixes[0].startswith(stage.provider.prefixes[-1])
    assert window(again.provider.requests[0]) == ["m0", "m1", "m2", "m3"]

"""Tool loops on servers of the Chat wire that want back what they wrote, by their own rules."""

import dataclasses
import json
import re
from itertools import pairwise
from typing import Any

import pytest

from agent_core.agents import Compaction, Limits
from agent_core.events import MessageCompleted, SnapshotFrozen, StepCompleted, StepFailed
from agent_core.providers.base import cost
from agent_core.testing import FakeClock, call, fail, say, think
from agent_core.testing.models import Options, Quirks, native, status
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import TOOLS, by_text, extends
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES
from tests.agent_core.stage import ANN, asleep

pytestmark = pytest.mark.sampled(3)

CUT: dict[str, Any] = {"limits": Limits(max_context_messages=4), "compaction": Compaction(kind="cut")}
SERVERS = ("deepseek", "gemini", "mistral")
IDS = {
    "openai": r"call_[0-9a-f]{24}\d\d",
    "deepseek": r"call_\d\d_[0-9a-f]{24}",
    "gemini": r"function-call-\d+",
    "mistral": r"[a-zA-Z0-9]{9}",
}
TALK = by_text(
    One=[
        [think("Two things."), say("Looking."), call("look", what="a"), call("look", what="b")],
        [think("And all."), call("list_all")],
        [think("Done."), say("Both are fine.")],
    ],
    Two=[[call("look", what="c")], [say("Fine too.")]],
    Three=[[think("Nothing to do."), say("You are welcome.")]],
)
STALE = "stale_reasoning"


def on(server):
    return {"options": Options(quirks=Quirks(server=server))}


def ids(asked):
    """Return the ids of all calls and results in a request."""
    messages = asked.body["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return [*calls, *(message["tool_call_id"] for message in messages if message["role"] == "tool")]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_tool_loop_goes_well(scene, server):
    """Each server gets its thinking, signatures and ids back over several runs: nothing is refused or sent again."""
    stage = await scene(CHAT, TALK, tools=TOOLS, server=on(server))
    assert [(await stage.play(text)).status for text in ("One", "Two", "Three")] == ["completed"] * 3
    assert await stage.said(StepFailed) == []
    asked = stage.line.models.asked
    assert len(asked) == 6
    assert [(before, after) for before, after in pairwise(asked) if not extends(before, after, CHAT.sent)] == []
    assert [each for each in ids(asked[-1]) if not re.fullmatch(IDS[server], each)] == []
    check_log(await stage.log())


@pytest.mark.parametrize("server", ["openai", *SERVERS])
async def test_a_restart_sends_the_same(scene, server):
    """What was kept for the server is in the log: a window that is read from it sends the same bytes."""
    stage = await scene(CHAT, TALK, tools=TOOLS, server=on(server))
    await stage.play("One")
    await stage.core.stop()
    again = await scene(CHAT, line=stage.line, tools=TOOLS, session=stage.session)
    await again.play("Two")
    before, after = stage.line.models.asked[2:4]
    assert extends(before, after, CHAT.sent)
    assert len(ids(after)) == 6
    assert [each for each in ids(after) if not re.fullmatch(IDS[server], each)] == []


async def test_what_a_server_wrote_goes_to_no_other_model(scene):
    """A fallback model of the same server gets neither thinking nor ids of the first one, and the first one its own."""

    def script(asked):
        if asked.model == CHAT.model and asked.text == "One" and asked.step == 1:
            return [fail("quota")]
        return [think("Hm."), call("look", what="a")] if asked.step == 0 else [say("Fine.")]

    stage = await scene(CHAT, script, tools=TOOLS, server=on("mistral"), fallback_models=(CHAT.full_other,))
    assert [(await stage.play(text)).status for text in ("One", "Two")] == ["completed"] * 2
    first, refused, other, *_ = stage.line.models.asked
    assert (first.model, refused.model, other.model) == (CHAT.model, CHAT.model, CHAT.other)
    assert {*ids(refused)}.isdisjoint(ids(other))
    assert [each for each in ids(other) if not re.fullmatch(IDS["mistral"], each)] == []
    assert [failed.code for failed in await stage.said(StepFailed)] == ["quota"]


@pytest.mark.parametrize(("server", "word"), [("deepseek", "reasoning_content"), ("gemini", "thought_signature")])
async def test_what_is_gone_is_asked_for_once(scene, dial, server, word):
    """Calls of another model lack what a gateway's model wants: its refusal is taken as a lesson, and is the last."""

    def script(asked):
        if asked.text == "One":
            return [call("look", what="a")] if asked.step == 0 else [fail("auth")]
        return [call("look", what="b")] if asked.step == 0 else [say("Fine.")]

    stand_in = await dial(CHAT, lambda asked: [say("I go on.")], **on(server))
    stage = await scene(MESSAGES, script, tools=TOOLS, stand_in=stand_in, fallback_models=(CHAT.full,))
    assert (await stage.play("One")).status == "completed"
    failed = await stage.said(StepFailed)
    assert [each.code for each in failed] == ["auth", STALE]
    assert word in failed[1].message
    assert [frozen.reason for frozen in await stage.said(SnapshotFrozen)][-1] == "repair"
    assert [word in asked.raw.decode() for asked in stand_in.models.asked] == [False, True]
    # Another session of the same server is asked rightly at once.
    session = (await stage.core.open_session(agent="assistant", actor=ANN)).id
    other = dataclasses.replace(stage, session=session)
    await other.play("One")
    assert len(stand_in.models.asked) == 3
    assert [each.code for each in await other.said(StepFailed)] == ["auth"]


async def test_a_call_that_the_server_could_not_read_is_tried_again(scene):
    """Groq answers 400 for what its own model wrote badly: the next try goes well, and a model that never does ends."""
    error = {
        "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "<function=look>",
    }
    unread = [status(400, json.dumps({"error": error}), {"content-type": "application/json"})]
    tries = iter([unread, [call("look", what="a")], unread, [say("Fine.")]])
    clock = FakeClock()
    stage = await scene(CHAT, lambda asked: unread if asked.text == "Two" else next(tries), tools=TOOLS, clock=clock)
    run = await stage.send("One")
    for _ in range(2):
        await asleep(clock, 3)
        clock.advance(1)
    assert (await stage.done(run)).status == "completed"
    run = await stage.send("Two")
    for _ in range(3):
        await asleep(clock, 3)
        clock.advance(8)
    ended = await stage.done(run)
    assert (ended.status, ended.error.code) == ("failed", "provider_error")
    assert [failed.code for failed in await stage.said(StepFailed)] == ["error"] * 6


async def test_usage_without_what_was_written_to_a_cache(scene):
    """Many servers count no writes: that count is unknown, and all of the prompt is in the others."""
    server = {"options": Options(quirks=Quirks(counts=False))}
    stage = await scene(CHAT, lambda asked: [say("Hi.")], server=server)
    await stage.play("One")
    (step,) = await stage.said(StepCompleted)
    assert (step.usage.cache_read, step.usage.cache_write_short, step.usage.cache_write_long) == (0, None, None)
    assert step.usage.input
    assert cost("openai:gpt-6.1-sol", step.usage) is not None


async def test_thinking_that_is_not_taken_is_sent_once(scene):
    """A gateway shows the thinking of a model that takes none back: after one refusal none of it is sent again."""
    thought = native({"id": "c", "choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]})
    looking = [thought, call("look", what="a")]
    script = by_text(One=[looking, looking, [thought, say("Fine.")]], Two=[looking, [say("Fine.")]])
    stage = await scene(CHAT, script, tools=TOOLS, server=on("mistral"))
    assert [(await stage.play(text)).status for text in ("One", "Two")] == ["completed"] * 2
    (failed,) = await stage.said(StepFailed)
    assert failed.code == STALE
    assert "Extra inputs are not permitted" in failed.message
    asked = stage.line.models.asked
    assert ["reasoning_content" in each.raw.decode() for each in asked] == [False, True, *[False] * (len(asked) - 2)]


async def test_a_server_that_replaced_another_is_not_sent_its_ids_for_good(scene, dial):
    """The same name may be another server after a restart: its refusal of the ids drops them, and the session lives."""
    stage = await scene(CHAT, TALK, tools=TOOLS, server=on("deepseek"))
    await stage.play("One")
    await stage.core.stop()
    again = await scene(CHAT, line=await dial(CHAT, TALK, **on("mistral")), tools=TOOLS, session=stage.session)
    assert [(await again.play(text)).status for text in ("Two", "Three")] == ["completed"] * 2
    failed = await again.said(StepFailed)
    assert [each.code for each in failed] == [STALE]
    assert "length of 9" in failed[0].message


@pytest.mark.parametrize("server", SERVERS)
async def test_a_cut_drops_what_the_server_wrote(scene, server):
    """After the window was cut, earlier answers go without thinking and own ids, and no request is lost by it."""
    stage = await scene(CHAT, TALK, tools=TOOLS, server=on(server), **CUT)
    await stage.play("One")
    before = {*ids(stage.line.models.asked[-1])}
    assert (await stage.play("Two")).status == "completed"
    assert before.isdisjoint(ids(stage.line.models.asked[-1]))
    first = next(message for message in await stage.said(MessageCompleted) if message.role == "assistant")
    assert first.native is not None  # it stays in the log

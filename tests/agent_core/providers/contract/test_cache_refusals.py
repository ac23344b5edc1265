"""Servers that refuse what a request says of the prompt cache: what they are asked instead, and for how long."""

import json
from typing import Any

import pytest

from agent_core.agent.snapshot import freeze
from agent_core.events import StepFailed
from agent_core.providers.base import REMEMBERED, CacheMarks, CallFailed, OptionalFields
from agent_core.testing import FakeClock, say
from agent_core.testing.models import ModelCall, status
from tests.agent_core.providers.contract.telling import ask
from tests.agent_core.providers.contract.wires import MESSAGES, RESPONSES, TOOL

pytestmark = pytest.mark.sampled(3)

RULES = "A rule that is worth keeping. " * 400
BILLED = pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)


REFUSED = {
    MESSAGES: {"type": "error", "error": {"message": "system.0.cache_control: Extra inputs are not permitted"}},
    RESPONSES: {"error": {"message": "Unknown parameter.", "param": "prompt_cache_key", "code": "unknown_parameter"}},
}


NO_TOOL = json.dumps({"type": "error", "error": {"type": "api_error", "message": "No such tool."}, "code": "api_error"})
AGAIN = (
    status(400, NO_TOOL),
    status(200, f"event: error\ndata: {NO_TOOL}\n\n", {"Content-Type": "text/event-stream"}),
)


@BILLED
@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_refuses_the_fields_is_asked_without(scene, wire, code):
    """The request is repeated at once without them, and none of that model has them afterwards; other models do."""

    def script(asked: ModelCall) -> list[Any]:
        refuses = b"cache" in asked.raw and asked.body["model"] == wire.model
        return [status(code, json.dumps(REFUSED[wire]))] if refuses else [say("Yes.")]

    stage = await scene(wire, script, instructions=RULES)
    for _ in range(2):
        assert (await stage.play("One")).status == "completed"
    assert await stage.said(StepFailed) == []
    assert [b"cache" in asked.raw for asked in stage.line.models.asked] == [True, False, False]
    provider = stage.line.provider
    assert provider.able(wire.model).caching is None
    assert provider.able(wire.other).caching is not None
    await ask(provider, wire.other, freeze(model=wire.full_other, instructions=RULES, tools=()), cache=CacheMarks("k"))
    assert b"cache" in stage.line.models.asked[-1].raw


@BILLED
@pytest.mark.parametrize("again", AGAIN, ids=["an answer", "a stream"])
async def test_a_repeat_that_is_refused_too_teaches_nothing(dial, wire, again):
    """The failure is that of the repeat, with status 400 or in a stream, and the next request has the fields again."""
    line = await dial(wire, lambda asked: [status(400, json.dumps(REFUSED[wire])) if b"cache" in asked.raw else again])
    snapshot = freeze(model=wire.full, instructions="Rules.", tools=(TOOL,))
    for _ in range(2):
        (failed,) = await ask(line.provider, wire.model, snapshot, cache=CacheMarks("k"))
        assert isinstance(failed, CallFailed)
        assert "No such tool." in failed.message
    assert [b"cache" in asked.raw for asked in line.models.asked] == [True, False, True, False]
    assert line.provider.able(wire.model).caching is not None


@BILLED
async def test_a_server_that_was_repaired_is_marked_again(dial, wire):
    """An hour after the refusal the fields are sent, and a server that takes them by then goes on to get them."""
    refuses, clock = True, FakeClock()

    def script(asked: ModelCall) -> list[Any]:
        return [status(400, json.dumps(REFUSED[wire])) if refuses and b"cache" in asked.raw else say("Yes.")]

    line = await dial(wire, script)
    line.provider._fields = OptionalFields(wire.name, clock)
    snapshot = freeze(model=wire.full, instructions="Rules.", tools=(TOOL,))
    await ask(line.provider, wire.model, snapshot, cache=CacheMarks("k"))
    clock.advance(REMEMBERED / 1000 - 1)
    refuses = False
    await ask(line.provider, wire.model, snapshot, cache=CacheMarks("k"))
    clock.advance(1)
    for _ in range(2):
        await ask(line.provider, wire.model, snapshot, cache=CacheMarks("k"))
    assert [b"cache" in asked.raw for asked in line.models.asked] == [True, False, False, True, True]

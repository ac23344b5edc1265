"""Servers that refuse what a request says of the prompt cache: what they are asked instead, and for how long."""

import json
from typing import Any

import pytest

from agent_core import StepFailed
from agent_core.context.snapshot import freeze
from agent_core.providers.base import CacheMarks, CallFailed
from agent_core.providers.marking import REMEMBERED, OptionalFields
from agent_core.testing import FakeClock, say
from agent_core.testing.models import ModelCall, status
from tests.agent_core.providers.contract.telling import ask, marks_of
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
    assert provider.cache_life(wire.model, "short") is None
    await ask(provider, wire.other, freeze(model=wire.full_other, instructions=RULES, tools=()), cache=CacheMarks("k"))
    assert b"cache" in stage.line.models.asked[-1].raw


NO_HOUR = {"error": {"message": "messages.0.content.0.cache_control.ephemeral.ttl: Extra inputs are not permitted"}}


@pytest.mark.parametrize("marks", [True, False], ids=["takes marks", "takes none"])
async def test_a_server_that_keeps_nothing_for_an_hour_gets_marks_without_lifetimes(scene, marks):
    """What refuses the lifetime alone is asked with its marks at once and then always; what refuses those, without."""

    def script(asked: ModelCall) -> list[Any]:
        if b"ttl" in asked.raw:
            return [status(400, json.dumps(NO_HOUR))]
        refuses = not marks and b"cache" in asked.raw
        return [status(400, json.dumps(REFUSED[MESSAGES]))] if refuses else [say("Yes.")]

    stage = await scene(MESSAGES, script, instructions=RULES)
    for _ in range(2):
        assert (await stage.play("One")).status == "completed"
    assert await stage.said(StepFailed) == []
    lengths = [{length for _, length in marks_of(asked)} for asked in stage.line.models.asked]
    assert lengths == [{"1h", "5m"}, {"5m"}, *([{"5m"}] if marks else [set[str]()] * 2)]
    provider = stage.line.provider
    assert provider.cache_life(MESSAGES.model, "long") == (300_000 if marks else None)
    assert provider.cache_life(MESSAGES.other, "long") == 3_600_000


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

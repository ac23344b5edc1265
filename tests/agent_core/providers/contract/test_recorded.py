"""Recorded streams, cut as networks cut them: pieces of any size give the same deltas and the same facts."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import aiohttp
import msgspec
import pytest

from agent_core.agent.state import RunState
from agent_core.agent.strategy import Ask
from agent_core.agents import Agent, Definition, Snapshot
from agent_core.events import FactBody
from agent_core.providers.base import ModelDelta
from agent_core.runtime.drive import Answer
from agent_core.testing import call, fail, finish, raw_call, refuse, say, think
from agent_core.testing.models import FakeModels, raw, redacted, split
from tests.agent_core.providers.contract import written as w
from tests.agent_core.providers.contract.received import joined
from tests.agent_core.providers.contract.wires import KEY, MESSAGES, Wire
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)

PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/responses",
    "openai-compatible": "/v1/chat/completions",
}
ANSWERS: dict[str, Sequence[Any]] = {
    "thinking, text and calls": [
        think("Hmm", ", ", "ünd 🙂"),
        redacted(),
        say("Grüße ", "🙂🙂", "\r\n\n", " data: x"),
        raw_call("look", '{"what": "ä \\"b\\" \\u00e9"}', cut=9),
        think("And"),
        call("list_all"),
        raw_call("look", '{"what": ', cut=2),
    ],
    "a refusal": [say("Well, "), refuse("I cannot do that.")],
    "the limit": [say("One, ", "two"), raw_call("look", '{"wh'), finish("length")],
    "an error": [say("Half an ans"), fail("overloaded")],
    "nothing": [finish()],
}


async def record(wire: Wire, models: FakeModels) -> bytes:
    """Return the bytes of the answer to the newest request, asked for again."""
    asked = models.asked[-1]
    headers = {name: asked.headers[name] for name in ("authorization", "anthropic-version") if name in asked.headers}
    async with aiohttp.ClientSession() as session:
        url = models.url + PATHS[wire.name]
        async with session.post(url, data=asked.raw, headers=headers) as response:
            assert response.status == 200
            return await response.read()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", ANSWERS)
async def test_pieces_of_any_size_give_the_same_deltas_and_facts(case, dial, wire, monkeypatch):
    """A recorded stream in pieces of 1, 7 and 4,096 bytes gives what it gives whole: deltas, text shown and facts."""
    line = await dial(wire, [ANSWERS[case]] * 2)
    await line.deltas()
    recorded = await record(wire, line.models)
    pieces = (split(1), split(7), split(4096))
    replay = await dial(wire, [[raw(recorded)], *([size, raw(recorded)] for size in pieces)])
    whole, *rest = [await replay.deltas() for _ in range(4)]
    assert [joined(deltas) == joined(whole) for deltas in rest] == [True] * 3
    kept = [facts(wire, deltas, monkeypatch) for deltas in (whole, *rest)]
    assert kept[1:] == kept[:1] * 3
    assert KEY.encode() not in recorded


def facts(wire: Wire, deltas: Sequence[ModelDelta], monkeypatch: pytest.MonkeyPatch) -> tuple[str, Sequence[FactBody]]:
    """Return the text that people see as it grows, and what is kept in the end, its calls numbered from 1."""
    numbers = count(1)
    monkeypatch.setattr("agent_core.runtime.drive.new_id", lambda kind: f"{kind}_{next(numbers)}")
    request = wire.request(wire.provider("http://127.0.0.1:1"))
    move = Ask(n=1, attempt=1, message="msg_1", takes=(), controls=request.controls, snapshot=request.snapshot.hash)
    answer = Answer(move, 1)
    shown = "".join(event.text for event in answer.take(deltas))
    return shown, answer.facts(RunState("run_1"), _agent(request.snapshot), interrupted=False)


def _agent(snapshot: Snapshot) -> Agent:
    tools = {tool.name: tool for tool in snapshot.tools}
    definition = Definition(name="a", instructions=snapshot.instructions)
    return Agent(id="agent_1", version=1, definition=definition, snapshot=snapshot, tools=tools)


FOUND = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"stdout": "1\n"}}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"what": "a"}, "caller": {"type": "direct"}}
FALLBACK = {"type": "fallback", "from": {"model": "claude-opus-4-7"}, "to": {"model": "claude-sonnet-4-5"}}
SAID = (("text", "Hi."),)


def first(*content: w.Json, **fields: Any) -> w.Json:
    """Return a first event that brings blocks with it."""
    begins = w.messages_start()
    return {**begins, "message": {**begins["message"], "content": content, **fields}}


SEEN = {
    "blocks in the first event": (
        w.sse(first(FOUND, CALLED, stop_reason="tool_use"), {"type": "message_stop"}),
        ((("call", "look", {"what": "a"}),), "tools", [FOUND, CALLED]),
    ),
    "two first events": (
        w.sse(w.messages_start(), w.messages_start(), *w.text_block(0, "H", "i."), *w.messages_end("end_turn")),
        (SAID, "done", []),
    ),
    "another model's answer": (
        w.messages(*w.block(0, FALLBACK), *w.text_block(1, "Hi.")),
        (SAID, "done", [FALLBACK, {"type": "text", "text": "Hi."}]),
    ),
    "a block that begins out of order and never ends": (
        w.sse(w.messages_start(), *w.text_block(1, "Hi.")[:-1], {"type": "message_stop"}),
        (SAID, "done", []),
    ),
}


@for_each("case", SEEN)
async def test_streams_as_they_were_seen_are_understood_in_pieces_of_any_size(case, dial):
    """Odd streams, written after recordings of the real API, give the same answer in pieces of 1, 7 and 4,096 bytes."""
    stream, wanted = SEEN[case]
    line = await dial(MESSAGES, [[size, raw(stream)] for size in (split(1), split(7), split(4096))])
    for _ in range(3):
        found = await line.receive()
        assert (found.parts, found.end, [msgspec.json.decode(item) for item in found.native]) == wanted


async def test_a_recorded_answer_is_kept_as_it_was_written(dial, wire):
    """What is native of an answer is JSON that stands in its stream."""
    line = await dial(wire, [[think("Hm."), say("Yes."), call("look", what="a")]])
    found = await line.receive()
    items = [msgspec.json.decode(item) for item in found.native]
    wanted = {
        "anthropic": ["thinking", "text", "tool_use"],
        "openai": ["reasoning", "message", "function_call"],
        "openai-compatible": ["assistant"],
    }
    assert [item.get("type") or item["role"] for item in items] == wanted[wire.name]

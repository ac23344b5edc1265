"""Cache marks at the other end of the wires: what is marked, what is read for it, and what switches it off."""

from itertools import pairwise
from typing import Any

import pytest

from agent_core.agent.snapshot import freeze
from agent_core.agents import AgentDefaults, Compaction, Controls, Limits
from agent_core.events import ContextCompacted, StepCompleted, StepFailed
from agent_core.providers.base import CacheMarks, find
from agent_core.providers.compatible import compatible
from agent_core.providers.openai import openai
from agent_core.testing import FakeClock, call, finish, say, think
from agent_core.testing.models import FakeModels, ModelCall, native
from tests.agent_core.providers.contract.telling import TOOLS, ask, extends, marks_of
from tests.agent_core.providers.contract.wires import CHAT, KEY, MESSAGES, RESPONSES, TOOL, unmarked
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)

RULES = "A rule that is worth keeping. " * 400
BILLED = pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
BREAKPOINT = {"mode": "explicit"}
STEPS = 12


def busy(asked: ModelCall) -> list[Any]:
    """Look things up in all steps but the last, in some of them two at once."""
    if asked.step == STEPS - 1:
        return [say("Done.")]
    n = asked.step
    return [think(f"Step {n}."), *([say("On.")] if n % 3 else []), *[call("look", what=f"{n}")] * (1 + n % 2)]


def written(step: StepCompleted) -> int:
    return (step.usage.cache_write_short or 0) + (step.usage.cache_write_long or 0)


@BILLED
async def test_each_step_reads_what_the_one_before_it_wrote(scene, wire):
    """Over twelve steps with tools, and with a restart in the middle, each request reads the whole one before it."""
    stage = await scene(wire, busy, tools=TOOLS, instructions=RULES, limits=Limits(None))
    await stage.play("One")
    await stage.core.stop()
    again = await scene(wire, line=stage.line, tools=TOOLS, session=stage.session)
    await again.play("Two")
    assert await again.said(StepFailed) == []
    steps = await again.said(StepCompleted)
    assert len(steps) == 2 * STEPS
    assert steps[0].usage.cache_read == 0 < written(steps[0])
    assert [after.usage.cache_read for after in steps[1:]] == [
        (before.usage.cache_read or 0) + written(before) for before in steps[:-1]
    ]
    assert max(step.usage.input or 0 for step in steps) <= 4
    assert [
        (before, after) for before, after in pairwise(stage.line.models.asked) if not extends(before, after, wire.sent)
    ] == []


async def test_the_marks_of_anthropic(scene):
    """What sessions share is marked; then where the last request ended, and the newest block."""
    stage = await scene(MESSAGES, busy, tools=TOOLS)
    await stage.play("One")
    first, second, third = (marks_of(asked) for asked in stage.line.models.asked[:3])
    assert first == [("system.0", "5m"), ("messages.0.content.0", "5m")]
    assert second == [*first, ("messages.2.content.0", "5m")]
    assert third == [first[0], second[-1], ("messages.4.content.1", "5m")]


async def test_a_paused_answer_takes_no_mark(scene):
    """An answer that goes on is sent back without a mark; the message before it keeps its own."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    script = [[think("Hm."), native(search), finish("continue")], [native(found), say("Found.")], [say("Again.")]]
    stage = await scene(MESSAGES, script)
    await stage.play("One")
    await stage.play("Two")
    assert await stage.said(StepFailed) == []
    marks = [marks_of(asked)[1:] for asked in stage.line.models.asked]
    begun = [("messages.0.content.0", "5m")]
    assert marks == [begun, begun, [*begun, ("messages.3.content.0", "5m")]]


async def test_the_first_request_after_a_compaction_marks_its_summary(dial):
    """What a compaction left at the window's start is marked with the newest block."""
    line = await dial(MESSAGES, lambda _: [say("Yes.")])
    snapshot = freeze(model=MESSAGES.full, instructions=RULES, tools=())
    await ask(line.provider, MESSAGES.model, snapshot, cache=CacheMarks(key="k", previous=1))
    places = ["system.0", "messages.0.content.0", "messages.2.content.0"]
    assert marks_of(line.models.asked[0]) == [(place, "5m") for place in places]


@for_each(
    "texts, tools, expected",
    [
        ({"instructions": "Rules."}, (TOOL,), [("system.0", "5m")]),
        ({"instructions": " "}, (TOOL,), [("tools.0", "5m")]),
        ({"instructions": " "}, (), []),
        ({"instructions": "Rules.", "profile": "Ann."}, (TOOL,), [("system.0", "5m"), ("system.1", "5m")]),
        ({"instructions": "", "profile": "Ann."}, (TOOL,), [("tools.0", "5m"), ("system.0", "5m")]),
    ],
)
async def test_where_the_shared_part_ends(dial, texts, tools, expected):
    """The shared text is marked, or the tools without one; a session's own text has a mark of its own."""
    line = await dial(MESSAGES, lambda _: [say("Yes.")])
    snapshot = freeze(model=MESSAGES.full, tools=tools, **texts)
    await ask(line.provider, MESSAGES.model, snapshot, cache=CacheMarks(key="k", previous=1))
    tail = [("messages.0.content.0", "5m"), ("messages.2.content.0", "5m")]
    assert marks_of(line.models.asked[0]) == [*expected, *tail]


@pytest.mark.parametrize(("model", "marked"), [("gpt-6.1-sol", True), ("gpt-5.6-luna", True), ("gpt-5.5", False)])
async def test_openai_has_a_key_for_all_and_breakpoints_for_newer_models(dial, model, marked):
    """The system's texts end in breakpoints where the model has them; without, sessions are spread over keys."""
    line = await dial(RESPONSES, lambda _: [say("Yes.")])
    snapshot = freeze(model=f"openai:{model}", instructions="Rules.", tools=(), profile="Ann.")
    await ask(line.provider, model, snapshot, cache=CacheMarks(key="agent"))
    body = line.models.asked[0].body
    parts = [part for item in body["input"] for part in item["content"]]
    found = [part.get("prompt_cache_breakpoint") for part in parts]
    assert found == ([BREAKPOINT] * 2 if marked else [None] * 2) + [None] * 3
    key = body["prompt_cache_key"]
    assert key == "agent" if marked else key.startswith("agent-")


async def test_servers_that_are_not_openai_get_none_of_it():
    """A foreign server gets no field of the cache on either wire, and nothing is known of its prices or its cache."""
    snapshot = freeze(model="openai:gpt-6.1-sol", instructions="Rules.", tools=())
    async with FakeModels(lambda _: [say("Yes.")]) as models:
        url = f"{models.url}/v1"
        made = [
            openai(api_key=KEY, base_url=url),
            compatible(api_key=KEY, base_url=url),
        ]
        for provider in made:
            await ask(provider, "gpt-6.1-sol", snapshot, cache=CacheMarks(key="agent", previous=1))
            assert provider.able("gpt-6.1-sol").caching is None
            await provider.close()
    assert len(models.asked) == len(made)
    assert [asked for asked in models.asked if b"cache" in asked.raw] == []
    assert made[1].able("gpt-6.1-sol").listed_as == "openai-compatible:gpt-6.1-sol"


@for_each("model, marked", [("gpt-6.1-sol", True), ("gpt-5.5", False)])
async def test_openais_chat_endpoint_has_the_same_prices_and_cache_as_its_responses(model, marked):
    """It gets the key and, for newer models, breakpoints after the system's texts; its bills and misses are known."""
    snapshot = freeze(model=f"openai:{model}", instructions="Rules.", tools=(), profile="Ann.")
    async with FakeModels(lambda _: [say("Yes.")]) as models:
        chat = compatible(api_key=KEY, base_url=f"{models.url}/v1", official=True)
        for cache in (CacheMarks(key="agent", previous=1), None):
            await ask(chat, model, snapshot, cache=cache)
        await chat.close()
    body, plain = (asked.body for asked in models.asked)
    texts = [{"type": "text", "text": text, "prompt_cache_breakpoint": BREAKPOINT} for text in ("Rules.", "Ann.")]
    assert body["messages"][0] == {"role": "system", "content": texts if marked else "Rules.\n\nAnn."}
    assert body["prompt_cache_key"].startswith("agent")
    assert plain.get("prompt_cache_options") == ({"mode": "explicit"} if marked else None)
    assert "breakpoint" not in str(plain)
    assert chat.able(model).caching == openai(api_key=KEY).able(model).caching is not None
    assert find(chat.able(model).listed_as).price is not None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "controls"),
    [
        ({"defaults": AgentDefaults(prompt_caching=False)}, {}),
        ({"prompt_caching": False}, {}),
        ({"controls": Controls(prompt_caching=False)}, {}),
        ({"prompt_caching": True}, {"prompt_caching": False}),
    ],
    ids=["environment", "agent", "agent's controls", "run"],
)
async def test_caching_is_switched_off(scene, wire, options, controls):
    """Wherever it is switched off nothing is kept or read, and no byte is sent of it but what switches OpenAI's off."""
    stage = await scene(wire, lambda _: [say("Yes.")], tools=TOOLS, instructions=RULES, **options)
    for _ in range(2):
        await stage.play("One", **controls)
    assert await stage.said(StepFailed) == []
    off = b',"prompt_cache_options":{"mode":"explicit"}' if wire is RESPONSES else b""
    asked = [each.raw for each in stage.line.models.asked]
    assert [raw for raw in asked if not (off in raw and b"cache" not in raw.replace(off, b""))] == []
    if wire is not CHAT:  # such servers keep what they like, for nothing
        steps = await stage.said(StepCompleted)
        assert not any((step.usage.cache_read or 0) + written(step) for step in steps)


@BILLED
async def test_marks_change_nothing_else(dial, wire):
    """Without its marks and its key a request has the bytes of one that was sent without caching."""
    line = await dial(wire, lambda _: [say("Yes.")])
    snapshot = freeze(model=wire.full, instructions="Rules.", tools=(TOOL,), profile="Ann.")
    for cache in (None, CacheMarks(key="k", previous=2)):
        await ask(line.provider, wire.model, snapshot, cache=cache)
    fields = (b',"prompt_cache_key":"k"', b',"prompt_cache_options":{"mode":"explicit"}')
    plain, marked = (unmarked(asked.raw).replace(fields[0], b"").replace(fields[1], b"") for asked in line.models.asked)
    assert plain == marked
    assert line.models.asked[0].raw != line.models.asked[1].raw


@BILLED
async def test_a_summary_reads_what_the_last_request_left(scene, wire):
    """Where the older part ends nothing is in Anthropic's cache any more: the whole prompt is sent, and read."""
    clock = FakeClock()

    def script(asked: ModelCall) -> list[Any]:
        return [say("They talked." if b"Write a summary" in asked.raw else "Fine. " * 200)]

    own, ten = Compaction(model=wire.full), Limits(max_context_messages=10)
    server = {"clock": clock}
    stage = await scene(wire, script, clock=clock, instructions=RULES, server=server, limits=ten, compaction=own)
    for n in range(6):
        clock.advance(130)
        await stage.play(f"m{n} {'x' * 2_000}")
    (made,) = await stage.said(ContextCompacted)
    before = (await stage.said(StepCompleted))[4]
    assert made.usage is not None
    assert made.usage.cache_read == (before.usage.cache_read or 0) + written(before)
    assert (made.usage.input or 0) <= 4
    fork, after = stage.requests[-2:]
    assert fork[:-1] == stage.requests[-3] + fork[len(stage.requests[-3]) : -1], "it begins as the last request did"
    assert b"before the newest message that people wrote" in fork[-1]
    assert fork[-3] in after, "what stays was in it"

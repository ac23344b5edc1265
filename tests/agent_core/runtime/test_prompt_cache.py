"""The marks of a process: keys that all processes share, where the last request ended, and prices of the model."""

from msgspec.structs import replace

from agent_core import Agent, Controls, Definition, Snapshot, ToolSpec
from agent_core.context.history import PromptCall, PromptHistory
from agent_core.context.lifetimes import USUAL, CachePrices
from agent_core.context.snapshot import freeze
from agent_core.domain.messages import UNKNOWN_USAGE
from agent_core.providers.anthropic.provider import anthropic
from agent_core.providers.base import Request, named
from agent_core.providers.compatible.provider import compatible
from agent_core.providers.openai.provider import openai
from agent_core.runtime.window.prompt_cache import PromptCache, prices_of
from agent_core.testing import FakeClock, ScriptedProvider
from tests.cases import for_each

MODEL = "anthropic:claude-opus-5"
NEW = PromptHistory()
TOOLS = tuple(ToolSpec(name=name, description=name, parameters={"type": "object", "a": 1}) for name in "ab")


def agent(id="agent_1", **texts) -> Agent:
    snapshot: Snapshot = freeze(model=MODEL, **{"instructions": "Rules.", "tools": TOOLS, **texts})
    return Agent(id=id, version=1, definition=Definition(name="a", instructions="Rules."), snapshot=snapshot, tools={})


def history(entries=4, rewritten=None) -> PromptHistory:
    last = PromptCall(time=0, model=MODEL, snapshot="s", entries=entries, controls={}, usage=UNKNOWN_USAGE)
    return PromptHistory(last=last, rewritten=rewritten)


def marks(own=None, known=NEW):
    found = PromptCache(FakeClock()).marks(own or agent(), MODEL, known)
    assert found is not None
    return found


def test_a_key_names_the_agent_and_what_its_sessions_share():
    """Each process makes the same key; a session's own text is not in it, another agent or text has another one."""
    reordered = tuple(replace(each, parameters={"a": 1, "type": "object"}) for each in reversed(TOOLS))
    same = [agent(), agent(profile="Ann."), agent(tools=reordered)]
    others = [agent(id="agent_2"), agent(instructions="Others."), agent(tools=TOOLS[:1]), agent(memory="It rained.")]
    key = marks().key
    assert {marks(each).key for each in same} == {key}
    assert len({key, *(marks(each).key for each in others)}) == 5
    assert 0 < len(key) <= 64


@for_each(
    "known, previous",
    [
        (NEW, 0),
        (history(4), 4),
        (history(4, "compaction"), 1),
        (history(4, "snapshot"), 0),
    ],
)
def test_where_the_last_request_ended(known, previous):
    """It is what the session's history says, and the summary right after a compaction."""
    assert marks(known=known).previous == previous


def test_an_hour_for_the_session_is_an_hour_for_what_precedes_it():
    """A long mark never follows a short one, however busy the shared part is."""
    clock = FakeClock()
    cache, own = PromptCache(clock), agent()
    for _ in range(20):
        clock.advance(240)
        found = cache.marks(own, MODEL, NEW)
    assert found
    assert (found.shared, found.rest) == ("short", "short")
    found = cache.marks(own, MODEL, PromptHistory(medium=5))
    assert found
    assert (found.shared, found.rest) == ("long", "long")


def test_prices_are_those_of_the_model():
    """They come from the table, dated names too; the usual ones stand in where it has none."""
    assert prices_of("anthropic:claude-opus-5-5") == CachePrices(0.05, 1.25, 2.0)
    assert prices_of("anthropic:claude-opus-4-5-20251101") == USUAL == prices_of("anthropic:claude-of-a-later-year")


@for_each(
    "provider, model, rules, waits",
    [
        (anthropic(api_key="k"), "anthropic:claude-opus-5", 600, True),
        (anthropic(api_key="k"), "anthropic:claude-opus-5", 400, False),
        (anthropic(api_key="k"), "anthropic:claude-haiku-4-5", 600, False),
        (openai(api_key="k"), "openai:gpt-6.1-sol", 1100, True),
        (openai(api_key="k"), "openai:gpt-5.5", 1100, False),
        (openai(api_key="k", base_url="http://localhost:1/v1"), "openai:gpt-6.1-sol", 1100, False),
        (compatible(api_key="k", base_url=None), "openai-compatible:gpt-6.1-sol", 1100, True),
        (compatible(api_key="k", base_url="http://localhost:1/v1"), "openai-compatible:gpt-6.1-sol", 1100, False),
        (ScriptedProvider([], name="anthropic"), "anthropic:claude-opus-5", 1100, False),
    ],
)
async def test_which_requests_wait_for_a_leader(provider, model, rules, waits):
    """Those whose writes are billed, with a shared part that the model keeps; all others pass at once."""
    cache, own = PromptCache(FakeClock()), agent(instructions="rule" * rules)
    for caching, expected in ((True, waits), (False, False)):
        marked = cache.marks(own, model, NEW) if caching else None
        sent = Request(
            model=named(model), snapshot=own.snapshot, messages=(), controls=Controls(), session="s", cache=marked
        )
        async with cache.passing(own, model, provider, sent, NEW) as lead:
            assert (lead is not None) is expected


async def test_a_session_that_continues_does_not_wait():
    """What its history says was cached within the lifetime is taken to be, and after that it is not."""
    clock, provider, own = FakeClock(), anthropic(api_key="k"), agent(instructions="rule" * 600)
    for minutes, waits in ((59, False), (61, True)):
        cache, last = PromptCache(clock), history().last
        assert last
        known = PromptHistory(last=replace(last, time=clock.now() - minutes * 60_000, snapshot=own.snapshot.hash))
        marked = cache.marks(own, MODEL, known)
        sent = Request(
            model=named(MODEL), snapshot=own.snapshot, messages=(), controls=Controls(), session="s", cache=marked
        )
        async with cache.passing(own, MODEL, provider, sent, known) as lead:
            assert (lead is not None) is waits

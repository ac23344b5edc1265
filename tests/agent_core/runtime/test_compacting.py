"""Named providers: what is known of a model, its vendor knows, under whatever name an operator gave the provider."""

from agent_core.context.history import LONG_LIFE
from agent_core.context.snapshot import freeze
from agent_core.domain.agents import Agent, Definition
from agent_core.domain.caching import PromptCall
from agent_core.domain.controls import Abilities
from agent_core.domain.messages import Usage
from agent_core.providers.models import cost
from agent_core.runtime.window.pricing import CACHE_LIFE, bounds_of, life_of
from agent_core.runtime.window.summary_calls import SummarySpending

OURS, THEIRS = "azure:gpt-6.1-sol", "openai:gpt-6.1-sol"
USED = Usage(1_000, 100, 0, 0, 0, 0)


def agent_of(model: str, listed: str) -> Agent:
    return Agent(
        id="agt_1",
        version=1,
        definition=Definition(name="a", instructions=""),
        snapshot=freeze(model=model, instructions="", tools=()),
        tools={},
        able=lambda _: Abilities(listed_as=listed),
    )


def call_of(model: str, *, short: int = 0, long: int = 0) -> PromptCall:
    usage = Usage(1_000, 100, 0, 0, short, long)
    return PromptCall(time=0, model=model, snapshot="", entries=0, controls={}, usage=usage)


def test_a_named_provider_has_its_vendors_context_and_cache():
    """The model table is asked for the listed name, never for the name that only this installation has."""
    named, plain = agent_of(OURS, THEIRS), agent_of(THEIRS, THEIRS)
    assert bounds_of(OURS, named) == bounds_of(THEIRS, plain)
    assert bounds_of(OURS, named).limit
    assert bounds_of(OURS, named).rates
    assert life_of(named, call_of(OURS)) == CACHE_LIFE["openai"]
    assert life_of(agent_of(OURS, "openai-compatible:gpt-6.1-sol"), call_of(OURS)) is None


def test_a_summary_of_a_named_provider_has_its_vendors_price():
    """It is billed under the name that the agent has for the model."""
    spent = SummarySpending()
    spent.add(OURS, THEIRS, USED)
    failed = spent.failed("empty", "")
    assert (failed.model, failed.cost) == (OURS, cost(THEIRS, USED))
    assert failed.cost


def test_an_hour_is_seen_in_what_the_last_call_wrote():
    """A prompt of which a part is kept for five minutes is written again after these."""
    model = "anthropic:claude-sonnet-5-5"
    agent = agent_of(model, model)
    lives = [life_of(agent, call_of(model, short=short, long=long)) for short, long in ((0, 0), (1, 0), (1, 1), (0, 1))]
    assert lives == [CACHE_LIFE["anthropic"]] * 3 + [LONG_LIFE]

"""How full a window is: what the last call was counted at, what is estimated, and what decides nothing."""

import pytest
from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.entries import tokens_of_prefix
from agent_core.agent.snapshot import freeze
from agent_core.agent.state import PolicyKind
from agent_core.agent.window import Window
from agent_core.agents import Agent, Compaction, Definition
from agent_core.clock import SystemClock
from agent_core.controls import Abilities
from agent_core.messages import Text, Usage
from agent_core.providers.base import neutral
from agent_core.runtime.compacting import ENOUGH, Compactor, PromptCache, limit_of
from agent_core.testing import ScriptedProvider
from tests.agent_core.history import history, opened, said, started

MODEL, SMALL, UNLISTED = "anthropic:claude-opus-5", "anthropic:claude-haiku-4-5", "openai-compatible:mine"


async def no_file(_name: str) -> None:
    return None


COMPACTOR = Compactor(lambda _: ScriptedProvider(()), SystemClock(), no_file, PromptCache())


def agent_of(model: str = MODEL, kind: PolicyKind = "summary", listed: str = "") -> Agent:
    return Agent(
        id="agt_1",
        version=1,
        definition=Definition(name="a", instructions="", compaction=Compaction(kind=kind)),
        snapshot=freeze(model=model, instructions="Be brief. " * 100, tools=()),
        tools={},
        able=lambda _: Abilities(listed_as=listed or model),
    )


def window_of(agent: Agent, tokens: int, *more: e.FactBody) -> Window:
    """Return the window after two questions, the last of which was counted as *tokens*, and *more*."""
    snapshot, controls = agent.snapshot.hash, {"model": agent.snapshot.model}
    facts: list[e.FactBody] = [*opened("Question " * 50)]
    for n, text in enumerate(("one", "two"), 1):
        facts += [
            replace(started(n, takes=(1,), controls=controls), snapshot=snapshot),
            said(n, Text(f"Answer {text} " * 100)),
            e.StepCompleted(n=n, usage=Usage(tokens - 100, 20, None, 100, 0, 0), cost=None),
        ]
    window = Window(neutral, prefix=snapshot)
    window.apply(history(*facts, *more))
    return window


def test_only_what_came_since_is_estimated():
    """The tokens of the last prompt are known; of another model, or after a compaction, all is estimated."""
    agent = agent_of()
    window = window_of(agent, 5_000)
    since = window.entries[-1].tokens
    assert COMPACTOR.filling(window, agent, MODEL, taken=50).tokens == 5_000 + since + 50
    every = tokens_of_prefix(agent.snapshot) + sum(entry.tokens for entry in window.entries)
    assert COMPACTOR.filling(window, agent, SMALL).tokens == every
    pruned = e.ContextCompacted(kind="prune", from_seq=1, tokens_before=1, tokens_after=1)
    assert COMPACTOR.filling(window_of(agent, 5_000, pruned), agent, MODEL).tokens == every


def test_a_model_bounds_its_prompts():
    """Its context less the room of the answer, by its vendor's name for it; of an unlisted one none is known."""
    small = limit_of(agent_of(SMALL), SMALL)
    assert small is not None
    assert 0 < small < 200_000
    assert limit_of(agent_of("azure:mine", listed=SMALL), "azure:mine") == small
    assert limit_of(agent_of(UNLISTED), UNLISTED) is None


def test_a_window_is_looked_at_when_it_is_too_full():
    """Beyond so many tokens beside the prefix; each of its parts then counts as the last call measured it."""
    agent = agent_of()
    calm = COMPACTOR.filling(window_of(agent, ENOUGH - 1_000), agent, MODEL)
    assert (calm.threshold, calm.steps) == (None, ())
    full = COMPACTOR.filling(window_of(agent, 2 * ENOUGH), agent, MODEL)
    assert full.threshold is not None
    assert full.threshold < full.tokens
    window = window_of(agent, 2 * ENOUGH)
    estimated = sum(entry.tokens for entry in window.entries)
    overflowed = COMPACTOR.filling(window, agent, MODEL, overflowed=True)
    assert overflowed.tokens >= 2 * ENOUGH
    assert overflowed.prefix / overflowed.tokens == pytest.approx(
        tokens_of_prefix(agent.snapshot) / (estimated + tokens_of_prefix(agent.snapshot)), rel=0.01
    )


@pytest.mark.parametrize(("kind", "model"), [("off", SMALL), ("cut", MODEL), ("summary", UNLISTED)])
def test_what_decides_nothing_is_not_looked_at(kind, model):
    """Without compaction, for a cut below the model's limit, and where no limit is known nothing is too full."""
    agent = agent_of(model, kind)
    assert COMPACTOR.filling(window_of(agent, 2 * ENOUGH), agent, model).threshold is None


def test_a_count_that_cannot_be_true_hides_no_overflow():
    """A prompt that did not fit has at least the tokens of the estimate, whatever the server counted."""
    agent = agent_of(UNLISTED)
    window = window_of(agent, 200)
    fill = COMPACTOR.filling(window, agent, UNLISTED, overflowed=True)
    assert fill.tokens == tokens_of_prefix(agent.snapshot) + sum(entry.tokens for entry in window.entries)

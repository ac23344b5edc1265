"""Cache notes: what a change between two calls loses of the prompt cache, said before the call."""

from typing import Any

from msgspec.structs import replace

from agent_core import events as e
from agent_core.agent.state import RunState
from agent_core.agent.strategy import Ask, announce, react
from agent_core.agent.window import PromptHistory
from agent_core.controls import Abilities, Caching, Controls, NamedTool, recorded
from tests.agent_core.history import RUN, history, make_agent, opened, spec
from tests.cases import for_each

CLAUDE = Caching(vendor="anthropic", least=512, short_s=300, long_s=3_600)
GPT = Caching(vendor="openai", least=1_024, short_s=1_800, long_s=43_200)
ABLE = {
    "claude": Abilities(withholds=False, narrows=False, caching=CLAUDE),
    "older claude": Abilities(caching=replace(CLAUDE, budgets={"low": 2_048}, room=64_000)),
    "haiku": Abilities(withholds=False, narrows=False, caching=CLAUDE),
    "gpt": Abilities(caching=GPT),
    "older": Abilities(caching=replace(GPT, exact=False)),
}
LOOK = spec()


def noted(
    model: str = "claude",
    before: dict[str, Any] | None = None,
    *,
    frozen: str | None = None,
    recording: bool = True,
    **now: Any,
) -> str | None:
    """Return the note of a run's first step with the controls *now*, after a call with those of *before*.

    Not *recording*: the log names no controls of the call before.
    """
    agent = make_agent(LOOK, overrides=Controls(**now))
    agent = replace(agent, snapshot=replace(agent.snapshot, model=model), able=lambda name: ABLE.get(name, Abilities()))
    last = None
    if before is not None:
        earlier = replace(agent, overrides=Controls(**before))
        earlier = replace(earlier, snapshot=replace(earlier.snapshot, model=before.get("model", model)))
        move = react(RunState(RUN).apply(*history(*opened())), earlier)
        assert isinstance(move, Ask)
        controls = recorded(move.controls) if recording else None
        step = e.StepStarted(n=1, attempt=1, message="m", takes=(), snapshot=frozen or move.snapshot, controls=controls)
        last = PromptHistory().after(history(step)[0], 1).newest_call
    state = RunState(RUN).apply(*history(*opened())).with_window(size=1, border=0, last=last)
    (started,) = (fact for fact in announce(react(state, agent), state, agent) if isinstance(fact, e.StepStarted))
    return started.cache_note


def test_nothing_is_said_where_nothing_changed():
    """The first call of a session, and one like the call before it, have no note; caps of a run are in no prompt."""
    assert noted() is None
    assert noted(before={}) is None
    assert noted(before={}, max_steps=4, max_output_tokens=99, temperature=0.5) is None


def test_a_call_without_recorded_controls_is_compared_by_its_prompt_alone():
    """Of a history that names no model nothing is said to have changed but the frozen prompt."""
    assert noted(before={}, recording=False, effort="high") is None
    said = "the frozen prompt changed: tools, system text and messages are written again from the first difference on."
    assert noted(before={}, recording=False, frozen="other") == said


LOW = "`effort` changed from low to high:"


@for_each(
    "model, said",
    [
        ("claude", f"{LOW} the messages are written again, tools and system are read."),
        ("gpt", f"{LOW} nothing of the prompt is read from the cache, all of it is written again."),
        ("older", f"{LOW} nothing of the prompt is read from the cache, all of it is processed again."),
        ("local", None),
    ],
)
def test_effort_costs_what_its_vendor_says(model: str, said: str | None):
    """Anthropic loses the messages, OpenAI all; a model without a cache that is billed loses nothing."""
    assert noted(model, before={"effort": "low"}, effort="high") == said


def test_tool_choice_costs_only_where_it_is_sent_and_cached_under():
    """To Anthropic a forced choice costs the messages, one that a note asks for does not; to OpenAI none does."""
    forced = NamedTool("look")
    said = "`tool_choice` changed from auto to look: the messages are written again, tools and system are read."
    assert noted(before={}, tool_choice=forced) == said
    assert noted(before={}, tool_choice="none") is None
    assert noted("gpt", before={}, tool_choice=forced) is None


def test_room_costs_only_where_a_budget_of_thinking_follows_it():
    """A cap of the answer that leaves another budget of thinking costs the messages."""
    said = "`max_output_tokens` changed from unset to 3000: the messages are written again, tools and system are read."
    assert noted("older claude", before={"effort": "low"}, effort="low", max_output_tokens=3_000) == said
    assert noted("older claude", before={"effort": "low"}, effort="low", max_output_tokens=30_000) is None
    assert noted("older claude", before={}, max_output_tokens=3_000) is None


def test_model_costs_everything_and_says_both_names():
    """Each model has a cache of its own; the worst of several changes says what is lost."""
    lost = "nothing of the prompt is read from the cache, all of it is written again."
    assert noted(before={"model": "haiku"}) == f"`model` changed from haiku to claude: {lost}"
    both = noted(before={"model": "haiku", "effort": "low"}, effort="high")
    assert both == f"`model` changed from haiku to claude and `effort` changed from low to high: {lost}"


def test_new_snapshot_is_noted():
    """A changed tool list or system text is written again from where it differs."""
    said = "the frozen prompt changed: tools, system text and messages are written again from the first difference on."
    assert noted(before={}, frozen="another") == said


def test_nothing_is_said_where_nothing_is_marked():
    """With the cache switched off there is nothing to lose."""
    assert noted(before={"effort": "low"}, effort="high", prompt_caching=False) is None

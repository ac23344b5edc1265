"""Controls by themselves: the merge of all levels, what a step may call, what the note says, what is left."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_core.agent.snapshot import freeze
from agent_core.agents import Agent, Definition, ToolSpec, controls
from agent_core.controls import (
    ABLE,
    NOTHING,
    UNABLE,
    Budget,
    Controls,
    Defaults,
    HasToolCall,
    NamedTool,
    Override,
    Spent,
    StepRule,
    ToolKind,
    is_spent,
    merged,
    news,
    permitted,
    read,
    recorded,
    refusal,
    resolve,
    sent,
)
from agent_core.messages import Usage
from tests.cases import for_each

KINDS: Mapping[str, ToolKind] = {"answer": "none", "look": "function", "pick": "client"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

NAMES = st.sampled_from(sorted(KINDS))
CHOICES = st.none() | st.sampled_from(["auto", "none", "required"]) | st.builds(NamedTool, NAMES)
ACTIVE = st.none() | st.lists(NAMES, unique=True).map(tuple)
OVERRIDES = st.builds(Override, tool_choice=CHOICES, active_tools=ACTIVE)
RULES = st.lists(
    st.builds(StepRule, step=st.integers(1, 4), tool_choice=CHOICES, active_tools=ACTIVE),
    unique_by=lambda rule: rule.step,
).map(tuple)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "tool_choice": CHOICES,
    "active_tools": ACTIVE,
    "max_steps": st.none() | st.integers(1, 4),
    "max_output_tokens": st.none() | st.integers(1, 9),
    "effort": st.none() | st.sampled_from(["low", "high"]),
    "temperature": st.none() | st.sampled_from([0.0, 1.0]),
    "step_rules": st.none() | RULES,
    "stop_conditions": st.none() | st.just((HasToolCall(type="has_tool_call", tool="look"),)) | st.just(()),
    "output_schema": st.none() | st.just(SCHEMA) | st.just({}),
    "budget": st.none() | st.builds(Budget, tokens=st.integers(1, 9)),
}
DEFAULTS = st.builds(Defaults, **FIELDS)
ALL = st.builds(
    Controls, model=st.none() | st.just("scripted:m"), tool_context=st.none() | st.just({"token": "t"}), **FIELDS
)
PLAIN = ("max_output_tokens", "effort", "temperature", "stop_conditions", "output_schema", "budget")


def agent(own: Controls = NOTHING, run: Controls = NOTHING, kinds: Mapping[str, ToolKind] = KINDS) -> Agent:
    tools = {name: ToolSpec(name=name, description=".", parameters={}, kind=kind) for name, kind in kinds.items()}
    snapshot = freeze(model="scripted:m", instructions="", tools=tools.values())
    definition = Definition(name="a", instructions="", controls=own)
    return Agent(id="agent_1", version=1, definition=definition, snapshot=snapshot, tools=tools, overrides=run)


@given(n=st.integers(1, 4), override=st.none() | OVERRIDES, defaults=st.none() | DEFAULTS, run=ALL, own=ALL)
def test_first_level_that_sets_a_control_decides(n, override, defaults, run, own):
    """Next-step override over step rule over resume over run over agent; a rule replaces a lower one for its step."""
    found = controls(n, agent(own, run), override=override, defaults=defaults)
    below = [level for level in (defaults, run, own) if level is not None]
    for name in PLAIN:
        assert getattr(found, name) == first(below, name)
    assert found.max_steps == (first(below, "max_steps") or 25)
    rules = [rule for level in below for rule in level.step_rules or () if rule.step == n]
    levels = [level for level in (override, *rules[:1], *below) if level is not None]
    wanted, active = first(levels, "tool_choice") or "auto", first(levels, "active_tools")
    may = [name for name in KINDS if active is None or name in active]
    if n < found.max_steps:
        expected = "none" if not may else wanted
        if isinstance(wanted, NamedTool) and may and wanted.tool not in may:
            expected = "auto"
        assert found.tool_choice == expected
        assert set(permitted(found, KINDS)) == calls(expected, may)
    else:
        assert {KINDS[name] for name in permitted(found, KINDS)} <= {"none"}, "the last step ends the run"


def first(levels: list[Any], name: str) -> Any:
    return next((value for level in levels if (value := getattr(level, name, None)) is not None), None)


def calls(choice: Any, may: list[str]) -> set[str]:
    return set() if choice == "none" else {choice.tool} if isinstance(choice, NamedTool) else set(may)


@given(given=ALL, override=st.none() | OVERRIDES, n=st.integers(1, 4))
def test_a_step_is_recorded_as_it_is_read(given, override, n):
    """What the log has of a step is all of it, without the tools' context, and reads back as the same."""
    chosen = resolve(n, given, override, KINDS)
    assert read(recorded(chosen)) == chosen
    assert recorded(given).keys() & {"tool_context"} == set()
    assert msgspec.json.decode(msgspec.json.encode(recorded(chosen))) == recorded(chosen)


@given(given=ALL, override=st.none() | OVERRIDES, n=st.integers(1, 4), able=st.sampled_from([ABLE, UNABLE]))
def test_controls_go_to_the_api_or_into_the_note(given, override, n, able):
    """A restriction reaches the model by the API or by the note, never by neither and never by both."""
    chosen = resolve(n, given, override, KINDS)
    asked, note = sent(chosen, able), news(None, chosen, (able, able), KINDS)
    assert (note is not None) == (recorded(asked) != recorded(chosen))
    if able is ABLE and chosen.output_schema != {}:  # only objects are held to natively
        assert note is None
    assert news(chosen, chosen, (able, able), KINDS) is None


@given(levels=st.lists(ALL, max_size=4))
def test_a_merge_can_be_made_in_any_grouping(levels):
    """Levels merged two by two are the same as all at once, and one that says nothing changes nothing."""
    grouped = NOTHING
    for level in levels:
        grouped = merged(grouped, NOTHING, level)
    assert grouped == merged(*levels)


def test_the_last_step_keeps_the_answer_that_must_come():
    """A single step that has to call gives its answer by a tool without an executor; other tools are withheld."""
    for choice in ("required", NamedTool("answer")):
        found = controls(1, agent(run=Controls(max_steps=1, tool_choice=choice)))
        assert set(permitted(found, KINDS)) == {"answer"}
    assert controls(1, agent(run=Controls(max_steps=1, tool_choice=NamedTool("look")))).tool_choice == "none"
    assert controls(1, agent(run=Controls(max_steps=1))).tool_choice == "none"


@for_each(
    "given, refused",
    [
        (Controls(), {}),
        (Controls(tool_choice="none"), {"look": "No tool may be called now.", "pick": "No tool may be called now."}),
        (Controls(tool_choice=NamedTool("pick")), {"look": "You may call `pick`."}),
        (Controls(active_tools=("pick", "answer")), {"look": "You may call `pick`, `answer`."}),
    ],
)
def test_a_refusal_names_what_may_be_called(given, refused):
    """A call that a step may not make is refused with what it may, and others are not."""
    assert {name: said for name in ("look", "pick") if (said := refusal(given, name))} == {
        name: f"Not run: `{name}` may not be called in this step. {instead}" for name, instead in refused.items()
    }


def test_note_covers_changed_and_lifted_controls():
    """The model gets a note when a restriction begins, changes or is lifted; of no part twice."""
    free, some = Controls(tool_choice="auto"), Controls(tool_choice="auto", active_tools=("look",))
    formed = replace(some, output_schema=SCHEMA)
    both = (UNABLE, UNABLE)
    assert news(None, free, both, KINDS) is None
    assert "call `look` only" in (news(free, some, both, KINDS) or "")
    note = news(some, formed, both, KINDS) or ""
    assert "JSON Schema" in note
    assert "look" not in note
    assert news(formed, formed, both, KINDS) is None
    lifted = news(formed, free, both, KINDS) or ""
    assert "any of your tools again" in lifted
    assert "any form again" in lifted
    assert news(formed, formed, (ABLE, UNABLE), KINDS) is not None, "another model took over and needs the note"


UNKNOWN = Usage(None, None, None, None, None, None)


@for_each(
    "budget, calls, spent",
    [
        (Budget(tokens=100), [], False),
        (Budget(tokens=100), [(Usage(10, 20, None, None, None, None), None)], False),
        (Budget(tokens=100), [(Usage(10, 20, 15, 70, None, None), None)], True),
        (Budget(tokens=100), [(Usage(None, 20, None, None, None, None), "0.1")], False),
        (Budget(tokens=100), [(UNKNOWN, None), (Usage(90, 20, None, None, None, None), None)], True),
        (Budget(usd="0.50"), [(Usage(10, 20, None, None, None, None), "0.4999")], False),
        (Budget(usd="0.50"), [(Usage(10, 20, None, None, None, None), "0.25")] * 2, True),
        (Budget(usd="0.50"), [(Usage(10, 20, None, None, None, None), None)], False),
        (Budget(usd="0.50"), [(UNKNOWN, None), (Usage(10, 20, None, None, None, None), "0.5")], True),
        (Budget(usd="0.50", tokens=29), [(Usage(10, 20, None, None, None, None), "0.1")], True),
    ],
)
def test_what_is_known_spends_a_budget(budget, calls, spent):
    """Tokens in and out count, cached ones too; what is not known counts as nothing, and hides nothing known."""
    total = Spent()
    for usage, cost in calls:
        total = total.plus(usage, cost)
    assert is_spent(budget, total) == spent
    assert total.has_unknown == any(cost is None for _, cost in calls)

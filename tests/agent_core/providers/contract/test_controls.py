"""Controls: every row, at every level that has it, in the log and in the request as the model's server got it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from agent_core.agents import Controls, DeclaredTool
from agent_core.controls import Defaults, Override
from agent_core.events import RunCompleted, StepStarted
from agent_core.runtime.segments import Changes, ToolOutput
from agent_core.testing import call, say
from agent_core.tools.base import CallContext
from agent_core.tools.functions import tool
from tests.agent_core.laws import check_log
from tests.agent_core.providers.contract.telling import extends
from tests.agent_core.providers.contract.wires import CHAT, MESSAGES, RESPONSES, WIRES, Wire
from tests.agent_core.stage import Stage

pytestmark = pytest.mark.sampled(3)

ANTHROPIC, OPENAI, COMPATIBLE = MESSAGES.name, RESPONSES.name, CHAT.name
EVERYWHERE = ("agent", "run", "rule", "defaults", "next")
OF_RUNS = ("agent", "run", "defaults")
RESUMED = ("defaults", "next")
SECRET = "tok-3141592653589793"
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
PICK = DeclaredTool(
    name="pick", kind="client", description="Let the person pick.", parameters={"type": "object", "properties": {}}
)
ANSWER = DeclaredTool(
    name="answer",
    kind="none",
    description="Give the answer.",
    parameters={"type": "object", "properties": {"ok": {"type": "boolean"}}},
)


@dataclass(frozen=True)
class ControlsRow:
    """One row of the controls: what is *given*, and what of it is *logged* of the step and *sent* on each wire.

    *notes* has the text added to the newest message, by wire; *step* is the one in which it shows.
    """

    given: Mapping[str, Any]
    levels: tuple[str, ...]
    logged: Mapping[str, Any]
    sent: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def named(*names: str) -> list[dict[str, str]]:
    return [{"type": "function", "name": name} for name in names]


ROWS = {
    "max_output_tokens": ControlsRow(
        {"max_output_tokens": 4000},
        OF_RUNS,
        {"max_output_tokens": 4000},
        {
            ANTHROPIC: {"max_tokens": 4000},
            OPENAI: {"max_output_tokens": 4000},
            COMPATIBLE: {"max_tokens": 4000},
        },
    ),
    "effort": ControlsRow(
        {"effort": "low"},
        OF_RUNS,
        {"effort": "low"},
        {
            ANTHROPIC: {"output_config": {"effort": "low"}},
            OPENAI: {"reasoning": {"effort": "low", "summary": "auto"}},
            COMPATIBLE: {"reasoning_effort": "low"},
        },
    ),
    "temperature": ControlsRow(
        {"temperature": 0.5},
        OF_RUNS,
        {"temperature": 0.5},
        {ANTHROPIC: {"temperature": None}, OPENAI: {"temperature": None}, COMPATIBLE: {"temperature": 0.5}},
    ),
    "tool_choice none": ControlsRow(
        {"tool_choice": "none"},
        EVERYWHERE,
        {"tool_choice": "none"},
        {
            ANTHROPIC: {"tool_choice": None},
            OPENAI: {"tool_choice": "none"},
            COMPATIBLE: {"tool_choice": "none"},
        },
        {ANTHROPIC: "Call no tools any more"},
    ),
    "tool_choice required": ControlsRow(
        {"tool_choice": "required"},
        EVERYWHERE,
        {"tool_choice": "required"},
        {
            ANTHROPIC: {"tool_choice": None},
            OPENAI: {"tool_choice": "required"},
            COMPATIBLE: {"tool_choice": "required"},
        },
        {ANTHROPIC: "must be a call of `answer`, `look`, `pick`"},
    ),
    "tool_choice of one tool": ControlsRow(
        {"tool_choice": {"tool": "pick"}},
        EVERYWHERE,
        {"tool_choice": {"tool": "pick"}},
        {
            ANTHROPIC: {"tool_choice": None},
            OPENAI: {"tool_choice": {"type": "function", "name": "pick"}},
            COMPATIBLE: {"tool_choice": {"type": "function", "function": {"name": "pick"}}},
        },
        {ANTHROPIC: "must be a call of `pick`"},
    ),
    "active_tools": ControlsRow(
        {"active_tools": ["pick", "look"]},
        EVERYWHERE,
        {"tool_choice": "auto", "active_tools": ["look", "pick"]},
        {
            ANTHROPIC: {"tool_choice": None},
            OPENAI: {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": named("look", "pick")}},
            COMPATIBLE: {"tool_choice": None},
        },
        {ANTHROPIC: "call `look`, `pick` only", COMPATIBLE: "call `look`, `pick` only"},
    ),
    "active_tools, one required": ControlsRow(
        {"active_tools": ["look", "pick"], "tool_choice": "required"},
        EVERYWHERE,
        {"tool_choice": "required", "active_tools": ["look", "pick"]},
        {
            ANTHROPIC: {"tool_choice": None},
            OPENAI: {"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": named("look", "pick")}},
            COMPATIBLE: {"tool_choice": "required"},
        },
        {ANTHROPIC: "must be a call of `look`, `pick`", COMPATIBLE: "call `look`, `pick` only"},
    ),
    "step_rules": ControlsRow(
        {"step_rules": [{"step": 1, "tool_choice": "none"}, {"step": 2, "tool_choice": "none"}]},
        OF_RUNS,
        {"tool_choice": "none", "step_rules": None},
        {ANTHROPIC: {"tool_choice": None}, OPENAI: {"tool_choice": "none"}, COMPATIBLE: {"tool_choice": "none"}},
        {ANTHROPIC: "Call no tools any more"},
    ),
    "stop_conditions": ControlsRow(
        {"stop_conditions": [{"type": "has_tool_call", "tool": "look"}]},
        OF_RUNS,
        {"stop_conditions": [{"type": "has_tool_call", "tool": "look"}]},
    ),
    "output_schema": ControlsRow(
        {"output_schema": SCHEMA},
        OF_RUNS,
        {"output_schema": SCHEMA},
        {
            ANTHROPIC: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            OPENAI: {"text": {"format": FORM}},
            COMPATIBLE: {"response_format": None},
        },
        {COMPATIBLE: "one JSON value that fits this JSON Schema"},
    ),
    "budget": ControlsRow({"budget": {"tokens": 100_000}}, OF_RUNS, {"budget": {"tokens": 100_000}}),
    "tool_context": ControlsRow({"tool_context": {"token": SECRET}}, OF_RUNS, {"tool_context": None}),
}


def cases() -> list[Any]:
    """Return each row at each level on each wire; outside of whole runs each row at each level on one of them."""
    found = []
    for n, (name, row) in enumerate(ROWS.items()):
        for level in row.levels:
            for at, wire in enumerate(WIRES):
                marks = () if (n + EVERYWHERE.index(level)) % len(WIRES) == at else pytest.mark.whole
                found.append(pytest.param(name, level, wire, marks=marks, id=f"{name} of the {level}-{wire.name}"))
    return found


class ResumedModel:
    """Lets the person pick first where a resume is to come, and then does what it is made to."""

    def __init__(self, level: str) -> None:
        self.resumed, self.calls = level in RESUMED, 0

    def __call__(self, asked: Any) -> list[Any]:
        self.calls += 1
        if self.resumed and self.calls == 1:
            return [call("pick")]
        choice, text = msgspec.json.encode(asked.body.get("tool_choice")), asked.raw
        if b'"pick"' in choice or b"must be a call of `pick`" in text:
            return [call("pick")]
        forced = b"required" in choice or b"must be a call" in text
        return [call("look")] if forced else [say('{"ok": true}')]


async def play(scene: Any, wire: Wire, level: str, given: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Have a run with *given* at *level*; return the stage, and what the tools were handed."""
    seen: list[str] = []

    @tool
    async def look(context: CallContext) -> str:
        """Look."""
        seen.append(str(context.tool_context.get("token")))
        return "Fine."

    own = msgspec.convert(given, Controls) if level == "agent" else Controls()
    stage = await scene(wire, ResumedModel(level), tools=[look], controls=own, declared=(PICK, ANSWER))
    run = {"run": given, "rule": {"step_rules": [{"step": 1, **given}]}}.get(level, {})
    options = msgspec.convert(run, Controls)
    done = await stage.play("Go", **msgspec.structs.asdict(options))
    if level in RESUMED:
        (waits,) = done.pending
        context = {name: given[name] for name in ("tool_context",) if name in given}
        rest = {name: given[name] for name in given if name not in context}
        change = Changes(
            defaults=msgspec.convert(rest, Defaults) if level == "defaults" else None,
            next=msgspec.convert(rest, Override) if level == "next" else None,
            **context,
        )
        await stage.core.submit(done.id, [ToolOutput(call=waits.call, output="this")], change)
        await stage.done(done.id)
    return stage, seen


async def controls_of(stage: Stage, n: int) -> dict[str, Any]:
    """Return what step *n* might do, as the log has it: what is absent is as in the step before."""
    steps = [step for step in await stage.said(StepStarted) if step.n <= n]
    return next(step.controls for step in reversed(steps) if step.controls is not None)


@pytest.mark.sampled(17)
@pytest.mark.parametrize(("name", "level", "wire"), cases(), indirect=["wire"])
async def test_a_row_is_in_the_log_and_on_the_wire(scene, wire: Wire, name: str, level: str):
    """Whichever source sets a row, `step.started` says so, and the request or its newest message has it."""
    row = ROWS[name]
    stage, _ = await play(scene, wire, level, row.given)
    n = 2 if level in RESUMED else 1
    found = await controls_of(stage, n)
    assert {key: found.get(key) for key in row.logged} == dict(row.logged)
    asked = stage.line.models.asked[n - 1]
    wanted = row.sent.get(wire.name, {})
    assert {key: asked.body.get(key) for key in wanted} == dict(wanted)
    *_, newest = stage.requests[n - 1]
    note = row.notes.get(wire.name)
    assert (b"[note " in newest) == (note is not None)
    assert (note or "").encode() in newest
    if n > 1:
        assert extends(stage.line.models.asked[0], asked, wire.sent), "what stands before it stays as it was"
    check_log(await stage.log())


@pytest.mark.parametrize("level", ["agent", "run"])
async def test_the_model_of_a_level_is_asked(scene, wire: Wire, level: str):
    """A model of the agent's controls, or of a run's, is the one that the request names."""
    stage, _ = await play(scene, wire, level, {"model": wire.full_other})
    assert (await controls_of(stage, 1))["model"] == wire.full_other
    assert stage.line.models.asked[0].body["model"] == wire.other


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", OF_RUNS)
async def test_the_last_step_is_without_tools(scene, wire: Wire, level: str):
    """Whichever source sets `max_steps`, the last step is requested without tools."""
    n = 2 if level == "defaults" else 1
    stage, _ = await play(scene, wire, level, {"max_steps": n})
    found = await controls_of(stage, n)
    assert (found["max_steps"], found["tool_choice"]) == (n, "none")
    asked = stage.line.models.asked[n - 1]
    assert asked.body.get("tool_choice") == (None if wire is MESSAGES else "none")
    assert (b"Call no tools" in asked.raw) == (wire is MESSAGES)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", OF_RUNS)
async def test_a_tool_context_is_for_the_tools_alone(scene, wire: Wire, level: str, caplog, capsys):
    """Tools are handed the context; no fact, no request and no log line has a word of it."""
    stage, seen = await play(scene, wire, level, {"tool_context": {"token": SECRET}, "tool_choice": "required"})
    assert seen
    assert set(seen) == {SECRET}
    kept = [fact.raw for fact in await stage.log()] + [asked.raw for asked in stage.line.models.asked]
    assert kept
    assert not [raw for raw in kept if SECRET.encode() in raw]
    assert SECRET not in "".join((caplog.text, *capsys.readouterr()))
    assert SECRET not in repr(Controls(tool_context={"token": SECRET}))


async def test_a_stop_condition_ends_the_run_after_its_step(scene, wire: Wire):
    """The calls of the step are carried out and recorded, the model is not asked again."""
    given = {"tool_choice": "required", "stop_conditions": [{"type": "has_tool_call", "tool": "look"}]}
    stage, seen = await play(scene, wire, "run", given)
    assert len(seen) == 1
    assert stage.line.models.calls == 1
    (end,) = await stage.said(RunCompleted)
    assert end.stop_reason == "stop_condition"

"""docs/controls.md against the product: its examples run, its table is the code's, its numbers are right."""

import json
import re
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from agent_core.agents import Controls, Definition
from agent_core.clock import SystemClock
from agent_core.controls import DEFAULT_MAX_STEPS, MAX_STEPS, MAX_TOOL_CONTEXT, Defaults, Override
from agent_core.core import Core
from agent_core.providers.demo import DemoProvider
from agent_core.schemas import MAX_SCHEMA
from agent_core.tools.builtin import calculate, current_time
from agent_core.tools.toolset import Scope

PAGE = (Path(__file__).parents[2] / "docs" / "controls.md").read_text("utf-8")
CALLS = re.findall(r"^curl -s localhost:8000(\S+) .*\\\n  -d '(.+)'$", PAGE, re.MULTILINE)
ENDS = {
    "max_steps": "end_turn",
    "tool_choice": "end_turn",
    "active_tools": "end_turn",
    "step_rules": "end_turn",
    "stop_conditions": "stop_condition",
    "budget": "end_turn",
    "output_schema": "end_turn",
    "tool_context": "end_turn",
}


@pytest.fixture
async def core(make_core) -> Core:
    """The demonstration, as it ships."""
    return await make_core(DemoProvider(SystemClock(), rate=0), tools=(calculate, current_time))


def test_there_is_an_example_of_each():
    """Every control of tools, ends and answers has an example of its own."""
    assert {name for _, body in CALLS for name in json.loads(body)["controls"]} == ENDS.keys()


@pytest.mark.parametrize(("path", "body"), CALLS, ids=[next(iter(json.loads(body)["controls"])) for _, body in CALLS])
async def test_an_example_runs(client: httpx.AsyncClient, path: str, body: str):
    """Copied as it is, an example completes, and ends as the page says."""
    answer = await client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    run, (name,) = answer.json(), json.loads(body)["controls"]
    assert (run["status"], run["stop_reason"]) == ("completed", ENDS[name])
    assert run["output"].get("structured", "absent") == (None if name == "output_schema" else "absent")


async def test_the_files_are_agents(core: Core):
    """Each YAML example is a definition that this core would run."""
    known = await core.agents._toolset.tools(Scope())
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL):
        core.agents.check(msgspec.convert(yaml.safe_load(block), Definition), known)


def test_the_table_has_every_control_at_its_levels():
    """The table lists all controls; those of a step and of a resume are the ones that these take."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    found = {name: cells[2:] for cells in rows for name in re.findall(r"`(\w+)`", cells[0])}
    assert found.keys() == set(Controls.__struct_fields__)
    for level, kind in enumerate((Controls, Defaults, Override)):
        taken = {name for name, cells in found.items() if len(cells) > level and "●" in cells[level]}
        assert taken == set(kind.__struct_fields__)


def test_the_numbers_are_those_of_the_code():
    """Bounds on the page are the constants."""
    for number in (
        f"1 to {MAX_STEPS} ({DEFAULT_MAX_STEPS})",
        f"up to {MAX_SCHEMA:,} bytes",
        f"{MAX_TOOL_CONTEXT:,} bytes",
    ):
        assert number in PAGE

"""The logs of `scenes.py` are what a core writes today; with PARLEY_GOLDEN=write they are written again."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_core.charts.reduce import reduced
from agent_core.charts.spec import checked
from agent_core.events import Event
from tests.agent_core.laws import check_log
from tests.agent_core.stage import set_stage
from tests.conftest import MakeCore
from tests.golden.figures import FIGURES
from tests.golden.scenes import HOOKS, NAMES, WHERE, Scene, frames_of, line, scripts

GOLDEN = Path(__file__).parent


async def play(make_core: MakeCore, name: str) -> list[Event]:
    """Play the scene *name* and return what its reader has seen."""
    scene = Scene()
    act, script = next((act, script) for act, script in scripts(scene).items() if act.__name__ == name)
    hooks, declared = HOOKS.get(name, ()), (WHERE,) if name == "client_call" else ()
    scene.stage = await set_stage(make_core, script, tools=scene.tools, hooks=hooks, declared=declared)
    async with scene.stage.reader() as scene.reader:
        await act(scene)
        log = await scene.stage.log()
        await scene.reader.until(lambda event: getattr(event, "seq", 0) == log[-1].seq)
    check_log(log)
    return scene.reader.events


def facts(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the facts of a log without their times, which live events lie between."""
    return [{**frame, "time": ""} for frame in frames if "seq" in frame]


@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_log_is_what_a_core_writes(make_core: MakeCore, name):
    """Each scene, played again, gives the facts of its golden log."""
    frames = frames_of(await play(make_core, name))
    path = GOLDEN / f"{name}.jsonl"
    if os.environ.get("PARLEY_GOLDEN") == "write":
        path.write_text("".join(f"{line(frame)}\n" for frame in frames), "utf-8")
    assert facts(frames) == facts([json.loads(each) for each in path.read_text("utf-8").splitlines()])


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.kind == "chart"])
def test_a_plain_chart_of_the_log_is_what_its_specification_says(name):
    """Each specification is one that the tool takes, and its plain form, if it has one, is that of the log."""
    payload = FIGURES[name].payload
    plain = reduced(checked(payload["spec"]))
    assert (None if plain is None else msgspec.to_builtins(plain)) == payload.get("plain")

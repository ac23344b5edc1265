"""Toolsets: a kind of tools is one file, and kinds are composed by wrapping."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.messages import text_of
from agent_core.testing import FakeClock, Script, ScriptedProvider, call, say
from agent_core.tools.builtin import calculate, current_time
from agent_core.tools.toolset import Merged, Only, Scope, Static, Toolset, toolset_of
from tests.agent_core.stage import ANN, Stage, results
from tests.agent_core.tools.filed import Filed
from tests.conftest import OpenDatabase


@pytest.fixture
def filed(tmp_path: Path) -> Filed:
    """Two tools in files."""
    write(tmp_path, "greet", takes=["who"], answer="Hello {who}")
    write(tmp_path, "leave", takes=[], answer="Bye")
    return Filed(tmp_path, [])


def write(folder: Path, name: str, **fields: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"name": name, "description": f"{name}.", **fields}), "utf-8")


@asynccontextmanager
async def core_with(open_database: OpenDatabase, script: Script, tools: Toolset) -> AsyncIterator[Stage]:
    """Give a core with *tools* and an agent that lists the first of them by name."""
    provider = ScriptedProvider(script)
    core = Core(open_database(), providers={"s": provider}, tools=tools, default_model="s", clock=FakeClock())
    await core.start()
    try:
        if not (await core.agents.list()).items:
            names = tuple(sorted(await tools.tools(Scope())))
            await core.agents.create(Definition(name="a", instructions="", tools=names))
        yield Stage(core, provider, (await core.open_session(agent="a", actor=ANN)).id)
    finally:
        await core.stop(grace=1.0)


async def test_a_kind_of_tools_is_one_file(open_database: OpenDatabase, filed: Filed):
    """A model calls a tool of a kind that Parley does not know, beside one that it ships, through one toolset."""
    tools = Merged((toolset_of({"calculate": calculate}), Only(filed, ("gr*",))))
    script = [(call("greet", who="Ann"), call("calculate", expression="6*7")), (say("Done."),)]
    async with core_with(open_database, script, tools) as stage:
        run = await stage.play()
        offered = [spec.name for spec in (await stage.asked(1)).snapshot.tools]
        answers = [(each.outcome, text_of(each.parts)) for each in results(await stage.asked(2))]
        agent = (await stage.core.agents.get("a")).id
        counted = dict(stage.core.counters.calls)
    assert run.status == "completed"
    assert offered == ["calculate", "greet"]
    assert answers == [("done", "Hello Ann"), ("done", "42")]
    assert counted == {("greet", "done"): 1, ("calculate", "done"): 1}
    assert {each.agent for each in filed.asked} == {None, agent}


async def test_what_the_model_is_offered_is_frozen(open_database: OpenDatabase, filed: Filed):
    """A file that changes or goes changes no session's prompt: a call runs as it is now, and fails when it is gone."""
    script = [(call("greet", who="Ann"), call("leave")), (say("Done."),)]
    async with core_with(open_database, script, filed) as stage:
        write(filed.folder, "greet", takes=[], answer="Goodbye {who}")
        (filed.folder / "leave.json").unlink()
        await stage.play()
        first, second = await stage.asked(1), await stage.asked(2)
        agent = await stage.core.agents.get("a")
        with pytest.raises(InvalidInput, match="`leave`"):
            await stage.core.open_session(agent="a", actor=ANN)
        with pytest.raises(InvalidInput, match="there is no tool `leave`; the tools are: greet"):
            await stage.core.agents.update(agent.id, {"instructions": "Be brief."})
    assert first.snapshot.tools == second.snapshot.tools
    assert [spec.name for spec in first.snapshot.tools] == ["greet", "leave"]
    assert first.snapshot.tools[0].parameters["properties"] == {"who": {"type": "string"}}
    said = [(each.outcome, text_of(each.parts)) for each in results(second)]
    assert said[0] == ("done", "Goodbye Ann")
    assert said[1][0] == "failed"
    assert "There is no tool `leave`" in said[1][1]


async def test_no_set_replaces_the_tools_of_an_earlier_one():
    """Of two tools with one name the earlier set's is taken."""
    other = Static({"calculate": current_time})
    found = await Merged((Static({"calculate": calculate}), other)).tools(Scope())
    assert found == {"calculate": calculate}

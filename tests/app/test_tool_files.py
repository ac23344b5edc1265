"""Tool files: YAML beside the Python files of PARLEY_TOOLS."""

from pathlib import Path
from typing import Any

import pytest

from agent_core.agents import ToolDefinition
from agent_core.core import Core
from agent_core.errors import ConfigError, NotFound
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.testing import ScriptedProvider
from agent_core.tools.functions import tool
from app import files as tool_files
from app.files import ToolFiles, read_tools
from tests.conftest import MakeCore

GOOD = """\
# A tool with another name.
name: hello
kind: python
description: Say hello.
config: {tool: greet}
preset:
  mood: Glad
"""
TWO = """\
- name: first
  kind: python
  config: {tool: greet}
- name: second
  kind: python
  config:
    tool: greet
  timeout_s: 3
"""


@tool
async def greet(name: str, mood: str) -> str:
    """Greet someone."""
    return f"{mood}, {name}"


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(ScriptedProvider([]), tools=(greet,))


async def load(folder: Path, core: Core) -> ToolFiles:
    files = ToolFiles(folder)
    await files.load(core)
    files.check()
    await files.store(core)
    return files


async def test_files_define_one_tool_or_several(tmp_path: Path, core: Core):
    """A mapping is one tool, a list several; each knows its file and line."""
    (tmp_path / "hello.yaml").write_text(GOOD)
    (tmp_path / "more.yml").write_text(TWO)
    (tmp_path / ".hidden.yaml").write_text("{")
    (tmp_path / "helper.py").write_text("")
    files = await load(tmp_path, core)
    assert files.places == {
        "hello": f"{tmp_path}/hello.yaml:2",
        "first": f"{tmp_path}/more.yml:1",
        "second": f"{tmp_path}/more.yml:4",
    }
    found = await core.tools.definitions.get("hello")
    assert (found.source, found.preset, found.version) == ("file", {"mood": "Glad"}, 1)
    assert (await core.tools.definitions.get("second")).timeout_s == 3


@pytest.mark.parametrize(
    ("content", "where", "said"),
    [
        ("name: a\n  kind: b: c\n", "bad.yaml: ", "correct the YAML"),
        ("just text\n", "bad.yaml:1: ", "defines no tool"),
        ("", "bad.yaml: ", "defines no tool"),
        (GOOD + "colour: red\n", "bad.yaml:2: ", "unknown field `colour`"),
        (GOOD.replace("kind: python", "kind: pyton"), "bad.yaml:3: `kind`: ", "pyton"),
        (GOOD.replace("mood: Glad", "mod: Glad"), "bad.yaml:7: `preset.mod`: ", "`name`, `mood`"),
        (GOOD.replace("greet", "gret"), "bad.yaml:5: `config.tool`: ", "did you mean `greet`"),
        (TWO.replace("timeout_s: 3", "timeout_s: -1"), "bad.yaml:8: `timeout_s`: ", "seconds above 0"),
        (TWO.replace("second", "first"), "bad.yaml:4: `name`: ", "bad.yaml:1 too"),
        (GOOD.replace("hello\n", "greet\n"), "bad.yaml:2: `name`: ", "choose another name"),
    ],
)
async def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, core: Core, content: str, where: str, said: str, monkeypatch: pytest.MonkeyPatch
):
    """The error has the file, the line, the field and what helps; nothing is stored."""
    (tmp_path / "bad.yaml").write_text(content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        await load(Path(), core)
    assert str(caught.value).startswith(where), str(caught.value)
    assert said in str(caught.value)
    assert [each.name for each in (await core.tools.definitions.list()).items] == ["greet"]


async def test_a_name_is_in_one_file(tmp_path: Path, core: Core):
    """A tool that two files define is refused with both places."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(ConfigError, match=r"b\.yaml:2: `name`: .*a\.yaml:2 too"):
        await load(tmp_path, core)


async def test_what_a_file_gave_serves_on_while_it_is_broken(tmp_path: Path, core: Core):
    """Loaded again, a broken file keeps its tools until it is corrected; one that is gone takes its tools along."""
    path = tmp_path / "hello.yaml"
    path.write_text(GOOD)
    files = await load(tmp_path, core)

    async def again(content: str) -> Any:
        path.write_text(content)
        await files.load(core)
        await files.store(core)
        return await core.tools.definitions.get("hello")

    found = await again("name: [")
    assert (found.version, len(files.problems)) == (1, 1)
    found = await again(GOOD.replace("Glad", "Sad"))
    assert (found.version, found.preset, files.problems) == (2, {"mood": "Sad"}, [])
    path.unlink()
    await files.load(core)
    await files.store(core)
    with pytest.raises(NotFound):
        await core.tools.definitions.get("hello")


async def test_a_file_that_was_broken_from_the_start_takes_nothing_away(tmp_path: Path, core: Core):
    """What it defined when another process loaded it is not known, so that no tool of a file is removed."""
    path = tmp_path / "hello.yaml"
    path.write_text(GOOD)
    await load(tmp_path, core)
    path.write_text("name: [")
    files = ToolFiles(tmp_path)
    await files.load(core)
    await files.store(core)
    assert (await core.tools.definitions.get("hello")).source == "file"


async def test_a_file_takes_no_tool_of_the_api(tmp_path: Path, core: Core):
    """A file with the name of a tool of the API is refused, and that tool stays as it is."""
    made = await core.tools.definitions.create(
        ToolDefinition(name="hello", kind="python", config={"tool": "greet"}, preset={"mood": "Mine"})
    )
    (tmp_path / "hello.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"hello\.yaml:2: `name`: `hello` is defined over the API; delete it there"):
        await load(tmp_path, core)
    assert await core.tools.definitions.get("hello") == made


def test_more_files_than_are_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file beyond the bound is broken, not left out."""
    monkeypatch.setattr(tool_files, "MAX_FILES", 1)
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    assert "more than 1 YAML files" in read_tools(tmp_path).broken[tmp_path / "b.yaml"]


HTTP = """\
name: get_order
kind: http
description: Look an order up.
config:
  url: https://shop.example/orders/{id}
  headers: {Authorization: "Bearer {{secret:SHOP}}"}
preset: {id: A-1}
"""


async def test_every_kind_is_checked_by_its_own_rules(tmp_path: Path, make_core: MakeCore):
    """An HTTP tool of a file is there with its preset hidden; a fault of its `config` has its line."""
    fetch = Fetch(())
    core = await make_core(ScriptedProvider([]), tool_ports=ToolPorts(fetch=fetch))
    path = tmp_path / "order.yaml"
    path.write_text(HTTP)
    files = await load(tmp_path, core)
    found = await core.tools.definitions.get("get_order")
    assert (found.kind, found.effect, list(found.parameters["properties"])) == ("http", "read", ["id"])
    assert (await core.tools.definitions.tool("get_order")).spec.parameters["properties"] == {}
    path.write_text(HTTP.replace("https://shop.example/", "http://127.0.0.1/"))
    await files.load(core)
    assert files.problems[0].startswith(f"{path}:5: `config.url`: ")
    path.write_text(HTTP.replace("headers:", "heders:"))
    await files.load(core)
    assert files.problems[0].startswith(f"{path}:6: `config.heders`: unknown field `heders`; did you mean `headers`?")
    await fetch.close()

"""The code on the reference pages is what it says it is: Python that imports what there is, agents, tools, commands."""

import ast
import importlib
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest
import typer
import yaml
from _pytest.mark.structures import ParameterSet

from agent_core.agents import Definition, ToolDefinition, gathered
from app.cli.commands import app
from app.files import read_servers
from app.settings import read_endpoints
from tests.cases import for_each
from tests.postgres import ROOT

BLOCK = re.compile(r"(?ms)^```(\w*)[^\n]*\n(.*?)^```$")
COMMAND = re.compile(r"(?m)^(?:\.venv/bin/)?parley ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
PAGES = {path.stem: BLOCK.findall(path.read_text("utf-8")) for path in sorted((ROOT / "docs").glob("*.md"))}


def blocks(*languages: str) -> list[ParameterSet]:
    """Return each block in one of *languages*, with its page and place there."""
    return [
        pytest.param(text, id=f"{page}-{place}")
        for page, found in PAGES.items()
        for place, (language, text) in enumerate(found)
        if language in languages
    ]


@for_each("text", blocks("python"))
def test_python_compiles_and_imports_what_there_is(text: str):
    """A block of Python is Python, and each name that it imports of ours is there."""
    tree = compile(text, "page", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("parley", "agent_core"):
            module = importlib.import_module(node.module or "")
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@for_each("text", blocks("yaml"))
def test_yaml_is_an_agent_a_tool_or_providers(text: str):
    """A block of YAML is an agent, a part of one, one or more tools, or named providers, with known fields."""
    given = yaml.safe_load(text)
    if isinstance(given, dict) and all(isinstance(each, dict) and "kind" in each for each in given.values()):
        assert read_endpoints(json.dumps(given), None).keys() == given.keys()
        return
    for each in given if isinstance(given, list) else [given]:
        if "config" in each:
            msgspec.convert(each, ToolDefinition)
        else:
            msgspec.convert(gathered({"name": "page", "instructions": "Help.", **each}), Definition)


@pytest.mark.parametrize("text", blocks("json", "toml"))
def test_json_and_toml_can_be_read(text: str, tmp_path: Path):
    """A block of JSON or TOML can be read, and servers of MCP are such."""
    if text.startswith("["):
        assert tomllib.loads(text)
    elif "mcpServers" in json.loads(text):
        (tmp_path / "mcp.json").write_text(text, "utf-8")
        assert read_servers(tmp_path / "mcp.json", required=True)


def test_commands_are_there():
    """Each block of a shell can be parsed, and each command of Parley's in any block is one."""
    shell = "\n".join(text for found in PAGES.values() for language, text in found if language in ("sh", "bash"))
    parsed = subprocess.run(["bash", "-n"], input=shell, text=True, capture_output=True, check=False)
    assert parsed.stderr == ""
    known = typer.main.get_command(app)
    found = {match for each in PAGES.values() for _, text in each for match in COMMAND.findall(text)}
    assert found
    assert [first for first, _ in found if first not in known.commands] == []  # type: ignore[attr-defined]
    groups = {name: command.commands for name, command in known.commands.items() if hasattr(command, "commands")}  # type: ignore[attr-defined]
    assert [
        (first, second) for first, second in found if first in groups and second and second not in groups[first]
    ] == []


def test_the_guide_shows_the_approval_that_a_project_has():
    """What page 4 shows as lines of the agent's file are those of the template."""
    page = (ROOT / "docs/guide/4-approval.md").read_text("utf-8")
    (shown,) = re.findall(r"(?ms)^```yaml example\.yaml\n(.*?)^```$", page)
    template = (ROOT / "app/project/templates/common/agents/assistant.yaml").read_text("utf-8")
    assert yaml.safe_load(shown)["hooks"] == yaml.safe_load(template)["hooks"]


@pytest.mark.skipif(shutil.which("php") is None, reason="there is no php here to read the samples in PHP")
@pytest.mark.parametrize("page", ["widget.md", "guide/5-your-page.md"])
def test_samples_in_php_can_be_parsed(page: str):
    """Each sample in PHP is PHP."""
    for language, text in BLOCK.findall((ROOT / "docs" / page).read_text("utf-8")):
        if language == "php":
            subprocess.run(["php", "-l"], input=text, text=True, capture_output=True, check=True)

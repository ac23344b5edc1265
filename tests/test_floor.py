"""A floor for modules, not a ceiling: what one other file alone needs is a part of that file."""

import ast
from runpy import run_path

from tests.conftest import ROOT

PRODUCT = ("agent_core/", "channels/", "app/")
FLOOR, FEW, JOINED, CEILING = 60, 3, 600, 1_000
STANDS = {
    "agent_core/charts/renderer.py": "a child, run by its path",
    "agent_core/confined/child.py": "a child, run by its path",
    "agent_core/confined/closing.py": "run by its path in a child",
    "agent_core/confined/reading.py": "run by its path in a child",
    "agent_core/testing/mcp/__init__.py": "the face of a fake: its readers are tests, ours and of users",
    "agent_core/testing/mcp/__main__.py": "an entry point",
    "agent_core/tools/builtin/current_time.py": "a tool that ships: one file each",
    "agent_core/tools/jmes.py": "brings jmespath, where a tool maps by it",
    "agent_core/tools/jq_child.py": "a child, run by its path",
    "app/__main__.py": "an entry point",
    "app/collector.py": "a number that is read before anything else may be imported",
    "app/cli/keys.py": "a group of commands",
    "app/cli/tools.py": "a group of commands",
    "app/middleware.py": "what a request passes before the routes that compose lists",
    "channels/slack/serving.py": "brings Slack's SDK, where Slack is set up",
    "channels/slack/spec.py": "what is known of Slack without its SDK",
    "channels/slack/threads.py": "what goes out; what comes in is beside it",
    "channels/wide_tables.py": "brings the parser of Markdown, where a table is drawn",
}
"""Modules below the floor that are right for good, and why."""


def test_a_module_is_worth_its_file():
    """One of under 60 lines of code has three importers, and a single importer stands in another folder.

    An `__init__` is a face: what it alone imports has readers elsewhere. Two that would be over 600 lines stay two.
    """
    size = run_path(str(ROOT / "scripts/size"))
    files = [file for package in size["PACKAGES"] for file in (ROOT / package).rglob("*.py")]
    trees = {file: ast.parse(file.read_text("utf-8")) for file in files if "node_modules" not in file.parts}
    importers_of, names = size["importers_of"](trees), {file: str(file.relative_to(ROOT)) for file in trees}
    lines = {file: len(size["code_lines"](trees[file])) for file, name in names.items() if name.startswith(PRODUCT)}
    below = dict[str, str]()
    for file, count in lines.items():
        importers, one = importers_of[file], next(iter(importers_of[file]), file)
        is_beside = len(importers) == 1 and one.parent == file.parent and one.name != "__init__.py"
        if 0 < count < FLOOR and len(importers) < FEW:
            below[names[file]] = f"{count} lines, {len(importers)} importers"
        elif is_beside and count + lines[one] <= JOINED:
            below[names[file]] = f"{count} lines, for {one.name} alone"
    wrong = [f"join {name}: {why}" for name, why in sorted(below.items()) if name not in STANDS]
    wrong += [f"{name}: no exception any more" for name in STANDS if name not in below]
    wrong += [f"divide {names[file]}: {count} lines" for file, count in lines.items() if count > CEILING]
    assert wrong == [], "\n".join(wrong)

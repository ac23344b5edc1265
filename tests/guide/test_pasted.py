"""Examples that are whole: pasted into a shell in an empty folder, they print what their page shows."""

import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from app.settings import Settings
from tests.e2e.server import free_port
from tests.guide.pages import ROOT
from tests.guide.shims import parley_on_path

BEGIN, SECONDS = "parley init ", 120
PORTS = (4010, 8000)
"""The ports of the examples, which are others in a test."""


class Example(NamedTuple):
    """Commands that begin with a new project, and what their page shows after them."""

    page: str
    commands: str
    shown: str


def examples() -> list[Example]:
    """Return the examples of all pages."""
    found: list[Example] = []
    for page in sorted((ROOT / "docs").glob("*.md")):
        fences = [each for each in MarkdownIt().parse(page.read_text("utf-8")) if each.type == "fence"]
        for one, other in pairwise(fences):
            if one.info == "sh" and one.content.startswith(BEGIN):
                found.append(Example(page.name, one.content, other.content))
    return found


@pytest.mark.whole
@pytest.mark.parametrize("example", examples(), ids=lambda example: example.page)
def test_a_whole_example(example: Example, tmp_path: Path):
    """All commands work, nothing of it runs on, and at the end stands what the page shows, but for the figures."""
    ports = {str(port): str(free_port()) for port in PORTS}
    commands = re.sub(r"\b(?:4010|8000)\b", lambda found: ports[found[0]], example.commands)
    settings = {str(each.validation_alias) for each in Settings.model_fields.values()}
    env = {name: value for name, value in os.environ.items() if name not in settings} | {"PORT": ports["8000"]}
    log = tmp_path / "printed"
    with parley_on_path() as place, log.open("wb") as output:
        path = os.pathsep.join((str(place), str(Path(sys.executable).parent), env["PATH"]))
        shell = subprocess.Popen(
            ["bash", "-eu", "-o", "pipefail", "-c", commands],
            cwd=tmp_path,
            env=env | {"PATH": path},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = shell.wait(SECONDS)
            assert code == 0, f"{example.page}:\n{log.read_text('utf-8')}"
            assert not _runs(shell.pid)
        finally:
            if _runs(shell.pid):
                os.killpg(shell.pid, signal.SIGKILL)
    shown = _lines(example.shown)
    assert _lines(log.read_text("utf-8"))[-len(shown) :] == shown


def test_there_is_one():
    """The example of `parley cost` is among those that are run."""
    assert "prompt-cache.md" in {each.page for each in examples()}


def _runs(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _lines(text: str) -> list[str]:
    """Return the lines of *text*, each figure as `0`, and spaces as one."""
    return [re.sub(r"\d[\d.,:-]*", "0", " ".join(line.split())) for line in text.splitlines() if line.strip()]

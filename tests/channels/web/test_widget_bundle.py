"""The widget's own gates: types, unit tests, size, and that the committed bundle is what its sources give."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_core.messages import explanation
from tests.polling import PATIENCE

ROOT = Path(__file__).parents[3]
WIDGET = ROOT / "channels/web/widget"
# What scripts/npm and npm itself start besides the node of .venv.
TOOLS = ("bash", "sh", "env", "dirname")


@pytest.fixture(scope="module")
def without_node(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose PATH has a shell and no node, as on most machines."""
    folder = tmp_path_factory.mktemp("bin")
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"there is no `{tool}` on PATH"
        (folder / tool).symlink_to(found)
    return {**os.environ, "PATH": str(folder)}


@pytest.fixture(scope="module")
def installed() -> None:
    """What the widget is built with, which `make whole` and `make widget` install."""
    assert (WIDGET / "node_modules").exists(), "run `make widget`"


@pytest.mark.whole
def test_the_widget_passes_its_own_checks(installed: None, without_node: dict[str, str]):
    """Its types are right, its tests pass without a skip, its bundles are small enough and up to date."""
    output = npm("run", "check", environment=without_node)
    counts = {name: int(count) for name, count in re.findall(r"(?m)^\S+ (tests|pass|fail|skipped|todo) (\d+)$", output)}
    assert counts["tests"] == counts["pass"] > 100
    assert counts["fail"] == counts["skipped"] == counts["todo"] == 0
    assert re.search(r"bundle: \d+ of 34816 bytes with gzip \(parley-chat.js\)", output)
    assert re.search(r"bundle: \d+ of 8192 bytes with gzip \(parley-renders.js\)", output)


def test_the_widget_explains_an_overflow_as_the_server_does():
    """The person reads the same of a prompt that is too long here and on every other surface."""
    assert f'context_overflow: "{explanation("context_overflow")}"' in (WIDGET / "src/words/strings.ts").read_text(
        "utf-8"
    )


def npm(*arguments: str, environment: dict[str, str], folder: Path = WIDGET) -> str:
    """Run npm in *folder*, the widget's, with the node of .venv; return what it printed."""
    command = [str(ROOT / "scripts/npm"), "--prefix", str(folder), *arguments]
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout

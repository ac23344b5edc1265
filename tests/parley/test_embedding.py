"""`parley.open_core`: a project inside a program."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

from tests.postgres import ROOT

PAGE = ROOT / "docs/tools.md"


async def test_the_program_of_the_page_asks_an_agent(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch):
    """The program that the page shows gets the answer of the project in its folder."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/assistant.yaml").write_text(
        "{name: assistant, instructions: Be brief., tools: [calculate]}", "utf-8"
    )
    (tmp_path / "data").mkdir(mode=0o700)
    shutil.copy(template, tmp_path / "data/parley.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARLEY_DEMO_RATE", "0")
    (text,) = re.findall(r"```python\n(# ask\.py\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "ask.py").write_text(text, "utf-8")
    program = runpy.run_path(str(tmp_path / "ask.py"))
    assert "12 * 7 is 84." in await program["ask"]("What is 12 * 7?")

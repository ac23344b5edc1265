"""The guide: everything on its pages works, in the order in which a reader comes to it."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.guide.pages import ROOT, Block, blocks, pages
from tests.guide.reader import GuideReader, reader_in
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole

ELSEWHERE = {
    "python3 -m venv": "the reader of the tests has an environment",
    "pip install": "tests/e2e/test_delivered.py installs the wheel; the requirements are in the environment",
    "cp ../parley-": "no image is built here",
    "docker compose": "tests/e2e/test_delivered.py builds and starts Parley's image where there is an engine",
}
"""Commands that are not run here, by how their lines begin, and what tests them instead."""
QUESTION, ANSWER = "hello", "Hello! I am the demonstration"


HAS_PHP = shutil.which("php") is not None


def _needs_php(block: Block, text: str) -> bool:
    return "php" in f"{block.language} {text[:4]}"


PHP = [block.at for page in pages() for block in blocks(page) if _needs_php(block, block.text)]


@pytest.fixture
def reader(tmp_path: Path, postgres_url: str) -> Iterator[GuideReader]:
    with reader_in(tmp_path, {"postgres://parley:password@db.example.com:5432/parley": postgres_url}) as reader:
        yield reader


async def test_a_first_day(reader: GuideReader):
    """The pages, one after the other in one folder: every file is written, every command run, every output compared."""
    done = 0
    for page in pages():
        for block in blocks(page):
            text = "".join(line for line in block.text.splitlines(True) if not line.startswith(tuple(ELSEWHERE)))
            if text.strip() and (HAS_PHP or not _needs_php(block, text)):
                await reader.follow(block, text)
                done += 1
        if page.name == "6-slack.md":
            await _mentioned(f"http://127.0.0.1:{reader.ports[4020]}")
    assert done > 40


@pytest.mark.skipif(not HAS_PHP, reason=f"there is no php here: left out of the guide are {', '.join(PHP)}")
def test_nothing_of_the_guide_is_left_out():
    """The samples in PHP run too."""
    assert PHP


async def _mentioned(stand_in: str) -> None:
    """Mention the assistant on the page of the stand-in, and return once it has answered in the thread."""
    place = {"team": "T0001", "user": "UANN", "channel": "CGENERAL"}
    async with httpx.AsyncClient(base_url=stand_in, timeout=PATIENCE) as client:
        said = {"do": "says", **place, "text": f"@parley {QUESTION}"}
        done = (await client.post("/page/act", json=said)).json()
        assert done["problem"] == ""
        async with (
            asyncio.timeout(PATIENCE),
            client.stream("GET", "/page/live", params={**place, "thread": done["ts"]}) as live,
        ):
            async for line in live.aiter_lines():
                assert "No agent answers" not in line
                if ANSWER in line:
                    return
    raise AssertionError("The stand-in's page has closed its stream.")


def test_the_pages_lead_on():
    """The guide's index names its pages in their order, and none is missing."""
    index = (ROOT / "docs" / "guide" / "README.md").read_text("utf-8")
    assert re.findall(r"^\d+\. \[.*\]\((.+?)\)", index, re.MULTILINE) == [page.name for page in pages()]

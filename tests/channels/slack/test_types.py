"""The payloads of the suite have the types that Slack publishes for them."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from channels.slack.blocks import payloads, plainer
from channels.slack.testing.blocks import check
from tests.channels.slack.samples import SAMPLES, WITHOUT_TYPE

ROOT = Path(__file__).parents[3]
TYPES = Path(__file__).parent / "types"
STAMP = TYPES / "node_modules/.parley-lock"
MARKDOWN = "# Title\n\nSome **words**, `code` and [a link](https://a.example).\n\n- one\n- two\n\n```py\nx = 1\n```"


@pytest.fixture(scope="module")
def installed() -> None:
    """The types and their compiler, fetched once per lock file."""
    lock = hashlib.sha256((TYPES / "package-lock.json").read_bytes()).hexdigest()
    if not STAMP.exists() or STAMP.read_text("utf-8") != lock:
        done = npm("ci", "--no-audit", "--no-fund", seconds=300)
        assert done.returncode == 0, done.stdout
        STAMP.write_text(lock, "utf-8")


def typical() -> list[dict]:
    """Return one block of each kind, and what answers and their plainer forms are made of."""
    [answer] = payloads(MARKDOWN, lines=["looked it up"], notice="AI may be wrong.", feedback="run_1")
    lower = plainer(answer)
    assert lower is not None
    blocks = [*SAMPLES.values(), *answer.blocks, *lower.blocks]
    return [block for block in blocks if block["type"] not in WITHOUT_TYPE]


def test_the_payloads_of_the_suite_have_slacks_types(installed: None):
    """The compiler takes every block that we send but those that have no type yet."""
    blocks = typical()
    assert check([block for block in blocks if "block_id" not in block]) == []
    done = compiled(blocks, "right")
    assert done.returncode == 0, done.stdout


def test_a_wrong_payload_has_not(installed: None):
    """The same check refuses each block with a wrong field, a wrong object or an unknown type."""
    broken = [
        {"type": "markdown", "txt": "x"},
        {"type": "header", "text": {"type": "mrkdwn", "text": "x"}},
        {"type": "section", "text": "x"},
        {"type": "context_actions", "elements": [{"type": "feedback_buttons", "positive_button": {"value": "x"}}]},
        {"type": "unheard_of"},
    ]
    done = compiled([*broken, {"type": "divider"}], "wrong")
    assert done.returncode != 0
    assert refused(done.stdout) == set(range(len(broken))), done.stdout


def test_what_has_no_type_yet_is_named(installed: None):
    """These kinds are left out for a reason: the day the types know them, this fails."""
    done = compiled([SAMPLES[kind] for kind in sorted(WITHOUT_TYPE)], "unknown")
    assert refused(done.stdout) == set(range(len(WITHOUT_TYPE))), done.stdout


def refused(output: str) -> set[int]:
    """Return which blocks, each on a line below the first, the compiler complains about."""
    return {int(line) - 2 for line in re.findall(r"\.ts\((\d+),\d+\): error TS", output)}


def compiled(blocks: list[dict], name: str) -> subprocess.CompletedProcess[str]:
    """Compile a file that says of each of *blocks*, on a line of its own, that it is a block."""
    source = TYPES / "node_modules" / f".{name}-{os.getpid()}.ts"
    lines = ['import type { KnownBlock } from "@slack/types";']
    lines += [f"export const block{n}: KnownBlock = {json.dumps(block)};" for n, block in enumerate(blocks)]
    source.write_text("\n".join(lines), "utf-8")
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "")
    try:
        return npm("exec", "--no", "--", "tsc", *options, str(source), seconds=120)
    finally:
        source.unlink()


def npm(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run npm in the folder of the types with the node of .venv."""
    return subprocess.run(
        [str(ROOT / "scripts/npm"), "--prefix", str(TYPES), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )

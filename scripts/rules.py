"""Check what no linter knows: how tests wait, what the product may import and disclose, what the documents promise.

A rule is a function that gives the lines which break it; what to do instead stands in front of them.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("agent_core/", "app/", "channels/", "migrations/", "parley/")
MEASURING = (
    "tests/bench/",
    "tests/chaos/",
    "tests/load/",
    "tests/polling.py",
    "tests/postgres.py",
    "tests/agent_core/tools/mcp/test_stdio.py",
)
"""What measures, kills or polls paces itself in real time, and has limits of its own."""
SECONDS = re.compile(
    r"asyncio\.timeout\([1-9][\d._]*\)|wait_for\(.*, [1-9][\d._]*\)|\.wait\([1-9][\d._]*\)|\.wait, [1-9]"
    r"|timeout=[1-9][\d._]*[,)]"
)
SLEEP = re.compile(r"\btime\.sleep\(|(?<!def )(?<![\w.])(asyncio\.|anyio\.)?sleep\((?!0\))")
ELSE = re.compile(r"goes_on|@tool\(|spec\(|_timeout=")
"""Where a timeout is what a tool or a server promises."""
MADE_HERE = re.compile(
    "|".join((
        re.escape("pypi" + ".org"),
        re.escape("python" + "hosted.org"),
        re.escape("registry." + "npmjs"),
        re.escape("registry." + "yarnpkg"),
        r"/opt/py" + "pi",
        r"/wo" + r"rk/(main|shared|\.)",
        r"/ro" + r"ot/[\w.]",
        r"/Us" + r"ers/\w",
        r"/ho" + r"me/\w+/",
    ))
)  # fmt: skip
# A user's file is registered under its own private name, which nothing else has: classes in it are looked up there.
REGISTERS = {"app/own_tools.py"}
HOOKS = re.compile(
    r"\bsys\.(meta_path|path_hooks)\b|from sys import .*\b(meta_path|path_hooks|modules)\b"
    r"|\bsys\.modules(\[[^\]]*\](: \w+)? =|\.(setdefault|update|pop|clear)| \|=)|\bdel sys\.modules"
    r"|\bmodel_rebuild = |setattr\(.*model_rebuild"
)


def waits() -> Iterator[str]:
    """Await the event, or hold the model; bound it by `tests.polling.PATIENCE`."""
    for path in tests():
        for number, line in enumerate(text(path).splitlines(), 1):
            if SLEEP.search(line) or (SECONDS.search(line) and not ELSE.search(line)):
                yield f"{path}:{number} {line.strip()}"


def says_what_failed() -> Iterator[str]:
    """Compare lists: `assert [each for each in … if not …] == []` says which one failed, `assert all(…)` does not."""
    for path in tests():
        for match in re.finditer(r"^\s*assert all\(\s*(?!\[)[^\n]*(\n[^\n]*)? for .* in ", text(path), re.MULTILINE):
            yield f"{path}: {match[0].strip()}"


def imports_plainly() -> Iterator[str]:
    """Import libraries plainly: the product has no import hook, and replaces no module and no method of a library."""
    for path in python(*PRODUCT):
        if path not in REGISTERS:
            for number, line in enumerate(text(path).splitlines(), 1):
                if HOOKS.search(line):
                    yield f"{path}:{number} {line.strip()}"


def migrates_alone() -> Iterator[str]:
    """Import nothing of our packages in a revision: they change, it must not."""
    for path in python("migrations/versions/"):
        for number, line in enumerate(text(path).splitlines(), 1):
            if re.match(r"\s*(from|import) (agent_core|app|channels)\b", line):
                yield f"{path}:{number} {line.strip()}"


def made_here() -> Iterator[str]:
    """Name no package registry and no path of a developer's machine."""
    for path in files():
        for number, line in enumerate(text(path).splitlines(), 1):
            if found := MADE_HERE.search(line):
                yield f"{path}:{number} {found.group()}"


def documented() -> Iterator[str]:
    """Document each setting, and each line of .env.example, in the README's table of settings."""
    rows = "\n".join(line for line in text("README.md").splitlines() if line.startswith("|"))
    settings = re.findall(r'(?:alias=|AliasChoices\()"([A-Z_]+)"', text("app/settings.py"))
    for setting in {*settings, *re.findall(r"(?m)^#?([A-Z_]+)=", text(".env.example"))}:
        if f"`{setting}`" not in rows:
            yield setting


def locked() -> Iterator[str]:
    """Run `make lock`: requirements-dev.lock pins every dependency of pyproject.toml, with a hash."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    pinned = re.findall(r"(?m)^([a-z0-9-]+)==\S+(?: ;.*?)? \\\n +--hash=", text("requirements-dev.lock"))
    for wanted in project["dependencies"] + project["optional-dependencies"]["dev"]:
        if re.split(r"[\[<>=]", wanted)[0] not in pinned:
            yield wanted


RULES = (waits, says_what_failed, imports_plainly, migrates_alone, made_here, documented, locked)


def main() -> int:
    """Print what breaks a rule; return 1 if anything does."""
    broken = 0
    for rule in RULES:
        if found := list(rule()):
            broken += len(found)
            print(rule.__doc__, *found, sep="\n  ")
    return 1 if broken else 0


def tests() -> list[str]:
    """Return the files of tests and what they use."""
    return [path for path in python("tests/") if not path.startswith(MEASURING)]


def python(*folders: str) -> list[str]:
    """Return the Python files in *folders*."""
    return [path for path in files() if path.startswith(folders) and path.endswith(".py")]


@cache
def files() -> list[str]:
    """Return the text files that Git has, or would take."""
    words = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in listed if (ROOT / path).is_file() and b"\0" not in (ROOT / path).read_bytes()[:8192]]


@cache
def text(path: str) -> str:
    """Return what a file says."""
    return (ROOT / path).read_text("utf-8", errors="ignore")


if __name__ == "__main__":
    sys.exit(main())

"""What is delivered: the lock of what runs, and its bill of materials."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.cases import for_each

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts/locked.py"


def written(what: str) -> str:
    return subprocess.run([sys.executable, SCRIPT, what], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def runtime() -> str:
    return (ROOT / "requirements.lock").read_text("utf-8")


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return json.loads(written("sbom"))


def test_the_runtime_lock_is_what_the_project_needs_as_the_workshop_pins_it(runtime: str):
    """requirements.lock has the pins and hashes of requirements-dev.lock for what runs, and nothing else."""
    assert runtime == written("runtime"), "run `make lock`"
    workshop = {"pytest", "hypothesis", "ruff", "pyright", "hatchling"}
    assert not workshop & {line.split("==")[0] for line in names(runtime)}


def test_the_build_lock_is_what_makes_the_wheel_as_the_workshop_pins_it(runtime: str):
    """requirements-build.lock has the pins of what builds the wheel, and nothing that runs."""
    build = (ROOT / "requirements-build.lock").read_text("utf-8")
    assert build == written("build"), "run `make lock`"
    found = {line.split("==")[0] for line in names(build)}
    assert {"hatchling", "editables"} <= found
    assert not found & {"fastapi", "sqlalchemy", "pytest"}


@for_each(
    "target, locks",
    [
        ("run", ["requirements.lock", "requirements-build.lock"]),
        ("workshop", ["requirements.lock", "requirements-build.lock", "requirements-dev.lock"]),
    ],
)
def test_a_server_needs_no_workshop(target: str, locks: list[str]):
    """`make run` installs what runs and nothing else; what tests need comes after it; each install asks for hashes."""
    words = ("make", "--always-make", "--dry-run", "--no-print-directory", target)
    planned = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    editable = (ROOT / "scripts/build").read_text("utf-8")
    installs = re.findall(r"pip .*?install (.*)", planned.replace("scripts/build editable", editable))
    assert [line.split("--requirement ")[1].split()[0] for line in installs if "--requirement" in line] == locks
    assert [line for line in installs if "--requirement" in line if "--require-hashes" not in line] == []
    assert [line for line in installs if "--requirement" not in line] == [
        "--no-deps --no-build-isolation --editable . ;;"
    ]


def test_the_bill_of_materials_lists_what_the_lock_pins(runtime: str, bill: dict[str, Any]):
    """The bill has what CycloneDX 1.6 requires: a component for each pin and each package in the widget's bundle."""
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert bill["serialNumber"].startswith("urn:uuid:")
    assert bill["metadata"]["component"]["name"] == "parley"
    found = [f"{part['name']}=={part['version']}" for part in bill["components"]]
    bundled = [part["purl"].split("@")[0] for part in bill["components"] if part["purl"].startswith("pkg:npm/")]
    assert bundled == ["pkg:npm/highlight.js", "pkg:npm/marked"]
    assert found[: -len(bundled)] == [line.split(" ")[0] for line in names(runtime)]
    fields = {"type", "name", "version", "purl", "bom-ref"}
    assert [part for part in bill["components"] if not fields <= part.keys()] == []
    assert len({part["bom-ref"] for part in bill["components"]}) == len(found)


def test_what_runs_stays_small(runtime: str):
    """The files of all that requirements.lock pins have at most 300 MB, as the packages themselves list them."""
    pinned = [
        each
        for each in (Requirement(line.rstrip(" \\")) for line in names(runtime))
        if each.marker is None or each.marker.evaluate()
    ]
    sizes = {each.name: sum(file.size or 0 for file in metadata.files(each.name) or ()) for each in pinned}
    assert len(sizes) > 50
    assert sum(sizes.values()) < 300_000_000, sorted(sizes.items(), key=lambda each: -each[1])[:10]


def names(lock: str) -> list[str]:
    """Return the lines of a lock that name a package."""
    return [line for line in lock.splitlines() if "==" in line and not line.startswith(" ")]

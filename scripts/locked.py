"""Write what follows from requirements-dev.lock: `runtime` prints requirements.lock, `build` requirements-build.lock.

The runtime lock has the pins of the workshop's lock for what `[project.dependencies]` needs, directly or not, on any
platform, the build lock those for what makes the wheel. `sbom` prints a bill of materials of what runs (CycloneDX 1.6,
JSON), with the packages that the bundle of the widget contains. Run it in the environment that the workshop's lock
describes.
"""

import json
import re
import sys
import tomllib
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SEED = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""The namespace of URLs in RFC 4122: equal bills have equal serial numbers."""

EDITABLE = ("editables",)
"""What the build asks for besides when a checkout is installed as it is."""


def pins(lock: str) -> dict[str, str]:
    """Return the entries of a lock, each with its hashes, by canonical name."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    return {canonicalize_name(re.split(r"[=\s\[;]", entry, maxsplit=1)[0]): entry for entry in entries if entry}


def closure(wanted: list[str], entries: dict[str, str]) -> set[str]:
    """Return the names in *entries* that the requirements *wanted* need, with their extras, on some platform."""
    todo, seen = [Requirement(each) for each in wanted], set[tuple[str, str]]()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if name in entries and (name, extra) not in seen:
                seen.add((name, extra))
                todo += [each for each in needs(name) if concerns(each, extra)]
    return {name for name, _ in seen}


def needs(name: str) -> list[Requirement]:
    """Return what an installed package requires; one of another platform is not installed, and needs nothing more."""
    try:
        return [Requirement(each) for each in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return []


def concerns(requirement: Requirement, extra: str) -> bool:
    """Return whether *requirement* counts with *extra*, on any platform and Python."""
    named = re.findall(r"""extra\s*==\s*["']([^"']+)["']""", str(requirement.marker or ""))
    return canonicalize_name(extra) in map(canonicalize_name, named) if extra else not named


def described() -> dict[str, Any]:
    """Return what pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def lock(wanted: list[str]) -> str:
    """Return the lock of what the requirements *wanted* need."""
    entries = pins((ROOT / "requirements-dev.lock").read_text("utf-8"))
    needed = closure(wanted, entries)
    return "".join(f"{entry}\n" for name, entry in sorted(entries.items()) if name in needed)


def runtime() -> str:
    """Return requirements.lock."""
    return lock(described()["project"]["dependencies"])


def build() -> str:
    """Return requirements-build.lock."""
    return lock([*described()["build-system"]["requires"], *EDITABLE])


def bill() -> str:
    """Return the bill of materials of what runs."""
    project = described()["project"]
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = [component(name, entry) for name, entry in sorted(pins(runtime()).items())] + bundled()
    content = json.dumps(parts, sort_keys=True)
    about = {"type": "application", "bom-ref": own, "name": project["name"], "version": project["version"], "purl": own}
    made = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SEED, own + content)}",
        "version": 1,
        "metadata": {"component": {**about, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": parts,
    }
    return json.dumps(made, indent=2) + "\n"


def component(name: str, entry: str) -> dict[str, object]:
    """Return a package of the lock as a component, with its licence where its metadata names one by expression."""
    version = re.search(r"==([^\s;\\]+)", entry)
    assert version, entry
    purl = f"pkg:pypi/{name}@{version[1]}"
    made: dict[str, object] = {"type": "library", "bom-ref": purl, "name": name, "version": version[1], "purl": purl}
    try:
        about = metadata.metadata(name)
        expression = next(iter(about.get_all("License-Expression") or ()), None)
    except metadata.PackageNotFoundError:
        expression = None
    return {**made, "licenses": [{"expression": expression}]} if expression else made


def bundled() -> list[dict[str, object]]:
    """Return the packages that the widget's bundle contains, as components."""
    packages = json.loads((ROOT / "channels/web/widget/package-lock.json").read_text("utf-8"))["packages"]
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{about['version']}",
            "name": name,
            "version": about["version"],
            "purl": f"pkg:npm/{name}@{about['version']}",
            "licenses": [{"expression": about["license"]}],
        }
        for name, about in (
            (path.removeprefix("node_modules/"), each) for path, each in sorted(packages.items()) if path
        )
        if not about.get("dev")
    ]


if __name__ == "__main__":
    sys.stdout.write({"runtime": runtime, "build": build, "sbom": bill}[sys.argv[1]]())

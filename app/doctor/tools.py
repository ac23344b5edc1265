"""What the doctor reports on own tools: where they are looked for, which there are, and what is broken."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from app.doctor.findings import Finding
from app.own_tools.toolset import UNREAD_REMEDY, OwnTools
from app.tool_files import read_tools


def own_tools(own: OwnTools) -> Iterator[Finding]:
    """Report the *own* tools, which were loaded as a server loads them."""
    for problem in own.problems:
        yield Finding("fail", "tools", str(problem))
    if not own.folder.is_dir():
        yield Finding("ok", "tools", f"there is no folder `{own.folder}`: no tools of your own (PARLEY_TOOLS)")
    for path in own.unread:
        yield Finding("warn", "tools", f"{path}: a folder, whose Python files are not loaded", UNREAD_REMEDY)
    by_place = defaultdict[str, list[str]](list)
    for name, place in own.places.items():
        by_place[place.rpartition(":")[0] or place].append(f"`{name}`")
    for place, names in by_place.items():
        yield Finding("ok", "tools", f"{place}: {', '.join(sorted(names))}")
    for stem, count in own.files.items():
        if count == 0 and not stem.startswith("_"):
            path = own.folder / f"{stem}.py"
            remedy = "decorate a function with `@tool`, or begin the name of a file of helpers with `_`"
            yield Finding("warn", "tools", f"{path}: holds no tool", remedy)


def tool_files(folder: Path) -> Iterator[Finding]:
    """Report the YAML files of *folder*; what they need of a server, `parley tools test` checks there."""
    found = read_tools(folder)
    for problem in found.broken.values():
        yield Finding("fail", "tools", problem)
    for path, filed in found.tools.items():
        names = ", ".join(f"`{each.definition.name}`" for each in filed)
        yield Finding("ok", "tools", f"{path}: {names}")

"""The pages of figures: each measured part is between marks of its own."""

import re
from pathlib import Path

from tests.bench.sides import ROOT

SUMMARY = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "benchmarks" / "figures.md"
PROCESSES = ROOT / "docs" / "benchmarks" / "processes.md"


def write(page: Path, name: str, found: str) -> None:
    """Replace the part *name* of *page* with *found*; raises ValueError when the page has no such part, or several."""
    place = re.compile(rf"(?s)(<!-- measured: {name} -->\n).*(<!-- end: {name} -->)")
    text, times = place.subn(lambda match: f"{match[1]}{found}\n{match[2]}", page.read_text("utf-8"))
    if times != 1:
        raise ValueError(f"`{page.name}` has {times} parts named `{name}`; it must have one.")
    page.write_text(text, "utf-8")

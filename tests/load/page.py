"""The page of figures: what is measured stands between marks of its own."""

import re
from pathlib import Path


def write(page: Path, name: str, found: str) -> None:
    """Put *found* between the marks of *name*; raises ValueError when the page has none."""
    place = re.compile(rf"(?s)(<!-- measured: {name} -->\n).*(<!-- end: {name} -->)")
    text, times = place.subn(lambda match: f"{match[1]}{found}\n{match[2]}", page.read_text("utf-8"))
    if times != 1:
        raise ValueError(f"{page.name} has {times} places for `{name}`; it must have one.")
    page.write_text(text, "utf-8")

"""The blocks of the guide's pages, in the order in which a reader comes to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
FILES = frozenset({"python", "yaml", "html", "js", "php", "ini"})
"""Languages of the blocks that are files: the word after the language is the file's path in the project."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what it is (`sh`, `text`, or a language of `FILES`), the file that it is, its text, its place."""

    language: str
    file: str | None
    text: str
    at: str


def pages() -> list[Path]:
    """Return the pages of the guide in their order."""
    return sorted(GUIDE.glob("[0-9]*.md"))


def blocks(page: Path) -> Iterator[Block]:
    """Return the blocks of *page*; raises `ValueError` for one that no test could run."""
    for token in MarkdownIt().parse(page.read_text("utf-8")):
        if token.type not in {"fence", "code_block"}:
            continue
        language, _, file = token.info.strip().partition(" ")
        at = f"{page.name}:{token.map[0] + 1 if token.map else 0}"
        if language not in FILES | {"sh", "text"} or (language in FILES) != bool(file):
            raise ValueError(f"{at}: write `sh`, `text`, or one of {', '.join(sorted(FILES))} and the file's path.")
        yield Block(language, file or None, token.content, at)

"""What one message of Slack has room for beside its text, and what a form takes of it; pure."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from channels.slack.outbound.drawn.form import Json
from channels.slack.web_api import limits


class Room(NamedTuple):
    """Room for tables and charts in a message, or what a form takes of it.

    *charts* and *tables* are blocks, *blocks* are all blocks; *data_tables*, *words* (Markdown and rich text) and
    *text* are characters.
    """

    charts: int = 0
    tables: int = 0
    data_tables: int = 0
    words: int = 0
    blocks: int = 0
    text: int = 0

    def holds(self, taken: "Room") -> bool:
        """Return whether what is *taken* fits."""
        return all(there >= wanted for there, wanted in zip(self, taken, strict=True))

    def without(self, taken: "Room") -> "Room":
        """Return the room that is left."""
        return Room(*(there - wanted for there, wanted in zip(self, taken, strict=True)))


MESSAGE = Room(
    charts=limits.CHARTS_PER_MESSAGE.value,
    tables=limits.TABLES_PER_MESSAGE.value,
    data_tables=limits.DATA_TABLE_TEXT.value,
    words=limits.DRAWN_WORDS.value,
    blocks=limits.DRAWN_BLOCKS.value,
    text=limits.DRAWN_TEXT.value,
)
"""The room of a whole message; what its text may need, and the rows around it, is not in it."""


def taken_by(blocks: Iterable[Json], text: str) -> Room:
    """Return what *blocks* and *text* take of a message."""
    taken = Room(text=len(text))
    for block in blocks:
        kind, size = block["type"], sum(map(len, _texts(block)))
        taken = Room(
            charts=taken.charts + (kind == "data_visualization"),
            tables=taken.tables + (kind == "table"),
            data_tables=taken.data_tables + (size if kind == "data_table" else 0),
            words=taken.words + (size if kind in ("markdown", "rich_text") else 0),
            blocks=taken.blocks + 1,
            text=taken.text,
        )
    return taken


def _texts(part: Any) -> Iterator[str]:
    """Give the texts of the cells of a table, or of Markdown and rich text."""
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _texts(each)
    elif isinstance(part, dict):
        fields = cast(Json, part)
        if isinstance(text := fields.get("text"), str):
            yield text
        yield from _texts(fields.get("rows") or fields.get("elements"))

"""Reading server-sent events in tests."""

import json
from typing import Any, NamedTuple


class Frame(NamedTuple):
    """One frame: *id* is None for live events."""

    id: int | None
    event: str
    data: dict[str, Any]


def frames(text: str) -> list[Frame]:
    """Return the frames of *text*, comments left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            id = int(fields["id"]) if "id" in fields else None
            found.append(Frame(id, fields["event"], json.loads(fields["data"])))
    return found

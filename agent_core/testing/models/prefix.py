"""A request as its prompt caches and seals see it: the positions of `agent_core.caching`, for the server's rules."""

from agent_core.caching.positions import (
    MARKS,
    THINKING,
    Json,
    Position,
    blocks,
    canonical,
    dicts,
    of_messages,
    positions_of,
    runs,
)

__all__ = [
    "MARKS",
    "THINKING",
    "Json",
    "Position",
    "blocks",
    "canonical",
    "dicts",
    "of_messages",
    "positions_of",
    "runs",
]

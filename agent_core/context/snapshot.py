"""Freeze the prompt prefix of a session: instructions, sorted tools, model, and a hash that names them."""

import hashlib
from collections.abc import Iterable

import msgspec

from agent_core.domain.agents import Snapshot, ToolSpec

_HASH_LENGTH = 16


def freeze(*, model: str, instructions: str, tools: Iterable[ToolSpec]) -> Snapshot:
    """Return the snapshot of *instructions*, *tools* (any order) and *model*; equal content has an equal hash."""
    ordered = tuple(sorted(tools, key=lambda tool: tool.name))
    prefix = [model, instructions, [(t.name, t.description, t.parameters) for t in ordered]]
    digest = hashlib.sha256(msgspec.json.encode(prefix, order="deterministic")).hexdigest()
    return Snapshot(digest[:_HASH_LENGTH], model, instructions, ordered)

"""Freeze the prompt prefix of a session: model, texts and sorted tools, and a hash that names them."""

import hashlib
from collections.abc import Iterable

import msgspec

from agent_core.domain.agents import Snapshot, ToolSpec

_HASH_LENGTH = 16


def freeze(*, model: str, instructions: str, tools: Iterable[ToolSpec], **texts: str) -> Snapshot:
    """Return the snapshot of *model*, *tools* (any order), *instructions* and the other *texts* that `Snapshot` has.

    Equal content has an equal hash, in whatever order dictionaries have their keys.
    """
    ordered = tuple(sorted(tools, key=lambda tool: tool.name))
    said = {name: text for name, text in texts.items() if text}
    prefix = [model, instructions, [(t.name, t.description, t.parameters) for t in ordered], *([said] if said else [])]
    digest = hashlib.sha256(msgspec.json.encode(prefix, order="deterministic")).hexdigest()
    return Snapshot(digest[:_HASH_LENGTH], model, instructions, ordered, **texts)

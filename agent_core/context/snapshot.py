"""Freeze the prompt prefix of a session: model, texts and sorted tools, and a hash that names them. Pure."""

import hashlib
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from agent_core.context.contract import contract_of, persona_text
from agent_core.domain.agents import Definition, Snapshot, ToolSpec

_HASH_LENGTH = 16
_KEPT = ("contract", "persona", "skills", "memory", "profile")
_WHOLE = 2.0**53
"""Floats below it that have no fraction are integers, exactly."""


def freeze(*, model: str, instructions: str, tools: Iterable[ToolSpec], **texts: str) -> Snapshot:
    """Return the snapshot of *model*, *tools* (any order), *instructions* and the other *texts* that `Snapshot` has.

    Equal content has an equal hash and equal bytes on every wire: here, once, the parameters of tools get sorted keys,
    and numbers that are equal one form.
    """
    ordered = tuple(sorted((_canonical_tool(tool) for tool in tools), key=lambda tool: tool.name))
    said = {name: text for name, text in texts.items() if text}
    # The last member is always there: no snapshot has the hash of one that was stored before keys were sorted.
    prefix = [model, instructions, [(t.name, t.description, t.parameters) for t in ordered], said]
    digest = hashlib.sha256(msgspec.json.encode(prefix, order="deterministic")).hexdigest()
    return Snapshot(digest[:_HASH_LENGTH], model, instructions, ordered, **texts)


def snapshot_of(definition: Definition, tools: Iterable[ToolSpec], *, model: str) -> Snapshot:
    """Return the snapshot that a session of *definition* begins with, with these *tools* in its prompt."""
    specs = tuple(tools)
    return freeze(
        model=model,
        instructions=definition.instructions,
        tools=specs,
        contract=contract_of(definition.operating_contract, [spec.name for spec in specs]),
        persona=persona_text(definition.persona),
    )


def variant(
    snapshot: Snapshot,
    definition: Definition,
    *,
    model: str | None = None,
    instructions: str | None = None,
    tools: Iterable[ToolSpec] | None = None,
) -> Snapshot:
    """Return the session's *snapshot* with what a run has otherwise; all else stays as it is frozen.

    A stored snapshot from before there was a contract has its lines at the end of its instructions: with another list
    of tools, or other instructions, it gets the contract of its *definition*.
    """
    specs = snapshot.tools if tools is None else tuple(tools)
    texts = {name: getattr(snapshot, name) for name in _KEPT}
    said = snapshot.instructions
    if tools is not None or instructions is not None:
        said = definition.instructions if instructions is None else instructions
        if tools is not None or not snapshot.contract:
            texts["contract"] = contract_of(definition.operating_contract, [spec.name for spec in specs])
    return freeze(model=model or snapshot.model, instructions=said, tools=specs, **texts)


def _canonical_tool(tool: ToolSpec) -> ToolSpec:
    return replace(tool, parameters=cast("dict[str, Any]", _canonical(tool.parameters)))


def _canonical(value: object) -> object:
    """Return a JSON *value* with sorted keys, and integers for floats without a fraction."""
    if isinstance(value, dict):
        return {key: _canonical(each) for key, each in sorted(cast("dict[str, object]", value).items())}
    if isinstance(value, (list, tuple)):
        return [_canonical(each) for each in cast("list[object]", value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return int(value)
    return value

"""Freeze the prompt prefix of a session: model, texts and sorted tools, and a hash that names them. Pure."""

import hashlib
from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from agent_core.agents import Definition, Snapshot, ToolSpec
from agent_core.context.contract import contract_of, persona_text

_HASH_LENGTH = 16
_KEPT = ("contract", "persona", "skills", "memory", "profile")
_WHOLE = 2.0**53
"""Floats below it that have no fraction are integers, exactly."""


def freeze(
    *,
    model: str,
    instructions: str,
    tools: Iterable[ToolSpec],
    routed: tuple[ToolSpec, ...] = (),
    routed_hash: str = "",
    **texts: str,
) -> Snapshot:
    """Return the snapshot of *model*, *tools* (any order), *instructions* and the other *texts* that `Snapshot` has.

    Equal content has an equal hash and equal bytes on every wire: here, once, the parameters of tools get sorted keys,
    and numbers that are equal one form. *routed* tools come with their hash, see `freeze_routed`.
    """
    ordered = _ordered(tools)
    present = {name: text for name, text in texts.items() if text}
    # The fourth member is always there: no snapshot has the hash of one that was stored before keys were sorted.
    prefix = [model, instructions, [(t.name, t.description, t.parameters) for t in ordered], present]
    digest = _digest([*prefix, routed_hash] if routed else prefix)
    return Snapshot(digest, model, instructions, ordered, **texts, routed=routed, routed_hash=routed_hash)


def freeze_routed(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    """Return *tools* that the router is to show, in the form and with the hash that a snapshot has them in."""
    ordered = _ordered(tools)
    shown = [(t.name, t.description, t.parameters, t.resource) for t in ordered]
    return {"routed": ordered, "routed_hash": _digest(shown) if ordered else ""}


def snapshot_of(
    definition: Definition, tools: Iterable[ToolSpec], *, model: str, routed: Iterable[ToolSpec] = ()
) -> Snapshot:
    """Return the snapshot that a session of *definition* begins with: *tools* in its prompt, *routed* beside it."""
    specs = tuple(tools)
    return freeze(
        model=model,
        instructions=definition.instructions,
        tools=specs,
        contract=contract_of(definition.operating_contract, [spec.name for spec in specs]),
        persona=persona_text(definition.persona),
        **freeze_routed(routed),
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
    texts: dict[str, Any] = {name: getattr(snapshot, name) for name in _KEPT}
    text = snapshot.instructions
    if tools is not None or instructions is not None:
        text = definition.instructions if instructions is None else instructions
        if tools is not None or not snapshot.contract:
            texts["contract"] = contract_of(definition.operating_contract, [spec.name for spec in specs])
    texts |= {"routed": snapshot.routed, "routed_hash": snapshot.routed_hash}
    return freeze(model=model or snapshot.model, instructions=text, tools=specs, **texts)


def _digest(content: object) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:_HASH_LENGTH]


def _ordered(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    return tuple(sorted(map(_canonical_tool, tools), key=lambda tool: tool.name))


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

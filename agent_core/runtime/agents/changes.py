"""Changes of an agent's fields; pure."""

from typing import Any


def with_changes(given: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return *given* with its fields replaced by *changes*, one level deep in groups; two in `limits`, for quotas."""
    groups = {name: {**given[name], **each} for name, each in changes.items() if _is_group(given.get(name), each)}
    if "limits" in groups:
        groups["limits"] = with_changes(given["limits"], changes["limits"])
    return {**given, **changes, **groups}


def _is_group(given: Any, change: Any) -> bool:
    return isinstance(given, dict) and isinstance(change, dict)

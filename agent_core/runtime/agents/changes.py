"""Changes of an agent's fields; pure."""

from typing import Any


def with_changes(current: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return *current* with its fields replaced by *changes*, one level deep in groups; two in `limits`, for quotas."""
    groups = {name: {**current[name], **each} for name, each in changes.items() if _is_group(current.get(name), each)}
    if "limits" in groups:
        groups["limits"] = with_changes(current["limits"], changes["limits"])
    return {**current, **changes, **groups}


def _is_group(current: Any, change: Any) -> bool:
    return isinstance(current, dict) and isinstance(change, dict)

"""The list of models, in either vendor's shape."""

from collections.abc import Sequence
from typing import Any

from agent_core.testing.models.asked import Wire

_SINCE = "2026-01-01T00:00:00Z"
_SINCE_SECONDS = 1_767_225_600


def listed(wire: Wire, models: Sequence[str], one: str | None) -> dict[str, Any] | None:
    """Return the list of *models*, or *one* of them, None when it is not there."""
    if one is not None:
        return _model(wire, one) if one in models else None
    data = [_model(wire, model) for model in models]
    if wire == "messages":
        first, last = (models[0], models[-1]) if models else (None, None)
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": data}


def _model(wire: Wire, model: str) -> dict[str, Any]:
    if wire != "messages":
        return {"id": model, "object": "model", "created": _SINCE_SECONDS, "owned_by": "parley-fake-models"}
    return {
        "type": "model",
        "id": model,
        "display_name": model,
        "created_at": _SINCE,
        "lifecycle": "active",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
    }

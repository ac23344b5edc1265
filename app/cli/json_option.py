"""What people give in an option as JSON."""

import json
from typing import Any

from agent_core import InvalidInput


def json_object(option: str, text: str, remedy: str) -> dict[str, Any]:
    """Return the JSON object in *text*; raise `InvalidInput` for *option* with *remedy*, without what was given."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInput(option, remedy)
    return value

"""What people give in an option as JSON."""

import json
from typing import Any

from agent_core import InvalidInput


def json_object(option: str, text: str, remedy: str) -> dict[str, Any]:
    """Return the JSON object in *text*; raise `InvalidInput` for *option* with *remedy*, without what was given."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise InvalidInput(option, remedy)
    return given

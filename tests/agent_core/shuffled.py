"""A declared tool, and the same as another author or process might have written it."""

from typing import Any

from msgspec.structs import replace

from agent_core.agents import DeclaredTool

DECLARED = DeclaredTool(
    name="pick",
    kind="client",
    description="Pick some.",
    parameters={
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9.0, "default": 2},
            "of": {"type": "array", "items": {"anyOf": [{"const": 0.5}, {"const": True}, {"const": None}]}},
        },
        "required": ["of", "count"],
    },
)


def shuffled(tool: DeclaredTool) -> DeclaredTool:
    """Return *tool* with all keys in the opposite order, floats for its integers and integers for its whole floats."""
    return replace(tool, parameters=_other(tool.parameters))


def _other(value: Any) -> Any:
    match value:
        case dict():
            return {key: _other(value[key]) for key in reversed(value)}
        case list():
            return [_other(each) for each in value]
        case bool():
            return value
        case int():
            return float(value)
        case float() if value.is_integer():
            return int(value)
        case _:
            return value

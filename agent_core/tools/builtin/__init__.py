"""The tools that ship with Parley."""

from dataclasses import replace
from typing import ParamSpec, TypeVar

from msgspec import structs

from agent_core.tools.base import Tool
from agent_core.tools.builtin.calculate import calculate as _calculate
from agent_core.tools.builtin.current_time import current_time as _current_time
from agent_core.tools.builtin.suggest import suggest
from agent_core.tools.functions import FunctionTool

P = ParamSpec("P")
R = TypeVar("R")


def _shipped(tool: FunctionTool[P, R]) -> FunctionTool[P, R]:
    """Return *tool*, which says that it ships."""
    return replace(tool, spec=structs.replace(tool.spec, source="builtin"))


calculate, current_time = _shipped(_calculate), _shipped(_current_time)
BUILTIN: tuple[Tool, ...] = (calculate, current_time, suggest)

__all__ = ["BUILTIN", "calculate", "current_time", "suggest"]

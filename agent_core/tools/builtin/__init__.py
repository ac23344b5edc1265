"""The tools that ship with Parley."""

from agent_core.tools.base import Tool
from agent_core.tools.builtin.calculate import calculate
from agent_core.tools.builtin.current_time import current_time

BUILTIN: tuple[Tool, ...] = (calculate, current_time)

__all__ = ["BUILTIN", "calculate", "current_time"]

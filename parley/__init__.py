"""What users of Parley import; nothing else of its packages is promised to them.

`tool` makes a tool of a function, and `CallContext` is what such a function may know of its call. It may return
`table(rows)` or `chart(spec)` to show one, `NewRender` to show something else, `Elicitation` to ask the person, and
`ToolError` where it could not; `Core` is the whole runtime, for programs that embed it.
"""

from agent_core.core import Core
from agent_core.tools.base import CallContext, Elicitation, ElicitationAnswer, NewRender, ToolError
from agent_core.tools.figures import chart, table
from agent_core.tools.function import tool

__all__ = [
    "CallContext",
    "Core",
    "Elicitation",
    "ElicitationAnswer",
    "NewRender",
    "ToolError",
    "chart",
    "table",
    "tool",
]

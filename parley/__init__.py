"""What users of Parley import; nothing else of its packages is promised to them.

`tool` makes a tool of a function, and `CallContext` is what such a function may know of its call. It may return
`table(rows)` or `chart(spec)` to show one, `NewRender` to show something else, `Elicitation` to ask the person, and
`ToolError` where it could not. `open_core` gives a program of one's own the whole runtime, a `Core`, to which an
`Inbound` of an `Actor` is a message.
"""

from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.messages import Actor, Text
from agent_core.tools.base import CallContext, Elicitation, ElicitationAnswer, NewRender, ToolError
from agent_core.tools.functions import tool
from agent_core.tools.render import chart, table
from parley.embedding import open_core

__all__ = [
    "Actor",
    "CallContext",
    "Core",
    "Elicitation",
    "ElicitationAnswer",
    "Inbound",
    "NewRender",
    "Text",
    "ToolError",
    "chart",
    "open_core",
    "table",
    "tool",
]

"""A server made with fastmcp, which is no part of the official SDK, in an environment of its own.

Over stdio, or over HTTP on the port of its first argument.
"""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUntypedFunctionDecorator=false

import sys

from fastmcp import Context, FastMCP
from mcp_types import ToolListChangedNotification

server = FastMCP("fast")


def subtract(a: int, b: int) -> int:
    """Subtract."""
    return a - b


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def grow(ctx: Context) -> str:
    """Have one tool more, and say so."""
    server.tool(subtract)
    await ctx.send_notification(ToolListChangedNotification())
    return "grown"


if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
else:
    server.run(show_banner=False)

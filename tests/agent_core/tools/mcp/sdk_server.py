"""A server made with the official SDK, as a process: over stdio, or over HTTP on the port of its first argument."""

import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("official", instructions="Be official.")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


class PickedColour(BaseModel):
    """What the person picks."""

    colour: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True), title="Echo")
def echo(text: str) -> str:
    """Say the text again."""
    return text


@server.tool()
def order(number: int) -> dict[str, int]:
    """Return an order."""
    return {"number": number}


@server.tool()
def orders() -> list[dict[str, int]]:
    """Return orders: one text for each, and all as structured content."""
    return [{"number": n, "total": n * n} for n in range(1, 4)]


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("out of paint")


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=PNG, format="png")


@server.tool()
async def steps(ctx: Context) -> str:
    """Report progress."""
    await ctx.report_progress(3, 10, "painting")
    return "done"


def ask() -> Elicit[PickedColour]:
    """Ask for the colour."""
    return Elicit("Which colour?", PickedColour)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def paint(picked: Annotated[PickedColour, Resolve(ask)]) -> str:
    """Paint in the colour that the person picks."""
    return f"painted {picked.colour}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool more, and say so."""
    server.add_tool(echo, name="grown")
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")

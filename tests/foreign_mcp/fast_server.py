"""A server made with fastmcp, which is no part of the official SDK; it runs in an environment of its own."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUntypedFunctionDecorator=false

from fastmcp import FastMCP

server = FastMCP("fast")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run(show_banner=False)

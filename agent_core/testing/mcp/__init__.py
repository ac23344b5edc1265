"""A made-up MCP server for tests: it speaks both eras, over HTTP and stdio, and lies, fails and dies on request.

    async with FakeMcp([FakeTool("add", "Add two numbers.", answer=lambda call: str(call.arguments["a"]))]) as fake:
        server = McpServer(name="fake", url=fake.url)

`python -m agent_core.testing.mcp` serves the tools of `sample_tools` over stdio, with `--port N` over HTTP, and with
`--login` to whom has logged in at the made-up authorization server `FakeLogins`, which is served beside them.
"""

from agent_core.testing.mcp.logins import FakeLogins
from agent_core.testing.mcp.script import FakeAnswers, FakeCall, FakeProtocolError, FakeTool, McpAsked, sample_tools
from agent_core.testing.mcp.server import FakeMcp

__all__ = [
    "FakeAnswers",
    "FakeCall",
    "FakeLogins",
    "FakeMcp",
    "FakeProtocolError",
    "FakeTool",
    "McpAsked",
    "sample_tools",
]

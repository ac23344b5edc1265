"""The progress of an MCP call, as lines for those who follow the session."""

from typing import Protocol

from agent_core.messages import visible
from agent_core.servers import McpServer
from agent_core.tools.base import CallContext
from agent_core.tools.mcp.masking import masked

_EVERY = 100
"""Milliseconds between two lines: a server may report as often as it likes."""
_MAX_TEXT = 300


class Report(Protocol):
    """Takes what a server reports."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None: ...


def shown_by(server: McpServer, context: CallContext) -> Report:
    """Return what shows the reports of *server* as `3 of 10: text`."""
    last = 0

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = context.clock.now()
        if last and now - last < _EVERY and progress != total:
            return
        last = now
        count = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        said = masked(server, visible(message or "")).strip()[:_MAX_TEXT]
        context.progress(f"{count}: {said}" if said else count)

    return report

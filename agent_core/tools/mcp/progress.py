"""The progress of an MCP call, as lines for those who follow the session."""

from collections.abc import Awaitable, Callable

from agent_core.domain.hidden import visible
from agent_core.tools.base import CallContext

_EVERY = 100
"""Milliseconds between two lines: a server may report as often as it likes."""
_LONGEST = 300

Report = Callable[[float, float | None, str | None], Awaitable[None]]


def shown_by(context: CallContext) -> Report:
    """Return what shows a server's reports as `3 of 10: text`."""
    last = 0

    async def report(done: float, total: float | None, text: str | None) -> None:
        nonlocal last
        now = context.clock.now()
        if last and now - last < _EVERY and done != total:
            return
        last = now
        count = f"{done:g} of {total:g}" if total else f"{done:g}"
        said = visible((text or "")[:_LONGEST]).strip()
        context.progress(f"{count}: {said}" if said else count)

    return report

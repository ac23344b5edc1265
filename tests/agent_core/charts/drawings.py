"""What the tests of drawing share: charts, and a drawer that is closed in the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from agent_core.charts.draw import BOUNDS, Drawer
from agent_core.clock import Clock

PNG = b"\x89PNG\r\n\x1a\n"


def bar(**more: Any) -> dict[str, Any]:
    """Return a chart that is drawn in some 20 ms."""
    return {
        "title": "Weekly orders",
        "data": {"values": [{"week": "W1", "orders": 12}, {"week": "W2", "orders": 30}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "week", "type": "nominal"},
            "y": {"field": "orders", "type": "quantitative"},
        },
        **more,
    }


def endless() -> dict[str, Any]:
    """Return a chart whose regular expression does not end within a lifetime, and needs no memory."""
    return bar(transform=[{"calculate": f"test(/(a+)+b/, '{'a' * 60}')", "as": "never"}])


@asynccontextmanager
async def opened(clock: Clock | None = None, **bounds: float) -> AsyncIterator[Drawer]:
    """Open a drawer with *bounds* that differ from the usual ones, and close it."""
    drawer = Drawer(replace(BOUNDS, **bounds), clock=clock)
    try:
        yield drawer
    finally:
        await drawer.close()

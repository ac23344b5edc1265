"""What a session cost as a chart: a bar per model call, its ideal below and each cause above it."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

MAX_BARS = 60
"""Bars side by side; of more calls several share one."""
IDEAL = "ideal"
COLORS = {
    IDEAL: "#9ca3af",
    "expired": "#d97706",
    "prefix": "#2563eb",
    "tools": "#7c3aed",
    "system": "#0891b2",
    "model": "#db2777",
    "evicted": "#dc2626",
    "unknown": "#111827",
    "not_marked": "#b45309",
    "below_minimum": "#65a30d",
    "unread": "#059669",
    "lifetime": "#f59e0b",
    "price": "#78716c",
}


def chart_of(cost: dict[str, Any]) -> dict[str, Any] | None:
    """Return a specification of what the API says of a session's cost; None when no call has a price."""
    calls = [call for call in cost["calls"] if call["ideal"] is not None]
    if not calls:
        return None
    each = -(-len(calls) // MAX_BARS)
    groups = [calls[n : n + each] for n in range(0, len(calls), each)]
    values = [value for n, group in enumerate(groups) for value in _values(n * each + 1, group)]
    parts = [part for part in COLORS if any(value["part"] == part for value in values)]
    title = {
        "text": f"What {len(calls):,} model call{'' if len(calls) == 1 else 's'} cost",
        "subtitle": (
            f"billed ${Decimal(cost['billed']):.4f}, ideal ${Decimal(cost['ideal']):.4f}, "
            f"without a cache ${Decimal(cost['uncached']):.4f}"
        ),
    }
    counted = "model call" if each == 1 else f"model call ({each} per bar)"
    axis = {"labelOverlap": True, "labelAngle": 0}
    return {
        "title": title,
        "width": 640,
        "height": 320,
        "data": {"values": values},
        "mark": "bar",
        "encoding": {
            "x": {"field": "call", "type": "ordinal", "title": counted, "axis": axis},
            "y": {"field": "usd", "type": "quantitative", "title": "USD", "stack": "zero"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": "part",
                "sort": parts,
                "scale": {"domain": parts, "range": [COLORS[part] for part in parts]},
            },
            "order": {"field": "order", "type": "quantitative"},
        },
    }


def _values(call: int, group: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    sums = {IDEAL: sum((Decimal(each["ideal"]) for each in group), Decimal(0))}
    for each in group:
        for cause, amount in each["causes"].items():
            sums[cause] = sums.get(cause, Decimal(0)) + Decimal(amount)
    order = list(COLORS)
    return [
        {"call": call, "part": part, "usd": float(amount), "order": order.index(part) if part in order else len(order)}
        for part, amount in sums.items()
    ]

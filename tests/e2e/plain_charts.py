"""A plain chart of each type, how each is marked on the page, and the smallest picture."""

import base64
from typing import Any

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
BAR = {
    "type": "bar",
    "categories": ["Mon", "Tue", "Wed"],
    "series": [{"name": "Tea", "values": [12, 19.5, -3]}, {"name": "Coffee", "values": [8, None, 6]}],
    "x": "Day",
}
POINTS = [{"name": "cats", "points": [[1, 2], [3.5, -4]]}, {"name": "dogs", "points": [[10, 20]]}]
CHARTS: dict[str, dict[str, Any]] = {
    "bar": BAR,
    "stacked": {**BAR, "stacked": True},
    "horizontal": {**BAR, "horizontal": True},
    "line": {**BAR, "type": "line"},
    "area": {**BAR, "type": "area", "stacked": True},
    "pie": {**BAR, "type": "pie", "series": [{"name": "n", "values": [5, 3, 2]}]},
    "scatter": {"type": "scatter", "categories": [], "series": POINTS, "x": "length", "y": "weight"},
}
MARKS = {"bar": ".bar", "line": ".line", "area": ".area", "pie": ".slice", "scatter": ".point"}

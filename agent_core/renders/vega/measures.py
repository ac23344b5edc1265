"""Aggregates as Vega computes them, and the names that it gives them."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_number

ABSENT = object()
"""The cell of a row without the field: Vega's `undefined`, which is not null."""


def total(values: Sequence[float]) -> float:
    """Return the sum. Raises `NotPlain` when it has left the numbers that a double holds."""
    try:
        return math.fsum(values)
    except OverflowError as error:
        raise NotPlain from error


AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "mean": lambda values: total(values) / len(values),
    "average": lambda values: total(values) / len(values),
    "median": statistics.median,
    "min": min,
    "max": max,
}


def running_mean(values: Sequence[float]) -> float:
    """Return the mean with the rounding of Vega, which is that of adding one value after the other to it."""
    mean = 0.0
    for count, value in enumerate(values, 1):
        mean += (value - mean) / count
    return mean


ORDERING: Mapping[str, Callable[[Sequence[float]], float]] = {
    **AGGREGATES,
    "sum": sum,
    "mean": running_mean,
    "average": running_mean,
}
"""Aggregates as they decide an order: which of two equal ones is larger is then what it is in Vega."""


def aggregated(op: Any, cells: Sequence[Any], ops: Mapping[str, Any] = AGGREGATES) -> float | None:
    """Return the aggregate of the cells of one mark; None where Vega draws none. Raises `NotPlain`."""
    if op == "count":
        return len(cells)
    if op == "distinct":
        if len({_kind(cell) for cell in cells} - {"null"}) > 1:
            raise NotPlain
        return len(set(cells))
    if not isinstance(op, str) or op not in ops:
        raise NotPlain
    values = figures(cells)
    return bounded(ops[op](values)) if values else None


def figures(cells: Sequence[Any]) -> list[float]:
    """Return the numbers among cells of numbers and nulls. Raises `NotPlain` on anything else."""
    numbers = [cell for cell in cells if cell is not None and cell is not ABSENT]
    if not all(map(is_number, numbers)):
        raise NotPlain
    return numbers


def bounded(value: float) -> float:
    """Return *value*. Raises `NotPlain` when it has left the numbers that JSON can hold."""
    if not is_number(value):
        raise NotPlain
    return value


def name_of(definition: Mapping[str, Any]) -> str:
    """Return the name that Vega-Lite writes at an axis without a title."""
    field = definition.get("field")
    match definition:
        case {"aggregate": "count"}:
            return "Count of Records"
        case {"aggregate": str() as op}:
            return f"{op.capitalize()} of {field}"
        case {"timeUnit": str() as unit}:
            parts = "-".join(TIME_PARTS[unit.removeprefix("utc").removeprefix("binned")])
            return f"{field} ({parts})"
        case {"bin": options} if options:
            return f"{field} (binned)"
        case _:
            return str(field)


TIME_PARTS = {
    "year": ("year",),
    "quarter": ("quarter",),
    "month": ("month",),
    "week": ("week",),
    "date": ("date",),
    "day": ("day",),
    "hours": ("hours",),
    "yearquarter": ("year", "quarter"),
    "yearmonth": ("year", "month"),
    "yearweek": ("year", "week"),
    "yearmonthdate": ("year", "month", "date"),
    "monthdate": ("month", "date"),
    "hoursminutes": ("hours", "minutes"),
    "yearmonthdatehours": ("year", "month", "date", "hours"),
    "yearmonthdatehoursminutes": ("year", "month", "date", "hours", "minutes"),
}


def _kind(cell: Any) -> str:
    """Return the type of a cell. Raises `NotPlain` for lists, objects and cells that are not there."""
    match cell:
        case None:
            return "null"
        case bool() | str():
            return type(cell).__name__
        case int() | float():
            return "number"
        case _:
            raise NotPlain

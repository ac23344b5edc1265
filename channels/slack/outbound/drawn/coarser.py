"""Days, weeks and months of a chart, added up by a longer unit of time, where its values may be added; pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, NamedTuple, cast

from msgspec import structs

from agent_core import PlainChart, PlainSeries

_ADDABLE = frozenset({"sum", "count"})
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = re.compile(r"(?P<month>[A-Z][a-z]{2})(?: (?P<day>\d{1,2}),)? (?P<year>\d{4})")
_QUARTER = re.compile(r"(?P<year>\d{4}) Q(?P<quarter>[1-4])")
_ISO = re.compile(r"\d{4}-\d\d-\d\d")


class _Unit(NamedTuple):
    """A unit of time: its *name*, the first day of the one that a day is in, and the label of that day."""

    name: str
    begin: Callable[[date], date]
    label: Callable[[date], str]


def _week(day: date) -> date:
    return day - timedelta(days=min(day.weekday(), (day - date.min).days))


def _month(day: date) -> date:
    return day.replace(day=1)


def _quarter(day: date) -> date:
    return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)


def _year(day: date) -> date:
    return day.replace(month=1, day=1)


def _week_label(day: date) -> str:
    return f"Week of {_MONTHS[day.month - 1]} {day.day}, {day.year}"


def _month_label(day: date) -> str:
    return f"{_MONTHS[day.month - 1]} {day.year}"


def _quarter_label(day: date) -> str:
    return f"{day.year} Q{(day.month + 2) // 3}"


def _year_label(day: date) -> str:
    return str(day.year)


_UNITS = (
    _Unit("week", _week, _week_label),
    _Unit("month", _month, _month_label),
    _Unit("quarter", _quarter, _quarter_label),
    _Unit("year", _year, _year_label),
)
_QUARTERLY, _YEAR = 2, 3
"""Places of quarters and years among the units."""


def adds_up(spec: Mapping[str, Any]) -> bool:
    """Return whether the values that *spec*, of Vega-Lite, shows are sums or counts."""
    encoding = spec.get("encoding")
    if not isinstance(encoding, dict):
        return False
    channels = [cast("dict[str, Any]", encoding).get(name) for name in ("x", "y")]
    return any(
        isinstance(each, dict) and cast("dict[str, Any]", each).get("aggregate") in _ADDABLE for each in channels
    )


def coarser(chart: PlainChart, limit: int) -> tuple[PlainChart, str] | None:
    """Return *chart*, whose categories are dates, by the shortest unit with at most *limit* of them, and its name.

    None when they are no dates, or too many years, or when their values do not add up to whole units. Values must be
    sums or counts.
    """
    read = _reader(chart.categories)
    if read is None:
        return None
    days, first = read
    for unit in _UNITS[first:]:
        begins = [unit.begin(day) for day in days]
        bounds = sorted(set(begins))
        if len(bounds) <= limit:
            places = {day: n for n, day in enumerate(bounds)}
            indexes = [places[day] for day in begins]
            series = tuple(PlainSeries(each.name, _added(each.values, indexes, len(bounds))) for each in chart.series)
            labels = tuple(unit.label(day) for day in bounds)
            return structs.replace(chart, categories=labels, series=series), unit.name
    return None


def _added(values: Sequence[float | None], places: Sequence[int], count: int) -> tuple[float | None, ...]:
    sums: list[float | None] = [None] * count
    for value, at in zip(values, places, strict=True):
        if value is not None:
            sums[at] = (sums[at] or 0) + value
    return tuple(sums)


def _reader(labels: Sequence[str]) -> tuple[list[date], int] | None:
    """Return the first day of each label, as Vega writes dates, and the first longer unit; None for other labels."""
    for pattern in (_DAY, _ISO, _QUARTER):
        matches = [pattern.fullmatch(label) for label in labels]
        days = [day for each in matches if each is not None and (day := _first_day(each)) is not None]
        if len(days) == len(labels):
            first = _YEAR if pattern is _QUARTER else _first_longer(sorted(days))
            return None if first is None else (days, first)
    return None


def _first_longer(days: Sequence[date]) -> int | None:
    """Return the first unit that is made of whole values: of days that follow one another, of months, of quarters.

    None for others: weeks do not nest in months, and of dates with gaps it is not known how long each value counts.
    """
    if all(day.day == 1 for day in days):
        steps = {_months(late) - _months(early) for early, late in pairwise(days)}
        is_quarterly = steps == {3} and _quarter(days[0]) == days[0]
        return _QUARTERLY if steps == {1} else _YEAR if is_quarterly else None
    follow = all(late - early == timedelta(days=1) for early, late in pairwise(days))
    return 0 if follow else None


def _months(day: date) -> int:
    return day.year * 12 + day.month


def _first_day(label: re.Match[str]) -> date | None:
    try:
        match label.groupdict():
            case {"month": str(month), "day": day, "year": str(year)}:
                return date(int(year), _MONTHS.index(month) + 1, int(day or 1))
            case {"quarter": str(quarter), "year": str(year)}:
                return date(int(year), int(quarter) * 3 - 2, 1)
            case _:
                return date.fromisoformat(label[0])
    except ValueError:
        return None

"""Dates as Vega reads and groups them, and the labels that it writes; all in UTC."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ISO = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
"""The format of ECMAScript; what else a browser may read as a date differs between them."""
FAR = 8e12
"""Milliseconds after or before 1970 that Python's calendar holds, by far."""
DIRECTIVE = re.compile(r"%([-_0]?)([a-zA-Z%])")
LEAP = 2012
"""The year in which Vega places what has none; it begins with a Sunday."""


@dataclass(frozen=True)
class TimeUnit:
    """A unit: the first instant of the one that holds an instant, the first of the next one, the label's format."""

    floor: Callable[[datetime], datetime]
    next: Callable[[datetime], datetime]
    format: str


def instant(value: Any) -> datetime:
    """Return the instant of a cell: ISO 8601, or milliseconds since 1970. Raises `NotPlain` on anything else."""
    if is_number(value) and abs(value) < FAR:
        return EPOCH + timedelta(milliseconds=value)
    match = ISO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise NotPlain
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            int((fraction or "0").ljust(3, "0")) * 1000, tzinfo=UTC,
        )  # fmt: skip
        return moment - _offset(zone)
    except (ValueError, OverflowError) as error:
        raise NotPlain from error


def unit_named(name: str) -> TimeUnit:
    """Return the unit of that name. Raises `NotPlain` when charts of it are not reduced."""
    unit = UNITS.get(name.removeprefix("utc").removeprefix("binned"))
    if unit is None:
        raise NotPlain
    return unit


def written(at: datetime, format: str) -> str:
    """Return the label of an instant in a d3 format. Raises `NotPlain` on a directive that is not known."""
    return DIRECTIVE.sub(lambda match: _directive(at, match[2], match[1]), format).strip()


def spacing(instants: list[datetime]) -> TimeUnit:
    """Return the unit in which *instants*, ascending and each once, may follow one another evenly.

    It is that of the smallest distance: months where all are on the same day of theirs, a fixed time otherwise.
    """
    first = instants[0]
    pairs = list(pairwise(instants))
    clock = {each.timetz() for each in instants}
    is_date = clock == {MIDNIGHT}
    if len(clock) == 1 and len({each.day for each in instants}) == 1 and first.day <= SHORTEST_MONTH:
        months = min((_months(first, late) - _months(first, early) for early, late in pairs), default=1)
        monthly = "%Y" if {each.month for each in instants} == {1} and len(instants) > 1 else "%b %Y"
        return _shifted(first, months, monthly if is_date and first.day == 1 and pairs else DAY if is_date else MINUTE)
    gap = min((late - early for early, late in pairs), default=ONE_DAY)
    whole_minutes = all(each.second == 0 and each.microsecond == 0 for each in instants)
    return _fixed(gap, DAY if is_date else MINUTE if whole_minutes else MINUTE + ":%S.%L")


def _offset(zone: str | None) -> timedelta:
    if zone in (None, "Z"):
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone[0] == "-" else minutes)


def _directive(at: datetime, name: str, pad: str) -> str:
    match name:
        case "Y":
            return f"{at.year:04}"
        case "q":
            return str((at.month + 2) // 3)
        case "L":
            return f"{at.microsecond // 1000:03}"
        case "e":
            return str(at.day) if pad == "-" else f"{at.day:2}"
        case "%":
            return "%"
        case "a" | "A" | "b" | "B" | "p":
            index = _weekday(at) if name in "aA" else at.hour // 12 if name == "p" else at.month - 1
            return NAMES[name][index]
        case "d" | "m" | "y" | "H" | "I" | "M" | "S" | "j" | "U" | "W" | "V":
            text = at.strftime(f"%{name}")
            return str(int(text)) if pad == "-" else text
        case _:
            raise NotPlain


def _weekday(at: datetime) -> int:
    return (at.weekday() + 1) % 7


_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
NAMES = {
    "A": _DAYS,
    "a": tuple(each[:3] for each in _DAYS),
    "B": _MONTHS,
    "b": tuple(each[:3] for each in _MONTHS),
    "p": ("AM", "PM"),
}
"""English, whatever the locale of the process is."""


def _at(year: int = LEAP, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def _later(months: int) -> Callable[[datetime], datetime]:
    """Return what adds months to an instant on one of the first 28 days of a month."""

    def add(at: datetime) -> datetime:
        month = at.month - 1 + months
        return at.replace(year=at.year + month // 12, month=month % 12 + 1)

    return add


def _shifted(first: datetime, months: int, format: str) -> TimeUnit:
    """Return the unit of every so many *months* from *first* on."""
    return TimeUnit(lambda at: _later(_months(first, at) // months * months)(first), _later(months), format)


def _months(first: datetime, at: datetime) -> int:
    return (at.year - first.year) * 12 + at.month - first.month


def _fixed(gap: timedelta, format: str) -> TimeUnit:
    return TimeUnit(lambda at: at, lambda at: at + gap, format)


def _week(at: datetime) -> datetime:
    """Return the first instant of the week in the year of all weeks: weeks begin on Sundays, as `%U` counts them."""
    return _at() + timedelta(weeks=int(at.strftime("%U")) - 1)


def _sunday(at: datetime) -> datetime:
    return _at(at.year, at.month, at.day) - timedelta(days=_weekday(at))


ONE_DAY, ONE_WEEK, ONE_HOUR, ONE_MINUTE = timedelta(1), timedelta(7), timedelta(hours=1), timedelta(minutes=1)
MIDNIGHT = time(tzinfo=UTC)
SHORTEST_MONTH = 28
"""Days that every month has."""
DAY = "%b %d, %Y"
MINUTE = DAY + " %H:%M"
UNITS = {
    "year": TimeUnit(lambda at: _at(at.year), _later(12), "%Y"),
    "quarter": TimeUnit(lambda at: _at(month=(at.month - 1) // 3 * 3 + 1), _later(3), "Q%q"),
    "month": TimeUnit(lambda at: _at(month=at.month), _later(1), "%b"),
    "week": TimeUnit(_week, lambda at: at + ONE_WEEK, "W%U"),
    "date": TimeUnit(lambda at: _at(day=at.day), lambda at: at + ONE_DAY, "%d"),
    "day": TimeUnit(lambda at: _at(day=1 + _weekday(at)), lambda at: at + ONE_DAY, "%a"),
    "hours": TimeUnit(lambda at: _at(hour=at.hour), lambda at: at + ONE_HOUR, "%H:00"),
    "yearquarter": TimeUnit(lambda at: _at(at.year, (at.month - 1) // 3 * 3 + 1), _later(3), "%Y Q%q"),
    "yearmonth": TimeUnit(lambda at: _at(at.year, at.month), _later(1), "%b %Y"),
    "yearweek": TimeUnit(_sunday, lambda at: at + ONE_WEEK, "%Y W%U"),
    "yearmonthdate": TimeUnit(lambda at: _at(at.year, at.month, at.day), lambda at: at + ONE_DAY, DAY),
    "monthdate": TimeUnit(lambda at: _at(month=at.month, day=at.day), lambda at: at + ONE_DAY, "%b %d"),
    "hoursminutes": TimeUnit(lambda at: _at(hour=at.hour, minute=at.minute), lambda at: at + ONE_MINUTE, "%H:%M"),
    "yearmonthdatehours": TimeUnit(
        lambda at: _at(at.year, at.month, at.day, at.hour), lambda at: at + ONE_HOUR, DAY + " %H:00"
    ),
    "yearmonthdatehoursminutes": TimeUnit(
        lambda at: _at(at.year, at.month, at.day, at.hour, at.minute), lambda at: at + ONE_MINUTE, MINUTE
    ),
}
"""Those of which charts are reduced, with the formats that Vega-Lite has for them."""

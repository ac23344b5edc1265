"""What Vega computes of rows: texts of cells, aggregates, dates and their units, bins, transforms; pure."""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from agent_core.charts.spec import is_list, is_number, is_object, words


class NotPlain(Exception):
    """The chart is none of the plain ones, or it is not certain that it would show the same; never leaves the room."""


INHERITED = words(
    """constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf __proto__
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__"""
)
"""Properties of every object of JavaScript: a row without such a field has them nevertheless."""


def plain_name(field: str) -> str:
    """Return the key of a field. Raises `NotPlain` when it is one within a cell, or one that any object has."""
    if "\\" in field or "." in field or "[" in field or field in INHERITED:
        raise NotPlain
    return field


def label_of(value: object) -> str:
    """Return how JavaScript writes a value. Raises `NotPlain` for numbers that it writes with an exponent."""
    match value:
        case None | Null():
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < WHOLE:
            return str(int(value))
        case int() | float():
            text = repr(value)
            if "e" in text or abs(value) > WHOLE:
                raise NotPlain
            return text
        case _:
            return str(value)


WHOLE = 2**53


class Null:
    """The key of rows whose cell is null: a category of its own."""


NULL = Null()


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


DEFAULT_BINS = 10
"""Vega-Lite's own, for an axis."""
MAX_BINS = 1_000
EPSILON = 1e-14


@dataclass(frozen=True)
class Bins:
    """Bins of equal width from *start* to *stop*."""

    start: float
    stop: float
    step: float

    def __len__(self) -> int:
        return max(1, round((self.stop - self.start) / self.step))

    def index(self, value: float) -> int:
        """Return in which bin *value* is; one that is at the end of the last is in the last."""
        inside = max(self.start, min(value, self.stop - self.step))
        return math.floor(EPSILON + (inside - self.start) / self.step)

    def label(self, index: int) -> str:
        low = self.start + self.step * index
        return f"{number_text(low)} – {number_text(low + self.step)}"  # noqa: RUF001


def bins_of(values: Sequence[float], setting: Any) -> Bins:
    """Return the bins of an axis for *values*. Raises `NotPlain` for options that are not reduced.

    Source: `vega-statistics`, `bin.js`.
    """
    options: Mapping[str, Any] = setting if is_object(setting) else {}
    if not values or options.keys() - {"maxbins", "step", "nice", "minstep"}:
        raise NotPlain
    low, high = min(values), max(values)
    limit, minstep, fixed = options.get("maxbins", DEFAULT_BINS), options.get("minstep", 0), options.get("step")
    if not is_number(limit) or not is_number(minstep) or not 1 <= limit <= MAX_BINS or minstep < 0:
        raise NotPlain
    span = (high - low) or abs(low) or 1
    if fixed is not None and not (is_number(fixed) and fixed > 0):
        raise NotPlain
    step = fixed if fixed is not None else _step(span, limit, minstep)
    if not span / step <= MAX_BINS:
        raise NotPlain
    if options.get("nice", True) is True:
        logarithm = math.log(step)
        precision = 0 if logarithm >= 0 else int(-logarithm / math.log(10)) + 1
        floor = math.floor(low / step + 10.0 ** (-precision - 1)) * step
        low = floor - step if low < floor else floor
        high = math.ceil(high / step) * step
    return Bins(low, low + step if high == low else high, step)


def number_text(value: float) -> str:
    """Return a number as d3 writes it without a format: twelve digits, without zeros at the end."""
    text = f"{value + 0.0:.12g}"
    if "e" in text:
        raise NotPlain
    return text.replace("-", "−")  # noqa: RUF001


def _step(span: float, limit: float, minstep: float) -> float:
    level = math.ceil(math.log(limit) / math.log(10))
    exponent = math.floor(math.log(span) / math.log(10) + 0.5) - level
    try:
        step = max(minstep, 10.0**exponent)
        while math.ceil(span / step) > limit:
            step *= 10
    except (OverflowError, ZeroDivisionError) as error:
        raise NotPlain from error
    for divisor in (5, 2):
        smaller = step / divisor
        if smaller >= minstep and span / smaller <= limit:
            step = smaller
    return step


Row = Mapping[str, Any]
Test = Callable[[Row], bool]
MAX_DEPTH = 24
MAX_ROWS = 100_000
"""Rows after a fold."""


def transformed_rows(rows: Sequence[Row], transforms: Any, dated: frozenset[str]) -> Sequence[Row]:
    """Return the rows as a view's transforms leave them; *dated* are the fields that are read as dates.

    Raises `NotPlain` for transforms that are not reduced.
    """
    if not is_list(transforms):
        raise NotPlain
    for each in transforms:
        if not is_object(each):
            raise NotPlain
        keys = set(each)
        if keys == {"filter"}:
            test = _test(each["filter"], rows, dated)
            rows = [row for row in rows if test(row)]
        elif "aggregate" in keys and keys <= {"aggregate", "groupby"}:
            rows = _aggregated(rows, each)
        elif "fold" in keys and keys <= {"fold", "as"}:
            rows = _folded(rows, each)
        elif keys == {"timeUnit", "field", "as"}:
            rows = _floored(rows, each)
        else:
            raise NotPlain
    return rows


def _test(predicate: Any, rows: Sequence[Row], dated: frozenset[str], depth: int = 0) -> Test:
    """Return what tests a row of *rows*; the cells of a field must all be of the type of what they are compared with.

    Vega reads cells of other types as the one of the operand, and so those of *dated* fields, which are dates then.
    """
    if not is_object(predicate) or depth > MAX_DEPTH:
        raise NotPlain
    if len(predicate) == 1:
        ((key, parts),) = predicate.items()
        if key == "not":
            inner = _test(parts, rows, dated, depth + 1)
            return lambda row: not inner(row)
        if key not in ("and", "or") or not is_list(parts):
            raise NotPlain
        tests = [_test(each, rows, dated, depth + 1) for each in parts]
        joined = all if key == "and" else any
        return lambda row: joined(each(row) for each in tests)
    comparisons = predicate.keys() - {"field"}
    if len(predicate) != len(PAIR) or len(comparisons) != 1:
        raise NotPlain
    comparison, column = comparisons.pop(), _column(predicate["field"])
    operands = predicate[comparison] if comparison in ("oneOf", "range") else [predicate[comparison]]
    if column in dated or not is_list(operands) or not operands:
        raise NotPlain
    if any(isinstance(each, str) and each in INHERITED for each in operands):
        raise NotPlain  # Vega refuses these texts
    kinds = {_type_of(each) for each in operands} | {_type_of(row.get(column)) for row in rows}
    if len(kinds) > 1 or (comparison not in ("equal", "oneOf") and not _is_ordered(kinds, operands, column, rows)):
        raise NotPlain
    compared = _comparison(comparison, operands)
    return lambda row: compared(row[column])


def _comparison(name: str, operands: Sequence[Any]) -> Callable[[Any], bool]:
    match name, operands:
        case "equal" | "oneOf", _:
            wanted = frozenset(operands)
            return lambda cell: cell in wanted
        case "range", [one, other]:
            low, high = min(one, other), max(one, other)
            return lambda cell: low <= cell <= high
        case "gte", [operand]:
            return lambda cell: cell >= operand
        case "lte", [operand]:
            return lambda cell: cell <= operand
        case "gt", [operand]:
            return lambda cell: cell > operand
        case "lt", [operand]:
            return lambda cell: cell < operand
        case _:
            raise NotPlain


def _type_of(value: Any) -> str:
    """Return the type of a cell or an operand. Raises `NotPlain` for null, lists and objects."""
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "text"
    raise NotPlain


def _is_ordered(kinds: set[str], operands: Sequence[Any], column: str, rows: Sequence[Row]) -> bool:
    """Return whether all values are numbers, or ASCII texts, whose order is the same anywhere."""
    if kinds == {"text"}:
        return all(each.isascii() for each in operands) and all(row[column].isascii() for row in rows)
    return kinds == {"number"}


def _aggregated(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    by = transform.get("groupby", [])
    ops = transform["aggregate"]
    if not is_list(by) or not is_list(ops) or not all(map(is_object, ops)):
        raise NotPlain
    names = [_column(each) for each in by]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    joined: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        cells = [row.get(name, ABSENT) for name in names]
        if not all(cell is None or isinstance(cell, str | int | float) for cell in cells):
            raise NotPlain
        key = tuple((type(cell) is bool, type(cell) is str, cell) for cell in cells)
        if joined.setdefault("|".join(map(_joined, cells)), key) != key:
            raise NotPlain  # Vega takes these for one group
        groups.setdefault(key, []).append(row)
    result: list[Row] = []
    for key, members in groups.items():
        made = dict(zip(names, (cell for _, _, cell in key), strict=True))
        for each in ops:
            op, field = each.get("op"), each.get("field", "")
            if not isinstance(op, str) or not isinstance(each.get("as"), str):
                raise NotPlain
            column = _column(field)
            made[each["as"]] = aggregated(op, [row.get(column, ABSENT) for row in members])
        result.append(made)
    return result


def _folded(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    fields, names = transform["fold"], transform.get("as", ["key", "value"])
    if not is_list(fields) or not is_list(names) or len(names) != len(PAIR):
        raise NotPlain
    if len(rows) * len(fields) > MAX_ROWS or not all(isinstance(each, str) for each in names):
        raise NotPlain
    columns = [_column(each) for each in fields]
    return [{**row, names[0]: name, names[1]: row.get(name)} for row in rows for name in columns]


PAIR = ("key", "value")


def _floored(rows: Sequence[Row], transform: Mapping[str, Any]) -> list[Row]:
    """Return the rows with the first instant of the unit in a field of its own, in milliseconds."""
    name, unit, field = transform["as"], transform["timeUnit"], _column(transform["field"])
    if not isinstance(name, str) or not isinstance(unit, str):
        raise NotPlain
    floor = unit_named(unit).floor
    return [{**row, name: int((floor(instant(row.get(field))) - EPOCH).total_seconds() * 1000)} for row in rows]


def _joined(cell: Any) -> str:
    return "undefined" if cell is ABSENT else label_of(cell)


def _column(field: Any) -> str:
    if not isinstance(field, str):
        raise NotPlain
    return plain_name(field)

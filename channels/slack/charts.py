"""Charts in the forms that Slack takes, the richest that fits first."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

from msgspec import structs

from agent_core.charts.text import RenderHead, data_of, head_of
from agent_core.charts.values import DataTable, PlainChart, PlainSeries, TableColumn, amount_sign, chart_of, table_of
from agent_core.messages import shorten
from channels.slack import limits
from channels.slack.tables import (
    MESSAGE,
    ChartLink,
    ChosenForm,
    Form,
    FormMaker,
    Json,
    Ladder,
    PngUpload,
    Room,
    attachment_of,
    data_table_form,
    file_name,
    note,
    summary,
    table_steps,
)
from channels.slack.text import neutral
from channels.spec import ShownRender
from channels.text import one_line

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


_NAMELESS = "\u2013"


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return *names* in as many characters as Slack takes; those that would be the same then are numbered."""
    limit = limits.CHART_NAME
    result: list[str] = []
    used: set[str] = set()
    counts: dict[str, int] = {}
    for name in names:
        short = base = shorten(plain_name(name), limit) or _NAMELESS
        while short in used:
            counts[base] = counts.get(base, 1) + 1
            number = f" {counts[base]}"
            short = f"{shorten(base, limit - len(number))}{number}"
        used.add(short)
        result.append(short)
    return tuple(result)


def plain_name(name: str) -> str:
    """Return *name* on one line, visible, and no syntax of Slack's own."""
    return neutral(one_line(name[: 4 * limits.CHART_AXIS]))


OTHER = "Other"
_MAX_NUMBER = 1e300  # a sum of several of these is no number any more


class NativeChart(NamedTuple):
    """A *block*, and a *remark* on what in it is not as it was asked for, if anything."""

    block: Json
    remark: str = ""


class NotNative(NamedTuple):
    """Why a chart cannot be Slack's own block."""

    reason: str


def native(chart: PlainChart, title: str, spec: Mapping[str, Any]) -> NativeChart | NotNative:
    """Return *chart*, reduced from *spec*, as the block `data_visualization` with *title*."""
    if any(value is not None and not abs(value) < _MAX_NUMBER for each in chart.series for value in each.values):
        return NotNative("a value is too large for a block, or no number")
    match chart.type:
        case "scatter":
            return NotNative("Slack has no scatter chart")
        case "pie":
            chart_block, remark = _pie(chart)
        case _:
            chart_block, remark = _axes(chart, spec)
    if isinstance(chart_block, NotNative):
        return chart_block
    block = {
        "type": "data_visualization",
        "title": shorten(plain_name(title), limits.CHART_TITLE) or "Chart",
        "chart": chart_block,
    }
    return NativeChart(block, remark)


def _pie(chart: PlainChart) -> tuple[Json | NotNative, str]:
    """Return the slices, those that have no size left out, and the smallest as one if they are too many."""
    if len(chart.series) != 1:
        return NotNative("a pie has one series"), ""
    values = chart.series[0].values
    if any(value is not None and value < 0 for value in values):
        return NotNative("a slice has a negative size"), ""
    slices = [(name, value) for name, value in zip(chart.categories, values, strict=True) if value]
    if not slices:
        return NotNative("no slice has a size"), ""
    limit, remark = limits.CHART_SEGMENTS, ""
    if len(slices) > limit:
        order = sorted(range(len(slices)), key=lambda n: -slices[n][1])
        largest, rest = sorted(order[: limit - 1]), order[limit - 1 :]
        other = math.fsum(slices[n][1] for n in rest)
        slices = [*(slices[n] for n in largest), (OTHER, other)]
        remark = f"{OTHER}: the {len(rest)} smallest together."
    names = short_names(name for name, _ in slices)
    segments = [{"label": name, "value": value} for name, (_, value) in zip(names, slices, strict=True)]
    return {"type": "pie", "segments": segments}, remark


def _axes(chart: PlainChart, spec: Mapping[str, Any]) -> tuple[Json | NotNative, str]:
    """Return bars, lines or areas; horizontal bars stand up, since Slack has no others."""
    if len(chart.series) > limits.CHART_SERIES:
        return NotNative(f"{len(chart.series)} series are more than Slack takes"), ""
    remark, limit = "", limits.CHART_POINTS
    whole = _filled(chart)
    if isinstance(whole, NotNative):
        return whole, ""
    if len(whole.categories) > limit:
        added = coarser(whole, limit) if adds_up(spec) else None
        if added is None:
            return NotNative(f"{len(whole.categories)} categories are more than Slack takes"), ""
        whole, unit = added
        remark = f"Added up by {unit}: Slack's own charts have at most {limit} points."
        whole = _filled(whole)
        if isinstance(whole, NotNative):
            return whole, ""
    if not whole.categories:
        return NotNative("there is no data"), ""
    return _with_axes(whole), remark


def _filled(chart: PlainChart) -> PlainChart | NotNative:
    """Return *chart* without gaps: they are 0 for bars and areas, and a line has none where all have one."""
    if chart.type != "line":
        series = tuple(PlainSeries(each.name, tuple(value or 0 for value in each.values)) for each in chart.series)
        return structs.replace(chart, series=series)
    filled = [n for n in range(len(chart.categories)) if any(each.values[n] is not None for each in chart.series)]
    series = tuple(PlainSeries(each.name, tuple(each.values[n] for n in filled)) for each in chart.series)
    if any(value is None for each in series for value in each.values):
        return NotNative("a line has a gap")
    return structs.replace(chart, categories=tuple(chart.categories[n] for n in filled), series=series)


def _with_axes(chart: PlainChart) -> Json:
    labels = short_names(chart.categories)
    names = short_names(each.name or chart.y or "" for each in chart.series)
    axis: Json = {"categories": list(labels)}
    if along := shorten(plain_name(chart.x or ""), limits.CHART_AXIS):
        axis["x_label"] = along
    sign = amount_sign(chart.format)  # the block writes none at its values
    if up := _with_sign(plain_name(chart.y or ""), sign):
        axis["y_label"] = up
    series = [
        {"name": name, "data": _points(labels, each.values, 100 if sign == "%" else 1)}
        for name, each in zip(names, chart.series, strict=True)
    ]
    return {"type": chart.type, "series": series, "axis_config": axis}


def _with_sign(title: str, sign: str) -> str:
    """Return the *title* of an axis with the *sign* of its amounts after it, if that is not in it."""
    if not sign or sign in title:
        return shorten(title, limits.CHART_AXIS)
    after = f" ({sign})"
    return f"{shorten(title, limits.CHART_AXIS - len(after))}{after}" if title else sign


def _points(labels: Sequence[str], values: Sequence[float | None], factor: int) -> list[Json]:
    return [{"label": label, "value": _times(value or 0, factor)} for label, value in zip(labels, values, strict=True)]


def _times(value: float, factor: int) -> float:
    """Return *value* times *factor* without the last digits of a product."""
    return value if factor == 1 else float(f"{value * factor:.12g}")


_TITLE = 100
_WHOLE = 10**15


def chart_steps(render: ShownRender, chart: PlainChart | None, *, links: bool) -> list[FormMaker]:
    """Return the forms of a chart, the best first; *chart* is None when it did not reduce to a plain one.

    With *links* a plain chart that is not Slack's own is a picture of the service of `QUICKCHART_URL`.
    """
    steps: list[FormMaker] = []
    if chart is not None:
        steps.append(lambda room: native_form(render, chart) if room.charts else None)
        if links:
            steps.append(lambda _room: link_form(render, chart))
    steps.append(lambda _room: picture_form(render))
    data = plain_data(chart) if chart is not None else max(data_of(_spec(render)), key=_size, default=None)
    if data is not None and data.rows:
        steps.append(partial(data_table_form, render, data))
    return steps


def native_form(render: ShownRender, chart: PlainChart) -> Form | None:
    """Return *chart* as Slack's own block, None when it cannot be one."""
    block = native(chart, heading(render), _spec(render))
    if not isinstance(block, NativeChart):
        return None
    below = [note(block.remark)] if block.remark else []
    return Form((block.block, *below), chart_words(render))


def picture_form(render: ShownRender) -> Form | None:
    """Return a picture of the chart, drawn from its specification and uploaded; None without one."""
    spec = _spec(render)
    if not spec:
        return None
    title = heading(render)
    words = chart_words(render)
    return Form((), words, PngUpload(dict(spec), file_name(title, "png", "chart"), title, alt_of(render)))


def link_form(render: ShownRender, chart: PlainChart) -> Form:
    """Return a picture of *chart* that a service draws from what its address says."""
    return Form((), chart_words(render), ChartLink(chart, heading(render), alt_of(render)))


def heading(render: ShownRender) -> str:
    """Return the title of the chart; without one, what it shows."""
    return shorten(_head(render).heading, limits.TABLE_CAPTION)


def alt_of(render: ShownRender) -> str:
    """Return what the picture of the chart shows, in words for those who do not see it."""
    return shorten("\n".join((heading(render), *filter(None, _head(render).facts))), limits.IMAGE_ALT)


def chart_words(render: ShownRender) -> str:
    """Return the chart for notifications and screen readers: its title, its shape, and its extremes."""
    facts = _head(render).facts
    return summary(": ".join((shorten(heading(render), _TITLE), *facts[:1])), *facts[1:])


def _head(render: ShownRender) -> RenderHead:
    return head_of(render.kind, render.payload, render.title)


def plain_data(chart: PlainChart) -> DataTable:
    """Return the numbers of *chart* as a table: a row for each category, or for each point of a scatter chart."""
    if chart.type == "scatter":
        several = len(chart.series) > 1
        columns = [TableColumn("x", chart.x or "x"), TableColumn("y", chart.y or "y", format=chart.format)]
        rows = [
            {"name": each.name, "x": _rounded(x), "y": _rounded(y)} for each in chart.series for x, y in each.points
        ]
        return DataTable((*([TableColumn("name", "Series")] if several else []), *columns), tuple(rows))
    keys = [f"s{n}" for n in range(len(chart.series))]
    columns = [
        TableColumn(key, each.name or chart.y or "Value", format=chart.format)
        for key, each in zip(keys, chart.series, strict=True)
    ]
    rows = [
        {"label": label, **{key: _rounded(each.values[n]) for key, each in zip(keys, chart.series, strict=True)}}
        for n, label in enumerate(chart.categories)
    ]
    return DataTable((TableColumn("label", chart.x or "Category"), *columns), tuple(rows))


def _rounded(value: float | None) -> float | int | None:
    """Return *value* as people write it: without the last digits of a sum, and whole if it is."""
    if value is None or not math.isfinite(value):
        return value
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() and abs(short) < _WHOLE else short


def _size(table: DataTable) -> int:
    return len(table.rows)


def _spec(render: ShownRender) -> Mapping[str, Any]:
    spec = render.payload.get("spec")
    return cast("dict[str, Any]", spec) if isinstance(spec, dict) else {}


def ladder_of(render: ShownRender, *, links: bool = False) -> Ladder | None:
    """Return the forms of *render*; None where its text is what it shows.

    With *links* plain charts that are not Slack's own are pictures of the service of `QUICKCHART_URL`.
    """
    renderer = RENDERERS.get(render.kind)
    return None if renderer is None else renderer(render, links)


def _table_ladder(render: ShownRender, _links: bool) -> Ladder | None:  # noqa: FBT001 - a renderer's shape
    table = table_of(render.payload)
    if table is None or not (steps := table_steps(render, table)):
        return None
    return Ladder(render, steps, attachment_of(render, table) if table.rows else None)


def _chart_ladder(render: ShownRender, links: bool) -> Ladder | None:  # noqa: FBT001 - a renderer's shape
    if not isinstance(render.payload.get("spec"), dict):
        return None
    chart = chart_of(render.payload)
    return Ladder(render, chart_steps(render, chart, links=links))


RENDERERS: Mapping[str, Callable[[ShownRender, bool], Ladder | None]] = {"table": _table_ladder, "chart": _chart_ladder}
"""How Slack draws renders, by kind; it shows the text of all others. The flag is `links` of `ladder_of`."""


class Ladders:
    """The ladders of a thread's renders, each made once: a message that is drawn again has the very same forms."""

    def __init__(self, *, links: bool = False) -> None:
        self._links = links
        self._made: dict[str, tuple[ShownRender, Ladder | None]] = {}

    def has(self, render: ShownRender) -> bool:
        """Return whether the ladder of *render* is made."""
        return self._made.get(render.id, (None, None))[0] == render

    def of(self, render: ShownRender) -> Ladder | None:
        """Return the ladder of *render*, None when it is no table and no chart.

        A call that runs again after a crash may show something else under the same id: that has a ladder of its own.
        """
        cached, ladder = self._made.get(render.id, (None, None))
        if cached != render:
            ladder = ladder_of(render, links=self._links)
            self._made[render.id] = render, ladder
        return ladder


def choose(ladders: Iterable[Ladder], refused: Mapping[str, int], room: Room = MESSAGE) -> tuple[ChosenForm, ...]:
    """Return a form for each of *ladders*, the renders of one message in their order, that *room* holds together.

    The first ones get the better forms, so that what is shown does not change when another follows. *refused* has for
    the id of a render the first step that may still be sent: one more than that of the `ChosenForm`
    that was refused.
    """
    forms: list[ChosenForm] = []
    for ladder in ladders:
        choice = ladder.best(room, refused.get(ladder.render.id, 0))
        room = room.without(choice.taken)
        forms.append(choice)
    return tuple(forms)

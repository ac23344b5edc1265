"""What of a chart is only its look: all that a plain chart may leave out without showing anything else."""

from collections.abc import Mapping
from typing import Any

from agent_core.renders.vega.measures import name_of
from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import is_list, is_object, words

Definition = Mapping[str, Any]

DISCRETE = ("nominal", "ordinal")
VIEW = words(
    "$schema name title description data datasets transform mark encoding width height view config autosize padding"
    " background bounds align center spacing"
)
MARK = words(
    "type color fill stroke opacity fillOpacity strokeOpacity strokeWidth strokeDash strokeCap strokeJoin cornerRadius"
    " cornerRadiusEnd cornerRadiusTopLeft cornerRadiusTopRight cornerRadiusBottomLeft cornerRadiusBottomRight tooltip"
    " point line interpolate filled size shape innerRadius outerRadius padAngle width height binSpacing aria"
    " description discreteBandSize continuousBandSize minBandSize clip tension blend"
)
CURVES = ("linear", "monotone", "cardinal", "catmull-rom", "natural")
"""Curves that pass through their points."""
CONFIG = words(
    "axis axisX axisY axisBand axisLeft axisBottom axisDiscrete axisQuantitative axisTemporal background font header"
    " legend padding range title view style autosize aria"
)
"""Parts of a configuration that change the look only; those named after a mark are judged as marks."""
EXPRESSIONS = frozenset({"expr", "signal", "param", "calculate"})
AXIS_MEANS = frozenset({"format", "formatType", "title", "disable"})
MARKED = frozenset({"mark", "bar", "line", "area", "arc", "point", "circle", "square"})

CHANNELS = frozenset({"x", "y", "theta", "color", "fill", "stroke", "shape", "detail", "xOffset", "yOffset", "tooltip"})
"""Channels whose field is drawn."""
LOOKS = words("opacity fillOpacity strokeOpacity strokeWidth strokeDash size angle description text")
"""Channels that may have a fixed value; one of `y2`, say, also ends the stacking."""
SPLITTING = ("color", "fill", "stroke", "shape", "detail")
CATEGORY = frozenset({"field", "type", "timeUnit", "bin", "sort", "title", "axis", "scale"})
MEASURE = frozenset({"field", "type", "aggregate", "title", "axis", "scale", "stack", "legend"})
MEASURE_SCALE = frozenset({"type", "zero", "nice", "domain", "domainMin", "domainMax", "padding"})
SPLIT = frozenset({"field", "type", "sort", "title", "legend", "scale"})


def is_dressing(spec: Mapping[str, Any], encoding: Mapping[str, Any]) -> bool:
    """Return whether all of *spec* but its rows and the fields that are drawn is its look."""
    config = spec.get("config")
    return (
        spec.keys() <= VIEW
        and not _computes(spec)
        and _is_plain_mark(spec.get("mark"))
        and (config is None or (is_object(config) and all(_is_plain_config(*each) for each in config.items())))
        and all(_is_shown(channel, each) for channel, each in encoding.items())
        and _groups_nothing_else(encoding)
    )


def is_measure(definition: Definition) -> bool:
    """Return whether a channel shows an amount. Raises `NotPlain` when it does so in a way that is not plain."""
    aggregate = definition.get("aggregate")
    if aggregate is None and (definition.get("type") != "quantitative" or definition.get("bin")):
        if definition.keys() - CATEGORY:
            raise NotPlain
        return False
    scale = definition.get("scale")
    if definition.keys() - MEASURE or definition.get("type", "quantitative") != "quantitative":
        raise NotPlain
    if scale is not None and not (
        is_object(scale) and not scale.keys() - MEASURE_SCALE and scale.get("type", "linear") == "linear"
    ):
        raise NotPlain
    if not isinstance(definition.get("field"), str) and aggregate != "count":
        raise NotPlain
    return True


def series_of(encoding: Mapping[str, Any], category: Definition, offset: str | None) -> Definition | None:
    """Return the definition whose values are series, None when there is one series; *category* colours nothing new.

    Raises `NotPlain` when several fields split the marks.
    """
    channels = SPLITTING if offset is None else (*SPLITTING, offset)
    split: dict[str, Definition] = {}
    for channel in channels:
        for each in _listed(encoding.get(channel)):
            if "field" not in each:
                continue
            field = each["field"]
            if not isinstance(field, str) or each.keys() - SPLIT or each.get("type", "nominal") not in DISCRETE:
                raise NotPlain
            if field == category.get("field") and channel != offset:
                if "timeUnit" in category or "bin" in category:
                    raise NotPlain
                continue
            split.setdefault(field, each)
    if len(split) > 1:
        raise NotPlain
    return next(iter(split.values()), None)


def splits_categories(encoding: Mapping[str, Any], category: Definition) -> bool:
    """Return whether a colour, or another channel that splits the marks, has the field of the categories."""
    listed = [each for channel in SPLITTING for each in _listed(encoding.get(channel))]
    return any(each.get("field") == category.get("field") for each in listed)


def titled(definition: Definition, guide: str = "axis") -> str | None:
    """Return the title of an axis or a legend: its own, that of the channel, or the one that Vega-Lite makes."""
    part = definition.get(guide, {})
    if part is None:
        return None
    if not is_object(part):
        raise NotPlain
    if "title" in part:
        return title_of(part["title"])
    return title_of(definition["title"]) if "title" in definition else name_of(definition)


def title_of(title: Any) -> str | None:
    """Return a title, which may have several lines, or be the text of an object. Raises `NotPlain`."""
    if is_object(title):
        title = title.get("text")
    if is_list(title):
        title = " ".join(str(each) for each in title)
    if not (title is None or isinstance(title, str)):
        raise NotPlain
    return title or None


def _computes(spec: Mapping[str, Any]) -> bool:
    """Return whether an expression is outside the rows, whose value only Vega knows."""
    waiting: list[Any] = [each for key, each in spec.items() if key not in ("data", "datasets")]
    while waiting:
        each = waiting.pop()
        if is_object(each):
            if any(key in EXPRESSIONS or str(key).endswith("Expr") for key in each):
                return True
            waiting += each.values()
        elif is_list(each):
            waiting += each
    return False


def _is_plain_mark(mark: Any) -> bool:
    if not is_object(mark):
        return isinstance(mark, str)
    return mark.keys() <= MARK and mark.get("interpolate", "linear") in CURVES


def _is_plain_config(key: str, value: Any) -> bool:
    if key in MARKED:
        return _is_plain_mark(value)
    if key not in CONFIG:
        return False
    return not (key.startswith("axis") and is_object(value) and AXIS_MEANS & value.keys())


def _is_shown(channel: str, definition: Any) -> bool:
    """Return whether a channel is one whose field is drawn, or has a fixed value for its look."""
    return all(
        "condition" not in each
        and "datum" not in each
        and (channel in CHANNELS or (channel in LOOKS and set(each) == {"value"}))
        for each in _listed(definition)
    )


def _groups_nothing_else(encoding: Mapping[str, Any]) -> bool:
    """Return whether the fields of tooltips make no groups: where anything is aggregated, each field makes some."""
    drawn = [each for key, listed in encoding.items() if key != "tooltip" for each in _listed(listed)]
    channels = _listed(encoding.get("tooltip"))
    if not any("aggregate" in each for each in drawn):
        return not any("aggregate" in each or "bin" in each for each in channels)
    groups = [_grouping(each) for each in drawn if "field" in each and "aggregate" not in each]
    return all("aggregate" in each or "field" not in each or _grouping(each) in groups for each in channels)


def _grouping(definition: Definition) -> tuple[Any, ...]:
    return definition.get("field"), definition.get("timeUnit"), definition.get("bin")


def _listed(definition: Any) -> list[Definition]:
    """Return the definitions of a channel, which may have none, one or several. Raises `NotPlain`."""
    if definition is None:
        return []
    listed = definition if is_list(definition) else [definition]
    if not all(map(is_object, listed)):
        raise NotPlain
    return list(listed)

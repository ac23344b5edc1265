"""The words of Slack's blocks, line by line as mrkdwn, and what of them cannot be words; pure.

Blocks are read lazily and in order, so that a reader may stop at any line and pay for no more than it took.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, cast

from agent_core import shorten
from channels.legible import one_line
from channels.slack.outbound.text import escape
from channels.slack.web_api.client import Json

MAX_DEPTH = 8
"""Levels of blocks within blocks that are read."""
MAX_LABEL = 120
"""Characters of the name of a file, of a block and the like."""
_ID = re.compile(r"[A-Z][A-Z0-9]{1,40}")
_RANGES = frozenset({"here", "channel", "everyone"})
_PIECE = 4_000
"""Characters of one line; a longer one is divided."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of mrkdwn that someone wrote; *is_notice*: words of ours that name what is not shown."""

    text: str
    is_notice: bool = False


def named(value: object, *, limit: int = MAX_LABEL) -> str:
    """Return a name that others gave on one line in which all can be seen, without brackets of ours.

    It has at most *limit* characters, the last of which says that it was cut.
    """
    name = one_line(str(value or "")[: 4 * limit]).replace("[", "(").replace("]", ")")
    return shorten(name, limit)


def not_shown(what: str, *names: object) -> Line:
    """Return the line that says that *what* is there and cannot be shown."""
    about = ", ".join(name for name in map(named, names) if name)
    return Line(f"[attachment not shown: {f'{what} {about}'.strip()}]", is_notice=True)


def lines_of(blocks: Any, depth: int = 0) -> Iterator[Line]:
    """Yield the lines of *blocks*, which may be anything."""
    if depth > MAX_DEPTH:
        yield Line("[cut: what is nested deeper is not shown]", is_notice=True)
        return
    for block in objects(blocks):
        reading = _BLOCKS.get(str(block.get("type")))
        if reading is None:
            yield not_shown("block of the kind", block.get("type") or "unknown")
        else:
            yield from reading(block, depth)


def objects(value: Any) -> Iterator[Json]:
    """Yield the objects of a list that Slack has sent; anything else has none."""
    listed: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
    return (cast("Json", each) for each in listed if isinstance(each, Mapping))


def text_lines(value: Any) -> Iterator[Line]:
    """Yield the lines of a text object, or of a bare text."""
    if isinstance(value, Mapping):
        part = cast("Json", value)
        text = _plain(part)
        yield from _lines(text if part.get("type") == "mrkdwn" else escape(text))
    elif isinstance(value, str):
        yield from _lines(escape(value))


def _lines(mrkdwn: str) -> Iterator[Line]:
    for start in range(0, len(mrkdwn), _PIECE):
        yield Line(mrkdwn[start : start + _PIECE])


def _joined(mrkdwn: Iterable[str]) -> Iterator[Line]:
    """Yield pieces of one line as such."""
    taken, size = list[str](), 0
    for piece in mrkdwn:
        taken.append(piece)
        size += len(piece)
        if size > _PIECE:
            yield from _lines("".join(taken))
            taken, size = [], 0
    if size:
        yield from _lines("".join(taken))


# ---- rich text --------------------------------------------------------------------------------------


def _inline(element: Json) -> str:
    """Return one element of a rich text as mrkdwn."""
    match element:
        case {"type": "text", "text": str(text)}:
            return _styled(escape(text), element)
        case {"type": "link", "url": str(url)}:
            label = str(element.get("text") or "")
            address = escape(url).replace("|", "%7C")
            return f"<{address}|{escape(label).replace('|', '/')}>" if label else f"<{address}>"
        case {"type": "user", "user_id": str(id)} if _ID.fullmatch(id):
            return f"<@{id}>"
        case {"type": "channel", "channel_id": str(id)} if _ID.fullmatch(id):
            return f"<#{id}>"
        case {"type": "usergroup", "usergroup_id": str(id)} if _ID.fullmatch(id):
            return f"<!subteam^{id}>"
        case {"type": "broadcast", "range": str(everyone)} if everyone in _RANGES:
            return f"<!{everyone}>"
        case {"type": "emoji", "name": str(name)}:
            return f":{escape(named(name))}:"
        case {"type": "date", "timestamp": int(seconds)}:
            return escape(str(element.get("fallback") or "")) or _day(seconds)
        case {"type": "color", "value": str(value)}:
            return escape(named(value))
        case {"text": str(text)}:
            return escape(text)
        case _:
            return ""


def _styled(text: str, element: Json) -> str:
    style = element.get("style")
    for name, mark in (("code", "`"), ("strike", "~")):
        if isinstance(style, Mapping) and cast("Json", style).get(name):
            text = f"{mark}{text}{mark}"
    return text


def _day(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return ""


def _section(element: Json) -> Iterator[Line]:
    return _joined(map(_inline, objects(element.get("elements"))))


def _rich_text(block: Json, depth: int) -> Iterator[Line]:
    for element in objects(block.get("elements")):
        match element.get("type"):
            case "rich_text_list":
                yield from _list(element, depth)
            case "rich_text_preformatted":
                yield from chain([Line("```")], _section(element), [Line("```")])
            case "rich_text_quote":
                yield from (Line(f"> {row}") for line in _section(element) for row in line.text.split("\n"))
            case "rich_text_section":
                yield from _section(element)
            case other:
                yield not_shown("block of the kind", other or "unknown")


def _list(element: Json, depth: int) -> Iterator[Line]:
    indent = element.get("indent")
    space = "  " * (min(indent, MAX_DEPTH) if isinstance(indent, int) else 0)
    first = element.get("offset")
    start = (first if isinstance(first, int) else 0) + 1
    for n, item in enumerate(objects(element.get("elements")), start):
        sign = f"{n}." if element.get("style") == "ordered" else "•"
        nested = item.get("type") == "rich_text_list" and depth < MAX_DEPTH
        lines = _list(item, depth + 1) if nested else _section(item)
        yield from (
            Line(f"{space}{sign if not k else ' '} {line.text}", line.is_notice) for k, line in enumerate(lines)
        )


# ---- tables and charts ------------------------------------------------------------------------------


def _table(block: Json, depth: int) -> Iterator[Line]:
    yield from text_lines(block.get("caption"))
    rows: Any = block.get("rows")
    for row in cast("list[Any]", rows) if isinstance(rows, list) else ():
        yield from _joined(_between(" | ", (_cell(cell, depth) for cell in objects(row))))


def _between(sign: str, pieces: Iterable[str]) -> Iterator[str]:
    for n, piece in enumerate(pieces):
        yield f"{sign}{piece}" if n else piece


def _cell(cell: Json, depth: int) -> str:
    if cell.get("type") == "rich_text":
        return " ".join(line.text for line in islice(_rich_text(cell, depth), 20)).replace("\n", " ")
    value = cell.get("text") if cell.get("text") is not None else cell.get("value")
    return escape(" ".join(str("" if value is None else value).split()))


def _chart(block: Json, _: int) -> Iterator[Line]:
    chart = _object(block, "chart")
    yield Line(f"Chart ({escape(named(chart.get('type')))}): {escape(named(block.get('title')))}")
    yield from _points("", chart.get("segments"))
    for series in objects(chart.get("series")):
        yield from _points(f"{escape(named(series.get('name')))}: ", series.get("data"))


def _points(name: str, points: Any) -> Iterator[Line]:
    lines = (f"{escape(named(each.get('label')))} {escape(named(each.get('value')))}" for each in objects(points))
    return (replace(line, text=name + line.text) for line in _joined(_between(", ", lines)))


# ---- all others -------------------------------------------------------------------------------------


def _texts(*names: str) -> Callable[[Json, int], Iterator[Line]]:
    """Return the reading of a block that has texts in the fields *names*, one or several each."""

    def reading(block: Json, depth: int) -> Iterator[Line]:
        for name in names:
            value: Any = block.get(name)
            yield from _many(cast("list[Any]", value) if isinstance(value, list) else [value], depth)

    return reading


def _many(values: list[Any], depth: int) -> Iterator[Line]:
    for each in values:
        is_text = not isinstance(each, Mapping) or cast("Json", each).get("type") in ("plain_text", "mrkdwn")
        yield from text_lines(each) if is_text else lines_of([each], depth + 1)


def _image(block: Json, _: int) -> Iterator[Line]:
    title: Any = block.get("title")
    yield not_shown("image", _plain(title), block.get("alt_text"))


def _video(block: Json, _: int) -> Iterator[Line]:
    yield not_shown("video", _plain(block.get("title")), block.get("alt_text"), block.get("title_url"))


def _remote_file(block: Json, _: int) -> Iterator[Line]:
    yield not_shown("file", block.get("external_id"))


def _buttons(block: Json, _: int) -> Iterator[Line]:
    labels = (named(_plain(each.get("text"))) for each in objects(block.get("elements")))
    if texts := [label for label in islice(labels, 25) if label]:
        yield not_shown("buttons", *texts)


def _nothing(_: Json, __: int) -> Iterator[Line]:
    return iter(())


def _plain(value: Any) -> str:
    text: Any = cast("Json", value).get("text") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _object(block: Json, name: str) -> Json:
    value: Any = block.get(name)
    return cast("Json", value) if isinstance(value, Mapping) else {}


_BLOCKS: Mapping[str, Callable[[Json, int], Iterator[Line]]] = MappingProxyType(
    {
        "rich_text": _rich_text,
        "section": _texts("text", "fields", "accessory"),
        "header": _texts("text"),
        "context": _texts("elements"),
        "markdown": _texts("text"),
        "alert": _texts("text"),
        "card": _texts("title", "subtitle", "body", "subtext", "hero_image"),
        "carousel": _texts("elements"),
        "container": _texts("title", "rich_text_title", "subtitle", "child_blocks"),
        "plan": _texts("title", "tasks"),
        "task_card": _texts("title", "details", "output"),
        "input": _texts("label", "hint"),
        "table": _table,
        "data_table": _table,
        "data_visualization": _chart,
        "image": _image,
        "video": _video,
        "file": _remote_file,
        "actions": _buttons,
        "button": _nothing,
        "static_select": _nothing,
        "overflow": _nothing,
        "context_actions": _nothing,
        "divider": _nothing,
    }
)

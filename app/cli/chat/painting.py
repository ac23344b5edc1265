"""Tables and charts in the colours of a terminal; every other render as text."""

import re
from collections.abc import Iterator, Sequence

from agent_core import ChartLine, PlainChart, chart_lines, chart_of
from channels.spec import ShownRender
from channels.text import MAX_TEXT, drawn, titled, visible

_COLOURS = (36, 33, 32, 35, 34, 31)
"""Cyan, yellow, green, magenta, blue, red of the terminal's own palette, for one series after another."""
_MARK = re.compile("(?<= )[\u2580-\u259f\u2502][\u2580-\u259f\u2502 ]*$")
"""A bar or a line of signs at the end of a line."""
_RULE = re.compile("-[- ]*")
_DRAWN = ("table", "chart")


def painted(renders: Sequence[ShownRender], width: int) -> str:
    """Return *renders* as text with colours, each after an empty line; see `channels.text.drawn`."""
    return "".join(_painted(each, width) for each in renders)


def _painted(render: ShownRender, width: int) -> str:
    if render.kind not in _DRAWN:
        return drawn([render], width)
    chart = chart_of(render.payload) if render.kind == "chart" else None
    lines = _lines(drawn([render], width)[1:]) if chart is None else _of_chart(render, chart, width)
    head = len(_lines(visible(render.title))) if render.title else 0
    return "\n" + "".join(
        f"{line}\n" for line in (*(_bold(line.text) for line in lines[:head]), *_styled(lines[head:]))
    )


def _of_chart(render: ShownRender, chart: PlainChart, width: int) -> list[ChartLine]:
    """Return the lines of *chart* as they are without colours, each with the series whose mark is at its end."""
    lines = list(chart_lines(chart, width=width, limit=MAX_TEXT))
    shown = _lines(titled(render, "\n".join(line.text for line in lines)))
    above = len(shown) - len(lines)
    return shown[:above] + [
        ChartLine(text, series) for (text, _), (_, series) in zip(shown[above:], lines, strict=True)
    ]


def _lines(text: str) -> list[ChartLine]:
    return [ChartLine(line) for line in text.removesuffix("\n").split("\n")]


def _styled(lines: Sequence[ChartLine]) -> Iterator[str]:
    """Yield *lines*: marks in the colour of their series, headings bold and the rules below them dim."""
    heads, rules = _headings(lines)
    for n, (text, series) in enumerate(lines):
        if n in rules:
            yield f"\x1b[2m{text}\x1b[22m"
        elif n in heads:
            yield _bold(text)
        elif series is not None:
            yield _MARK.sub(lambda mark, at=series: f"\x1b[{_COLOURS[at % len(_COLOURS)]}m{mark[0]}\x1b[39m", text)
        else:
            yield text


def _headings(lines: Sequence[ChartLine]) -> tuple[set[int], set[int]]:
    """Return which of *lines* are headings and which the rules below them: at most one rule between empty lines."""
    heads, rules, start = set[int](), set[int](), 0
    for n, (text, _) in enumerate(lines):
        if not text:
            start = n + 1
        elif start not in heads and _RULE.fullmatch(text.strip()):
            heads.update(range(start, n))
            rules.add(n)
    return heads, rules


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[22m"

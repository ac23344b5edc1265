"""Names as the parts of a chart have them in Slack: short, and no two the same; pure."""

from collections.abc import Iterable

from agent_core import shorten
from channels.legible import one_line
from channels.slack.outbound.text import neutral
from channels.slack.web_api import limits

_NAMELESS = "\u2013"


def short_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return *names* in as many characters as Slack takes; those that would be the same then are numbered."""
    limit = limits.CHART_NAME.value
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
    return neutral(one_line(name[: 4 * limits.CHART_AXIS.value]))

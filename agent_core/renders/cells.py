"""Text in cells of a screen: how wide it is, and how it is divided and padded; pure."""

import unicodedata
from collections.abc import Iterator

from agent_core.renders.values import Align

_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
"""Scripts and emoji need them, and they have no width."""


def width(text: str) -> int:
    """Return how many cells of a screen the line *text* takes; what is hidden must have been written as numbers."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - its tables take 1 MB, and most servers draw nothing

    return max(0, wcswidth(text))


def seen(text: str) -> str:
    """Return *text* with controls, and what turns the direction of text, written as numbers; line ends stay."""
    if text.isprintable() and not any(sign in text for sign in _JOINERS):
        return text
    text = text.replace("\r\n", "\n").replace("\t", " ")
    return "".join(
        f"\\u{{{ord(sign):x}}}"
        if sign != "\n" and sign not in _JOINERS and unicodedata.category(sign) in _HIDDEN
        else sign
        for sign in text
    )


def one_line(text: str) -> str:
    """Return *text* seen and on one line."""
    return " ".join(seen(text).split())


def cut(text: str, limit: int) -> str:
    """Return the line *text* in at limit *limit* cells, with dots where its end is missing."""
    if width(text) <= limit:
        return text
    from wcwidth import clip  # noqa: PLC0415 - as above

    return f"{clip(text, 0, limit - 1)}…"


def folded(text: str, limit: int) -> list[str]:
    """Return *text* as lines of at most *limit* cells, divided at spaces where there are any."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += [line] if width(line) <= limit else _divided(line, limit)
    return lines


def _divided(line: str, limit: int) -> Iterator[str]:
    """Yield *line*, which is too long, as lines that begin with words."""
    begun, used = "", 0
    for word in line.split(" "):
        *full, last = [word] if width(word) <= limit else _pieces(word, limit)
        if begun and not full and used + 1 + width(last) <= limit:
            begun, used = f"{begun} {last}", used + 1 + width(last)
            continue
        if begun:
            yield begun
        yield from full
        begun, used = last, width(last)
    yield begun


def _pieces(word: str, limit: int) -> list[str]:
    """Return *word* in pieces of at most *limit* cells; what is one sign on a screen stays one."""
    if word.isascii():
        return [word[at : at + limit] for at in range(0, len(word), limit)]
    from wcwidth import iter_graphemes  # noqa: PLC0415 - as above

    pieces, used = [""], 0
    for sign in iter_graphemes(word):
        cells = width(sign)
        if used + cells > limit and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += sign
        used += cells
    return pieces


def padded(text: str, to: int, align: Align) -> str:
    """Return the line *text* with spaces up to *to* cells."""
    missing = max(0, to - width(text))
    before = {"left": 0, "right": missing, "center": missing // 2}[align]
    return f"{' ' * before}{text}{' ' * (missing - before)}"

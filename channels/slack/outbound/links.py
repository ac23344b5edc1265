"""Links of a model's Markdown: each shows where it leads, and one whose address is refused is plain words; pure."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from markdown_it.common.normalize_url import validateLink
from markdown_it.common.utils import unescapeAll
from markdown_it.helpers import parseLinkDestination

from channels.slack.outbound.parsing import AHEAD, BREAK, CodeRanges

_TARGET = re.compile(
    rf"\](?=\([ \t]*(?:<|(?=\S))(?P<url>[^\s)>]{{0,{AHEAD}}}))|\](?P<late>(?=\([ \t]*$))", re.MULTILINE
)
_DEFINITION = re.compile(r"^(?P<before>[ \t>*+\-\d.)]*)\[(?=(?:\\.|[^\[\]\\\n])+\]:)", re.MULTILINE)
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*:|(?=//|\\\\|www\.))[/\\]*", re.IGNORECASE)
_HOST_LENGTH = 80
_BEFORE = re.compile(r"\([ \t]*")
_BRACKET = re.compile(r"\n(?=\n)|(?<!\\)[\[\]]")
_CLOSING = re.compile(r"""[ \t]*(?:"[^"\n]*"|'[^'\n]*')?[ \t]*\)""")
_SIGNS = re.compile(r"[\\`*_{}\[\]()<>#~|!&]")
_ESCAPES = re.compile(r"\\([!-/:-@\[-`{-~])")


def unmasked(markdown: str) -> str:
    """Return *markdown* with the host of each link in its label, and each definition of a link as plain words.

    A link whose address is refused, such as one of a script, is its words and its address. Code stays as it is.
    """
    if "]" not in markdown:
        return markdown
    code = CodeRanges(markdown)
    edits = [*_definitions(markdown, code), *_links(markdown, code)]
    return _edited(markdown, edits)


class _Edit(NamedTuple):
    """Characters of a text to replace."""

    start: int
    end: int
    text: str


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    """Return *text* with *edits*; of two that overlap the first counts."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits):
        if edit.start >= done:
            pieces += (text[done : edit.start], edit.text)
            done = edit.end
    return "".join((*pieces, text[done:]))


def _definitions(markdown: str, code: CodeRanges) -> Iterator[_Edit]:
    for match in _DEFINITION.finditer(markdown):
        at = match.end() - 1
        if at not in code:
            yield _Edit(at, at, "\\")


def _links(markdown: str, code: CodeRanges) -> Iterator[_Edit]:
    openings: dict[int, int] | None = None
    for match in _TARGET.finditer(markdown):
        at = match.start()
        if at in code:
            continue
        if match["url"] is None:  # the address is on the next line, which a growing text does not have yet: no link
            yield _Edit(at + 1, at + 1, "\\")
        elif _is_refused(unescapeAll(match["url"])):
            openings = _openings(markdown) if openings is None else openings
            yield from _as_words(markdown, at, openings.get(at))
        elif (host := _hidden_host(match)) is not None:
            yield _Edit(at, at, f" ({host})")


def _is_refused(url: str) -> bool:
    return not validateLink(url.replace(BREAK, ""))


def _as_words(markdown: str, at: int, opening: int | None) -> Iterator[_Edit]:
    """Show a link as its words and its address, in which nothing is syntax; what is no whole link yet is no link.

    Its words are from *opening* to *at*.
    """
    before = _BEFORE.match(markdown, at + 1)
    inside = before.end() if before else at + 1
    address = parseLinkDestination(markdown, inside, len(markdown))
    closing = _CLOSING.match(markdown, address.pos) if address.ok else None
    if closing is None or opening is None:
        yield _Edit(at + 1, at + 1, "\\")
        return
    sign = markdown[opening - 1 : opening] == "!"
    yield _Edit(opening - sign, opening + 1, "")
    source = markdown[inside : address.pos]
    source = source[1:-1] if source.startswith("<") else source
    yield _Edit(at, closing.end(), f" ({_literal(source)})")


def _openings(markdown: str) -> dict[int, int]:
    """Return for each bracket that closes one in its paragraph where that one is."""
    openings: dict[int, int] = {}
    opened: list[int] = []
    for bracket in _BRACKET.finditer(markdown):
        match bracket[0]:
            case "[":
                opened.append(bracket.start())
            case "]" if opened:
                openings[bracket.start()] = opened.pop()
            case "\n":
                opened.clear()
            case _:
                continue
    return openings


def _literal(words: str) -> str:
    """Return *words* with a backslash before each sign that Markdown may take for syntax."""
    return _SIGNS.sub(r"\\\g<0>", _ESCAPES.sub(r"\g<1>", words))


def _hidden_host(match: re.Match[str]) -> str | None:
    """Return the host of a link whose words do not say it; None when they do, or when it has none."""
    host = host_of(unescapeAll(match["url"]).replace(BREAK, ""))
    label = match.string[: match.start()].rpartition("[")[2].strip("*_~` ")
    label_text = re.sub(r"^(?:https?://)?(?:www\.)?", "", label.lower())
    is_said = label.endswith(f"({host})") or re.match(
        rf"{re.escape(host.removeprefix('www.'))}(?:[/?#:]|$)", label_text
    )
    return None if not host or is_said else host


def host_of(url: str) -> str:
    """Return where *url* leads, in characters that are no syntax; nothing for a place within the text itself."""
    scheme = _SCHEME.match(url)
    if scheme is None:
        return ""
    host = re.split(r"[/?#\\]", url[scheme.end() :], maxsplit=1)[0].rpartition("@")[2].lower() or scheme[0].lower()
    plain = re.sub(r"[^\w.:%+-]", "·", host).replace("_", "·")
    return plain if len(plain) <= _HOST_LENGTH else f"…{plain[-_HOST_LENGTH:]}"

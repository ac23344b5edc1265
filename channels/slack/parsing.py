"""Where the blocks and the code of a Markdown text are, also while it grows; pure."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import validateLink
from markdown_it.common.utils import unescapeAll
from markdown_it.helpers import parseLinkDestination
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token

BREAK = "\u200b"
"""The character without width that is put into what would be syntax of Slack's own, outside of code."""
AHEAD = 512
"""Characters in which a link's address shows what it is; a longer one is taken for the worst."""
NESTING = 40
"""The maximal depth of blocks; the parser drops deeper ones, so such a text is taken literally."""
SPAN = 1_024
"""Characters of a code span; an open backtick holds back no more of a growing text, so a longer span is no code."""
_FENCE_LAST = re.compile(r"(?:```|~~~)[^\n]*\s*\Z")
_RUN = re.compile(r"(?<!\\)(?P<escapes>\\*)(?P<run>`+)")


@cache
def _parser(*, inline: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": NESTING}).enable(["table", "strikethrough"])
    if inline:
        return parser
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return parser.disable(["inline", "text_join"])


def _table(state: StateBlock, first: int, end: int, silent: bool) -> bool:  # noqa: FBT001 - as the library calls it
    """Take a table as the library does, with the cells of its header alone: those of a growing text are thousands."""
    count = len(state.tokens)
    if not table(state, first, min(end, first + 2), silent):
        return False
    if silent:
        return True
    before, state.parentType = state.parentType, "table"
    ends = state.md.block.ruler.getRules("blockquote")
    line = first + 2
    while line < end and not _ends_table(state, line) and not any(rule(state, line, end, True) for rule in ends):
        line += 1
    state.parentType = before
    state.tokens[count].map = [first, line]
    state.line = line
    return True


def _ends_table(state: StateBlock, line: int) -> bool:
    return state.sCount[line] < state.blkIndent or state.isEmpty(line) or state.is_code_block(line)


def parsed(markdown: str, *, inline: bool = False) -> list[Token]:
    """Return the blocks of *markdown*, which is CommonMark with tables and strikes of GFM; HTML is text.

    Without *inline* the rows of a table below its header have no tokens.
    """
    return _parser(inline=inline).parse(markdown)


def code_lines(markdown: str) -> set[int]:
    """Return the numbers of the lines that are code blocks, their fences included."""
    blocks = [token.map for token in parsed(markdown) if token.type in ("fence", "code_block") and token.map]
    return {line for first, last in blocks for line in range(first, last)}


def bare_fence(markdown: str) -> int:
    """Return the length of *markdown* before a fence at its end that has no line of code yet."""
    if not _FENCE_LAST.search(markdown):
        return len(markdown)
    starts = line_starts(markdown)
    for token in reversed(parsed(markdown)):
        if token.type == "fence" and token.map is not None:
            begin, end = starts[token.map[0]], starts[token.map[1]]
            is_bare = not token.content.strip() and end >= len(markdown)
            return begin if is_bare and markdown[begin:end].count(token.markup) == 1 else len(markdown)
    return len(markdown)


class Block(NamedTuple):
    """A block at the top level: its first *token*, and where its lines *start* and *end* in the text."""

    token: Token
    start: int
    end: int


def top_blocks(markdown: str) -> list[Block]:
    """Return the top-level blocks, which together are all of *markdown* but for words without a block."""
    starts = line_starts(markdown)
    tops = [token for token in parsed(markdown) if token.level == 0 and token.map and token.nesting >= 0]
    begins = [starts[token.map[0]] for token in tops if token.map]
    return [
        Block(token, start if n else 0, end)
        for n, (token, start, end) in enumerate(zip(tops, begins, [*begins[1:], len(markdown)], strict=False))
    ]


class CodeRanges:
    """The code of a Markdown text: the lines of code blocks, and code spans with their marks, each in one line."""

    def __init__(self, markdown: str) -> None:
        self._ranges = list(_ranges(markdown))
        self._starts = [start for start, _ in self._ranges]

    def __contains__(self, at: int) -> bool:
        return self.start_of(at) is not None

    def start_of(self, at: int) -> int | None:
        """Return where the line of code or the span begins that the character *at* is in."""
        n = bisect_right(self._starts, at) - 1
        return self._starts[n] if n >= 0 and at < self._ranges[n][1] else None


def _ranges(markdown: str) -> Iterator[tuple[int, int]]:
    code = code_lines(markdown)
    start = 0
    for n, line in enumerate(markdown.split("\n")):
        if n in code:
            yield start, start + len(line) + 1
        elif "`" in line:
            yield from ((start + begin, start + end) for begin, end in spans(line).closed)
        start += len(line) + 1


class Spans(NamedTuple):
    """The code spans of a line, and where backticks are *open* that later ones may close."""

    closed: list[tuple[int, int]]
    open: int | None


def spans(line: str) -> Spans:
    """Return the code spans of *line*: backticks up to as many of them, which nothing else in the line takes apart.

    Its time is linear in the line: a model's answer is read again with each piece that it grows by.
    """
    runs = [
        (each.start("run") + len(each["escapes"]) % 2, each.end(), each.start("run")) for each in _RUN.finditer(line)
    ]
    closing = _closing(runs)
    closed: list[tuple[int, int]] = []
    opened: int | None = None
    at = 0
    while at < len(runs):
        start, end, _ = runs[at]
        match = closing[at]
        if match is not None and runs[match][1] - start <= SPAN:
            closed.append((start, runs[match][1]))
            at = match + 1
            continue
        if end > start and opened is None and len(line) - start <= SPAN:
            opened = start
        at += 1
    return Spans(closed, opened)


def _closing(runs: list[tuple[int, int, int]]) -> list[int | None]:
    """Return the number of the next run that closes each of *runs*, if one does, however far away.

    A run is where its backticks begin that may open a span, where it ends, and where it begins in code, in which a
    backslash escapes nothing.
    """
    closings: list[int | None] = []
    nearest: dict[int, int] = {}
    for n in range(len(runs) - 1, -1, -1):
        start, end, first = runs[n]
        closings.append(nearest.get(end - start))
        nearest[end - first] = n
    return closings[::-1]


def line_starts(markdown: str) -> list[int]:
    """Return where each line begins, and where the text ends."""
    return list(accumulate((len(line) + 1 for line in markdown.split("\n")), initial=0))


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

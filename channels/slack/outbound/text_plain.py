"""The plain twin of a Markdown text: its words without marks, for notifications, screen readers and refused blocks."""

from dataclasses import dataclass, field
from typing import NamedTuple

from markdown_it.token import Token

from channels.slack.outbound.text import NESTING, parsed


class Plain(NamedTuple):
    """One block of a text: its words, or the lines of a code block."""

    text: str
    code: bool = False

    def __str__(self) -> str:
        return f"```\n{self.text}\n```" if self.code else self.text


def plain(markdown: str) -> list[Plain]:
    """Return the blocks of *markdown* without marks; what nests too deep for a parser is taken literally."""
    tokens = parsed(markdown, inline=True)
    if any(token.level >= NESTING - 1 for token in tokens):
        return [Plain(markdown.strip())]
    return _Twin().read(tokens) or [Plain(text) for text in (markdown.strip(),) if text]


@dataclass(slots=True)
class _Twin:
    """Reads tokens; *_margin* is what stands before a line: of each open list item and quote, first and then."""

    _blocks: list[Plain] = field(default_factory=list[Plain])
    _lines: list[str] = field(default_factory=list[str])
    _margin: list[list[str]] = field(default_factory=list[list[str]])
    _numbers: list[int | None] = field(default_factory=list[int | None])
    _cells: list[str] = field(default_factory=list[str])
    _in_cell: bool = False

    def read(self, tokens: list[Token]) -> list[Plain]:
        for token in tokens:
            self._take(token)
            if token.level == 0 and token.nesting <= 0:
                self._close()
        return self._blocks

    def _take(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                self._numbers.append(int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None)
            case "list_item_open":
                self._begin_item()
            case "blockquote_open":
                self._margin.append(["> ", "> "])
            case "list_item_close" | "blockquote_close":
                self._margin.pop()
            case "bullet_list_close" | "ordered_list_close":
                self._numbers.pop()
            case "fence" | "code_block" if token.level == 0:
                self._blocks.append(Plain(token.content.removesuffix("\n"), code=True))
            case "fence" | "code_block":
                self._write(str(Plain(token.content.removesuffix("\n"), code=True)))
            case "hr":
                self._write("---")
            case "inline" if not self._in_cell:
                self._write(inline(token))
            case _:
                self._take_cell(token)

    def _take_cell(self, token: Token) -> None:
        match token.type:
            case "th_open" | "td_open" | "th_close" | "td_close":
                self._in_cell = token.nesting > 0
            case "inline":
                self._cells.append(inline(token))
            case "tr_close":
                self._write(" | ".join(self._cells))
                self._cells.clear()
            case _:
                return

    def _begin_item(self) -> None:
        number = self._numbers[-1]
        marker = "• " if number is None else f"{number}. "
        self._numbers[-1] = None if number is None else number + 1
        self._margin.append([marker, " " * len(marker)])

    def _write(self, text: str) -> None:
        for line in text.split("\n"):
            self._lines.append("".join(margin[0] for margin in self._margin) + line)
            for margin in self._margin:
                margin[0] = margin[1]

    def _close(self) -> None:
        if self._lines:
            self._blocks.append(Plain("\n".join(self._lines)))
            self._lines.clear()


def inline(token: Token) -> str:
    """Return the words of an inline token; a link is followed by its address unless it shows it."""
    words: list[str] = []
    links: list[tuple[str, int]] = []
    for child in token.children or []:
        match child.type:
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "code_inline":
                words.append(f"`{child.content}`")
            case "image":
                words.append(_with_address(inline(child), str(child.attrGet("src") or "")))
            case "link_open":
                links.append((str(child.attrGet("href") or ""), len(words)))
            case "link_close":
                href, at = links.pop()
                label = "".join(words[at:])
                words[at:] = [f"<{label}>" if child.markup == "autolink" else _with_address(label, href)]
            case _:
                words.append(child.content)
    return "".join(words)


def _with_address(label: str, address: str) -> str:
    if not address or address in label or address.removeprefix("mailto:") == label:
        return label
    return f"{label} ({address})" if label else address

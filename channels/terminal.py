"""Tables that a model writes by hand, aligned for a terminal that shows text as it was written; pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from agent_core.channels import Inbound
from agent_core.charts.text import table_text
from agent_core.charts.values import Align, DataTable, TableColumn
from agent_core.ids import new_id
from agent_core.messages import Actor, Text
from agent_core.objects import Decision
from agent_core.quotas import Origin
from channels.spec import ChannelSpec, ConversationView, MessageLimits, Question, Ref, ShownRender, Stop
from channels.text import HELD, drawn, end_of, ended, is_running, keys, one_line, question_lines, said_by, visible, vote

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_DIVIDER = re.compile(r"[ \t|:-]*")
_NUMBER = re.compile(r"[+\-\u2212]?[$€£¥]?[0-9][0-9,.\u00a0 ]*(?:%| %| ?[$€£¥])?")
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)


def aligned_tables(text: str, width: int | None) -> str:
    """Return *text* with each table of Markdown in it as columns of at most *width* cells in all."""
    if "|" not in text:
        return text
    lines, out, done = text.split("\n"), list[str](), 0
    for start, end, found in _tables(_parser().parse(text)):
        out += lines[done:start]
        out += table_text(found, width=width).split("\n")
        done = end
    return "\n".join(out + lines[done:])


def before_table(text: str) -> int:
    """Return how much of *text*, which grows, is before a table at its end that may still get rows."""
    start = text.rfind("\n\n") + 2 if "\n\n" in text else 0
    lines = text[start:].split("\n")
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if "|" in line and _DIVIDER.fullmatch(after):
            return start
        start += len(line) + 1
    return len(text)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # noqa: PLC0415 - a server whose channels draw no tables needs no parser

    from channels.wide_tables import table_or_code  # noqa: PLC0415 - as above

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "text_join"])
    parser.block.ruler.at("table", table_or_code, {"alt": ["paragraph", "reference"]})
    return parser


def _tables(tokens: "Sequence[Token]") -> Iterator[tuple[int, int, DataTable]]:
    """Yield the first line and the one after the last of each table that is in nothing else, and the table."""
    opened = 0
    for at, token in enumerate(tokens):
        if token.level == 0 and token.type == "table_open":
            opened = at
        elif token.level == 0 and token.type == "table_close" and (lines := tokens[opened].map):
            yield lines[0], lines[1], _table(tokens[opened:at])


def _table(tokens: "Sequence[Token]") -> DataTable:
    styles = [str(token.attrs.get("style", "")) for token in tokens if token.type == "th_open"]
    cells = [_BREAK.sub("\n", token.content) for token in tokens if token.type == "inline"]
    heads, *rows = (cells[at : at + len(styles)] for at in range(0, len(cells), len(styles)))
    columns = tuple(
        TableColumn(str(n), head, _align(style, [row[n] for row in rows]))
        for n, (head, style) in enumerate(zip(heads, styles, strict=True))
    )
    return DataTable(columns, tuple({str(n): cell for n, cell in enumerate(row)} for row in rows))


def _align(style: str, cells: Sequence[str]) -> Align:
    """Return how a column is aligned: as it says, one of numbers right."""
    match style.removeprefix("text-align:"):
        case "left" | "right" | "center" as alignment:
            return alignment
        case _:
            there = [cell for cell in cells if cell]
            return "right" if there and all(map(_NUMBER.fullmatch, there)) else "left"


@dataclass(frozen=True, slots=True)
class Span:
    """Text to print once, known by its *key*; it may grow at its end while it is *open*.

    A *note* is not part of the answer; *question* is the open question that is answered first. *renders* are what the
    text draws, for a terminal that draws better.
    """

    key: tuple[str, str]
    text: str
    note: bool = False
    open: bool = False
    question: Question | None = None
    renders: tuple[ShownRender, ...] = ()


def spans_of(body: ConversationView, typed: set[str], width: int | None = None) -> Iterator[Span]:
    """Yield *body* as text, up to the first part that may still change; drawings in lines of at most *width* cells."""
    gap, first = "", True
    for message in body.recent:
        if message.role == "user":
            if message.text and message.text not in typed:
                yield Span((message.id, "user"), f"{gap}> {visible(message.text)}\n", note=True)
                gap = "\n"
            continue
        if text := visible(message.text.rstrip(HELD) if message.open else message.text):
            end = "" if message.open or message.continued else "\n"
            by = "" if message.speaker is None else f"{one_line(message.speaker)}:\n"
            yield Span((message.id, "text"), f"{gap}{by}{text}{end}", open=message.open)
            gap = "" if message.continued else "\n"
        if message.open:
            return
        for call in message.calls:
            question, line = call.question, f"· {one_line(call.shown)} … "
            if question and question.status == "open":
                line += "\n".join(("asks", *question_lines(question), *(keys(question) if first else ()), ""))
                key, question_shown = (question.id, "first" if first else "later"), question if first else None
                yield Span(key, line, note=True, question=question_shown)
                first = False
            elif not is_running(call):
                yield Span((call.id, "call"), f"{line}{ended(call)}\n", note=True)
                yield Span((call.id, "drawn"), drawn(call.renders, width), renders=call.renders)
            elif question or not body.closed:  # the line is finished later
                yield Span((call.id, "call"), line + (ended(call) if question else ""), note=True, open=True)
                if not body.closed:
                    return
            else:
                yield Span((call.id, "waits"), f"{line}{ended(call)}\n", note=True)
            gap = "\n"
    if body.closed:
        ends = ((run, words) for run in body.runs if (words := end_of(run)))
        yield from (Span((run.id, words), f"{words}\n", note=True) for run, words in ends)


ADDRESS = "terminal:1"
TERMINAL: ChannelSpec[object] = ChannelSpec(name="terminal", address=re.compile(r"terminal:(?P<n>\d+)"))
"""`parley chat` serves it, a command of its own."""


class Terminal:
    """Prints answers, as they come when *live*; *write* takes their text, *note* activity and how a run ended.

    Tables and charts are drawn in lines of at most *width* cells.
    """

    limits = MessageLimits(edit_every=0.03)

    def __init__(
        self,
        actor: Actor,
        *,
        write: Callable[[str], None],
        note: Callable[[str], None],
        live: bool,
        prompt: str = "",
        width: int | None = None,
    ) -> None:
        self.actor, self._origin = actor, Origin(is_operator=True)
        self._write, self._note, self._live, self._prompt = write, note, live, prompt
        self._width = width
        self._typed: set[str] = set()
        self._ref, self._closed, self._asking, self._due = Ref(""), False, False, False
        self._printed: dict[tuple[str, str], str] = {}
        self._unfinished: tuple[str, str] | None = None
        self._question: Question | None = None

    def parse(self, line: str, /) -> Inbound | Decision | Stop | None:
        text = line.strip()
        if text == "/stop":
            return Stop(self.actor)
        if self._question and (answer := vote(self._question, self.actor, text)):
            return answer
        parts = (Text(said_by(text)),)
        return Inbound(parts=parts, actor=self.actor, key=new_id("key"), origin=self._origin) if text else None

    async def post(self, address: str, body: ConversationView) -> Ref:
        if self._live and self._ref:
            self._write("\n")
        self._ref, self._closed = Ref(f"{address}:{new_id('msg')}"), False
        self._printed.clear()
        self._show(body)
        return self._ref

    async def edit(self, ref: Ref, body: ConversationView) -> None:
        if ref == self._ref:  # what was printed above it cannot be reached any more
            self._show(body)

    def typed(self, line: str) -> None:
        """Remember that the person sees *line* already, and wants to be asked for the next one."""
        self._typed.add(said_by(line))
        self._asking, self._due = False, True

    def tell(self, words: str) -> None:
        """Print a note and ask for the next line."""
        self._note(f"{visible(words)}\n{self._prompt}")
        self._asking = bool(self._prompt)

    def _show(self, body: ConversationView) -> None:
        spans = [self._aligned(span) for span in spans_of(body, self._typed, self._width)]
        ends, self._closed = body.closed and not self._closed, body.closed
        self._question = next((span.question for span in spans if span.question), None)
        if self._live:
            self._grow(spans)
            if ends and self._prompt and (self._due or any(message.text in self._typed for message in body.recent)):
                self._write(f"\n{self._prompt}")
                self._asking, self._due = True, False
        elif body.closed:  # notes first: the two may be one terminal
            fresh = [span for span in spans if not span.open and self._printed.get(span.key) != span.text]
            self._printed |= {span.key: span.text for span in fresh}
            self._note("".join(span.text for span in fresh if span.note).lstrip("\n"))
            self._write("".join(span.text for span in fresh if not span.note).lstrip("\n"))

    def _aligned(self, span: Span) -> Span:
        """Return *span* with the tables in it aligned, and without one at its end that may grow."""
        if span.key[1] != "text" or "|" not in span.text:
            return span
        text = span.text[: before_table(span.text)] if span.open else span.text
        return replace(span, text=aligned_tables(text, self._width))

    def _grow(self, spans: list[Span]) -> None:
        """Print what is new; text that became another is printed again from the first line that differs."""
        for span in spans:
            before = self._printed.get(span.key, "")
            if span.text == before:
                continue
            if self._asking or self._unfinished not in (None, span.key):
                self._write("\n")
                before = "" if span.note else before
            if not span.text.startswith(before):
                pairs = zip(span.text, before, strict=False)
                same = next((at for at, (new, old) in enumerate(pairs) if new != old), len(span.text))
                before = span.text[: span.text.rfind("\n", 0, same) + 1]
                self._note("\n\u21bb\n")
            (self._note if span.note else self._write)(span.text[len(before) :])
            self._printed[span.key] = span.text
            self._asking, self._unfinished = False, span.key if span.note and span.open else None

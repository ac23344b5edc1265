"""`parley chat` on a screen: text drawn as it grows, charts with colours, and questions with a list of answers."""

import asyncio
import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from agent_core.channels import Inbound
from agent_core.charts.text import ChartLine, chart_lines
from agent_core.charts.values import PlainChart, chart_of
from agent_core.clock import Clock
from agent_core.errors import InvalidInput, ParleyError
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.messages import Text as agent_core_Text
from agent_core.objects import Decider, Decision, may_respond
from agent_core.quotas import Origin
from app.cli.chat.area import Choice, InputArea, open_history
from app.cli.chat.conversation import ApprovalsPort, Port, converse
from app.cli.chat.piped import answer
from channels.spec import CallView, ConversationView, MessageLimits, Question, Ref, RunView, ShownRender, Stop
from channels.terminal import Span, aligned_tables, before_table, spans_of
from channels.text import (
    MAX_TEXT,
    as_json,
    drawn,
    ended,
    is_running,
    keys,
    one_line,
    responders_of,
    said_by,
    titled,
    typed_fields,
    visible,
    vote,
)
from channels.wide_tables import table_or_code

MAX_BLOCK = 4000
"""Characters of the last block that are drawn while it grows: a terminal shows no more of it at once."""
MAX_LINES = 50
"""Lines of it."""
SHARE = 8
"""A longer block is looked at again when it has grown by one part in so many, so that all looks are linear in it."""
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)\n")
_TABLE = re.compile(r"[^\n]*\|[^\n]*\n *[|:-][ |:-]*\n")


@dataclass(slots=True)
class Growing:
    """When to look again for what is done in a text that grows."""

    _length: int = 0

    def cut(self, text: str, settled: Callable[[str], int]) -> int:
        """Return how much of *text* is done, as *settled* says; 0 where it is too early to look again."""
        is_fence = _FENCE.match(text) is not None  # where to look costs next to nothing
        if len(text) < self._length and not is_fence:
            return 0
        cut = settled(text)
        left = len(text) - cut
        self._length = left + left // SHARE if left > MAX_BLOCK else 0
        return cut


def closed_fence(text: str, start: int = 0) -> int | None:
    """Return where the code that begins at *start* ends, 0 while it is open; None where no code begins there."""
    begun = _FENCE.match(text, start)
    if begun is None:
        return None
    mark = begun[1] or begun[2]
    last = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\n", re.MULTILINE)
    end = last.search(text, begun.end())
    return end.end() if end else 0


def tail(text: str) -> str:
    """Return the end of *text* that a screen has room for, after the lines that say what it is: code or a table."""
    if len(text) <= MAX_BLOCK and text.count("\n") <= MAX_LINES:
        return text
    begun = _FENCE.match(text) or _TABLE.match(text)
    head = begun[0] if begun else ""
    lines = text[max(len(head), len(text) - MAX_BLOCK) :].split("\n")[-MAX_LINES:]
    if begun is None:  # as an item of a list, or a paragraph: what is indented would be taken for code
        inner = next((at for at, line in enumerate(lines) if line[:1].strip()), 0)
        return "\n".join(lines[inner:])
    return (head if len(head) <= MAX_BLOCK else "") + "\n".join(lines[1:] or lines)  # the first may be cut


WIDEST = 120
"""Columns that prose fills at most: longer lines are hard to read."""
_STYLE = re.compile(r"\x1b\[[\d;]*m")
_DRAWING_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_STYLES = Theme({"markdown.code": "bold cyan", "markdown.link": "blue", "markdown.link_url": "underline blue"})
NARROWEST_COLUMN = 6
"""Columns that each column of a table needs; a table without them is shown as it was written."""


class AsWritten:
    """Text as it was written, its tables aligned; *gap* is what divides its blocks."""

    gap = ""

    def settled(self, text: str) -> int:
        """Return how many characters of *text* will be drawn alike whatever follows them."""
        done = 0
        while (end := closed_fence(text, done)) is not None:
            if not end:
                return done
            done = end
        if begun := _DRAWING_FENCE.search(text, done):  # what looks like a table in code is none
            return begun.start()
        return done + min(before_table(text[done:]), text[done:].rfind("\n") + 1)

    def draw(self, text: str, width: int) -> str:
        """Return *text* as a terminal of *width* columns takes it, without blank lines around it."""
        return aligned_tables(text.removesuffix("\n"), width)


class Drawn:
    """Markdown drawn by rich, in colours of the terminal's own palette for a *light* background or a dark one."""

    gap = "\n"

    def __init__(self, *, light: bool = False) -> None:
        self._theme = "ansi_light" if light else "ansi_dark"
        # What rich does not print would be lost: HTML and addresses of references and images stay as they are.
        self._parser = MarkdownIt().enable(["strikethrough", "table"])
        self._parser.disable(["html_block", "html_inline", "reference", "image"])
        # As the library adds its own: a table also ends a paragraph.
        self._parser.block.ruler.at("table", table_or_code, {"alt": ["paragraph", "reference"]})

    def settled(self, text: str) -> int:
        done = 0
        while (end := closed_fence(text, done)) is not None:  # without a parser: code is what grows longest
            if not end:
                return done
            done = end
        return done + self._begun(text[done:])

    def _begun(self, text: str) -> int:
        """Return where the last block of *text* begins."""
        starts = [token.map[0] for token in self._parser.parse(text) if token.level == 0 and token.map]
        if not starts or starts[-1] == 0:
            return 0
        return sum(map(len, text.split("\n")[: starts[-1]])) + starts[-1]

    def draw(self, text: str, width: int) -> str:
        blocks = _blocks(_legible(self._parser.parse(text)))
        drawn = (self._block(block, text, min(width, WIDEST)) for block in blocks)
        return "\n\n".join(each for each in drawn if each)

    def _block(self, block: Sequence[Token], text: str, width: int) -> str:
        console, first = _console(width), block[0]
        if first.type in ("fence", "code_block"):  # not wrapped: what is copied is the code
            code = Syntax("", first.info.split(" ")[0] or "text", theme=self._theme).highlight(first.content)
            mark, last = (first.markup + first.info, first.markup) if first.markup else ("", "")
            for part in (Text(mark, "dim"), code, Text(last, "dim")):
                part.rstrip()
                if part:
                    console.print(part, soft_wrap=True)
        elif first.type == "table_open" and not _has_room(block, width):
            start, end = first.map or [0, 0]
            console.print(Text("\n".join(text.split("\n")[start:end])), soft_wrap=True)
        else:
            console.print(Parsed(block, self._theme))
        lines = [line.rstrip(" ") for line in _written(console).split("\n")]
        inked = [at for at, line in enumerate(lines) if _STYLE.sub("", line).strip()]
        return "\n".join(lines[inked[0] : inked[-1] + 1]) if inked else ""


TextStyle = AsWritten | Drawn


class Flow:
    """One text that grows on the screen: what of it is drawn for good, and where it goes on."""

    def __init__(self, drawing: TextStyle) -> None:
        self._drawing, self._done = drawing, ""
        self._growing = Growing()

    def feed(self, text: str, width: int, *, is_open: bool) -> tuple[str, str]:
        """Take all of *text* so far; return what is to be printed for good now, and what may still change."""
        again = ""
        if not text.startswith(self._done):
            again, self._done, self._growing = "\u21bb\n", "", Growing()
        gap = self._drawing.gap if self._done else "\n"
        rest = text[len(self._done) :]
        cut = self._growing.cut(rest, self._drawing.settled) if is_open else len(rest)
        above = self._drawing.draw(rest[:cut], width)
        if cut and (above or not self._drawing.gap):
            again, gap = f"{again}{gap}{above}\n", self._drawing.gap
        self._done += rest[:cut]
        live = self._drawing.draw(tail(rest[cut:]), width)
        return again, f"{gap}{live}" if live else ""


class LeftHeading(Heading):
    """A heading at the left, where all text begins."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class FoldedTable(TableElement):
    """A table whose cells continue on the next line rather than end in dots."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
        header = self.header.row.cells if self.header is not None and self.header.row is not None else ()
        for cell in header:
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class Parsed(Markdown):
    """Markdown that was parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": LeftHeading,
        "table_open": FoldedTable,
    }

    def __init__(self, tokens: Sequence[Token], theme: str) -> None:
        super().__init__("", code_theme=theme, inline_code_theme=theme, hyperlinks=False)
        self.parsed = list(tokens)


def note(text: str, width: int) -> str:
    """Return *text* as a note is shown, its lines divided at words."""
    console = _console(width)
    console.print(Text(text, "dim"), end="")
    return _written(console)


def _console(width: int) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        width=width,
        theme=_STYLES,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
        _environ={},
    )


def _written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Divide *tokens* at the ends of the blocks of the highest level."""
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _legible(tokens: Sequence[Token]) -> list[Token]:
    """Return *tokens* with what entities in them stand for visible too."""
    return [
        replace(
            token,
            content=visible(token.content),
            info=visible(token.info),
            attrs={key: visible(str(value)) for key, value in token.attrs.items()},
            children=None if token.children is None else _legible(token.children),
        )
        for token in tokens
    ]


def _has_room(block: Sequence[Token], width: int) -> bool:
    columns = sum(token.type == "th_open" for token in block)
    return columns * NARROWEST_COLUMN <= width


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


HINT = "Up, Down and Enter, or the key · Esc: write a message instead"


async def decided(
    area: InputArea, question: Question, actor: Actor, approvals: ApprovalsPort, tell: Callable[[str], None]
) -> None:
    """Ask until a vote is counted; what is refused is said, and asked again."""
    while True:
        decision = await _wanted(area, question, actor, tell)
        if decision is None:
            continue
        try:
            voted = await approvals.decide(decision)
        except ParleyError as error:
            tell(f"! {error}")
            if question.form is not None and decision.arguments is not None:  # what was typed is there to be mended
                question = replace(question, arguments=decision.arguments)
            continue
        if voted.status == "open":
            tell("(counted; others have to agree)")
        return


async def _wanted(area: InputArea, question: Question, actor: Actor, tell: Callable[[str], None]) -> Decision | None:
    """Return what the person decides; None when no vote can be read of it."""
    while (picked := await area.decide(list(_choices(question)), HINT)) is not None:
        match picked:
            case "why":
                line = await area.ask("why> ", "Enter denies it · Esc goes back")
                if line is not None:
                    return vote(question, actor, f"n {' '.join(line.split())}")
            case "fill":
                if (decision := await _filled(area, question, actor, tell)) is not None:
                    return decision
            case "edit":
                if (decision := await _edited(area, question, actor, tell)) is not None:
                    return decision
            case _:
                return vote(question, actor, picked)
    return None


async def _edited(area: InputArea, question: Question, actor: Actor, tell: Callable[[str], None]) -> Decision | None:
    """Return an approval with the arguments that the person makes of those asked for; None when they go back."""
    text: str | None = as_json(question.arguments, indent=2)
    hint = "Enter allows it with these · Ctrl-X Ctrl-E opens $EDITOR · Alt-Enter begins a line · Esc goes back"
    while (text := await area.ask("with> ", hint, text)) is not None:
        try:
            return vote(question, actor, f"e {text}")
        except InvalidInput:
            tell(f"! {_flaw(text)}")
    return None


async def _filled(area: InputArea, question: Question, actor: Actor, tell: Callable[[str], None]) -> Decision | None:
    """Return the answer to a form, of which each field is asked for by itself; None when the person goes back."""
    answers: dict[str, Any] = {}
    for field in typed_fields(question.form or {}, question.arguments):
        tell(field.described)
        text: str | None = field.initial
        while (text := await area.ask(f"{one_line(field.title)}> ", "Enter goes on · Esc goes back", text)) is not None:
            try:
                value = field.read(text)
            except ValueError as error:
                tell(f"! {error}")
                continue
            answers |= {} if value is None else {field.name: value}
            break
        else:
            return None
    return vote(question, actor, f"e {json.dumps(answers)}")


def _flaw(text: str) -> str:
    """Return where *text* is not a JSON object."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"these are not JSON: {error}"
    return "write all arguments as one JSON object"


def _choices(question: Question) -> Iterator[Choice]:
    if question.form is not None:
        yield Choice("fill", "Answer it …", "e")
        yield Choice("n", "Decline it", "n")
        yield Choice("why", "Decline it and say why …", "w")
        return
    yield Choice("y", "Allow it", "y")
    if question.remember:
        yield Choice("a", "Allow the tool for the rest of this conversation", "a")
    if question.edit:
        yield Choice("edit", "Allow it with other arguments …", "e")
    yield Choice("n", "Deny it", "n")
    yield Choice("why", "Deny it and say why …", "w")


async def talk_live(
    port: Port, actor: Actor, clock: Clock, *, agent: str, session: str, history: Path | None, greeting: str
) -> None:
    """Print *greeting* and talk until the person leaves."""
    area = InputArea(clock, history=open_history(history), reads=True)
    async with area.running(catches_interrupt=True), showing_in(area, actor, port.approvals) as terminal:
        terminal.tell(greeting)
        panel = AreaPanel(area)
        await converse(port, terminal, clock, aiter(area.entries), agent=agent, session=session, panel=panel)


async def ask_live(port: Port, actor: Actor, clock: Clock, session: str, message: str) -> bool:
    """Answer *message* once, drawn as it comes; return whether its run completed."""
    with create_pipe_input() as nothing:  # keys stay in the terminal for what comes after this command
        output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
        output.enable_cpr = False  # the terminal's answer would be read by what comes after this command
        area = InputArea(clock, input=nothing, output=output, reads=False)
        async with area.running(catches_interrupt=False), showing_in(area, actor, None) as terminal:
            area.work("answering … (Ctrl-C stops it)")
            return await answer(port, terminal, clock, session, message)


class AreaPanel:
    """The input area's list and its line of status."""

    keys = True

    def __init__(self, area: InputArea) -> None:
        self._area = area

    def saw(self, run: RunView | None) -> None:
        match run:
            case RunView(cancelling=True):
                self._area.work("stopping …")
            case RunView(status="running" | "queued"):
                self._area.work("answering … (Ctrl-C stops it)")
            case _:
                self._area.work("")

    async def pick(self, items: list[str]) -> int | None:
        choices = [Choice(str(at), item) for at, item in enumerate(items)]
        picked = await self._area.choose(choices, "Up, Down and Enter · Esc goes back") if choices else None
        return None if picked is None else int(picked)


@asynccontextmanager
async def showing_in(area: InputArea, actor: Actor, approvals: ApprovalsPort | None) -> AsyncIterator["LiveTerminal"]:
    """Give a terminal that shows in *area*, and asks the person at it where *approvals* may be decided."""
    terminal = LiveTerminal(area, actor, approvals, _drawing())
    try:
        yield terminal
    finally:
        await terminal.close()


class LiveTerminal:
    """Shows pictures: what is done is printed for good, what may change stays in the input area."""

    limits = MessageLimits(edit_every=0.05)

    def __init__(self, area: InputArea, actor: Actor, approvals: ApprovalsPort | None, drawing: TextStyle) -> None:
        self.actor, self._origin = actor, Origin(is_operator=True)
        self._area, self._approvals, self._drawing = area, approvals, drawing
        self._typed: set[str] = set()
        self._ref = Ref("")
        self._flows: dict[tuple[str, str], Flow] = {}
        self._printed: dict[tuple[str, str], str] = {}
        self._figured: dict[tuple[str, str], tuple[ShownRender, ...]] = {}
        self._live = ""
        self._question: Question | None = None
        self._asking: asyncio.Task[None] | None = None

    def parse(self, line: str, /) -> Inbound | Decision | Stop | None:
        text = line.strip()
        if text == "/stop":
            return Stop(self.actor)
        # A line is never a vote here: it may have been begun before the question came, which has its list.
        parts = (agent_core_Text(said_by(text)),)
        return Inbound(parts=parts, actor=self.actor, key=new_id("key"), origin=self._origin) if text else None

    def typed(self, line: str) -> None:
        """Print what the person typed, which left the input area."""
        text = said_by(line)
        self._typed.add(text)
        if not self._area.reads:
            return
        shown = visible(text).replace("\n", "\n  ")
        self._print(f"\n\x1b[1m> \x1b[22m{shown}\n" if _has_colours() else f"\n> {shown}\n")

    def tell(self, words: str) -> None:
        """Print a note."""
        if words:
            self._print(self._noted(f"{visible(words)}\n"))

    async def post(self, address: str, body: ConversationView) -> Ref:
        self._ref = Ref(f"{address}:{new_id('msg')}")
        self._flows.clear()
        self._printed.clear()
        self._figured.clear()
        await self.edit(self._ref, body)
        return self._ref

    async def edit(self, ref: Ref, body: ConversationView) -> None:
        if ref != self._ref:  # what was printed above it cannot be reached any more
            return
        spans = list(spans_of(body, self._typed, self._area.width))
        self._live = ""
        above = [self._note(span) if span.note else self._draw(span) for span in spans]
        working = [line for message in body.recent for call in message.calls if (line := _working(call))]
        if working and not body.closed:
            self._live += "\n" + self._noted("\n".join(working))
        self._area.show("".join(above), self._live)
        await self._ask(next((span.question for span in spans if span.question), None))

    async def close(self) -> None:
        """End the question that is on the screen."""
        await self._ask(None)

    def _print(self, text: str) -> None:
        self._area.show(text, self._live)

    def _draw(self, span: Span) -> str:
        """Return what of *span* is new and done; the rest becomes what may change."""
        text = span.text.strip("\n") if not span.open else span.text.lstrip("\n")
        if span.key[1] == "drawn":
            return self._figures(span)
        flow = self._flows.setdefault(span.key, Flow(self._drawing))
        above, live = flow.feed(text, self._area.width, is_open=span.open)
        self._live += live
        return above

    def _figures(self, span: Span) -> str:
        """Return what a call shows, once: on a screen of another width it is not drawn again."""
        if self._figured.get(span.key, ()) == span.renders:
            return ""
        self._figured[span.key] = span.renders
        return painted(span.renders, self._area.width) if _has_colours() else span.text

    def _note(self, span: Span) -> str:
        """Return a note that is complete and was not printed; that of a call at work is in `_working`."""
        text = span.text.lstrip("\n")
        if span.open:
            return ""
        if span.key[1] in ("first", "later"):
            text = text.removesuffix("".join(f"{line}\n" for line in keys(span.question))) if span.question else text
            return self._once((span.key[0], "asks"), f"\n{text}")
        return self._once(span.key, text)

    def _once(self, key: tuple[str, str], text: str) -> str:
        if self._printed.get(key) == text:
            return ""
        self._printed[key] = text
        return self._noted(text)

    def _noted(self, text: str) -> str:
        return note(text, self._area.width) if _has_colours() else text

    async def _ask(self, question: Question | None) -> None:
        """Have the person asked *question* as long as it is open."""
        same = question and self._question and question.id == self._question.id
        self._question = question
        if same:
            return
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait((self._asking,))
            self._asking, self._area.hint = None, ""
        if question is not None and self._approvals is not None:
            self._asking = asyncio.create_task(self._decide(question, self._approvals))

    async def _decide(self, question: Question, approvals: ApprovalsPort) -> None:
        by = Decider(actor=self.actor, is_present=True, is_operator=True)
        with suppress(ParleyError):  # the server says so when the decision is sent
            approval = await approvals.get(question.id)
            if not may_respond(approval.responders, approval.asker, by, approval.speakers):
                self.tell(f"(not yours to decide: it is for {responders_of(question)})")
                self._area.hint = f"waits for {responders_of(question)}"
                return
        await decided(self._area, question, self.actor, approvals, self.tell)


def _working(call: CallView) -> str:
    """Return the line of *call* while it works, with its latest progress; empty when it does not."""
    is_asked = call.question is not None and call.question.status == "open"
    if not is_running(call) or (call.status == "waiting" and is_asked):
        return ""
    how = f"{ended(call)} " if call.question and not is_asked else ""
    return f"· {one_line(call.shown)} … {how}{one_line(call.progress or '')}"


def _drawing() -> TextStyle:
    """Return how text is shown here: NO_COLOR asks for it as it was written."""
    if not _has_colours():
        return AsWritten()
    # Terminals that say so have the number of their background colour at the end; 7 and 15 are white.
    background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return Drawn(light=background in ("7", "15"))


def _has_colours() -> bool:
    return not os.environ.get("NO_COLOR")

"""A conversation on a terminal that can be redrawn: answers are drawn as they come, questions are lists."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_core import Actor, Clock, Decider, Decision, Inbound, Origin, ParleyError, Text, may_respond, new_id
from app.cli.chat.area import Choice, InputArea, open_history
from app.cli.chat.conversation import converse
from app.cli.chat.deciding import decided
from app.cli.chat.drawing import AsWritten, Drawn, Flow, TextStyle, note
from app.cli.chat.once import answer
from app.cli.chat.painting import painted
from app.cli.chat.ports import ApprovalsPort, Port
from channels.spec import CallView, ConversationView, MessageLimits, Question, Ref, RunView, ShownRender, Stop
from channels.terminal import Span, spans_of
from channels.text import ended, is_running, keys, one_line, responders_of, said_by, visible


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
        parts = (Text(said_by(text)),)
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

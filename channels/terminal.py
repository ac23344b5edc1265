"""The terminal channel, the example of a channel: parse a typed line, print a view as text that only grows."""

import re
from collections.abc import Callable
from dataclasses import replace

from agent_core import Actor, Decision, Inbound, Origin, Text, new_id
from channels.base import ConversationView, MessageLimits, Question, Ref, Stop
from channels.legible import visible
from channels.markdown_tables import aligned_tables, before_table
from channels.plain import said_by, vote
from channels.spans import Span, spans_of
from channels.spec import ChannelSpec

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

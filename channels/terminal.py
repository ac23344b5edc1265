"""The terminal channel, the example of a channel: parse a typed line, print a view as text that only grows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from agent_core import Actor, Decider, Decision, Inbound, Origin, Text, new_id
from channels.base import ConversationView, MessageLimits, Question, Ref, Stop
from channels.legible import HELD, one_line, visible
from channels.plain import asked, drawn, end_of, ended, keys, read_arguments
from channels.spec import ChannelSpec

ADDRESS = "terminal:1"
TERMINAL: ChannelSpec[object] = ChannelSpec(name="terminal", address=re.compile(r"terminal:(?P<n>\d+)"))
"""`parley chat` serves it, a command of its own."""


@dataclass(frozen=True, slots=True)
class Span:
    """Text to print; a *note* is not part of the answer; *question* is the open question that is answered first."""

    text: str
    note: bool = False
    question: Question | None = None


class Terminal:
    """Prints answers, as they come when *live*; *write* takes their text, *note* activity and how a run ended."""

    limits = MessageLimits(edit_every=0.03)

    def __init__(
        self, actor: Actor, *, write: Callable[[str], None], note: Callable[[str], None], live: bool, prompt: str = ""
    ) -> None:
        self.actor, self._origin = actor, Origin(is_operator=True)
        self._write, self._note, self._live, self._prompt = write, note, live, prompt
        self._typed: set[str] = set()
        self._ref, self._plain, self._closed, self._asking, self._due = Ref(""), "", False, False, False
        self._question: Question | None = None

    def parse(self, line: str, /) -> Inbound | Decision | Stop | None:
        text = line.strip()
        if text == "/stop":
            return Stop(self.actor)
        if self._question and (vote := self._vote(self._question, *text.partition(" ")[::2])):
            return vote
        return Inbound(parts=(Text(text),), actor=self.actor, key=new_id("key"), origin=self._origin) if text else None

    async def post(self, address: str, body: ConversationView) -> Ref:
        if self._live and self._ref:
            self._write("\n")
        self._ref, self._plain, self._closed = Ref(f"{address}:{new_id('msg')}"), "", False
        self._show(body)
        return self._ref

    async def edit(self, ref: Ref, body: ConversationView) -> None:
        if ref == self._ref:  # what was printed above it cannot be reached any more
            self._show(body)

    def typed(self, line: str) -> None:
        """Remember that the person sees *line* already, and wants to be asked for the next one."""
        self._typed.add(line.strip())
        self._asking, self._due = False, True

    def tell(self, words: str) -> None:
        """Print a note and ask for the next line."""
        self._note(f"{visible(words)}\n{self._prompt}")
        self._asking = bool(self._prompt)

    def _vote(self, question: Question, word: str, rest: str) -> Decision | None:
        """Return the answer to *question* that the person typed, None when it is none; raises `InvalidInput`."""
        by = Decider(actor=self.actor, is_present=True, is_operator=True)  # the person at this terminal is an operator
        yes = Decision(approval=question.id, by=by, approved=True, surface="terminal")
        match word.lower():
            case "y" | "yes" if not rest:
                return yes
            case "no" if not rest:
                return replace(yes, approved=False)
            case "n":
                return replace(yes, approved=False, reason=rest.strip() or None)
            case "a" if question.remember and not rest:
                return replace(yes, remember=True)
            case "e" if question.edit:
                return replace(yes, arguments=read_arguments(rest))
            case _:
                return None

    def _show(self, body: ConversationView) -> None:
        spans = list(spans_of(body, self._typed))
        ends, self._closed = body.closed and not self._closed, body.closed
        self._question = next((span.question for span in spans if span.question), None)
        if self._live:
            self._grow(spans)
            if ends and self._prompt and (self._due or any(said.text in self._typed for said in body.recent)):
                self._write(f"\n{self._prompt}")
                self._asking, self._due = True, False
        elif ends:
            self._note("".join(span.text for span in spans if span.note).lstrip("\n"))
            self._write("".join(span.text for span in spans if not span.note).lstrip("\n"))

    def _grow(self, spans: list[Span]) -> None:
        """Print what is new; text that became another is printed again from the first line that differs."""
        plain = "".join(span.text for span in spans)
        skip = len(self._plain)
        if not plain.startswith(self._plain):
            pairs = zip(plain, self._plain, strict=False)
            same = next((at for at, (new, old) in enumerate(pairs) if new != old), min(len(plain), skip))
            skip = plain.rfind("\n", 0, same) + 1
            self._note("\n\u21bb\n")
        if self._asking and plain != self._plain:
            self._write("\n")
            self._asking = False
        for span in spans:
            if rest := span.text[skip:]:
                (self._note if span.note else self._write)(rest)
            skip = max(0, skip - len(span.text))
        self._plain = plain


def spans_of(body: ConversationView, typed: set[str]) -> Iterator[Span]:
    """Yield *body* as text, up to the first part that may still change."""
    gap, first = "", True
    for said in body.recent:
        if said.role == "user":
            if said.text and said.text not in typed:
                yield Span(f"{gap}> {visible(said.text)}\n", note=True)
                gap = "\n"
            continue
        if text := visible(said.text.rstrip(HELD) if said.open else said.text):
            yield Span(f"{gap}{one_line(said.speaker)}:\n{text}" if said.speaker else gap + text)
            gap = "" if said.continued else "\n"
        if said.open:
            return
        if text and not said.continued:
            yield Span("\n")
        for call in said.calls:
            yield Span(f"· {one_line(call.name)} … ", note=True)
            if (question := call.question) and question.status == "open":
                lines = ("asks", *asked(question), *(keys(question) if first else ()), "")
                yield Span("\n".join(lines), note=True, question=question if first else None)
                first = False
            elif call.status in ("requested", "running", "waiting") and not question and not body.closed:
                return
            else:
                yield from (Span(f"{ended(call)}\n", note=True), Span(drawn(call)))
            gap = "\n"
    if body.closed:
        yield from (Span(f"{words}\n", note=True) for run in body.runs if (words := end_of(run)))

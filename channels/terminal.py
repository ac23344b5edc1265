"""The terminal channel, the worked example of the seam: parse a typed line, show a picture as text that only grows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent_core import Actor, Inbound, Text, new_id
from channels.base import Body, Entry, Limits, Ref, Run, Stop

ADDRESS = "terminal:1"
_OPEN = ("requested", "running", "waiting")
# What a terminal obeys, or what turns the direction of text, is shown as a sign: a model's words are no commands.
_HARMLESS: dict[int, str | None] = {
    **{code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"},
    **dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    **dict.fromkeys((0x0D, 0x7F)),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Some text to print; a *note* is no part of the answer."""

    text: str
    note: bool = False


class Terminal:
    """Prints answers: when *live* as they come, else each once, when it has ended.

    *write* takes their text, *note* what is no part of it: activity, and how a run ended.
    """

    limits = Limits(edit_every=0.03)

    def __init__(
        self, actor: Actor, *, write: Callable[[str], None], note: Callable[[str], None], live: bool, prompt: str = ""
    ) -> None:
        self.actor = actor
        self._write, self._note, self._live, self._prompt = write, note, live, prompt
        self._typed: set[str] = set()
        self._ref, self._plain, self._closed, self._asking = Ref(""), "", False, False

    def parse(self, line: str, /) -> Inbound | Stop | None:
        if line.strip() == "/stop":
            return Stop(self.actor)
        return Inbound(parts=(Text(line.strip()),), actor=self.actor, key=new_id("key")) if line.strip() else None

    async def post(self, address: str, body: Body, _entry: Entry) -> Ref:
        if self._live and self._ref:
            self._write("\n")
        self._ref, self._plain, self._closed = Ref(f"{address}:{new_id('msg')}"), "", False
        self._show(body)
        return self._ref

    async def edit(self, ref: Ref, body: Body, _entry: Entry) -> None:
        if ref == self._ref:  # what was printed above it cannot be reached any more
            self._show(body)

    def typed(self, line: str) -> None:
        """Remember that the person sees *line* already."""
        self._typed.add(line.strip())
        self._asking = False

    def tell(self, words: str) -> None:
        """Print a note and ask for the next line."""
        self._note(f"{words}\n{self._prompt}")
        self._asking = bool(self._prompt)

    def _show(self, body: Body) -> None:
        spans = list(spans_of(body, self._typed))
        ends, self._closed = body.closed and not self._closed, body.closed
        if self._live:
            self._grow(spans)
            if ends and self._prompt and any(said.text in self._typed for said in body.recent):
                self._write(f"\n{self._prompt}")
                self._asking = True
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


def spans_of(body: Body, typed: set[str]) -> Iterator[Span]:
    """Give the picture as text; nothing stands behind what still changes."""
    gap = ""
    for said in body.recent:
        if said.role == "user":
            if said.text and said.text not in typed:
                yield Span(f"{gap}> {harmless(said.text)}\n", note=True)
                gap = "\n"
            continue
        if text := harmless(said.text):
            yield Span(gap + text)
            gap = "" if said.continued else "\n"
        if said.open:
            return
        if text and not said.continued:
            yield Span("\n")
        for call in said.calls:
            yield Span(f"· {one_line(call.name)} … ", note=True)
            if call.status in _OPEN and not body.closed:
                return
            yield Span(f"{call.status}\n", note=True)
            gap = "\n"
    if body.closed:
        yield from (Span(f"{words}\n", note=True) for run in body.runs if (words := end_of(run)))


def end_of(run: Run) -> str | None:
    """Return what a person should know about how *run* ended or why it waits."""
    match run.status:
        case "failed":
            return f"! {one_line(run.error or 'The run failed.')}"
        case "cancelled":
            return "(stopped)"
        case "waiting" | "requires_action":
            return "(waits for somebody to decide or to finish a call)"
        case "completed" if run.reason not in (None, "end_turn"):
            return f"(ended: {one_line(run.reason.replace('_', ' '))})"
        case _:
            return None


def harmless(text: str) -> str:
    """Return *text* with nothing in it that a terminal obeys but line ends and tabs."""
    return text.translate(_HARMLESS)


def one_line(text: str) -> str:
    """Return *text* harmless and on one line."""
    return " ".join(harmless(text).split())

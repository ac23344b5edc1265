"""A view as pieces of text that a terminal prints one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass

from channels.base import ConversationView, Question, ShownRender
from channels.legible import HELD, one_line, visible
from channels.plain import drawn, end_of, ended, is_running, keys, question_lines


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

"""Plain text for places without markup: words in which everything can be seen, and approvals in full."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from agent_core import Actor, Decider, Decision, InvalidInput
from channels.base import CallView, ConversationView, Question, RunView, ShownRender
from channels.figures import figure
from channels.legible import doubt, exact, lasted, one_line, unmistakable
from channels.typed_forms import read_answers, typed_fields

_PEOPLE = {
    "asker": "the person who asked",
    "operators": "operators",
    "anyone": "anyone here",
    "not_asker": "not the person who asked",
}


def question_lines(question: Question) -> Iterator[str]:
    """Give the lines of an open question: what may run, its responders, and until when."""
    yield f"? {_certain(question.title)} ({question.id})"
    if question.detail:
        yield f"  {_certain(question.detail)}"
    yield f"  {_certain(question.tool)}"
    for field in typed_fields(question.form or {}, question.arguments):
        yield f"    {field.described}"
    for name, value in question.arguments.items() if question.form is None else ():
        yield f"    {name if name.isascii() and name.isidentifier() else exact(name)}: {exact(value)}"
        if why := doubt(f"{name} {value}"):
            yield f"      ! this {why}"
    votes = f"; {question.yes} of {question.quorum} said yes" if question.quorum > 1 else ""
    until = datetime.fromtimestamp(question.until / 1000).astimezone()
    yield f"  for {responders_of(question)}, until {until:%Y-%m-%d %H:%M}{votes}"


def _certain(text: str) -> str:
    """Return *text*, on which a decision hangs, on one line."""
    return " ".join(unmistakable(text).split())


def queued(body: ConversationView) -> str | None:
    """Return the line for a message that is queued while the active run of *body* waits; None when it does not."""
    run = body.active
    if run is None or run.status not in ("waiting", "requires_action"):
        return None
    calls = [
        call for message in body.newest() if message.run == run.id for call in message.calls if call.status == "waiting"
    ]
    awaited = "; and for ".join(_awaited(call) for call in calls) or "another run"
    return f"(queued: answered when this conversation goes on; it waits for {awaited})"


def _awaited(call: CallView) -> str:
    question = call.question
    if question is None or question.status != "open":
        return f"the result of {one_line(call.shown)}"
    return f"an approval of {one_line(call.shown)} by {responders_of(question)}"


def responders_of(question: Question) -> str:
    """Return who may answer *question*, in words."""
    return people(question.responders)


def people(responders: Sequence[str]) -> str:
    """Return *responders* in words."""
    return ", ".join(_PEOPLE.get(name, one_line(name.removeprefix("actor:"))) for name in responders)


def keys(question: Question) -> Iterator[str]:
    """Give the lines that say how an answer to *question* is typed."""
    if question.form is not None:
        fields = typed_fields(question.form, question.arguments)
        names = "; ".join(f"{one_line(each.name)}=…" for each in fields)
        is_missing = any(each.required and each.name not in question.arguments for each in fields)
        as_it_is = "" if is_missing else " · y sends it as it is"
        yield f"  e {names} answers it{as_it_is} · n [why] declines it"
        return
    edit = f" · e {exact(question.arguments)} allows it so" if question.edit else ""
    remember = " · a allows the tool for the rest of this conversation" if question.remember else ""
    yield f"  y allows it · n [why] denies it{edit}{remember}"


def said_by(line: str) -> str:
    """Return the message that a typed *line* is: two slashes at its beginning are one, which is no command."""
    text = line.strip()
    return text[1:] if text.startswith("//") else text


def vote(question: Question, actor: Actor, line: str) -> Decision | None:
    """Return the answer to *question* that *actor* typed, None when it is none; raises `InvalidInput`."""
    by = Decider(actor=actor, is_present=True, is_operator=True)  # the person at this terminal is an operator
    yes = Decision(approval=question.id, by=by, approved=True, surface="terminal")
    word, _, rest = line.partition(" ")
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
            return replace(yes, arguments=_typed(question, rest))
        case _:
            return None


def _typed(question: Question, text: str) -> dict[str, Any]:
    """Return the arguments that are typed: as JSON, or the fields of a form; raises `InvalidInput`."""
    if question.form is None or text.lstrip().startswith("{"):
        return read_arguments(text)
    try:
        return read_answers(question.form, question.arguments, text)
    except ValueError as error:
        raise InvalidInput("arguments", str(error)) from None


def is_running(call: CallView) -> bool:
    """Return whether *call* has not ended."""
    return call.status in ("requested", "running", "waiting")


def ended(call: CallView) -> str:
    """Return the state of *call*, and how its approval was decided."""
    question = call.question
    if question is None or question.status == "open":
        return f"{call.status}{lasted(call.seconds)}"
    by = f" by {one_line(question.by.name or question.by.id)}" if question.by else ""
    why = f" ({one_line(question.reason)})" if question.reason else ""
    with_what = f" as {exact(question.arguments)}" if question.edited and question.status == "approved" else ""
    same = question.status in (call.status, "cancelled") or call.status in ("denied", "waiting")
    return f"{question.status}{by}{with_what}{why}" + ("" if same else f", {call.status}{lasted(call.seconds)}")


def drawn(renders: Sequence[ShownRender], width: int | None = None) -> str:
    """Return *renders* as text, visible, each after an empty line; drawn ones in lines of *width* cells at most."""
    return "".join(f"\n{figure(each, width)}\n" for each in renders)


UNSEEN = "This agent's model cannot see pictures."
"""What people read whose picture the model was not shown."""


def unread(run: RunView) -> list[str]:
    """Return what of the conversation the model did not get in *run*, in sentences."""
    texts = [UNSEEN] if run.unseen else []
    if run.left_out is not None:
        names = f": {one_line(', '.join(run.left_out))}" if run.left_out else ""
        texts.append(f"A part of this conversation was left out, since the model's provider refused it{names}.")
    return texts


def end_of(run: RunView) -> str | None:
    """Return what a person should know about how *run* ended or why it waits, and of what the model did not get."""
    texts = [_end_of(run), *(f"({text})" for text in (unread(run) if run.ended else ()))]
    return "\n".join(text for text in texts if text) or None


def _end_of(run: RunView) -> str | None:
    match run.status:
        case "failed":
            above = "The answer above is incomplete. " if run.cut else ""
            return f"! {above}{one_line(run.error or 'The run failed.')}"
        case "cancelled":
            return "(stopped)"
        case "waiting" | "requires_action":
            return "(waits for a decision or for the result of a call)"
        case "completed" if run.blank:
            return "(the model gave no answer; ask again, or put it in other words)"
        case "completed" if run.reason == "max_tokens":
            return "(ended: the answer was cut at its length limit)"
        case "completed" if run.reason not in (None, "end_turn"):
            why = one_line(run.reason.replace("_", " "))
            return f"(ended: {why}{', before the answer was complete' if run.cut else ''})"
        case "completed" if run.cut:
            return "(ended before the answer was complete)"
        case _:
            return None


def read_arguments(text: str) -> dict[str, Any]:
    """Return arguments typed as JSON; raises `InvalidInput`."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        raise InvalidInput("arguments", "write `e` and after it all arguments, as one JSON object.") from None

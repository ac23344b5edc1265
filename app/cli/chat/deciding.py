"""A question about a call, put to the person at the terminal: a list, a reason, or the arguments to edit."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from agent_core import Actor, Decision, InvalidInput, ParleyError
from app.cli.chat.area import Choice, InputArea
from app.cli.chat.ports import ApprovalsPort
from channels.spec import Question
from channels.text import as_json, one_line, typed_fields, vote

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

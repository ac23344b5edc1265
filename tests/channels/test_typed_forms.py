"""Forms in a terminal: what each field takes, and what is typed."""

from dataclasses import replace
from typing import Any

import pytest

from agent_core.errors import InvalidInput
from agent_core.messages import Actor
from channels.spec import Question
from channels.text import keys, question_lines, read_answers, typed_fields, vote
from tests.cases import for_each

TOPPINGS = [
    {"const": "c", "title": "Cheese"},
    {"const": "h", "title": "Ham, smoked"},
    {"const": "o", "title": "Olives"},
]
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer", "title": "Guests", "description": "How many?"},
        "toppings": {"type": "array", "items": {"anyOf": TOPPINGS}},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "spicy": {"type": "boolean"},
        "note": {"type": "string"},
        "day": {"type": "string", "format": "date"},
    },
    "required": ["guests", "size"],
}


def test_each_field_says_what_it_takes():
    """Its title, what it is about, and the numbers of its choices; what is there at first is typed so."""
    fields = typed_fields(FORM, {"toppings": ["c", "o"], "spicy": False})
    assert [each.described for each in fields] == [
        "Guests: How many?; a whole number",
        (
            "toppings (optional): any of 1 Cheese, 2 Ham, smoked, 3 Olives; numbers or names, with commas; "
            "1, 3 if you do not change it"
        ),
        "size: one of 1 Small, 2 Large",
        "spicy (optional): one of 1 yes, 2 no; 2 if you do not change it",
        "note (optional)",
        "day (optional): a date, such as 2026-01-31",
    ]
    assert [each.initial for each in fields] == ["", "1, 3", "", "2", "", ""]


@for_each(
    "typed, answer",
    [
        ("guests=4; toppings=1,3; size=2", {"guests": 4, "toppings": ["c", "o"], "size": "l"}),
        ("guests = 4; toppings = olives, CHEESE, 1; size=Large", {"guests": 4, "toppings": ["o", "c"], "size": "l"}),
        ("Guests=4; toppings=Ham, smoked; size=s", {"guests": 4, "toppings": ["h"], "size": "s"}),
        ("toppings=; spicy=yes; note=a = b", {"spicy": True, "note": "a = b"}),
        ("day=2026-02-03", {"day": "2026-02-03"}),
    ],
)
def test_choices_are_typed_by_number_or_by_name(typed: str, answer: dict[str, Any]):
    """In any order and case, each once; a value of the schema counts as its name."""
    assert read_answers(FORM, {}, typed) == answer


@for_each(
    "typed, why",
    [
        ("toppings=1,9", "toppings: `9` is none of 1 (Cheese), 2 (Ham, smoked), 3 (Olives)."),
        ("size=medium", "size: `medium` is none of 1 (Small), 2 (Large)."),
        ("guests=many", "Guests: this is to be a whole number."),
        ("guests=", "Guests: this has to be given."),
        ("day=tomorrow", "day: this is to be a date, such as 2026-01-31."),
        ("what", "write each field and its value, such as `guests=…; toppings=…; size=…; spicy=…; note=…; day=…`."),
    ],
)
def test_what_does_not_fit_is_said_in_words(typed: str, why: str):
    """With the field, and what it takes."""
    with pytest.raises(ValueError, match=r".") as refused:
        read_answers(FORM, {}, typed)
    assert str(refused.value) == why


def test_a_line_of_a_plain_terminal_answers_a_form():
    """The question has its fields and what to type; a line has all of them, and JSON is taken as before."""
    ann = Actor("ann", "user", "Ann")
    asked = Question("apr_1", "How many?", "book", {}, ("asker",), 1, 0, edit=True, form=FORM)
    shown = "\n".join((*question_lines(asked), *keys(asked)))
    assert "size: one of 1 Small, 2 Large" in shown
    assert "e guests=…; toppings=…; size=…; spicy=…; note=…; day=… answers it · n [why] declines it" in shown
    filled = replace(asked, arguments={"guests": 1, "size": "s"})
    assert "answers it · y sends it as it is · n" in "\n".join(keys(filled))
    for line in ("e guests=4; size=2", 'e {"guests": 4, "size": "l"}'):
        decision = vote(asked, ann, line)
        assert decision is not None
        assert (decision.approved, decision.arguments) == (True, {"guests": 4, "size": "l"})
    with pytest.raises(InvalidInput, match="`9` is none of"):
        vote(asked, ann, "e guests=4; size=9")

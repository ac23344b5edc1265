"""The forms of a card: fields made of the tool's schema, read back to the last space, faults said where they are."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import Fault
from agent_core.objects import ApprovalObject
from agent_core.schemas import defaults
from channels.slack.cards import pages
from channels.slack.forms import (
    VALUE,
    CardAt,
    Field,
    buttons_of,
    card_at,
    denying,
    editing,
    fields,
    marked,
    notice,
    read,
    written,
)
from channels.slack.testing.blocks import check, check_view
from channels.slack.testing.shown import drawn
from channels.slack.testing.team import filled
from tests.cases import for_each
from tests.channels.slack.cards.test_blocks import HERE, JSON, asked

AT = CardAt("apr_1", "CGENERAL", "1.5", "1.0")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "Who gets it"},
        "amount": {"type": "integer"},
        "rate": {"type": "number"},
        "urgent": {"type": "boolean"},
        "colour": {"enum": ["red", "green", 3]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "note": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "odd": {"type": ["string", "null"]},
    },
    "required": ["to", "amount"],
}
CALL: dict[str, Any] = {
    "to": " Bob ",
    "amount": 5,
    "urgent": True,
    "colour": "green",
    "lines": [1, 2],
    "extra": {"a": 1},
}


def written_in(**values: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what comes of a form in which *values* were written, by the names of the arguments."""
    found = asked(CALL)
    made = fields(found, SCHEMA)
    blocks = {each.name: each.block for each in made}
    state = filled(editing(found, SCHEMA, AT), {blocks[name]: value for name, value in values.items()})
    given = {
        block: element[VALUE].get("value") or (element[VALUE].get("selected_option") or {}).get("value")
        for block, element in state.items()
    }
    arguments, errors = read(made, given, found.arguments)
    names = {block: name for name, block in blocks.items()}
    return arguments, {names[block]: said for block, said in errors.items()}


def test_each_argument_has_the_field_that_fits_it():
    """Texts and numbers are written, what has few values is chosen, all else is JSON; what is not required is free."""
    view = editing(asked(CALL), SCHEMA, AT)
    assert check_view(view) == []
    found = [(each["label"]["text"], each["element"]["type"], each["optional"]) for each in view["blocks"][1:]]
    assert found == [
        ("to", "plain_text_input", False),
        ("amount", "plain_text_input", False),
        ("rate", "plain_text_input", True),
        ("urgent", "static_select", True),
        ("colour", "static_select", True),
        ("size", "static_select", True),
        ("note", "plain_text_input", True),
        ("lines (JSON)", "plain_text_input", True),
        ("odd (JSON)", "plain_text_input", True),
        ("extra (JSON)", "plain_text_input", False),
    ]
    assert view["blocks"][1]["hint"]["text"] == "Who gets it"
    assert view["blocks"][4]["element"]["initial_option"]["text"]["text"] == "true"


def test_what_was_left_alone_stays_as_it_was():
    """A form that is sent off unchanged changes nothing, though Slack loses the spaces around a text."""
    assert written_in() == (CALL, {})
    assert written_in(to="Bob\r\n") == (CALL, {})


def test_what_was_written_is_what_is_called():
    """Each field gives a value of its type; a free one that was emptied is left out, a text may be empty."""
    arguments, errors = written_in(
        to="Eve",
        amount="7.0",
        rate="0.5",
        urgent="1",
        colour="2",
        size="1",
        note="a\nb",
        lines="[]",
        odd="null",
        extra='{"b": 2}',
    )
    assert errors == {}
    assert arguments == {
        "to": "Eve",
        "amount": 7,
        "rate": 0.5,
        "urgent": False,
        "colour": 3,
        "size": "l",
        "note": "a\nb",
        "lines": [],
        "odd": None,
        "extra": {"b": 2},
    }
    assert written_in(lines="", urgent="")[0] == {name: CALL[name] for name in ("to", "amount", "colour", "extra")}


def test_several_choices_are_a_menu_of_several():
    """Each is chosen by its number; what was chosen before is marked, and an unlisted value makes it JSON."""
    titled = {"anyOf": [{"const": each, "title": each.title()} for each in ("ham", "egg", "tea")]}
    schema = {
        "type": "object",
        "properties": {
            "food": {"type": "array", "items": titled, "minItems": 1, "maxItems": 2},
            "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}},
        },
        "required": ["food"],
    }
    form = asked({"food": ["tea"]})
    view = editing(form, schema, AT)
    assert check_view(view) == []
    food = view["blocks"][1]["element"]
    assert (food["type"], food["max_selected_items"]) == ("multi_static_select", 2)
    assert [each["value"] for each in food["initial_options"]] == ["2"]
    found = fields(form, schema)
    assert read(found, {"arg_0": "2", "arg_1": ""}, form.arguments) == ({"food": ["tea"]}, {})
    chosen = {"food": ["ham", "egg"], "days": ["tue"]}
    assert read(found, {"arg_0": "1,0", "arg_1": "1"}, form.arguments) == (chosen, {})
    assert [each.kind for each in fields(asked({"food": ["jam"]}), schema)] == ["json", "several"]


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "title": "Amount", "description": "In euros", "minimum": 1, "maximum": 500},
        "rate": {"type": "number", "title": "Rate", "default": 0.5},
        "mail": {"type": "string", "format": "email", "title": "Mail"},
        "due": {"type": "string", "format": "date", "title": "Day", "default": "2026-02-03"},
        "at": {"type": "string", "format": "date-time", "title": "Time", "default": "2026-02-03T10:00:00+01:00"},
        "how": {"type": "string", "title": "How", "enum": ["sepa", "card"], "enumNames": ["Transfer", "Card"]},
        "agreed": {"type": "boolean", "title": "Agreed"},
        "urgent": {"type": "boolean", "title": "Urgent", "default": True},
        "code": {"type": "string", "title": "Code", "maxLength": 100},
        "number": {"type": "string", "title": "Code", "default": 5},
    },
    "required": ["amount", "how", "agreed", "code", "mail"],
}


def of_a_form(form: dict[str, Any], **more: Any) -> ApprovalObject:
    return asked(more.pop("arguments", defaults(form)), form=form, edit=True, **more)


def test_a_form_has_the_words_of_its_schema():
    """Its titles, those of its choices, and the element of each kind; what is required is marked, and only that."""
    found = of_a_form(FORM)
    view = editing(found, FORM, AT)
    assert check_view(view) == []
    assert (view["title"]["text"], view["submit"]["text"]) == ("Answer", "Send")
    made = [(each["label"]["text"], each["element"]["type"], each["optional"]) for each in view["blocks"][1:]]
    assert made == [
        ("Amount", "number_input", False),
        ("How", "static_select", False),
        ("Agreed", "radio_buttons", False),
        ("Code (code)", "plain_text_input", False),
        ("Mail", "email_text_input", False),
        ("Rate", "number_input", True),
        ("Day", "datepicker", True),
        ("Time", "datetimepicker", True),
        ("Urgent", "checkboxes", True),
        ("Code (number)", "plain_text_input", True),
    ]
    elements = [each["element"] for each in view["blocks"][1:]]
    assert view["blocks"][1]["hint"]["text"] == "In euros"
    assert (elements[0]["min_value"], elements[0]["max_value"], elements[0]["is_decimal_allowed"]) == (
        "1",
        "500",
        False,
    )
    assert [each["text"]["text"] for each in elements[1]["options"]] == ["Transfer", "Card"]
    assert (elements[5]["initial_value"], elements[5]["is_decimal_allowed"]) == ("0.5", True)
    assert (elements[6]["initial_date"], elements[7]["initial_date_time"]) == ("2026-02-03", 1_770_109_200)
    assert elements[3]["multiline"]
    assert [check(list(each.blocks)) for each in pages(found, HERE)] == [[]]


def test_a_form_is_read_without_anything_invented():
    """What is left empty stays out, a default that is not touched stays, and what is missing is said at its field."""
    found = of_a_form(FORM)
    made = fields(found, FORM)
    given = {"arg_0": "7", "arg_1": "1", "arg_2": "1", "arg_3": "AB", "arg_4": "a@b.c", "arg_5": "0.5"}
    given |= {"arg_6": "2026-02-03", "arg_7": "2026-02-03T09:00:00Z", "arg_8": "", "arg_9": ""}
    arguments, errors = read(made, given, found.arguments)
    assert (arguments.pop("at"), errors) == ("2026-02-03T09:00:00Z", {})
    rest = {"rate": 0.5, "due": "2026-02-03", "agreed": False, "urgent": False, "code": "AB", "mail": "a@b.c"}
    assert arguments == {"amount": 7, "how": "card", **rest}
    missing = read(made, {}, found.arguments)[1]
    assert missing == dict.fromkeys(("arg_0", "arg_1", "arg_2", "arg_3", "arg_4"), "This has to be given.")
    answered = of_a_form(FORM, arguments=arguments, status="approved", decided_at=0)
    assert "Amount: 7\n" in drawn(list(pages(answered, HERE)[0].blocks))
    assert "How: Card\n" in drawn(list(pages(answered, HERE)[0].blocks))


def test_more_choices_than_one_menu_has_are_grouped():
    """None is left out, and the 151st is read as what it is."""
    form = {"type": "object", "properties": {"a": {"enum": [f"v{n}" for n in range(250)]}}, "required": ["a"]}
    found = of_a_form(form)
    view = editing(found, form, AT)
    assert check_view(view) == []
    state = filled(view, {"arg_0": "150"})["arg_0"][VALUE]["selected_option"]["value"]
    assert read(fields(found, form), {"arg_0": state}, {}) == ({"a": "v150"}, {})


def test_a_form_without_fields_is_answered_too():
    """Its card and its form are what Slack takes."""
    found = of_a_form({"type": "object", "properties": {}})
    assert check_view(editing(found, {}, AT)) == []
    done = of_a_form({"type": "object", "properties": {}}, status="approved", decided_at=0)
    assert [check(list(page.blocks)) for each in (found, done) for page in pages(each, HERE)] == [[], []]


@for_each(
    "values, said",
    [
        ({"amount": "much"}, {"amount": "This is to be a whole number."}),
        ({"amount": "1.5"}, {"amount": "This is to be a whole number."}),
        ({"amount": "true"}, {"amount": "This is to be a whole number."}),
        ({"rate": "NaN"}, {"rate": "This is to be a number."}),
        ({"rate": '"1"', "lines": "[1,"}, {"rate": "This is to be a number.", "lines": "This is to be JSON."}),
        ({"amount": " "}, {"amount": "This has to be given."}),
    ],
)
def test_what_makes_no_sense_is_said_at_its_field(values: dict[str, str], said: dict[str, str]):
    """Each wrong field has its own words, and they say what is wanted."""
    assert written_in(**values)[1] == said


def test_the_core_s_faults_find_their_fields():
    """Each is said at the field of its argument, with the place in it; any other at the first, with its name."""
    paths = (".amount", ".lines[0]", ".lines[2]", "", ".amounts", "['extra'].b.c")
    found, faults = fields(asked(CALL), SCHEMA), [Fault(f"arguments{path}", f"no {n}") for n, path in enumerate(paths)]
    assert marked(found, faults) == {
        "arg_1": "no 0",
        "arg_7": "[0]: no 1; [2]: no 2",
        "arg_0": "no 3; amounts: no 4",
        "arg_9": "b.c: no 5",
    }
    assert [len(words) for words in marked(found, faults * 100).values()] == [300] * 4


def test_what_no_form_can_hold_is_named_and_kept():
    """An argument that is longer than a field stays as it is, and the form says so; so do those beyond its room."""
    call = {"letter": "x" * 3_001, "to": "Bob"}
    view = editing(asked(call), {}, AT)
    assert check_view(view) == []
    assert "kept as they are: letter" in view["blocks"][-1]["elements"][0]["text"]
    made = fields(asked(call), {})
    assert [each.name for each in made] == ["to"]
    assert read(made, {made[0].block: '"Eve"'}, call)[0] == {**call, "to": "Eve"}
    many = editing(asked({f"a{n}": n for n in range(200)}), {}, AT)
    assert check_view(many) == []
    assert "kept as they are" in many["blocks"][-1]["elements"][0]["text"]


def test_the_form_that_asks_why_not():
    """A reason may be left out, and the form remembers its card."""
    view = denying(asked(), AT)
    assert check_view(view) == []
    assert filled(view, {}) == {"reason": {VALUE: {"type": "plain_text_input", "value": None}}}
    assert card_at(view["private_metadata"]) == AT
    assert card_at(written(CardAt("apr_1", "D1", "2.0"))) == CardAt("apr_1", "D1", "2.0")
    with pytest.raises((ValueError, TypeError)):
        card_at("[1]")
    assert check_view(notice("Too late.")) == []


@given(call=st.dictionaries(st.text(min_size=1, max_size=40), JSON, max_size=6))
def test_any_call_survives_its_form(call: dict[str, Any]):
    """Whatever a tool is called with makes a form that Slack takes; sent off unchanged it gives the same call."""
    for schema in ({}, {"properties": {name: {"type": "string"} for name in call}}):
        view, made = editing(asked(call), schema, AT), fields(asked(call), schema)
        assert check_view(view) == []
        state = filled(
            view, {block: {VALUE: {"value": each["element"].get("initial_value")}} for block, each in _inputs(view)}
        )
        given = {block: element[VALUE]["value"] for block, element in state.items()}
        arguments, errors = read(made, given, call)
        assert errors == {}
        assert json.dumps(arguments) == json.dumps(call)


def _inputs(view: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(each["block_id"], each) for each in view["blocks"] if each["type"] == "input"]


def test_a_field_is_as_long_as_its_text():
    """A long text, one of several lines, and JSON have several lines to be written in; a number has one."""

    def multiline(value: Any, kind: str) -> bool:
        view = editing(asked({"a": value}), {"properties": {"a": {"type": kind}}}, AT)
        return view["blocks"][1]["element"]["multiline"]

    assert [multiline("short", "string"), multiline("x" * 61, "string"), multiline("a\nb", "string")] == [
        False,
        True,
        True,
    ]
    assert [multiline(5, "integer"), multiline([], "array")] == [False, True]
    assert Field("a", "b", "text", "x" * 3_000, True).fits


@for_each(
    "schema",
    [
        {"properties": {"size": {"enum": ["s", "l"], "type": "string"}}},
        {
            "properties": {"size": {"oneOf": [{"const": 1, "title": "Same"}, {"const": 2, "title": "Same"}]}},
            "required": ["size"],
        },
    ],
)
def test_what_may_be_left_out_or_reads_alike_is_no_button(schema):
    """Such a question has its form, where it can be answered with nothing, and each choice has its place."""
    approval = msgspec.structs.replace(asked({}), form={"type": "object", **schema})
    assert buttons_of(approval) == ()

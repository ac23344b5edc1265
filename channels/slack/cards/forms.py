"""The forms of a card: to say why not, and to correct what a tool is called with; pure.

A form has a field for each argument that it can hold, made of the tool's schema and of what is asked; what is sent off
is read by the same fields. A field that people left as it was keeps its argument, to the last space.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from agent_core import ApprovalObject, Fault
from channels.legible import unmistakable
from channels.slack.cards import words as w
from channels.slack.cards.blocks import DENY, EDIT
from channels.slack.cards.words import Json
from channels.slack.web_api import limits

REASON = "reason"
FIELDS = limits.BLOCKS_PER_VIEW.value // 2
VALUE = "value"
"""The `action_id` of every field."""
MAX_REASON = 2_000
MAX_FAULT = 300
"""Characters of a field's label."""
_LONG = 60
"""Characters beyond which a text has more than one line to be written in."""
Kind = Literal["text", "integer", "number", "choice", "several", "json"]
_KINDS: Mapping[Any, tuple[Kind, type]] = {
    "string": ("text", str),
    "integer": ("integer", int),
    "number": ("number", float),
}
_WANTED: Mapping[Kind, str] = {"integer": "a whole number", "number": "a number", "json": "JSON"}


@dataclass(frozen=True, slots=True)
class CardAt:
    """The card of *approval* whose buttons are at *ts* of *channel*, in the thread at *root*."""

    approval: str
    channel: str
    ts: str
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """One argument in a form: the *block* that asks for it, and what it holds at first, *shown* as text.

    It is one of *choices*, by its number, or *several* of them, by their numbers with commas, *most* at once; or else
    of a *kind*.
    """

    name: str
    block: str
    kind: Kind
    initial: str
    required: bool
    choices: tuple[Any, ...] = ()
    hint: str = ""
    most: int | None = None

    @property
    def fits(self) -> bool:
        """Whether a form can hold it whole."""
        return len(self.initial) <= limits.INPUT_TEXT.value and len(self.name) <= limits.INPUT_LABEL.value // 2


def denying(approval: ApprovalObject, card: CardAt) -> Json:
    """Return the form that asks why not."""
    element = {"type": "plain_text_input", "action_id": VALUE, "multiline": True, "max_length": MAX_REASON}
    reason = _input(
        REASON, "Why not?", element, hint="The agent sees your reason. You may leave it out.", optional=True
    )
    return _form(DENY, "Deny this call", "Deny", [_about(approval), reason], card)


def editing(approval: ApprovalObject, schema: Json, card: CardAt) -> Json:
    """Return the form that corrects the arguments; those that no form can hold are named and stay as they are."""
    form_fields = fields(approval, schema)
    blocks = [_about(approval), *(_field(each) for each in form_fields)]
    if same := [unmistakable(name) for name in approval.arguments if name not in {each.name for each in form_fields}]:
        notice = f"Too long to be changed here, and kept as they are: {', '.join(same)}"
        blocks.append(
            _note(notice if len(notice) <= limits.CONTEXT_TEXT.value else f"{len(same)} more are kept as they are.")
        )
    return _form(EDIT, "Edit and approve", "Approve", blocks, card)


def written(card: CardAt) -> str:
    """Return what a form keeps to itself: its card."""
    return json.dumps([card.approval, card.channel, card.ts, card.root])


def card_at(metadata: str) -> CardAt:
    """Return what `written` gave; raises `ValueError` or `TypeError` for anything else."""
    return CardAt(*json.loads(metadata))


def notice(words: str) -> Json:
    """Return a form that only says something: mrkdwn."""
    text = {"type": "mrkdwn", "text": words[: limits.SECTION_TEXT.value], "verbatim": True}
    section = {"type": "section", "text": text}
    return {"type": "modal", "title": _plain_text("Approval"), "close": _plain_text("Close"), "blocks": [section]}


def fields(approval: ApprovalObject, schema: Json) -> list[Field]:
    """Return the fields for what a tool may be called with: first what is required, in its author's order.

    That order is kept by `required` alone: the other keys of a frozen schema are sorted.
    """
    properties: Json = schema.get("properties") or {}
    required = schema.get("required") or ()
    names = list(dict.fromkeys([*(name for name in required if name in properties), *properties, *approval.arguments]))
    made = (
        _of(
            name,
            f"arg_{n}",
            properties.get(name),
            approval.arguments,
            required=name in required or name not in properties,
        )
        for n, name in enumerate(names)
    )
    return [each for each in made if each.fits][:FIELDS]


def _of(name: str, block: str, schema: Any, arguments: Json, *, required: bool) -> Field:
    part = cast("Json", schema) if isinstance(schema, dict) else {}
    is_present, value = name in arguments, arguments.get(name)
    hint = unmistakable(str(part.get("description") or ""))[: limits.INPUT_HINT.value]
    if choices := _choices(part):
        initial = next((str(n) for n, each in enumerate(choices) if is_present and _json(each) == _json(value)), "")
        return Field(name, block, "choice", initial, required, choices, hint)
    several = _several(part)
    if several and (chosen := _chosen(several, value if is_present else [])) is not None:
        bound: object = part.get("maxItems")
        most = bound if type(bound) is int and bound > 0 else None
        return Field(name, block, "several", chosen, required, several, hint, most)
    kind, like = _KINDS.get(str(part.get("type")), ("json", object))
    if is_present and not (type(value) is like or (kind == "number" and type(value) is int)):
        kind = "json"
    initial = value if isinstance(value, str) and kind == "text" else _json(value, indent=2)
    return Field(name, block, kind, initial if is_present else "", required, hint=hint)


def _choices(schema: Json) -> tuple[Any, ...]:
    """Return the values that are all there are, if a menu can hold them."""
    options: Sequence[Any] = schema.get("oneOf") or ()
    named = [cast("Json", each)["const"] for each in options if isinstance(each, dict) and "const" in each]
    values: Sequence[Any] = (True, False) if schema.get("type") == "boolean" else schema.get("enum") or named
    fit = len(values) <= limits.OPTIONS.value and all(len(_label(each)) <= limits.OPTION_TEXT.value for each in values)
    return tuple(values) if fit else ()


def _several(schema: Json) -> tuple[Any, ...]:
    """Return the texts of which several may be chosen, if a menu can hold them."""
    items: object = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, dict):
        return ()
    of = cast("Json", items)
    choices = _choices({"oneOf": of.get("anyOf") or of.get("oneOf"), "enum": of.get("enum")})
    return choices if all(isinstance(each, str) for each in choices) else ()


def _chosen(several: Sequence[str], value: Any) -> str | None:
    """Return the numbers of those of *several* that the list *value* has; None where it is anything else."""
    if not isinstance(value, list):
        return None
    texts = [str(each) for each in cast("list[object]", value)]
    numbers = [n for n, each in enumerate(several) if each in texts]
    return ",".join(map(str, numbers)) if value == texts and len(numbers) == len(texts) else None


def _label(value: Any) -> str:
    return (
        unmistakable(value) if isinstance(value, str) and value.strip() == value != "" else unmistakable(_json(value))
    )


def read(form_fields: Sequence[Field], values: Mapping[str, str | None], before: Json) -> tuple[Json, dict[str, str]]:
    """Return the arguments that a form was filled with, and what is wrong with which block."""
    arguments, errors = dict(before), dict[str, str]()
    for each in form_fields:
        text = values.get(each.block) or ""
        if _same(text, each.initial):
            continue
        try:
            parsed, value = _parsed(each, text)
        except ValueError as error:
            errors[each.block] = str(error)
            continue
        if parsed:
            arguments[each.name] = value
        else:
            arguments.pop(each.name, None)
    return arguments, errors


def marked(form_fields: Sequence[Field], faults: Sequence[Fault]) -> dict[str, str]:
    """Return what is said at which block: each of *faults* at the field that it is about, else at the first one."""
    errors = dict[str, str]()
    for fault in faults:
        block, place = _place(form_fields, fault.path.removeprefix("arguments"))
        words = f"{place}: {fault.message}" if place else fault.message
        errors[block] = f"{errors[block]}; {words}" if block in errors else words
    return {block: words[:MAX_FAULT] for block, words in errors.items()}


def _place(form_fields: Sequence[Field], path: str) -> tuple[str, str]:
    """Return the block that *path* leads to, and the rest of it, where the field itself does not say it."""
    for each in form_fields:
        for name in (f".{each.name}", f"['{each.name}']", f'["{each.name}"]'):
            rest = path.removeprefix(name)
            if path.startswith(name) and rest[:1] in ("", ".", "["):
                return each.block, rest.removeprefix(".")
    return form_fields[0].block, path.removeprefix(".")


def _parsed(field: Field, text: str) -> tuple[bool, Any]:
    """Return whether a value was given, and which; raises `ValueError` with what is wrong in words."""
    if field.kind == "text":
        return bool(text.strip()) or field.required, text
    if field.kind == "several":
        # Nothing chosen is a choice, where a list has to be given: whether it may be empty is for its schema to say.
        chosen = sorted({int(n) for n in text.split(",") if n})
        return bool(chosen) or field.required, [field.choices[n] for n in chosen]
    if not text.strip():
        if field.required:
            raise ValueError("This has to be given.")
        return False, None
    if field.kind == "choice":
        return True, field.choices[int(text)]
    try:
        value = json.loads(text, parse_constant=_refused)
    except ValueError:
        raise ValueError(f"This is to be {_WANTED[field.kind]}.") from None
    if field.kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    wanted = {"integer": (int,), "number": (int, float)}.get(field.kind, (object,))
    if not isinstance(value, wanted) or (field.kind != "json" and isinstance(value, bool)):
        raise ValueError(f"This is to be {_WANTED[field.kind]}.")
    return True, value


def _refused(name: str) -> None:
    raise ValueError(name)


def _same(text: str, displayed: str) -> bool:
    """Return whether a field was left as it was: on its way the spaces around a text may get lost."""
    return text.replace("\r\n", "\n").strip() == displayed.replace("\r\n", "\n").strip()


# ---- blocks ---------------------------------------------------------------------------------------


def _field(field: Field) -> Json:
    label = unmistakable(field.name) + (" (JSON)" if field.kind == "json" else "")
    return _input(field.block, label, _element(field), hint=field.hint, optional=not _must(field))


def _must(field: Field) -> bool:
    may_be_empty = field.kind in ("text", "several")
    return field.required and (not may_be_empty or bool(field.initial))  # a text that is empty may stay so


def _element(field: Field) -> Json:
    if field.choices:
        options = [{"text": _plain_text(_label(each)), "value": str(n)} for n, each in enumerate(field.choices)]
        if field.kind == "several":
            return _menu_of_several(field, options)
        first = {"initial_option": options[int(field.initial)]} if field.initial else {}
        return {"type": "static_select", "action_id": VALUE, "options": options, **first}
    is_long = field.kind == "json" or "\n" in field.initial or len(field.initial) > _LONG
    first = {"initial_value": field.initial} if field.initial else {}
    multiline = is_long and field.kind not in ("integer", "number")
    return {"type": "plain_text_input", "action_id": VALUE, "multiline": multiline, **first}


def _menu_of_several(field: Field, options: Sequence[Json]) -> Json:
    chosen = [options[int(n)] for n in field.initial.split(",") if n]
    made: Json = {"type": "multi_static_select", "action_id": VALUE, "options": list(options)}
    first = {"initial_options": chosen} if chosen else {}
    return {**made, **first, **({"max_selected_items": field.most} if field.most else {})}


def _input(block: str, label: str, element: Json, *, hint: str = "", optional: bool = False) -> Json:
    made: Json = {
        "type": "input",
        "block_id": block,
        "label": _plain_text(label),
        "element": element,
        "optional": optional,
    }
    return {**made, "hint": _plain_text(hint)} if hint else made


def _form(callback: str, title: str, submit: str, blocks: Sequence[Json], card: CardAt) -> Json:
    made: Json = {"type": "modal", "callback_id": callback, "title": _plain_text(title), "submit": _plain_text(submit)}
    return {**made, "close": _plain_text("Back"), "private_metadata": written(card), "blocks": list(blocks)}


def _about(approval: ApprovalObject) -> Json:
    sentence = [
        w.text(unmistakable(approval.title), bold=True),
        w.text("  "),
        w.text(unmistakable(approval.tool), code=True),
    ]
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": sentence}]}


def _note(words: str) -> Json:
    return {"type": "context", "elements": [_plain_text(words)]}


def _plain_text(words: str) -> Json:
    return {"type": "plain_text", "text": words, "emoji": False}


def _json(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)

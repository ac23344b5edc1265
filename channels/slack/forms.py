"""The texts of cards and ephemeral notices: who may decide, who did, and every argument exactly; pure.

A sentence is a list of the inline elements of rich text, which holds no markup. `mrkdwn` writes the same as text.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from datetime import date as datetime_date
from decimal import Decimal
from typing import Any, Literal, cast

from agent_core.errors import Fault
from agent_core.messages import Actor, shorten
from agent_core.objects import ApprovalObject
from channels.slack import limits
from channels.slack.text import escape, neutral
from channels.text import doubt, named_choices, unmistakable

Json = dict[str, Any]
Sentence = list[Json]

INLINE = 160
"""Characters of a value on the line of its name; a longer one has a box of its own."""
_DATE = "{date_short_pretty} at {time}"
_ROLES = {"operators": "operators", "anyone": "anyone here", "not_asker": "not the person who asked"}


@dataclass(frozen=True, slots=True)
class Value:
    """One argument: its *name*, and its *text* in a *box* of its own or after the name, as it is or as *code*.

    *doubt* is why it may pass for another one.
    """

    name: str
    text: str
    box: bool = False
    code: bool = False
    doubt: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" + (f" ({self.doubt})" if self.doubt else "")

    @property
    def style(self) -> dict[str, bool]:
        return {"code": True} if self.code else {}


def text(words: str, **style: bool) -> Json:
    """Return literal words, with a style such as `bold`."""
    return {"type": "text", "text": words, **({"style": style} if style else {})}


def date(at: int) -> Json:
    """Return a time in milliseconds, which is shown in each reader's own zone."""
    seconds = at // 1000
    fallback = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"type": "date", "timestamp": seconds, "format": _DATE, "fallback": fallback}


def person(actor: Actor, team: str) -> Json:
    """Return a person: one of the workspace *team* by account, because names can be taken."""
    kind, _, rest = actor.id.partition(":")
    own_team, _, user = rest.partition(":")
    if kind == "slack" and own_team == team and user:
        return {"type": "user", "user_id": user}
    return name(actor)


def name(actor: Actor) -> Json:
    """Return a person's name; it is no mention, so it notifies no one."""
    return text(unmistakable(actor.name or actor.id), bold=True)


def responders(approval: ApprovalObject, team: str) -> Sentence:
    """Return the responders by name."""
    named = [_responder(each, approval, team) for each in approval.responders if each != "not_asker"]
    if "not_asker" in approval.responders:
        named = [*(named or [[text("anyone here")]]), [text("but not the person who asked")]]
    return joined(named, ", ")


def _responder(named: str, approval: ApprovalObject, team: str) -> Sentence:
    kind, _, rest = named.partition(":")
    match kind:
        case "asker" if approval.asker is not None:
            return [name(approval.asker)]
        case "asker":
            return [text("the person who asked")]
        case "actor":
            return [person(Actor(rest, "user"), team)]
        case "slack" if rest.startswith("S"):
            return [{"type": "usergroup", "usergroup_id": rest}]
        case "slack":
            return [{"type": "user", "user_id": rest}]
        case _:
            return [text(_ROLES.get(named, named))]


def outcome(approval: ApprovalObject, team: str) -> Sentence:
    """Return the outcome of an approval that is no longer open: what, by whom, when."""
    by = [text(" by "), person(approval.decided_by, team)] if approval.decided_by else []
    at = [text(", "), date(approval.decided_at)] if approval.decided_at is not None else []
    is_form = approval.form is not None
    match approval.status:
        case "approved":
            sentence = [text("Answered" if is_form else "Approved", bold=True), *by, *at]
            if approval.is_edited:
                sentence.append(text(", with other arguments than were asked for"))
            if approval.remember and approval.votes and all(vote.remember for vote in approval.votes if vote.approved):
                sentence.append(text(", and for the rest of this conversation"))
            return [*sentence, text(".")]
        case "denied":
            return [text("Declined" if is_form else "Denied", bold=True), *by, *at, text(".")]
        case "expired":
            then = "so the call was denied" if approval.on_timeout == "deny" else "so the answer was given up"
            words, then = ("Not answered", "so it was declined") if is_form else ("Not decided", then)
            return [text(f"{words} in time", bold=True), *at, text(f": {then}.")]
        case _:
            return [text("Not asked any more", bold=True), *at, text(": the answer was stopped"), *by, text(".")]


def votes(approval: ApprovalObject, team: str) -> Sentence:
    """Return who said yes so far, where one yes is not enough."""
    yes = [[person(vote.actor, team)] for vote in approval.votes if vote.approved]
    if approval.quorum == 1:
        return []
    count = [text(f"{len(yes)} of {approval.quorum}", bold=True), text(" who must say yes")]
    return [*count, text(": "), *joined(yes, ", "), text(".")] if yes else [*count, text(" have.")]


def mrkdwn(sentence: Iterable[Json]) -> str:
    """Return *sentence* as mrkdwn; only its own mentions and times take effect, everything else is escaped."""
    return "".join(map(_marked, sentence))


def _marked(element: Json) -> str:
    match element["type"]:
        case "user":
            return f"<@{element['user_id']}>"
        case "usergroup":
            return f"<!subteam^{element['usergroup_id']}>"
        case "channel":
            return f"<#{element['channel_id']}>"
        case "link":
            return f"<{element['url']}|{escape(element['text'])}>"
        case "date":
            return f"<!date^{element['timestamp']}^{element['format']}|{element['fallback']}>"
        case _:
            return escape(neutral(element["text"]))


def values(arguments: Mapping[str, Any]) -> Iterator[Value]:
    """Yield every argument in full: texts as they are, everything else as JSON, long values in a box."""
    for name, value in arguments.items():
        label, why = _label(name), doubt(name) or doubt(value if isinstance(value, str) else str(value))
        if len(label) > INLINE:
            yield Value("an argument of the name", label, box=True)
            label = "its value"
        yield replace(_value(label, value), doubt=why)


def _label(name: str) -> str:
    return unmistakable(name) if name and name == name.strip() else _json(name)


def _value(label: str, value: Any) -> Value:
    if isinstance(value, str):
        return _text_value(label, value)
    if len(line := _json(value)) <= INLINE:
        return Value(label, line, code=True)
    return Value(label, unmistakable(json.dumps(value, ensure_ascii=False, indent=2)), box=True)


def _text_value(label: str, value: str) -> Value:
    if "\n" in value or len(value) > INLINE:
        return Value(label, unmistakable(value), box=True)
    if value and value == value.strip():
        return Value(label, unmistakable(value))
    return Value(label, _json(value), code=True)  # so that its spaces are seen


def _json(value: Any) -> str:
    return unmistakable(json.dumps(value, ensure_ascii=False))


def joined(sentences: Iterable[Sentence], gap: str) -> Sentence:
    """Return *sentences* as one, with *gap* between them."""
    result: Sentence = []
    for sentence in sentences:
        result += [text(gap), *sentence] if result else sentence
    return result


APPROVE, ALWAYS, EDIT, DENY = "approval_approve", "approval_always", "approval_edit", "approval_deny"
"""The `action_id`s of a card's buttons; their value is the approval's id. `EDIT` and `DENY` name their forms, too."""
CHOICES = tuple(f"approval_choice_{n}" for n in range(5))
"""Those of the buttons that answer a question with one of its few choices, by their number."""
REASON = "reason"
FIELDS = limits.BLOCKS_PER_VIEW // 2
VALUE = "value"
"""The `action_id` of every field."""
MAX_REASON = 2_000
MAX_FAULT = 300
"""Characters of a field's label."""
_GROUPS = 5
"""Groups of options that one menu has at most: a view is bounded as a whole."""
_LARGE = 10**15
"""The bound of a number from which on Slack is not told of it; the schema still is what counts."""
_LONG = 60
"""Characters beyond which a text has more than one line to be written in."""
Kind = Literal["text", "integer", "number", "choice", "several", "flag", "json"]
_KINDS: Mapping[Any, tuple[Kind, type]] = {
    "string": ("text", str),
    "integer": ("integer", int),
    "number": ("number", float),
}
_TEXTS: Mapping[Any, str] = {
    "date": "datepicker",
    "date-time": "datetimepicker",
    "email": "email_text_input",
    "uri": "url_text_input",
}
"""Slack's elements for texts of a `format`."""
_INITIAL: Mapping[str, str] = {"datepicker": "initial_date", "datetimepicker": "initial_date_time"}
_OF_ALL = re.compile(r"^does not fit the (?:form|schema) of `[^`]*`: ")
_PATTERN = re.compile(r" does not match '.*'$", re.DOTALL)
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
    of a *kind*. A *flag* has the one choice of a yes. *label* and *labels* are what it and its choices are called,
    *element* is Slack's, with *bounds*. *blank*: left empty it has a value, such as an empty text that was given so.
    """

    name: str
    block: str
    kind: Kind
    initial: str
    required: bool
    choices: tuple[Any, ...] = ()
    hint: str = ""
    most: int | None = None
    label: str = ""
    labels: tuple[str, ...] = ()
    element: str = "plain_text_input"
    bounds: Json = field(default_factory=dict[str, Any])
    blank: bool = False

    @property
    def must(self) -> bool:
        """Whether it may not be left empty."""
        return self.required and not self.blank

    def said(self, value: Any) -> Any:
        """Return *value*, which it holds, by the labels of its choices."""
        chosen = [self.labels[int(n)] for n in self.initial.split(",") if n and self.labels]
        return ", ".join(chosen) or ("No" if self.kind == "flag" else value)

    @property
    def fits(self) -> bool:
        """Whether a form can hold it whole."""
        return len(self.initial) <= limits.INPUT_TEXT and len(self.name) <= limits.INPUT_LABEL // 2


def denying(approval: ApprovalObject, card: CardAt) -> Json:
    """Return the form that asks why not; a tool that asks itself learns a no, and no reason."""
    is_form = approval.form is not None
    words = "It is kept with the question." if is_form else "The agent sees your reason."
    element = {"type": "plain_text_input", "action_id": VALUE, "multiline": True, "max_length": MAX_REASON}
    reason = _input(REASON, "Why not?", element, hint=f"{words} You may leave it out.", optional=True)
    title, submit = ("Decline to answer", "Decline") if is_form else ("Deny this call", "Deny")
    return _form(DENY, title, submit, [_about(approval), reason], card)


def editing(approval: ApprovalObject, schema: Json, card: CardAt) -> Json:
    """Return the form that corrects the arguments; those that no form can hold are named and stay as they are."""
    form_fields = fields(approval, schema)
    blocks = [_about(approval), *(_field(each) for each in form_fields)]
    if same := [unmistakable(name) for name in approval.arguments if name not in {each.name for each in form_fields}]:
        notice = f"Too long to be changed here, and kept as they are: {', '.join(same)}"
        blocks.append(
            _note(notice if len(notice) <= limits.CONTEXT_TEXT else f"{len(same)} more are kept as they are.")
        )
    title, submit = ("Edit and approve", "Approve") if approval.form is None else ("Answer", "Send")
    return _form(EDIT, title, submit, blocks, card)


def buttons_of(approval: ApprovalObject) -> Sequence[tuple[Json, str]]:
    """Return the few answers of a required question, each with a label of its own: one press answers; else none."""
    properties: Json = (approval.form or {}).get("properties") or {}
    answers = [
        ({name: value}, label) for name, part in properties.items() for value, label in _choices(part, titled=True)
    ]
    is_one = len(properties) == 1 and properties.keys() <= set((approval.form or {}).get("required") or ())
    are_few = 1 < len(answers) <= len(CHOICES) and len({label for _, label in answers}) == len(answers)
    return answers if is_one and are_few else ()


def said(approval: ApprovalObject) -> Json:
    """Return what a form is filled with, in its own words."""
    by_name = {each.name: each for each in fields(approval, approval.form or {})}
    return {
        by_name[name].label if name in by_name else name: by_name[name].said(value) if name in by_name else value
        for name, value in approval.arguments.items()
    }


def written(card: CardAt) -> str:
    """Return what a form keeps to itself: its card."""
    return json.dumps([card.approval, card.channel, card.ts, card.root])


def card_at(metadata: str) -> CardAt:
    """Return what `written` gave; raises `ValueError` or `TypeError` for anything else."""
    return CardAt(*json.loads(metadata))


def notice(words: str) -> Json:
    """Return a form that only says something: mrkdwn."""
    text = {"type": "mrkdwn", "text": words[: limits.SECTION_TEXT], "verbatim": True}
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
            approval,
            required=name in required or name not in properties,
        )
        for n, name in enumerate(names)
    )
    held = [each for each in made if each.fits][:FIELDS]
    labels = [each.label for each in held]
    return [
        replace(each, label=f"{each.label} ({each.name})") if labels.count(each.label) > 1 else each for each in held
    ]


def _of(name: str, block: str, schema: Any, approval: ApprovalObject, *, required: bool) -> Field:
    part = cast("Json", schema) if isinstance(schema, dict) else {}
    is_form, is_present, value = approval.form is not None, name in approval.arguments, approval.arguments.get(name)
    title = shorten(unmistakable(str(part.get("title") or "").strip()), limits.INPUT_LABEL // 2)
    hint = unmistakable(str(part.get("description") or ""))[: limits.INPUT_HINT]
    label = title if is_form and title else unmistakable(name) or _dumped(name)
    plain = Field(name, block, "text", "", required, hint=hint, label=label)
    if is_form and part.get("type") == "boolean" and (is_present or not required):
        first, yes = "0" if value is True else "", {"choices": (True,), "labels": ("Yes",)}
        return replace(plain, kind="flag", initial=first, **yes, element="checkboxes", blank=True)
    if choices := _choices(part, titled=is_form):
        values, labels = zip(*choices, strict=True)
        initial = next((str(n) for n, each in enumerate(values) if is_present and _dumped(each) == _dumped(value)), "")
        element = "radio_buttons" if is_form and part.get("type") == "boolean" else "static_select"
        return replace(plain, kind="choice", initial=initial, choices=values, labels=labels, element=element)
    if several := _several(part, titled=is_form):
        values, labels = zip(*several, strict=True)
        if (chosen := _chosen(values, value if is_present else [])) is not None:
            bound: object = part.get("maxItems")
            most = bound if type(bound) is int and bound > 0 else None
            menu = replace(plain, kind="several", initial=chosen, choices=values, labels=labels, most=most)
            return replace(menu, element="multi_static_select", blank=not part.get("minItems"))
    kind, like = _KINDS.get(str(part.get("type")), ("json", object))
    if is_present and not (type(value) is like or (kind == "number" and type(value) is int)):
        kind = "json"
    text = value if isinstance(value, str) and kind == "text" else _dumped(value, indent=2)
    initial = text if is_present else ""
    made = replace(plain, kind=kind, initial=initial, blank=kind == "text" and is_present and not initial)
    if kind == "json":
        return replace(made, label=f"{label} (JSON)")
    return replace(made, **_written_in(part, initial)) if is_form else made


def _written_in(part: Json, initial: str) -> Json:
    """Return Slack's element for a text or a number of a form, with its bounds, if that can hold *initial*."""
    if part.get("type") in ("integer", "number"):
        is_whole = part["type"] == "integer"
        given = {name: part.get(key) for name, key in (("min_value", "minimum"), ("max_value", "maximum"))}
        bounds = {
            name: f"{Decimal(str(bound)):f}"
            for name, bound in given.items()
            if (type(bound) is int or (type(bound) is float and not is_whole)) and abs(bound) < _LARGE
        }
        element = "plain_text_input" if "e" in initial.lower() else "number_input"
        return {"element": element, "bounds": {"is_decimal_allowed": not is_whole, **bounds}}
    element = _TEXTS.get(str(part.get("format")), "plain_text_input")
    if initial and element in _INITIAL and _first_of(element, initial) is None:
        element = "plain_text_input"
    most: object = part.get("maxLength")
    return {"element": element, "bounds": {"multiline": type(most) is int and most > _LONG}}


def _first_of(element: str, text: str) -> Any:
    """Return *text* as a picker of dates holds it at first; None where it cannot."""
    try:
        if element == "datepicker":
            return datetime_date.fromisoformat(text).isoformat()
        at = datetime.fromisoformat(text)
        seconds = int(at.timestamp())
        return seconds if at.tzinfo and len(str(seconds)) == len("1628633820") else None  # Slack takes ten digits
    except (ValueError, OverflowError):
        return None


def _choices(schema: Json, *, titled: bool = False) -> Sequence[tuple[Any, str]]:
    """Return the values that are all there are, each with its label (*titled*: the schema's), if a menu has room."""
    yes_or_no = [(True, "Yes"), (False, "No")]
    named = yes_or_no if schema.get("type") == "boolean" else list(named_choices(schema))
    labels = [shorten(unmistakable(name.strip()), limits.OPTION_TEXT) if titled else "" for _, name in named]
    made = [(value, label or _option_label(value)) for (value, _), label in zip(named, labels, strict=True)]
    fit = len(made) <= limits.OPTIONS * _GROUPS and all(len(label) <= limits.OPTION_TEXT for _, label in made)
    return made if fit else ()


def _several(schema: Json, *, titled: bool) -> Sequence[tuple[Any, str]]:
    """Return the texts of which several may be chosen, if a menu can hold them."""
    items: object = schema.get("items")
    if schema.get("type") != "array" or not isinstance(items, dict):
        return ()
    choices = _choices({**cast("Json", items), "type": None}, titled=titled)
    return choices if all(isinstance(value, str) for value, _ in choices) else ()


def _chosen(several: Sequence[str], value: Any) -> str | None:
    """Return the numbers of those of *several* that the list *value* has; None where it is anything else."""
    if not isinstance(value, list):
        return None
    texts = [str(each) for each in cast("list[object]", value)]
    numbers = [n for n, each in enumerate(several) if each in texts]
    return ",".join(map(str, numbers)) if value == texts and len(numbers) == len(texts) else None


def _option_label(value: Any) -> str:
    return (
        unmistakable(value) if isinstance(value, str) and value.strip() == value != "" else unmistakable(_dumped(value))
    )


def read(form_fields: Sequence[Field], values: Mapping[str, str | None], before: Json) -> tuple[Json, dict[str, str]]:
    """Return the arguments that a form was filled with, and what is wrong with which block."""
    arguments, errors = dict(before), dict[str, str]()
    for each in form_fields:
        text = values.get(each.block) or ""
        if _same(text, each.initial) and (each.name in before or not each.required):
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
        message = _PATTERN.sub(" is not of the form that is asked for.", _OF_ALL.sub("", fault.message))
        words = f"{place}: {message}" if place else message
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
    if not text.strip() and field.must:
        raise ValueError("This has to be given.")
    if field.kind == "text":
        return bool(text.strip()) or field.required, text
    if field.kind == "flag":
        return True, bool(text)
    if field.kind == "several":
        # Nothing chosen is a choice, where a list has to be given: whether it may be empty is for its schema to say.
        chosen = sorted({int(n) for n in text.split(",") if n})
        return bool(chosen) or field.required, [field.choices[n] for n in chosen]
    if not text.strip():
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
    return _input(field.block, field.label, _element(field), hint=field.hint, optional=not field.must)


def _element(field: Field) -> Json:
    made: Json = {"type": field.element, "action_id": VALUE}
    if field.choices:
        return made | _menu(field)
    if field.element in _INITIAL:
        return made | ({_INITIAL[field.element]: _first_of(field.element, field.initial)} if field.initial else {})
    made |= {"initial_value": field.initial} if field.initial else {}
    if field.element == "number_input":
        return made | field.bounds
    if field.element != "plain_text_input":
        return made
    is_long = field.kind == "json" or "\n" in field.initial or len(field.initial) > _LONG
    is_number = field.kind in ("integer", "number")
    return made | {"multiline": (is_long or bool(field.bounds.get("multiline"))) and not is_number}


def _menu(field: Field) -> Json:
    """Return the options of a field, in groups where they are too many for one, and those that are chosen at first."""
    options = [{"text": _plain_text(label), "value": str(n)} for n, label in enumerate(field.labels)]
    chosen, most = [options[int(n)] for n in field.initial.split(",") if n], limits.OPTIONS
    groups = [options[n : n + most] for n in range(0, len(options), most)]
    listed: Json = {"options": options}
    if len(groups) > 1:
        listed = {"option_groups": [{"label": each[0]["text"], "options": each} for each in groups]}
    if field.kind == "choice":
        return listed | ({"initial_option": chosen[0]} if chosen else {})
    first = {"initial_options": chosen} if chosen else {}
    return {**listed, **first, **({"max_selected_items": field.most} if field.most else {})}


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
        text(unmistakable(approval.title), bold=True),
        text("  "),
        text(unmistakable(approval.tool), code=True),
    ]
    return {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": sentence}]}


def _note(words: str) -> Json:
    return {"type": "context", "elements": [_plain_text(words)]}


def _plain_text(words: str) -> Json:
    return {"type": "plain_text", "text": words, "emoji": False}


def _dumped(value: Any, *, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)

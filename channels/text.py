"""A conversation as plain text: legible words, forms that are typed, figures, and how a run ended."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from agent_core.charts.text import chart_text, spec_text, table_text
from agent_core.charts.values import chart_of, table_of
from agent_core.errors import InvalidInput
from agent_core.messages import Actor
from agent_core.objects import Decider, Decision
from channels.spec import CallView, ConversationView, Question, RunView, ShownRender

HELD = "\r\u200c\u200d\ufe0e\ufe0f"
"""How these are written depends on what follows; of a text that grows, those at its end are shown later."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"
_STYLES = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
_PICTURES = frozenset({"So", "Sm", "Sk", "Po", "Pd"})
# Letters, marks and symbols without ink: fillers, variation selectors, the blank of Braille.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_JOINED = frozenset(
    {"ARABIC", "SYRIAC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA"}
    | {"MALAYALAM", "SINHALA", "MYANMAR", "KHMER"}
)
"""Scripts that need joiners to be written."""
_SCRIPTS = ("Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic")
_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lo"})
# The letters of UTS #39 (confusables) that pass for one of a to z or A to Z in common typefaces.
_ALIKE = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u0475\u04cf\u04af\u0410\u0412"
    "\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408\u04ba\u051a\u051c\u0474\u04c0\u04ae"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03b3\u03c7\u03f2\u03f3\u03b7\u0391\u0392\u0395\u0396\u0397\u0399\u039a"
    "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f9\u037f\u0585\u057d\u0578\u0570\u0581\u0566\u0575\u0584\u0555\u054f"
    "\u053c\u054d\u13aa\u13f4\u13df\u13a0\u13ac\u13c0\u13bb\u13a5\u13ab\u13e6\u13de\u13b7\u13e2\u13a1\u13da\u13a2\u13d9"
    "\u13b3\u13c3\u13a9\u2c9f\u2ca3\u2ca5\u2c9e\u2ca2\u2ca4\u2c94\u2c98\u2c9a\u2ca6\u2cac"
)
# What passes for a sign of ASCII wherever it is: script letters, slashes, colons, dots, hyphens, and styled letters.
_ODD = re.compile(
    "[\u0251\u0261\u2044\u2215\u29f8\ua789\u2236\u2024\u01c3\u2010\u2011\u037e\u2100-\u214f\u2160-\u217f"
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
)
# Signs of East Asian texts that pass for those of ASCII: beside a letter of such a script they are what they are.
_WIDE = re.compile("[\u3002\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e\uff61]")
_DIGITS = frozenset("0123456789")
_WORD = re.compile(r"[^\s!-/:-@\[-^`{-~]+")
_LINES = str.maketrans("", "", "\n\t")


class _Word(NamedTuple):
    """A word from *start* on, the *scripts* of its letters, and whether all of several look like Latin ones.

    Its only letter may be *lone*, one that looks like a Latin one, and *numeric*, beside a digit of ASCII.
    """

    start: int
    text: str
    scripts: frozenset[str]
    alike: bool
    lone: bool
    numeric: bool


def visible(text: str) -> str:
    """Return *text* with what cannot be seen written as its number, except line ends and tabs.

    Joiners stay within emoji, and in scripts that need them. The result is visible: to do it again changes nothing.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line if _is_clear(line) else _written(line, _number, _is_hidden) for line in lines)


def unmistakable(text: str) -> str:
    """Return *text* visible, and the letters, spaces and signs in it that pass for others as numbers too."""
    return _written(text, _number, _is_mistakable(text))


def one_line(text: str) -> str:
    """Return *text* visible and on one line."""
    return " ".join(visible(text).split())


def lasted(seconds: float | None) -> str:
    """Return how long something took, after a dot; empty below a second, or when it is not known."""
    if seconds is None or seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f" · {minutes} min {rest} s" if minutes else f" · {rest} s"


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Return *value* as JSON in which what cannot be seen is escaped; it reads back as the same value."""
    return _written(json.dumps(value, ensure_ascii=False, indent=indent), _escape, _is_hidden)


def exact(value: Any) -> str:
    """Return *value* as JSON on one line in which what cannot be seen or passes for something else is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    is_mistakable = _is_mistakable(text)
    return _written(text, _escape, lambda word, at: not word[at].isprintable() or is_mistakable(word, at))


def doubt(text: str) -> str | None:
    """Return why *text* may pass for another: a word of it mixes scripts, or all of it only looks like Latin."""
    if text.isascii():
        return None
    words = [word for word in _words(text) if word.scripts]
    has_latin = any("Latin" in word.scripts for word in words)
    suspects = [word for word in _suspects(words) if has_latin or len(word.scripts) > 1]
    if suspects:
        scripts = {script for word in suspects for script in word.scripts}
        if any(len(word.scripts) == 1 for word in suspects):
            scripts.add("Latin")
        *others, last = [script for script in _SCRIPTS if script in scripts]
        return f"mixes {', '.join(others)} and {last} letters"
    if words and all(word.alike or word.numeric for word in words):
        return "has no Latin letters, but looks as if it had"
    return None


def _written(text: str, write: Callable[[str], str], is_odd: Callable[[str, int], bool]) -> str:
    if text.isascii() and _is_clear(text.translate(_LINES)):
        return text
    return "".join(write(sign) if is_odd(text, at) else sign for at, sign in enumerate(text))


def _is_clear(line: str) -> bool:
    """Return whether all of *line* can be seen, without a look at each character; no is not certain."""
    return line.isprintable() and (line.isascii() or _BLANK.search(line) is None)


def _number(sign: str) -> str:
    return f"\\u{{{ord(sign):x}}}"


def _escape(sign: str) -> str:
    return sign if sign == "\n" else json.dumps(sign)[1:-1]


def _is_hidden(text: str, at: int) -> bool:
    sign = text[at]
    if "\x20" <= sign <= "\x7e" or sign in "\n\t":
        return False
    before, after = text[at - 1] if at else "", text[at + 1] if at + 1 < len(text) else ""
    if sign in _JOINERS:
        return not _is_joined(before, after)
    if sign in _STYLES:
        return not (_is_picture(before) or (after == _KEYCAP and before in tuple("0123456789#*")))
    return unicodedata.category(sign) in _HIDDEN or _BLANK.match(sign) is not None


def _is_joined(before: str, after: str) -> bool:
    if not (before and after):
        return False
    if _is_picture(after):
        return _is_picture(before) or before == _STYLES[1]
    return _needs_joiners(before) and _needs_joiners(after)


def _is_picture(sign: str) -> bool:
    return bool(sign) and not sign.isascii() and unicodedata.category(sign) in _PICTURES


def _needs_joiners(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LM" and unicodedata.name(sign, "").split(" ")[0] in _JOINED


def _is_mistakable(text: str) -> Callable[[str, int], bool]:
    """Return a test of the characters of *text*: whether one is hidden or passes for another."""
    if text.isascii():
        return _is_hidden
    alike = {
        at
        for word in _suspects([word for word in _words(text) if word.scripts])
        for at, sign in enumerate(word.text, word.start)
        if sign in _ALIKE
    }

    def test(text: str, at: int) -> bool:
        return at in alike or _is_hidden(text, at) or _is_odd(text, at)

    return test


def _is_odd(text: str, at: int) -> bool:
    sign = text[at]
    if sign.isascii():
        return False
    if _WIDE.match(sign):
        return not any(unicodedata.category(each) == "Lo" for each in text[max(at - 1, 0) : at + 2])
    return _ODD.match(sign) is not None or unicodedata.category(sign) == "Zs"


def _suspects(words: list[_Word]) -> list[_Word]:
    """Return the words that mix scripts, and those that look like Latin ones among such, or like digits.

    One letter alone is one where all other words are Latin: in other texts it may be a word.
    """
    has_latin = any("Latin" in word.scripts for word in words)
    is_latin = has_latin and all(word.lone or word.scripts == frozenset({"Latin"}) for word in words)
    return [
        word
        for word in words
        if len(word.scripts) > 1 or word.numeric or (has_latin and word.alike) or (is_latin and word.lone)
    ]


def _words(text: str) -> list[_Word]:
    return [_word(match.start(), match[0]) for match in _WORD.finditer(text)]


def _word(start: int, text: str) -> _Word:
    letters = [sign for sign in text if unicodedata.category(sign) in _LETTERS]
    scripts = frozenset(script for sign in letters if (script := _script(sign)))
    alike = all(sign in _ALIKE for sign in letters)
    lone = alike and len(letters) == 1
    at = text.index(letters[0]) if lone else 0
    numeric = lone and not _DIGITS.isdisjoint(text[max(at - 1, 0) : at + 2])
    return _Word(start, text, scripts, alike and len(letters) > 1, lone, numeric)


def _script(letter: str) -> str | None:
    name = unicodedata.name(letter, "").split(" ")[0].capitalize()
    return name if name in _SCRIPTS else None


Kind = Literal["text", "integer", "number", "choice", "several"]
_WANTED: Mapping[Kind, str] = {"integer": "a whole number", "number": "a number"}
_FORMATS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "date": ("a date, such as 2026-01-31", date.fromisoformat),
    "date-time": ("a time, such as 2026-01-31T09:30:00Z", datetime.fromisoformat),
    "email": ("a mail address", str),
}
"""What a text of a `format` is, and what raises `ValueError` for another one."""
_TYPES: Mapping[Kind, Any] = {"integer": int, "number": int | float}


@dataclass(frozen=True, slots=True)
class TypedField:
    """One field of a form: one of *choices*, *several* of them, or else of a *kind*; *labels* name the choices.

    *initial* is what it holds at first, as it would be typed. *format* is that of a text, as of a date.
    """

    name: str
    title: str
    kind: Kind
    required: bool
    choices: tuple[Any, ...] = ()
    labels: tuple[str, ...] = ()
    hint: str = ""
    initial: str = ""
    format: str = ""

    @property
    def described(self) -> str:
        """What it asks for, on one line."""
        listed = ", ".join(f"{n} {_line(label)}" for n, label in enumerate(self.labels, 1))
        wanted = {"choice": f"one of {listed}", "several": f"any of {listed}; numbers or names, with commas"}
        plain = _WANTED.get(self.kind) or _FORMATS.get(self.format, ("",))[0]
        first = f"{_line(self.initial)} if you do not change it" if self.initial else ""
        parts = filter(None, (_line(self.hint), wanted.get(self.kind) or plain, first))
        title = f"{_line(self.title)}{'' if self.required else ' (optional)'}"
        return ": ".join(filter(None, (title, "; ".join(parts))))

    def read(self, text: str) -> Any:
        """Return the value that *text* is, None for one that is left out; raises `ValueError` with what is wrong."""
        text = text.strip()
        if self.kind == "several":
            return self._several(text) or ([] if self.required else None)
        if not text:
            if self.required:
                raise ValueError("this has to be given.")
            return None
        if self.kind == "choice":
            return self._one(text)
        try:
            if self.kind == "text":
                _FORMATS.get(self.format, ("", str))[1](text)
                return text
            return msgspec.json.decode(text, type=_TYPES[self.kind], strict=True)
        except (ValueError, msgspec.DecodeError):
            wanted = _WANTED.get(self.kind) or _FORMATS[self.format][0]
            raise ValueError(f"this is to be {wanted}.") from None

    def _several(self, text: str) -> list[Any]:
        if text and self._place(text) is not None:  # a name may have commas
            return [self._one(text)]
        return list(dict.fromkeys(self._one(each.strip()) for each in text.split(",") if each.strip()))

    def _one(self, text: str) -> Any:
        place = self._place(text)
        if place is None:
            names = ", ".join(f"{n} ({_line(label)})" for n, label in enumerate(self.labels, 1))
            raise ValueError(f"`{_line(text)}` is none of {names}.")
        return self.choices[place]

    def _place(self, text: str) -> int | None:
        """Return which choice *text* names: by its name, its value, or its number, in this order."""
        for names in (self.labels, [str(each) for each in self.choices]):
            wanted = [n for n, name in enumerate(names) if name.strip().casefold() == text.casefold()]
            if wanted:
                return wanted[0]
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= len("999") else 0
        return number - 1 if 1 <= number <= len(self.choices) else None


def typed_fields(form: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[TypedField, ...]:
    """Return the fields of *form*, in its order, which hold *arguments* at first."""
    properties: Mapping[str, Any] = form.get("properties") or {}
    required: Sequence[str] = form.get("required") or ()
    return tuple(_field(name, schema, name in required, arguments.get(name)) for name, schema in properties.items())


def read_answers(form: Mapping[str, Any], arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the answer of a line such as `guests=4; toppings=1,3`; what it does not name stays as in *arguments*.

    Raises `ValueError` with the field and what is wrong.
    """
    answer, by_name = dict(arguments), dict[str, TypedField]()
    for field in typed_fields(form, arguments):
        by_name |= {field.title.casefold(): field, field.name.casefold(): field}
    for each in filter(str.strip, text.split(";")):
        name, equals, value = each.partition("=")
        field = by_name.get(name.strip().casefold())
        if field is None or not equals:
            example = "; ".join(f"{each_field.name}=…" for each_field in typed_fields(form, arguments))
            raise ValueError(f"write each field and its value, such as `{example}`.")
        try:
            read_value = field.read(value)
        except ValueError as error:
            raise ValueError(f"{_line(field.title)}: {error}") from None
        answer = {known: one for known, one in answer.items() if known != field.name}
        answer |= {} if read_value is None else {field.name: read_value}
    return answer


def _field(name: str, schema: Any, required: bool, value: Any) -> TypedField:  # noqa: FBT001 - a field of the form
    wanted = cast("dict[str, Any]", schema)
    kind: Any = wanted.get("type")
    is_several = kind == "array"
    named = list(named_choices(cast("dict[str, Any]", wanted.get("items") or {}) if is_several else wanted))
    if kind == "boolean":
        named = [(True, "yes"), (False, "no")]
    plain: Kind = "integer" if kind == "integer" else "number" if kind == "number" else "text"
    typed: Kind = "several" if is_several else "choice" if named else plain
    return TypedField(
        name=name,
        title=str(wanted.get("title") or name),
        kind=typed,
        required=required,
        choices=tuple(each for each, _ in named),
        labels=tuple(label or str(each) for each, label in named),
        hint=str(wanted.get("description") or ""),
        initial=_initial([each for each, _ in named], value),
        format=str(wanted.get("format")),
    )


def _initial(choices: Sequence[Any], value: Any) -> str:
    """Return *value* as it would be typed: choices by their numbers."""
    if value is None or not choices:
        return "" if value is None else str(value)
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return ", ".join(str(n) for n, each in enumerate(choices, 1) if each in values)


def named_choices(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Give the values that *schema* chooses among, each with its name, which is empty where it has none."""
    values: Sequence[Any] = schema.get("enum") or ()
    names: Sequence[Any] = schema.get("enumNames") or ()
    for n, value in enumerate(values):
        yield value, str(names[n]) if len(names) == len(values) else ""
    titled: Sequence[Any] = () if values else schema.get("anyOf") or schema.get("oneOf") or ()
    for each in titled:
        if isinstance(each, dict) and "const" in each:
            one = cast("dict[str, Any]", each)
            yield one["const"], str(one.get("title") or "")


def _line(text: str) -> str:
    return " ".join(unmistakable(text).split())


MAX_ROWS = 40
"""Rows of a table that are shown: what is above the screen is out of sight."""
MAX_TEXT = 8_000
"""Characters of a table or a chart that are shown, some hundred lines."""


def figure(render: ShownRender, width: int | None) -> str:
    """Return *render* as text in lines of *width* cells at most, in which nothing controls the terminal."""
    return visible(RENDERERS.get(render.kind, _plain)(render, width)).rstrip()


def _plain(render: ShownRender, width: int | None) -> str:  # noqa: ARG001 - a renderer's shape
    return render.plain


def _table_figure(render: ShownRender, width: int | None) -> str:
    """Return a table with its title; its text where the payload is no table."""
    table = table_of(render.payload)
    return (
        render.plain if table is None else titled(render, table_text(table, width=width, rows=MAX_ROWS, limit=MAX_TEXT))
    )


def _chart_figure(render: ShownRender, width: int | None) -> str:
    """Return a chart as bars, lines of signs and numbers with its title; its text where the payload is no chart."""
    if chart := chart_of(render.payload):
        return titled(render, chart_text(chart, width=width, limit=MAX_TEXT))
    spec: Any = render.payload.get("spec")
    if not isinstance(spec, dict):
        return render.plain
    return titled(render, spec_text(cast("dict[str, Any]", spec), width=width, limit=MAX_TEXT))


def titled(render: ShownRender, text: str) -> str:
    """Return *text* below the title of *render*, visible; where something is left out, also where all of it is."""
    head = f"{render.title}\n\n" if render.title else ""
    is_cut = text.rpartition("\n")[2].startswith("… and ")
    return visible(f"{head}{text}{f' (all of it: GET /v1/renders/{render.id}.csv)' if is_cut else ''}")


RENDERERS: Mapping[str, Callable[[ShownRender, int | None], str]] = {"table": _table_figure, "chart": _chart_figure}
"""How a terminal draws renders, by kind; it shows the text of all others."""


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

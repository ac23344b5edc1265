"""Forms where people type lines: what each field takes, in words, and the answer that a typed text is; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, cast

import msgspec

from channels.legible import unmistakable

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

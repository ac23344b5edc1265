"""Cells and their fields as JavaScript has them."""

from agent_core.renders.vega.notplain import NotPlain
from agent_core.renders.vega.shapes import words

INHERITED = words(
    """constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf __proto__
    __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__"""
)
"""Properties of every object of JavaScript: a row without such a field has them nevertheless."""


def plain_name(field: str) -> str:
    """Return the key of a field. Raises `NotPlain` when it is one within a cell, or one that any object has."""
    if "\\" in field or "." in field or "[" in field or field in INHERITED:
        raise NotPlain
    return field


def label_of(value: object) -> str:
    """Return how JavaScript writes a value. Raises `NotPlain` for numbers that it writes with an exponent."""
    match value:
        case None | Null():
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < WHOLE:
            return str(int(value))
        case int() | float():
            text = repr(value)
            if "e" in text or abs(value) > WHOLE:
                raise NotPlain
            return text
        case _:
            return str(value)


WHOLE = 2**53


class Null:
    """The key of rows whose cell is null: a category of its own."""


NULL = Null()

"""Characters that people cannot see: what strangers wrote is read without them. Pure."""

from unicodedata import category

_LAYOUT = frozenset("\n\t")


def without_hidden(text: str) -> str:
    """Return *text* without control, format, private and unassigned characters; lines and tabs stay.

    Instructions can hide in them from the person who reads a description, and not from the model.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign for sign in text if sign in _LAYOUT or category(sign)[0] != "C")

"""Folding: the texts that one text reads as, once what cannot be seen, case and styles are gone; pure."""

import re
from unicodedata import category, combining, normalize

# Letters and symbols without ink: fillers, the grapheme joiner, the blank of Braille, variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
_UNSEEN = frozenset({"Cc", "Cf"})
_MARKS = frozenset({"Mn", "Me"})
MAX_MARKS = 30
"""Marks on one letter that count: as many as a text may have in Unicode's stream-safe form (UAX 15); sorting more of
them takes time that grows with the square of their number."""
_SPACES = str.maketrans("", "", "\t\n\r\f\v")


def spellings(text: str) -> tuple[str, ...]:
    """Return *text* as written, in compatibility form (NFKC), without what cannot be seen, and without marks."""
    if text.isascii() and text.translate(_SPACES).isprintable():
        return (text,)
    safe = _stream_safe(text)
    seen = _seen(safe)
    return tuple(dict.fromkeys((text, normalize("NFKC", safe), seen, _bare(seen))))


def readings(text: str) -> tuple[str, ...]:
    """Return the `spellings` of *text*, and each without its case."""
    readings = spellings(text)
    return tuple(dict.fromkeys((*readings, *(each.casefold() for each in readings))))


def wanted_forms(text: str) -> tuple[str, ...]:
    """Return what to look for among the `readings` of another text; marks are kept, as an author chose them."""
    safe = _stream_safe(text)
    return tuple(dict.fromkeys((text, normalize("NFKC", safe), _seen(safe).casefold())))


def _stream_safe(text: str) -> str:
    """Return *text* without the marks of a letter beyond the `MAX_MARKS` first."""
    signs, marks = list[str](), 0
    for sign in text:
        marks = marks + 1 if combining(sign) else 0
        if marks <= MAX_MARKS:
            signs.append(sign)
    return "".join(signs)


def _seen(text: str) -> str:
    visible = "".join(sign for sign in text if sign in "\t\n\r\f\v" or category(sign) not in _UNSEEN)
    return normalize("NFKC", _BLANK.sub("", visible))


def _bare(text: str) -> str:
    """Return *text* without the marks on its letters."""
    if text.isascii():
        return text
    apart = normalize("NFD", text)
    return normalize("NFC", "".join(sign for sign in apart if not combining(sign) and category(sign) not in _MARKS))

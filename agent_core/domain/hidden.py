"""Hidden characters: what a model reads and a person does not see is taken out of texts that strangers wrote; pure."""

import re
from unicodedata import category

# Letters and symbols without ink, and the variation selectors that hide bytes behind any letter; `\ufe0e` and `\ufe0f`,
# which choose how an emoji is drawn, stay.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U0001d159\U000e0000-\U000e0fff]"
)
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_LINES = frozenset({"Zl", "Zp"})
_KEPT = "\n\t"
_JOINERS = "\u200c\u200d"
"""Between two letters that are not ASCII they are part of a script, or of an emoji."""


def visible(text: str) -> str:
    """Return *text* without the characters that no one sees; other ends of lines become newlines."""
    if text.isascii() and text.isprintable():
        return text
    text = _BLANK.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(_shown(text, place) for place in range(len(text)))


def _shown(text: str, place: int) -> str:
    sign = text[place]
    if sign.isascii() and (sign.isprintable() or sign in _KEPT):
        return sign
    if sign in _JOINERS:
        before, after = text[max(0, place - 1) : place], text[place + 1 : place + 2]
        return sign if _joins(before) and _joins(after) else ""
    kind = category(sign)
    return "\n" if kind in _LINES else "" if kind in _UNSEEN else sign


def _joins(sign: str) -> bool:
    return bool(sign) and not sign.isascii() and category(sign) not in _UNSEEN

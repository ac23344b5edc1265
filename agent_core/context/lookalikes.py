"""Look-alikes: a text as people and models read it, letter for letter, with the way back to what was written. Pure."""

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

BLANK = "\x00"
"""What a blank with a width reads as: a gap between words, or nothing within one."""
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me"})
_OPENS = "[\u2045\u2772\u27e6\u27ee\u298b\u298d\u298f\u3010\u3014\u3016\u3018\u301a\ufe5d\uff3b"
_CLOSES = "]\u2046\u2773\u27e7\u27ef\u298c\u298e\u2990\u3011\u3015\u3017\u3019\u301b\ufe5e\uff3d"
_ALIKE = {
    "a": "\u0430\u03b1\u1d00",
    "b": "\u0432\u0412\u0299",
    "c": "\u0441\u03f2\u1d04",
    "d": "\u0501\u1d05",
    "e": "\u0435\u03b5\u1d07",
    "g": "\u0261\u0581\u0262",
    "h": "\u04bb\u0570\u0397\u041d\u043d\u029c",
    "i": "\u0456\u03b9\u0131\u026a",
    "k": "\u043a\u03ba\u1d0b",
    "l": "\u04cf\u029f",
    "m": "\u043c\u039c\u1d0d",
    "n": "\u0578\u039d\u0274",
    "o": "\u043e\u03bf\u0585\u1d0f",
    "p": "\u0440\u03c1\u1d18",
    "r": "\u0433\u0280",
    "s": "\u0455\ua731",
    "t": "\u0442\u03c4\u1d1b",
    "u": "\u057d\u03c5\u1d1c",
    "w": "\u051d\u03c9\u1d21",
    "y": "\u0443\u03a5\u028f",
    "/": "\u2044\u2215\u29f8",
}
_READ = {
    **{sign: letter for letter, signs in _ALIKE.items() for sign in signs},
    **dict.fromkeys(_OPENS, "["),
    **dict.fromkeys(_CLOSES, "]"),
    "\u2026": "\u2026",  # what a marker that was cut ends in; its compatibility form is three dots
}
_MAX_SIGNS = 8_192
_OPENING = re.compile(f"[{re.escape(_OPENS)}]")
# What has no ink of its own, and so may hide within a word.
_NO_INK = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u0483-\u0489\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20f0\u2800\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff"
    "\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


class _Table(dict[str, str]):
    """What each character reads as, found when it is met first; so much is kept that strangers cannot fill memory."""

    def __missing__(self, sign: str) -> str:
        reading = _read(sign)
        if len(self) < _MAX_SIGNS:
            self[sign] = reading
        return reading


_TABLE = _Table()


def is_plain(text: str, marker: str) -> bool:
    """Return whether *text* has no bracket, and no *marker* with something unseen in it: it holds no look-alike."""
    if text.isascii():
        return "[" not in text
    if _OPENING.search(text) is not None:
        return False
    return _NO_INK.search(text) is None or marker not in _NO_INK.sub("", text)


def as_read(text: str) -> str:
    """Return *text* in small letters of ASCII where it looks so; see `ReadPlaces` for where each was."""
    return text.lower() if _is_clear(text) else "".join(map(_TABLE.__getitem__, text))


class ReadPlaces:
    """Where in *text* each character of `as_read(text)` comes from."""

    def __init__(self, text: str) -> None:
        lengths = () if _is_clear(text) else map(len, map(_TABLE.__getitem__, text))
        self._begins = list(accumulate(lengths, initial=0))

    def of(self, at: int) -> int:
        """Return the place that the character *at* of the text as it is read has in the text."""
        return at if len(self._begins) == 1 else bisect_right(self._begins, at) - 1


def _is_clear(text: str) -> bool:
    return text.isascii() and _NO_INK.search(text) is None


def _read(sign: str) -> str:
    if sign in _READ:
        return _READ[sign]
    if sign.isspace():
        return " " if sign not in "\n\r" else sign
    if sign in _BLANKS:
        return BLANK
    if unicodedata.category(sign) in _UNSEEN:
        return ""
    return "".join(map(_letter, unicodedata.normalize("NFKD", sign)))


def _letter(sign: str) -> str:
    if unicodedata.category(sign) in _UNSEEN:
        return ""
    if sign in _READ:
        return _READ[sign]
    return "".join(_READ.get(each, each) for each in sign.casefold())

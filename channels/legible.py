"""Legible text: what people see of words from outside is what is there; pure.

What cannot be seen, or turns the order of what is read, is written as its number, such as `u{202e}` after a backslash.
Where a decision hangs on a text, so are letters that pass for others. The widget's `legible.ts` does the same in a
browser; both are tested with `tests/golden/legible.json`.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

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

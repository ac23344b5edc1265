"""Which ids a page's visitor may have: none that means someone of another channel, and none that cannot be seen."""

import unicodedata

MAX_ID = 200
RESERVED = frozenset(
    {"actor", "agent", "forgotten", "key", "operator", "operators", "parley", "service", "slack", "system", "terminal"}
)
"""Words that an id may not be, nor begin with before a colon: actors of other channels, operators, our own words."""
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Letters and marks that are drawn as nothing: fillers of Hangul, a blank of Braille, the joiner of graphemes.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))


def fault_of_id(id: str) -> str | None:
    """Return what is wrong with *id* as a visitor's, None when nothing is."""
    if not id or len(id) > MAX_ID:
        return f"an id has 1 to {MAX_ID} characters."
    if (hidden := next((each for each in id if is_hidden(each)), None)) is not None:
        return f"an id contains only characters that can be seen, not U+{ord(hidden):04X}."
    if id != id.strip() or any(each.isspace() and each != " " for each in id):
        return "an id begins and ends with no space, and contains no other space than U+0020."
    word = unicodedata.normalize("NFKC", id).casefold().partition(":")[0].strip()
    if word in RESERVED:
        return f"`{word}` is not a visitor's; ids of other channels and of operators are reserved."
    return None


def fault_of_name(name: str) -> str | None:
    """Return what is wrong with a visitor's *name*, None when nothing is; joiners are part of some languages."""
    hidden = next((each for each in name if is_hidden(each) and each not in "\u200c\u200d"), None)
    return None if hidden is None else f"a name contains only characters that can be seen, not U+{ord(hidden):04X}."


def is_hidden(character: str) -> bool:
    """Return whether *character* is a control, or drawn as nothing."""
    if character.isascii():
        return not character.isprintable()
    code = ord(character)
    selects = any(first <= code <= last for first, last in _SELECTORS)
    return unicodedata.category(character) in _HIDDEN or character in _BLANK or selects

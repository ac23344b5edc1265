"""Half characters in JSON: the escape of a lone surrogate, as servers write it that cut text by UTF-16 units."""

import re

# An escaped backslash (what follows it is no escape), a pair of surrogates, or one without its other half.
_ESCAPES = re.compile(rb"\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(\\u[dD][89a-fA-F]\w\w)")


def legible(data: bytes) -> bytes:
    """Return the JSON *data* with U+FFFD for each half of a character, which most parsers refuse."""
    if b"\\" not in data or b"\\ud" not in data.lower():  # most data
        return data
    return _ESCAPES.sub(lambda match: b"\\ufffd" if match[1] else match[0], data)


def legible_text(text: str) -> str:
    """Return *text* as `legible` does if it begins as JSON does; it is valid UTF-8."""
    return legible(text.encode()).decode() if text[:100].lstrip().startswith(("{", "[", '"')) else text

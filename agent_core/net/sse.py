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


MAX_EVENT = 32 * 1024 * 1024
"""Bytes of one event; the largest answers are far below it, and a server that never ends a line must not fill us."""
_LONG = 64 * 1024
"""Bytes from which an event that is not whole yet is no longer searched from its beginning at each read."""
_DATA = b"data:"


class EventTooLarge(ValueError):
    """An event has more bytes than any answer should."""


class EventSplitter:
    """Cuts a stream of bytes into its events; an incomplete one is kept until the rest of it is read."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of each event that *chunk* completes; raises `EventTooLarge`."""
        return [legible(data) for event in self.split(chunk) if (data := _data(event))]

    def split(self, chunk: bytes) -> list[bytes]:
        """Return each event that *chunk* completes, with all its lines; raises `EventTooLarge`."""
        if len(self._rest) > _LONG and b"\n" not in chunk and b"\r" not in chunk:
            return self._grow(chunk)
        whole = bytes(self._rest) + chunk if self._rest else chunk
        held = b""
        if b"\r" in whole:
            whole, held = _with_plain_ends(whole)
        events = whole.split(b"\n\n")
        rest = events.pop() + held
        if rest or self._rest:
            self._rest.clear()
            self._grow(rest)
        return events

    def end(self) -> list[bytes]:
        """Return the data of a last event that no blank line ended: some servers end so.

        A plain JSON object is data as well: some servers answer with one whole thing, or with an error.
        """
        rest = bytes(self._rest).strip()
        self._rest.clear()
        data = rest if rest.startswith(b"{") else _data(rest)
        return [legible(data)] if data else []

    def _grow(self, chunk: bytes) -> list[bytes]:
        self._rest += chunk
        if len(self._rest) > MAX_EVENT:
            raise EventTooLarge(f"An event of more than {MAX_EVENT} bytes.")
        return []


def _with_plain_ends(text: bytes) -> tuple[bytes, bytes]:
    """Return *text* with plain line ends, and a carriage return at its end, whose line feed may still come."""
    held = b"\r" if text.endswith(b"\r") else b""
    return text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n"), held


def _data(event: bytes) -> bytes:
    """Return the data of one event; comments and other fields are left out."""
    start = event.find(_DATA)
    if start > 0 and event[start - 1 : start] != b"\n":
        start = event.find(b"\n" + _DATA) + 1 or -1
    if start < 0:
        return b""
    if event.find(b"\n", start) < 0:
        return event[start + 5 :].strip()
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(_DATA)]
    return b"\n".join(lines).strip()

"""Server-sent events as bytes: network reads in, whole events or their data out."""

from agent_core.net.halves import legible

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

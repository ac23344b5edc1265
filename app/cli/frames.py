"""Server-sent events as our clients read them: bytes in, whole frames out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream; *id* is the seq of a fact, *data* its JSON."""

    id: int | None
    type: str
    data: bytes


class Frames:
    """Cuts a stream into frames. It is split as bytes: text may hold characters that Python calls line ends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that *chunk* completes; comments are passed over."""
        *whole, self._rest = (self._rest + chunk).split(b"\n\n")
        return [frame for text in whole if (frame := _read(text)) is not None]


def _read(text: bytes) -> Frame | None:
    lines = (line for line in text.split(b"\n") if not line.startswith(b":"))
    fields = {name: value for name, colon, value in (line.partition(b": ") for line in lines) if colon}
    if b"event" not in fields or b"data" not in fields:
        return None
    seq = int(fields[b"id"]) if b"id" in fields else None
    return Frame(seq, fields[b"event"].decode(), fields[b"data"])

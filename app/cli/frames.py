"""Parley's own event streams as the commands read them: bytes in, whole frames out."""

from dataclasses import dataclass

from agent_core.net import sse


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a stream; *id* is the seq of a fact, None in a live event; *data* is JSON."""

    id: int | None
    type: str
    data: bytes


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._stream = sse.EventSplitter()

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that *chunk* completes, without comments; raises `EventTooLarge`."""
        return [frame for event in self._stream.split(chunk) if (frame := _read(event)) is not None]


def _read(event: bytes) -> Frame | None:
    """Return the frame that the lines of *event* make up; None for a comment."""
    fields = {name: value for name, colon, value in (line.partition(b": ") for line in event.split(b"\n")) if colon}
    if b"event" not in fields or b"data" not in fields:
        return None
    seq = int(fields[b"id"]) if b"id" in fields else None
    return Frame(seq, fields[b"event"].decode(), fields[b"data"])

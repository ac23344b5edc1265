"""The parts of messages as channels show them; pure."""

from agent_core import File, Part, Reasoning, Text, ToolCall
from channels.base import GrowingText, Piece


def said(part: Part) -> Piece:
    """Return a part of a person's message; of a tool that it had used the name."""
    return Piece("text", GrowingText.of(part.name)) if isinstance(part, ToolCall) else piece(part)


def pieces(parts: tuple[Part, ...]) -> tuple[Piece, ...]:
    """Return the parts of an answer."""
    return tuple(map(piece, parts))


def piece(part: Part) -> Piece:
    """Return *part* with its text; a file's is empty."""
    match part:
        case Text(text):
            return Piece("text", GrowingText.of(text))
        case Reasoning(text):
            return Piece("reasoning", GrowingText.of(text))
        case File(mime=mime) if mime.startswith("image/"):
            return Piece("picture", GrowingText.of(""))
        case _:
            return Piece("other", GrowingText.of(""))

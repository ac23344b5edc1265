"""Estimates of tokens that no call has counted yet: bytes by a fixed ratio, images and pages by their number. Pure."""

from collections.abc import Sequence

import msgspec

from agent_core.agents import Snapshot
from agent_core.messages import (
    MAX_FILE_TEXT,
    File,
    Message,
    NativePiece,
    Part,
    Text,
    ToolResult,
    is_text,
    is_whole,
    mime_of,
)

BYTES_PER_TOKEN = 3.5
"""What English text and JSON have with the vendors' present tokenizers."""
IMAGE_TOKENS = 1_600
"""Tokens of an image of about a megapixel, to which Anthropic scales larger ones down."""
PAGE_TOKENS = 3_000
"""Tokens of a PDF page at most: its text (1,500 to 3,000) and its picture."""
PAGE_BYTES = 50_000
"""Bytes of a PDF page, by which pages are counted without opening the file."""
_MAX_PAGES = 600
_UNPACKED = 4
"""Times that the text of an office document is larger than its file, at most: most hold more than text."""
_PER_PART = 24
"""Bytes of JSON around a part."""


def tokens_of_bytes(size: int) -> int:
    """Return the tokens of so many bytes of text."""
    return round(size / BYTES_PER_TOKEN)


def tokens_of(message: Message) -> int:
    """Return the tokens of *message* as a model's API gets it."""
    native = message.native
    if native is not None and native.pieces:
        return tokens_of_bytes(sum(_piece(piece, message.parts) for piece in native.pieces))
    return tokens_of_parts(message.parts)


def tokens_of_parts(parts: Sequence[Part]) -> int:
    """Return the tokens of *parts*."""
    return sum(map(_tokens, parts))


def tokens_of_prefix(snapshot: Snapshot) -> int:
    """Return the tokens of the tools and texts that prompts of *snapshot* begin with."""
    tools = msgspec.json.encode([(tool.name, tool.description, tool.parameters) for tool in snapshot.tools])
    return tokens_of_bytes(len(tools) + len(snapshot.shared.encode()) + len(snapshot.own.encode()))


def picture_tokens(file: File) -> int:
    """Return the tokens of *file* where models are shown it as a picture or as pages, 0 where they get its text."""
    kind = mime_of(file)
    if kind.startswith("image/"):
        return IMAGE_TOKENS
    if kind == "application/pdf" and (file.text is None or is_whole(file)):
        pages = file.pages or min(max(1, -(-file.size // PAGE_BYTES)), _MAX_PAGES)
        return pages * PAGE_TOKENS
    return 0


def _tokens(part: Part) -> int:
    match part:
        case Text(text):
            return tokens_of_bytes(_size(text) + _PER_PART)
        case ToolResult():
            return tokens_of_parts(part.parts) + tokens_of_bytes(2 * _PER_PART)
        case File():
            return picture_tokens(part) or tokens_of_bytes(_PER_PART + _text_size(part))
        case _:
            return tokens_of_bytes(len(msgspec.json.encode(part)))


def _text_size(file: File) -> int:
    if file.text is not None:  # of what is packed the text may be larger
        return min(_UNPACKED * file.size, MAX_FILE_TEXT)
    return file.size if is_text(file) else 0


def _piece(piece: NativePiece, parts: Sequence[Part]) -> int:
    """Return the bytes of a native item's piece: its JSON, or the text, or the part of a text, that it names."""
    match piece:
        case str():
            return _size(piece)
        case int():
            return _size(getattr(parts[piece], "text", ""))
        case (_, start, end):
            return end - start


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

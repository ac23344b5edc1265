"""Estimates of tokens: measured where a provider counted, else bytes by a ratio that is calibrated per model. Pure.

What a call was billed for is exact, so only what came after it is estimated. The ratio of bytes to tokens is an
exponential mean over the calls of a model in this process, which begins with the last one that the log of a session
has; the mean relative error of the estimates is kept beside it.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from agent_core.domain.files import MAX_FILE_TEXT, is_text, is_whole, mime_of
from agent_core.domain.messages import File, Message, NativePiece, Part, Text, ToolResult

IMAGE_TOKENS = 1_600
"""Tokens of an image of about a megapixel, to which Anthropic scales larger ones down; a fixed estimate."""
PAGE_TOKENS = 3_000
"""Tokens of a PDF page at most: its text (1,500 to 3,000) and its picture; a fixed estimate."""
PAGE_BYTES = 50_000
"""Bytes of a PDF page, by which pages are counted without opening the file."""
_MAX_PAGES = 600
_UNPACKED = 4
"""Times that the text of an office document is larger than its file, at most: most hold more than text."""
_PER_PART = 24
"""Bytes of JSON around a part."""
_WEIGHT = 0.3
_MIN_TOKENS = 200
"""Tokens of a prompt below which its scaffolding, not its text, makes the ratio."""


class Weight(NamedTuple):
    """What a message weighs: *bytes* of text, and *tokens* of images and pages, whose bytes are no text."""

    bytes: int
    tokens: int


NOTHING = Weight(0, 0)


class Calibration(msgspec.Struct, frozen=True):
    """What is known of a model's tokens: bytes per token (*ratio*) and the mean relative *error* of estimates, 0 to 1.

    3.5 is what English text and JSON have with the vendors' present tokenizers; 0.15 is a guess that makes room for it.
    """

    ratio: float = 3.5
    error: float = 0.15
    calls: int = 0

    def tokens(self, weight: Weight) -> int:
        """Return the estimated tokens of *weight*."""
        return round(weight.bytes / self.ratio) + weight.tokens

    def wrong(self, weight: Weight, measured: int, estimated: int | None = None) -> float | None:
        """Return by what part of the *measured* tokens the estimate of a prompt was wrong, see `after`.

        None for one so short that its scaffolding makes the ratio.
        """
        if measured < _MIN_TOKENS:
            return None
        return abs((self.tokens(weight) if estimated is None else estimated) - measured) / measured

    def after(self, weight: Weight, measured: int, estimated: int | None = None) -> "Calibration":
        """Return the calibration after a prompt of *weight* was counted: *measured* tokens.

        *estimated* is what was expected of it; by the ratio if that is not known.
        """
        text = measured - weight.tokens
        wrong = self.wrong(weight, measured, estimated)
        if wrong is None or text <= 0 or not weight.bytes:
            return self
        share = _WEIGHT if self.calls else 1.0
        ratio = self.ratio + share * (weight.bytes / text - self.ratio)
        error = self.error + _WEIGHT * (min(wrong, 1.0) - self.error)
        return Calibration(ratio=min(max(ratio, 0.5), 20.0), error=error, calls=self.calls + 1)


UNCALIBRATED = Calibration()


def weight_of(message: Message) -> Weight:
    """Return what *message* weighs as a model's API gets it."""
    native = message.native
    if native is not None and native.pieces:
        return Weight(sum(_piece(piece, message.parts) for piece in native.pieces), 0)
    return weight_of_parts(message.parts)


def total(weights: Iterable[Weight]) -> Weight:
    """Return the sum of *weights*."""
    size = tokens = 0
    for each in weights:
        size, tokens = size + each.bytes, tokens + each.tokens
    return Weight(size, tokens)


def weight_of_parts(parts: Sequence[Part]) -> Weight:
    """Return what *parts* weigh."""
    return total(_weight(part) for part in parts)


def _weight(part: Part) -> Weight:
    match part:
        case Text(text):
            return Weight(_size(text) + _PER_PART, 0)
        case ToolResult():
            inner = weight_of_parts(part.parts)
            return Weight(inner.bytes + 2 * _PER_PART, inner.tokens)
        case File():
            return _of_file(part)
        case _:
            return Weight(len(msgspec.json.encode(part)), 0)


def _of_file(file: File) -> Weight:
    kind = mime_of(file)
    if kind.startswith("image/"):
        return Weight(_PER_PART, IMAGE_TOKENS)
    if kind == "application/pdf" and (file.text is None or is_whole(file)):
        pages = file.pages or min(max(1, -(-file.size // PAGE_BYTES)), _MAX_PAGES)
        return Weight(_PER_PART, pages * PAGE_TOKENS)
    if file.text is not None:  # of what is packed the text may be larger
        return Weight(_PER_PART + min(_UNPACKED * file.size, MAX_FILE_TEXT), 0)
    return Weight(_PER_PART + (file.size if is_text(file) else 0), 0)


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

"""What the renderer says when there is no drawing, in words for people and models."""

import re

from agent_core.errors import DrawingFailed, DrawingUnavailable

__all__ = ["DrawingFailed", "DrawingUnavailable", "reported"]

_MAX_MESSAGE = 400
_STEPS = ("Vega-Lite to SVG conversion failed:", "Error:", "TypeError:", "RangeError:", "SyntaxError:")
_INTERNAL = ("Cannot read propert", "Cannot destructure", "Cannot set propert", "Cannot convert", "undefined")
_UNKNOWN = (
    "the renderer stopped without saying where{}. Simplify it: begin with `data`, one `mark` and the fields of "
    "`encoding`, without `config`, `scale`, `transform` and `resolve`, and add those one at a time."
)
_PLACE = re.compile(r"(?:\b[a-z]+:/|(?<![\w.<])/)[^\s\"']+|\bext:[^\s\"']+")


def reported(message: str) -> DrawingFailed:
    """Return the error for *message* of the renderer: its first line, bounded, without addresses and stacks."""
    text = message.split("\n    at ", maxsplit=1)[0]
    for step in _STEPS:
        text = text.strip().removeprefix(step)
    text = _PLACE.sub("…", text.strip().partition("\n")[0])
    text = "".join(each for each in text if each.isprintable())[:_MAX_MESSAGE]
    if not text or text.startswith(_INTERNAL) or "is not a function" in text:
        # What is wrong is somewhere in the specification: a cause that is guessed sends a model the wrong way.
        return DrawingFailed(f"The chart cannot be drawn: {_UNKNOWN.format(f' ({text})' if text else '')}")
    return DrawingFailed(f"The chart cannot be drawn: {text}.".replace("..", "."))

"""Find what cannot be stored in JSON: U+0000; and where values are nested too deeply."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from agent_core.schemas import MAX_DEPTH

Fault = tuple[str, str]
"""A path, and what is wrong there."""
NUL = "\0"
NUL_FAULT = "the character U+0000 cannot be kept; leave it out."
DEEP_FAULT = f"nested more than {MAX_DEPTH} levels deep."
# The only way to write it in JSON.
_NUL_ESCAPED = b"\\u0000"
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
# Steps of the path to what is too deep: they name the field, and more would not help.
_STEPS_SHOWN = 5


def path_of(steps: Sequence[str | int]) -> str:
    """Return the path that *steps* lead along, as every error writes it: `hooks[0].config.url`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def fault_of(body: bytes, value: Any) -> Fault | None:
    """Return what in *body*, which was read as *value*, cannot be kept; without an escape in it nothing is walked."""
    if _NUL_ESCAPED in body and (path := place_of_nul(value)) is not None:
        return path, NUL_FAULT
    return None


def place_of_depth(body: bytes) -> str:
    """Return the first steps of the path to what is too deep in *body*; empty when it is no JSON up to there."""
    path: list[Any] = []
    try:
        for token in _TOKENS.finditer(body):
            _step(path, token[0])
            if len(path) > MAX_DEPTH:
                break
    except (IndexError, msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return path_of(path[:_STEPS_SHOWN])


def _step(path: list[Any], token: bytes) -> None:
    """Take one *token* of JSON into account."""
    match token:
        case b"{" | b"[" as opens:
            path.append("" if opens == b"{" else 0)
        case b"}" | b"]":
            path.pop()
        case b",":
            path[-1] += 1 if isinstance(path[-1], int) else ""
        case text if path and isinstance(path[-1], str):  # of all texts in an object the last is the field's name
            path[-1] = msgspec.json.decode(text)
        case _:
            pass


def place_of_nul(root: Any) -> str | None:
    """Return the path to the first text in *root*, a field's name included, that holds U+0000; None without any."""
    path: list[str | int] = []
    left: list[Iterator[tuple[str | int, Any]]] = [iter([("", root)])]
    while left:
        item = next(left[-1], None)
        if item is None:
            left.pop()
            del path[-1:]
            continue
        name, value = item
        if (isinstance(name, str) and NUL in name) or (isinstance(value, str) and NUL in value):
            return path_of([*path, name][1:]).replace(NUL, "\\u0000")
        if isinstance(value, dict | list):
            path.append(name)
            left.append(_children(value))
    return None


def _children(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    return iter(value.items() if isinstance(value, dict) else enumerate(value))

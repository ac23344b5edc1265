"""Traces of errors as text, for logs.

A process may set up its logs as it likes, also such that traces show variables. Ours are text before a logger gets
them: code and messages, without variables, and without what a provider or a request said.
"""

import traceback
from typing import cast

CITES = frozenset(
    {
        "aiohttp",
        "anthropic",
        "httpx",
        "httpx2",
        "jsonschema",
        "msgspec",
        "openai",
        "pydantic",
        "pydantic_core",
    }
)
"""Packages whose errors cite what was sent or answered: of theirs only the type is shown."""
MAX_ERRORS = 8
"""How many errors that led to one another are shown, the last ones."""


def trace_of(error: BaseException) -> str:
    """Return the trace of *error*, and of those that led to it, the first one first."""
    errors: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in errors and len(errors) < MAX_ERRORS:
        errors.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return "\nIt led to this:\n".join(_alone(each) for each in reversed(errors))


def _alone(error: BaseException) -> str:
    line, frames = _line_of(error), "".join(traceback.format_tb(error.__traceback__))
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions if hasattr(error, "exceptions") else ()
    grouped = "".join(f"\nOne of them:\n{trace_of(each)}" for each in inner[:MAX_ERRORS])
    return f"Traceback (most recent call last):\n{frames}{line}{grouped}"


def _line_of(error: BaseException) -> str:
    cites = type(error).__module__.partition(".")[0] in CITES
    return type(error).__qualname__ if cites else words_of(error)


def words_of(error: BaseException) -> str:
    """Return the type of *error*, and its text where it has one: foreign code may raise in `__str__` too."""
    name = type(error).__qualname__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - whatever it is, the type says enough
        text = ""
    return f"{name}: {text}" if text else name

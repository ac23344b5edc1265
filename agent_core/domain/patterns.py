"""Regular expressions with bounded time: RE2, which is linear in the text, and a bound on pattern times text.

A timeout instead would make a guard's answer depend on how busy the machine is. This bound is the same on every machine
and is checked before the search begins.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any

MAX_PATTERN = 1_000
_MEMORY = 2**20
_WORK = 200_000_000
"""Steps of a pattern times bytes of a text: a second in the worst case, and usually 1,000 times less."""
_SYNTAX = "patterns are those of RE2, which has no look-around and no back-references"


class MatchTooCostly(Exception):
    """The text is too long for the pattern."""


def problem(pattern: str) -> str | None:
    """Return why *pattern* is invalid, None when it is valid."""
    if not 1 <= len(pattern) <= MAX_PATTERN:
        return f"a pattern has 1 to {MAX_PATTERN} characters."
    try:
        _compiled(pattern)
    except UnicodeEncodeError:
        return "no pattern: it holds half a character."
    except _re2().error as error:
        return f"no pattern ({error.args[0].decode(errors='replace')}); {_SYNTAX}."
    return None


def matches(pattern: str, text: str) -> bool:
    """Return whether *pattern* matches anywhere in *text*; raises `MatchTooCostly`."""
    compiled, data = _compiled(pattern), text.encode(errors="replace")
    if compiled.programsize * len(data) > _WORK:
        raise MatchTooCostly(f"it is too long for the pattern: {len(data)} bytes, {compiled.programsize} steps each")
    return compiled.search(data) is not None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.max_mem = _MEMORY
    options.never_capture = True
    options.log_errors = False  # they would be written to the process's stderr, with the pattern
    return re2.compile(pattern, options)


def _re2() -> Any:
    """Import RE2: three megabytes that only a pattern needs."""
    return import_module("re2")

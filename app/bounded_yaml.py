"""YAML of bounded size, depth and expansion: a file of a few bytes cannot hold up the start."""

import re
from pathlib import Path
from typing import Any

import yaml

from agent_core.errors import ConfigError

MAX_BYTES = 256_000
MAX_DEPTH = 64
"""Levels of lists and mappings: far more than any agent has, far fewer than the parser's recursion takes."""
MAX_VALUES = 20_000
"""Values once every alias is replaced by what it repeats."""
MAX_NUMBER = 100
"""Characters of a number: reading one takes time that grows with the square of its length."""
_NUMBER = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|0b[01_]+|[0-9.][0-9_:.eE+-]*)", re.ASCII)
_OPENS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSES = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


class InvalidYaml(Exception):
    """A text is no YAML, or more than is read; the message says where."""


def read_yaml(path: Path) -> Any:
    """Return what the file at *path* holds; raises `InvalidYaml`, `OSError` and `UnicodeDecodeError`."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidYaml(f"it has more than {MAX_BYTES:,} bytes")
    return parse_yaml(content.decode("utf-8"))


def parse_yaml(text: str, most: int = MAX_VALUES) -> Any:
    """Return what *text* holds, of at most so many values; raises `InvalidYaml`."""
    try:
        _check(text, most)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidYaml(_fault(error)) from None
    except ValueError as error:  # a date or a number that is none
        raise InvalidYaml(str(error)[:200]) from None
    except (LookupError, ArithmeticError, AttributeError, TypeError, RecursionError) as error:
        # What the library's constructors raise for a value that is not of the type that they took it for.
        raise InvalidYaml(f"a value cannot be read ({type(error).__name__})") from None


def _check(text: str, most: int) -> None:
    """Raise `InvalidYaml` for more levels or values than are read; what it looks at is events, not values."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"line {event.start_mark.line + 1}: "
        _check_value(event, where)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise InvalidYaml(f"{where}`*{event.anchor[:40]}` repeats itself, or nothing")
            count += sizes[event.anchor]
        elif isinstance(event, _OPENS):
            open_.append((event.anchor, count))
            count += 1
        elif isinstance(event, _CLOSES):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        if len(open_) > MAX_DEPTH:
            raise InvalidYaml(f"{where}nested more than {MAX_DEPTH} levels deep")
        if count > most:
            raise InvalidYaml(f"{where}more than {most:,} values, aliases counted as what they repeat")


def _check_value(event: yaml.Event, where: str) -> None:
    """Raise `InvalidYaml` for a value with a tag, and for a number that takes long to be read.

    A hash with letters among its digits is no number.
    """
    if (tag := getattr(event, "tag", None)) is not None:
        raise InvalidYaml(f"{where}the tag `{tag[:40]}`; write the value without one")
    if not isinstance(event, yaml.ScalarEvent) or event.style is not None or len(event.value) <= MAX_NUMBER:
        return
    if _NUMBER.fullmatch(event.value):
        raise InvalidYaml(f"{where}a number of {len(event.value):,} characters, the limit is {MAX_NUMBER}")


def _fault(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}: " if mark else ""
    return f"{place}{getattr(error, 'problem', None) or 'not YAML'}"


def read_config(path: Path) -> Any:
    """Return what the file of settings at *path* holds; raise ConfigError, which names the file and the remedy."""
    try:
        return read_yaml(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); correct its permissions.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8.") from None
    except InvalidYaml as error:
        raise ConfigError(f"{path}: {error}; correct the YAML.") from None

"""An author's text with places for arguments and for secrets; what is filled in is never read again. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from agent_core.agents import SECRET

_PLACE = re.compile(rf"{SECRET.pattern}|\{{([^{{}}]*)\}}")


@dataclass(frozen=True, slots=True)
class Argument:
    """The place of an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """The place of a secret."""

    name: str


Piece = str | Argument | SecretPlace


@dataclass(frozen=True, slots=True)
class Template:
    """A text as its pieces."""

    pieces: tuple[Piece, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the arguments in it."""
        return tuple(piece.name for piece in self.pieces if isinstance(piece, Argument))

    def filled(self, argument: Callable[[str], str], secrets: Mapping[str, str]) -> str:
        """Return the text, with what is filled in percent-encoded, so that it stays within its segment."""
        return "".join(_text(piece, argument, secrets) for piece in self.pieces)


def template_of(text: str) -> Template:
    """Return *text* as its pieces: `{name}` is an argument, `{{secret:NAME}}` a secret.

    Raises ValueError for braces that are neither.
    """
    template = Template(tuple(_pieces(text)))
    for piece in template.pieces:
        if isinstance(piece, str) and ("{" in piece or "}" in piece):
            raise ValueError(f"a brace in `{piece[:60]}` belongs to no `{{name}}` and no `{{{{secret:NAME}}}}`.")
    return template


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for match in _PLACE.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        yield SecretPlace(match[1]) if match[1] is not None else Argument(match[2])
        end = match.end()
    if end < len(text):
        yield text[end:]


def _text(piece: Piece, argument: Callable[[str], str], secrets: Mapping[str, str]) -> str:
    match piece:
        case str():
            return piece
        case Argument(name):
            return quote(argument(name), safe="")
        case SecretPlace(name):
            return quote(secrets[name], safe="")

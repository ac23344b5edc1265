"""What an agent configures of the web channel."""

from typing import Literal

import msgspec

from agent_core import FILE_KINDS, LARGEST_FILE, MOST_FILES, Definition, InvalidInput
from channels.spec import AgentSettings

NAME = "web"


class WebFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files that visitors may send: *max_bytes* of one, *max_count* with one message, of the types *accept*.

    Without *accept* they are all that can be sent, see `FILE_KINDS`.
    """

    max_bytes: int = 10_000_000
    max_count: int = 5
    accept: tuple[str, ...] | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The MIME types that are accepted."""
        return tuple(FILE_KINDS) if self.accept is None else self.accept


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What visitors see of an agent's tools, and the *files* that they may send; null: none."""

    show_tools: Literal["none", "names", "full"] = "names"
    files: WebFiles | None = WebFiles()


def _check(web: Web) -> None:
    """Raise `InvalidInput` for limits of files that are out of bounds, and for types that cannot be sent."""
    if web.files is None:
        return
    for name, most in (("max_bytes", LARGEST_FILE), ("max_count", MOST_FILES)):
        if not 1 <= getattr(web.files, name) <= most:
            raise InvalidInput(f"$.files.{name}", f"at least 1 and at most {most:,}.")
    if not web.files.types:
        raise InvalidInput("$.files.accept", "name at least one type, or say `files: null`.")
    for n, mime in enumerate(web.files.types):
        if mime not in FILE_KINDS:
            allowed = ", ".join(FILE_KINDS)
            raise InvalidInput(f"$.files.accept[{n}]", f"`{mime[:100]}` cannot be sent; choose of {allowed}.")


SETTINGS = AgentSettings(Web, check=_check)


def settings_of(agent: Definition) -> Web:
    """Return what *agent* configures of the web channel."""
    return SETTINGS.of(NAME, agent.channels)

"""What an agent configures of the web channel."""

import re
from typing import Literal

import msgspec

from agent_core import FILE_KINDS, MAX_FILE, MAX_FILES, Definition, InvalidInput
from channels.spec import AgentSettings
from channels.web.pictures import fault_of_avatar, fault_of_signs
from channels.web.visitor_ids import fault_of_name, is_hidden

NAME = "web"
MAX_GREETING = 500
MAX_TITLE = 80
MAX_PROMPTS = 6
MAX_LABEL = 80
MAX_PROMPT = 2_000
MAX_ORIGINS = 50
MAX_ORIGIN = 260
# As browsers write it: no capitals, and no port that the scheme has anyway.
_ORIGIN = re.compile(
    r"https://[a-z0-9_-]+(\.[a-z0-9_-]+)*(:(?!443$)[1-9][0-9]{0,4})?"
    r"|http://(localhost|127\.0\.0\.1|\[::1\])(:(?!80$)[1-9][0-9]{0,4})?"
)


class StartPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suggestion before the first message: *label* is shown with *icon*, and *prompt* is sent in the person's name.

    *icon* is an emoji, or one or two characters.
    """

    label: str
    prompt: str
    icon: str | None = None


class Anonymous(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where people talk to an agent who have not said who they are: on pages of these *origins* alone."""

    origins: tuple[str, ...]


class WebFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files that visitors may send: *max_bytes* of one, *max_count* with one message, of the types *accept*.

    Without *accept* they are all that can be sent, see `FILE_KINDS`. Visitors whom no site names may send none unless
    *anonymous*: anyone can be one.
    """

    max_bytes: int = 10_000_000
    max_count: int = 5
    accept: tuple[str, ...] | None = None
    anonymous: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The MIME types that are accepted."""
        return tuple(FILE_KINDS) if self.accept is None else self.accept


class Web(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the web widget shows of an agent to a visitor, and whom it lets in.

    *show_tools*: how much of its tools' calls. *title*, *greeting*, *avatar* and *prompts* are the start of a
    conversation; *avatar* is an https address, an image as a data: address, or one or two characters. *overlap* holds
    for messages of visitors that name none and come while a run is at work, or waits. *anonymous*: people need no token
    of the site; null asks for one. *files* that they may send; null: none.
    """

    show_tools: Literal["none", "names", "full"] = "names"
    title: str | None = None
    greeting: str | None = None
    avatar: str | None = None
    prompts: tuple[StartPrompt, ...] = ()
    overlap: Literal["queue", "steer", "interrupt"] = "queue"
    anonymous: Anonymous | None = None
    files: WebFiles | None = WebFiles()


def files_for(web: Web, *, anonymous: bool) -> WebFiles | None:
    """Return the files that a visitor may send, None for none; *anonymous*: no site says who they are."""
    return None if anonymous and web.files is not None and not web.files.anonymous else web.files


def settings_of(agent: Definition) -> Web:
    """Return what *agent* configures of the web channel."""
    return SETTINGS.of(NAME, agent.channels)


def check(web: Web) -> None:
    """Raise `InvalidInput` for texts, pictures and origins beyond the bounds."""
    if web.title is not None:
        _check_line("$.title", web.title, MAX_TITLE)
    if web.greeting is not None:
        _check_text("$.greeting", web.greeting, MAX_GREETING)
    if web.avatar is not None and (fault := fault_of_avatar(web.avatar)) is not None:
        raise InvalidInput("$.avatar", fault)
    if len(web.prompts) > MAX_PROMPTS:
        raise InvalidInput("$.prompts", f"at most {MAX_PROMPTS} prompts.")
    for n, each in enumerate(web.prompts):
        _check_line(f"$.prompts[{n}].label", each.label, MAX_LABEL)
        _check_text(f"$.prompts[{n}].prompt", each.prompt, MAX_PROMPT)
        if each.icon is not None and (fault := fault_of_signs(each.icon)) is not None:
            raise InvalidInput(f"$.prompts[{n}].icon", fault)
    if web.anonymous is not None:
        _check_origins(web.anonymous.origins)
    _check_files(web)


def _check_files(web: Web) -> None:
    """Raise `InvalidInput` for limits of files that are out of bounds, and for types that cannot be sent."""
    if web.files is None:
        return
    for name, most in (("max_bytes", MAX_FILE), ("max_count", MAX_FILES)):
        if not 1 <= getattr(web.files, name) <= most:
            raise InvalidInput(f"$.files.{name}", f"at least 1 and at most {most:,}.")
    if not web.files.types:
        raise InvalidInput("$.files.accept", "name at least one type, or say `files: null`.")
    for n, mime in enumerate(web.files.types):
        if mime not in FILE_KINDS:
            allowed = ", ".join(FILE_KINDS)
            raise InvalidInput(f"$.files.accept[{n}]", f"`{mime[:100]}` cannot be sent; choose of {allowed}.")


def _check_line(path: str, text: str, most: int) -> None:
    if not text.strip() or len(text) > most or fault_of_name(text) is not None:
        raise InvalidInput(path, f"one line of 1 to {most} characters that can be seen.")


def _check_text(path: str, text: str, most: int) -> None:
    odd = any(is_hidden(each) and each not in "\n\t\u200c\u200d\ufe0f" for each in text)
    if not text.strip() or len(text) > most or odd:
        raise InvalidInput(path, f"1 to {most:,} characters, and none besides line ends and tabs that cannot be seen.")


def _check_origins(origins: tuple[str, ...]) -> None:
    if not 1 <= len(origins) <= MAX_ORIGINS:
        raise InvalidInput("$.anonymous.origins", f"1 to {MAX_ORIGINS} origins: the sites on whose pages the agent is.")
    for n, each in enumerate(origins):
        if len(each) > MAX_ORIGIN or not _ORIGIN.fullmatch(each):
            remedy = "write it as browsers do, such as https://example.com; http:// is for localhost alone."
            raise InvalidInput(f"$.anonymous.origins[{n}]", f"`{each[:80]}` is not an origin; {remedy}")


SETTINGS = AgentSettings(Web, check)

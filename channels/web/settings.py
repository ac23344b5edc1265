"""What an agent configures of the web channel: texts, pictures and signs that are safe under a strict policy."""

import binascii
import re
import unicodedata
from base64 import b64decode
from collections.abc import Mapping
from typing import Literal

import msgspec

from agent_core.agents import Definition
from agent_core.errors import InvalidInput
from agent_core.messages import FILE_KINDS, MAX_FILE, MAX_FILES
from agent_core.objects import AgentObject
from channels.spec import AgentSettings
from channels.web.identity import fault_of_name, is_hidden

MAX_ADDRESS = 2_000
"""Characters of a picture's address."""
MAX_DATA = 64_000
"""Characters of a picture that is written in an address: 48 kB, enough for one of 128 by 128 pixels."""
MAX_SIGNS = 2
MAX_POINTS = 24
"""Code points of the signs together: a family of emoji with the colours of its skins has as many."""
AVATAR = (
    "an https address, an image as a data: address (image/png, image/jpeg, image/webp or image/gif, base64, at most "
    f"{MAX_DATA:,} characters), or one or two characters that can be seen."
)
_HTTPS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]{1,5})?([/?][\w\-.~:/?#\[\]@!$&()*+,;=%]*)?", re.ASCII)
_DATA = re.compile(r"data:image/(png|jpeg|webp|gif);base64,([A-Za-z0-9+/]+={0,2})")
_BEGINS: Mapping[str, bytes] = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF", "gif": b"GIF8"}
_JOINER = "\u200d"
_TAG = re.compile("[\U000e0020-\U000e007f]")
_SKIN = re.compile("[\U0001f3fb-\U0001f3ff]")
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff]")


def fault_of_avatar(text: str) -> str | None:
    """Return what is wrong with *text* as an avatar, None when nothing is."""
    if text.startswith("data:"):
        return None if len(text) <= MAX_DATA and _is_image(text) else AVATAR
    if ":" in text[:12]:
        return None if len(text) <= MAX_ADDRESS and _HTTPS.fullmatch(text) else AVATAR
    return AVATAR if fault_of_signs(text) else None


def fault_of_signs(text: str) -> str | None:
    """Return what is wrong with *text* as an emoji or initials, None when nothing is."""
    fault = f"one or {MAX_SIGNS} characters that can be seen, such as an emoji or initials."
    if not text.strip() or len(text) > MAX_POINTS:
        return fault
    characters = signs(text)
    return None if len(characters) <= MAX_SIGNS and all(map(_is_seen, characters)) else fault


def signs(text: str) -> list[str]:
    """Return the characters of *text* as people count them: with their marks, styles, joiners and colours of skin."""
    result: list[str] = []
    for each in text:
        last = result[-1] if result else ""
        is_flag = _REGIONAL.match(each) and _REGIONAL.fullmatch(last)
        if last and (_continues(each) or last.endswith(_JOINER) or is_flag):
            result[-1] += each
        else:
            result.append(each)
    return result


def _is_seen(sign: str) -> bool:
    return sign[0].isprintable() and not sign[0].isspace() and not _continues(sign[0]) and not sign.endswith(_JOINER)


def _continues(each: str) -> bool:
    changes = each == _JOINER or _TAG.match(each) or _SKIN.match(each)
    return bool(changes) or unicodedata.category(each).startswith("M")


def _is_image(address: str) -> bool:
    """Return whether a data address is whole, and begins as its kind of picture does."""
    match = _DATA.fullmatch(address)
    if match is None:
        return False
    try:
        return b64decode(match[2], validate=True).startswith(_BEGINS[match[1]])
    except binascii.Error:
        return False


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


class FaceAgent(msgspec.Struct, frozen=True):
    """Which agent it is."""

    id: str
    name: str


class FaceFiles(msgspec.Struct, frozen=True):
    """The files that a visitor may send: *max_bytes* of one, *max_count* with one message, *accept* are MIME types."""

    max_bytes: int
    max_count: int
    accept: tuple[str, ...]


class AgentFace(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a page shows it; null is what it does not configure.

    *files* says which files the visitor may send, null: none. *overlap* is what becomes of a message that comes while a
    run is at work; *anonymous* says whether people need no token of the site. *build* is the version of the widget that
    the server has, by which an open page learns that it is an older one.
    """

    agent: FaceAgent
    title: str | None
    greeting: str | None
    avatar: str | None
    prompts: tuple[StartPrompt, ...]
    files: FaceFiles | None
    overlap: Literal["queue", "steer", "interrupt"]
    anonymous: bool
    build: str


def face_of(agent: AgentObject, build: str, *, anonymous: bool) -> AgentFace:
    """Return the face of *agent* for a visitor, *anonymous* or not, on a server whose widget is *build*."""
    web = settings_of(agent.definition)
    files = files_for(web, anonymous=anonymous)
    return AgentFace(
        agent=FaceAgent(agent.id, agent.definition.name),
        title=web.title,
        greeting=web.greeting,
        avatar=web.avatar,
        prompts=web.prompts,
        files=files and FaceFiles(files.max_bytes, files.max_count, files.types),
        overlap=web.overlap,
        anonymous=web.anonymous is not None,
        build=build,
    )

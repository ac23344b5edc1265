"""How an agent presents itself to the people on a page, before anything is said."""

from typing import Literal

import msgspec

from agent_core import AgentObject
from channels.web.settings import StartPrompt, files_for, settings_of


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

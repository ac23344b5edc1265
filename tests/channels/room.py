"""A whole channel in one file: rooms with a board each, reached by HTTP. Registered by its `SPEC` and nothing else."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import APIRouter, Request

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.errors import InvalidInput
from agent_core.messages import Actor, Text
from agent_core.objects import Decider, Decision
from channels.spec import AgentSettings, ChannelSpec, Records
from channels.view import EMPTY, view

NAME = "room"


class Room(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent configures: the *doors* it answers at."""

    doors: tuple[str, ...] = ()


def check(room: Room) -> None:
    for n, door in enumerate(room.doors):
        if not door.isalnum():
            raise InvalidInput(f"$.doors[{n}]", "letters and digits.")


SETTINGS = AgentSettings(Room, check)


def settings_of(agent: Definition) -> Room:
    return SETTINGS.of(NAME, agent.channels)


async def board(core: Core, session: str) -> dict[str, Any]:
    """Return what a room shows once nothing works in it: the answers, and the approval that is open."""
    body = EMPTY
    async for batch in core.follow(session, until_idle=True):
        for event in batch:
            body = view(body, event)
    said = [each for each in body.messages if each.role == "assistant"]
    asked = [
        call.question.id for each in said for call in each.calls if call.question and call.question.status == "open"
    ]
    return {"answers": [each.text for each in said if each.text], "open": asked}


@asynccontextmanager
async def serve(core: Core, _records: Records, settings: object, /, *, socket: bool) -> AsyncIterator[APIRouter]:
    """Serve the rooms: `POST /room/<door>` is a message or a vote, and answers with the room's board."""
    router = APIRouter()

    @router.post("/room/{door}")
    async def say(door: str, request: Request) -> dict[str, Any]:
        payload = await request.json()
        by, address = Actor(f"{NAME}:{payload['from']}", "user"), f"{NAME}:{door}"
        if "approval" in payload:
            decider = Decider(actor=by, is_present=True, also=(f"{NAME}:{payload['from']}",))
            vote = Decision(approval=payload["approval"], by=decider, approved=True, surface=NAME)
            await core.approvals.decide(vote)
        session = await core.find_session(address)
        if session is None:
            agent = next(each for each in await core.agents.all() if door in settings_of(each.definition).doors)
            session = await core.open_session(agent=agent.id, actor=by, address=address)
        if "text" in payload:
            await core.receive(session.id, Inbound(parts=(Text(payload["text"]),), actor=by))
        return await board(core, session.id)

    yield router


SPEC: ChannelSpec[object] = ChannelSpec(
    name=NAME,
    address=re.compile(r"room:(?P<door>\w+)"),
    settings=SETTINGS,
    responder=lambda id: "person" if id.islower() else None,
    delivers_approvals=True,
    serve=serve,
)

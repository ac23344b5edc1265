"""The seam of a channel: one file and one line of the composition make a channel of its own."""

import ast
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI

from agent_core.agents import Definition
from agent_core.channels import Channels
from agent_core.errors import AlreadyDecided, InvalidInput, NotAnApprover
from agent_core.testing import ScriptedProvider, by_step, call, say
from app.compose import CHANNELS, serving_channels
from app.settings import Settings
from channels.slack.settings import Thread
from channels.slack.spec import SLACK
from channels.spec import Records
from tests.agent_core.asking import Till, asks
from tests.channels.room import SPEC
from tests.conftest import ROOT, MakeCore

WITH_ROOMS = (*CHANNELS, SPEC)
PAYS = by_step((call("pay", amount=5),), (say("Paid."),))


def guide(**fields) -> Definition:
    return Definition(name="guide", instructions="Be there.", **fields)


async def test_a_channel_is_one_file_and_one_line(make_core: MakeCore, tmp_path):
    """An agent answers at a door of its settings; there its approval is decided by a responder of the channel."""
    till = Till()
    core = await make_core(ScriptedProvider(PAYS), tools=till.tools(), channels=WITH_ROOMS)
    hooks = (asks(responders=["room:bob"], deliver_to=["room:kitchen"]),)
    await core.agents.create(guide(tools=("pay",), hooks=hooks, channels={"room": {"doors": ["attic"]}}))
    settings = Settings(_env_file=None, data=tmp_path)  # type: ignore[call-arg]
    async with serving_channels(core, core._store.database, settings, socket=False, channels=(SPEC,)) as (routes,):
        app = FastAPI()
        app.include_router(routes)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://rooms") as client:
            asked = (await client.post("/room/attic", json={"from": "ann", "text": "Pay"})).json()
            assert (asked["answers"], till.paid) == ([], [])
            (approval,) = asked["open"]
            with pytest.raises(NotAnApprover, match="room:bob"):
                await client.post("/room/attic", json={"from": "ann", "approval": approval})
            done = (await client.post("/room/attic", json={"from": "bob", "approval": approval})).json()
            assert (done, till.paid) == ({"answers": ["Paid."], "open": []}, [5])
            with pytest.raises(AlreadyDecided):
                await client.post("/room/attic", json={"from": "bob", "approval": approval})
    session = await core.find_session("room:attic")
    assert session is not None
    assert SPEC.parse_address("room:attic") == {"door": "attic"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"channels": {"room": {"doors": ["attic", "?"]}}}, "room.doors[1]"),
        ({"channels": {"room": {"doors": "attic"}}}, "room.doors"),
        ({"channels": {"room": {"windows": 1}}}, "room.windows"),
        ({"channels": {"rooms": {}}}, "rooms"),
        ({"hooks": (asks(None, responders=["room:Bob"]),)}, "hooks[0].config.responders"),
        ({"hooks": (asks(None, responders=["cave:bob"]),)}, "hooks[0].config.responders"),
        ({"hooks": (asks(None, responders=["room:bob"], quorum=2),)}, "hooks[0].config.quorum"),
        ({"hooks": (asks(None, deliver_to=["terminal:1"]),)}, "hooks[0].config.deliver_to"),
    ],
)
async def test_what_a_channel_refuses_has_its_path(make_core: MakeCore, fields, path):
    """Settings, responders and destinations are checked by their channel when the agent is saved."""
    core = await make_core(channels=WITH_ROOMS)
    with pytest.raises(InvalidInput) as refused:
        await core.agents.create(guide(**fields))
    assert refused.value.path == path


async def test_a_channel_that_only_others_know_is_kept(make_core: MakeCore):
    """A process without a channel does not show its settings and does not lose them when it changes the agent."""
    rooms = {"room": {"doors": ["attic"]}}
    first = await make_core(channels=WITH_ROOMS)
    await first.agents.create(guide(channels=rooms))
    await first.stop()
    without = await make_core()
    assert (await without.agents.get("guide")).definition.channels == {}
    changed = await without.agents.update("guide", {"slack": {"default": True}})
    assert (changed.version, changed.definition.channels["slack"]["default"]) == (2, True)
    await without.stop()
    again = await make_core(channels=WITH_ROOMS)
    assert (await again.agents.get("guide")).definition.channels["room"] == rooms["room"]


def test_an_address_has_the_parts_of_its_thread():
    """Slack's address names organisation, workspace, channel and thread; another channel's is none of Slack's."""
    thread = Thread("T1", "C1", "1.0", "U1", "T1")
    assert SLACK.parse_address(thread.address) == {"enterprise": "-", "team": "T1", "channel": "C1", "root": "1.0"}
    assert SLACK.parse_address("web:1") is None


def test_a_channel_cannot_have_the_name_of_an_agents_field():
    """A channel named like a field of an agent would hide that field's value: it is refused where it is registered."""
    with pytest.raises(ValueError, match="`tools`"):
        Channels((replace(SPEC, name="tools"),))


def test_no_channel_gets_the_whole_database():
    """A channel reads and writes its own tables through a narrow port: it neither closes the database nor names it."""
    named = [
        f"{path}: {node.module}"
        for path in sorted((ROOT / "channels").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and any(each.name == "Database" for each in node.names)
    ]
    assert named == []
    assert {name for name in vars(Records) if not name.startswith("_")} == {"read", "write"}

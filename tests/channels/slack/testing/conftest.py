"""Fixtures: a stand-in on a clock moved by hand, the real SDK as its client, and a small app that it notifies."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from agent_core.testing import FakeClock
from channels.slack.testing import SimulatedWorkspace, SlackStandIn, StandInPage, Team
from tests.channels.slack.testing.listener import Listener


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def stand_in(clock: FakeClock) -> AsyncIterator[SlackStandIn]:
    made = SlackStandIn(
        clock=clock,
        workspaces=[SimulatedWorkspace.example(), SimulatedWorkspace.example("T0002", "Globex")],
        rates=None,
        ack_within=60.0,
    )
    async with made.serving(routes=StandInPage(made).routes()):
        yield made


@pytest.fixture
def team(stand_in: SlackStandIn) -> Team:
    return stand_in.team("T0001")


@pytest.fixture
async def slack(stand_in: SlackStandIn, team: Team) -> AsyncIterator[AsyncWebClient]:
    async with aiohttp.ClientSession() as session:
        yield AsyncWebClient(
            token=team.bot_token, base_url=f"{stand_in.base_url}api/", session=session, retry_handlers=[]
        )


@pytest.fixture
async def listener(stand_in: SlackStandIn) -> AsyncIterator[Listener]:
    async with Listener(stand_in.app.signing_secret) as listening:
        stand_in.deliver_to(listening.url)
        yield listening

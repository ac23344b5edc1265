"""Fixtures: a stand-in on a clock moved by hand, the real SDK as its client, and a small app that it notifies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from agent_core.testing import FakeClock
from channels.slack.testing import SimulatedWorkspace, SlackStandIn, StandInPage, Team
from tests.channels.slack.testing.listener import ScriptedListener


@asynccontextmanager
async def standing(clock: FakeClock) -> AsyncIterator[SlackStandIn]:
    """Serve two workspaces, and the page."""
    made = SlackStandIn(
        clock=clock,
        workspaces=[SimulatedWorkspace.example(), SimulatedWorkspace.example("T0002", "Globex")],
        rates=None,
        ack_within=60.0,
    )
    async with made.serving(routes=StandInPage(made).routes()):
        yield made


@asynccontextmanager
async def calling(stand_in: SlackStandIn) -> AsyncIterator[AsyncWebClient]:
    """Give the SDK of the app in the first workspace."""
    async with aiohttp.ClientSession() as session:
        token, url = stand_in.team("T0001").bot_token, f"{stand_in.base_url}api/"
        yield AsyncWebClient(token=token, base_url=url, session=session, retry_handlers=[])


@asynccontextmanager
async def notified(stand_in: SlackStandIn) -> AsyncIterator[ScriptedListener]:
    """Run the app that the stand-in notifies."""
    async with ScriptedListener(stand_in.app.signing_secret) as listening:
        stand_in.deliver_to(listening.url)
        yield listening


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def stand_in(clock: FakeClock) -> AsyncIterator[SlackStandIn]:
    async with standing(clock) as made:
        yield made


@pytest.fixture
def team(stand_in: SlackStandIn) -> Team:
    return stand_in.team("T0001")


@pytest.fixture
async def slack(stand_in: SlackStandIn) -> AsyncIterator[AsyncWebClient]:
    async with calling(stand_in) as client:
        yield client


@pytest.fixture
async def listener(stand_in: SlackStandIn) -> AsyncIterator[ScriptedListener]:
    async with notified(stand_in) as listening:
        yield listening

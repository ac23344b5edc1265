"""Socket Mode with the real Bolt: connecting, acknowledging, taking part of the load, and noticing silence."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from channels.slack.testing import InjectedFault, SlackStandIn, Team
from tests.channels.slack.testing.refusals import Slack
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole

QUIET = 0.5
"""Seconds between the pings of a client that is to notice silence soon: it waits for four of them."""


class BoltApp:
    """A small bot: it records what it receives, and answers mentions in their thread."""

    def __init__(self, stand_in: SlackStandIn) -> None:
        self.dispatched: list[dict[str, Any]] = []
        self._stand_in = stand_in
        self._base = f"{stand_in.base_url}api/"
        client = AsyncWebClient(token=stand_in.team().bot_token, base_url=self._base)
        self.app = AsyncApp(client=client, signing_secret=stand_in.app.signing_secret)
        self.app.event("app_mention")(self._mentioned)
        self.app.command("/parley")(self._command)

    async def _mentioned(self, event: dict[str, Any], client: AsyncWebClient) -> None:
        self.dispatched.append(event)
        await client.chat_postMessage(channel=event["channel"], thread_ts=event["ts"], text="Hello to you")

    async def _command(self, ack: Any, command: dict[str, Any]) -> None:
        self.dispatched.append(command)
        await ack(text="Right away")

    @asynccontextmanager
    async def connected(self, ping: float = 10) -> AsyncIterator[Any]:
        token = self._stand_in.app.app_token
        web_client = AsyncWebClient(token=token, base_url=self._base)
        handler = AsyncSocketModeHandler(self.app, token, web_client=web_client, ping_interval=ping)
        before = self._stand_in.sockets.opened
        await handler.connect_async()
        try:
            await self._stand_in.until(lambda: self._stand_in.sockets.opened > before)
            yield handler
        finally:
            await handler.close_async()


async def arrives(stand_in: SlackStandIn, team: Team) -> bool:
    """Return whether the app receives a mention; one may fall between two connections."""
    for _ in range(3):
        if (await team.mentions("UANN", "CGENERAL", "hello")).acked:
            return True
        await stand_in.until(lambda: stand_in.sockets.open)
    return False


@pytest.fixture
def sockets(stand_in: SlackStandIn) -> SlackStandIn:
    stand_in.app = replace(stand_in.app, socket_mode=True, subscribed=frozenset({"app_mention"}))
    return stand_in


async def test_a_bolt_app_answers_through_a_socket(sockets: SlackStandIn, team: Team):
    """A mention goes out as an envelope, is acknowledged, and the answer is in the thread."""
    bot = BoltApp(sockets)
    async with bot.connected():
        dispatched = await team.mentions("UANN", "CGENERAL", "hello")
        assert dispatched.acked
        await sockets.until(lambda: team.answers("CGENERAL", dispatched.ts))
        assert [each.text for each in team.answers("CGENERAL", dispatched.ts)] == ["Hello to you"]
        await team.command("UANN", "CGENERAL", "/parley", "a question")
        assert [each.text for each in team.top("CGENERAL", user="UANN")][-1] == "Right away"


async def test_deliveries_go_round_all_connections(sockets: SlackStandIn, team: Team):
    """Two connections of an app take one delivery each."""
    bots = BoltApp(sockets), BoltApp(sockets)
    async with bots[0].connected(), bots[1].connected():
        await sockets.until(lambda: len(sockets.sockets.open) == 2)
        assert (await team.mentions("UANN", "CGENERAL", "one")).acked
        assert (await team.mentions("UANN", "CDATA", "two")).acked
        await sockets.until(lambda: len(sockets.called("chat.postMessage")) == 2)
    assert [len(each.dispatched) for each in bots] == [1, 1]


async def test_without_a_connection_nothing_arrives(sockets: SlackStandIn, team: Team):
    """An action says that no connection was there."""
    dispatched = await team.mentions("UANN", "CGENERAL", "hello")
    assert (dispatched.acked, set(dispatched.failures)) == (False, {"connection_failed"})


async def test_a_ticket_is_good_once(sockets: SlackStandIn, slack: Slack):
    """The address of a connection cannot be used again; the first frame is `hello`."""
    answer = await slack.apps_connections_open(app_token=sockets.app.app_token)
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(answer["url"]) as socket:
            hello = await socket.receive_json()
            assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(answer["url"])


async def test_a_refreshed_connection_comes_back(sockets: SlackStandIn, team: Team):
    """Asked to disconnect, the app reconnects and continues."""
    bot = BoltApp(sockets)
    async with bot.connected(ping=QUIET):
        await sockets.until(lambda: sockets.sockets.opened == 1)
        await sockets.sockets.disconnect("refresh_requested")
        await sockets.until(lambda: sockets.sockets.opened > 1 and sockets.sockets.open)
        assert await arrives(sockets, team)


async def test_a_deaf_socket_is_noticed_by_its_silence(sockets: SlackStandIn, team: Team):
    """It takes everything and says nothing, not even pong: the real client reconnects."""
    bot = BoltApp(sockets)
    async with bot.connected(ping=QUIET):
        await sockets.until(lambda: sockets.sockets.opened == 1)
        armed = sockets.fault(InjectedFault("deaf_socket"))
        await sockets.until(lambda: sockets.sockets.opened > 1, timeout=PATIENCE)
        assert armed.struck == 1
        await sockets.until(lambda: [each.deaf for each in sockets.sockets.open] == [False], timeout=PATIENCE)
        assert await arrives(sockets, team)

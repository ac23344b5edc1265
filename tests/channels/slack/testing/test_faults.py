"""Faults of the Web API on demand: refused, limited, broken, and connections cut before or after the effect."""

from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from agent_core.testing import FakeClock
from channels.slack.testing import InjectedFault, SimulatedWorkspace, SlackStandIn, Team
from tests.channels.slack.testing.refusals import Slack, code

ANN: Any = {"recipient_user_id": "UANN", "recipient_team_id": "T0001"}


async def test_an_answer_is_lost_and_a_request_is_lost(stand_in: SlackStandIn, team: Team, slack: Slack):
    """Both times the app sees a cut connection; only the lost answer had its effect."""
    stand_in.fault(InjectedFault("answer_lost", on="chat.postMessage"))
    with pytest.raises(aiohttp.ClientConnectionError):
        await slack.chat_postMessage(channel="CGENERAL", text="done")
    stand_in.fault(InjectedFault("request_lost", on="chat.postMessage"))
    with pytest.raises(aiohttp.ClientConnectionError):
        await slack.chat_postMessage(channel="CGENERAL", text="not done")
    assert [each.text for each in team.top("CGENERAL")] == ["done"]
    assert [(each.status, each.ok) for each in stand_in.called("chat.postMessage")] == [(0, True), (0, False)]


async def test_a_method_is_limited(stand_in: SlackStandIn, slack: Slack):
    """A 429 says how long to wait, as often as asked for, from the call that was asked for."""
    armed = stand_in.fault(InjectedFault("ratelimited", on="users.info", nth=2, times=2, seconds=7))
    assert (await slack.users_info(user="UANN"))["ok"]
    for _ in range(2):
        with pytest.raises(SlackApiError) as caught:
            await slack.users_info(user="UANN")
        assert caught.value.response.status_code == 429
        assert caught.value.response.headers["Retry-After"] == "7"
        assert caught.value.response["error"] == "ratelimited"
    assert (await slack.users_info(user="UANN"))["ok"]
    assert (armed.struck, armed.spent) == (2, True)


@pytest.mark.parametrize("effect", [False, True])
async def test_slack_breaks_with_or_without_effect(stand_in: SlackStandIn, team: Team, slack: Slack, effect: bool):
    """A 5xx says nothing of whether the message is there."""
    stand_in.fault(InjectedFault("server_error", on="chat.postMessage", status=500, effect=effect))
    with pytest.raises(SlackApiError) as caught:
        await slack.chat_postMessage(channel="CGENERAL", text="maybe")
    assert caught.value.response.status_code == 500
    assert len(team.top("CGENERAL")) == effect


async def test_slack_closes_a_stream(stand_in: SlackStandIn, team: Team, slack: Slack):
    """The append that the fault strikes finds the stream closed."""
    root = (await team.says("UANN", "CGENERAL", "hello")).ts
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="a", **ANN))["ts"])
    stand_in.fault(InjectedFault("stream_closed", on="chat.appendStream"))
    append = slack.chat_appendStream(channel="CGENERAL", ts=ts, markdown_text="b")
    assert await code(append) == "message_not_in_streaming_state"
    assert team.answers("CGENERAL", root)[0].source == "a"


async def test_blocks_are_rejected_and_text_is_not(stand_in: SlackStandIn, slack: Slack):
    """The fault strikes calls with blocks alone, while it holds."""
    armed = stand_in.fault(InjectedFault("invalid_blocks", on="chat.postMessage", times=None))
    blocks = [{"type": "divider"}]
    assert await code(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=blocks)) == "invalid_blocks"
    assert (await slack.chat_postMessage(channel="CGENERAL", text="x"))["ok"]
    assert await code(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=blocks)) == "invalid_blocks"
    armed.lift()
    assert (await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=blocks))["ok"]


async def test_a_method_is_refused_while_a_condition_holds_in_one_workspace(stand_in: SlackStandIn, slack: Slack):
    """A fault may ask before it strikes, and leave other workspaces alone."""
    holds = True
    stand_in.fault(InjectedFault("refused", on="users.info", workspace="T0001", times=None, when=lambda: holds))
    assert await code(slack.users_info(user="UANN")) == "unknown_method"
    other = AsyncWebClient(token=stand_in.team("T0002").bot_token, base_url=f"{stand_in.base_url}api/")
    assert (await other.users_info(user="UANN"))["ok"]
    holds = False
    assert (await slack.users_info(user="UANN"))["ok"]


async def test_slacks_rates_are_kept(clock: FakeClock):
    """One post per second and channel, and so many calls of a method per minute and workspace."""
    stand_in = SlackStandIn(clock=clock, workspaces=[SimulatedWorkspace.example()])
    async with stand_in.serving() as url, aiohttp.ClientSession() as session:
        token = stand_in.team().bot_token
        slack: Slack = AsyncWebClient(token=token, base_url=f"{url}api/", session=session, retry_handlers=[])
        assert (await slack.chat_postMessage(channel="CGENERAL", text="1"))["ok"]
        with pytest.raises(SlackApiError) as caught:
            await slack.chat_postMessage(channel="CGENERAL", text="2")
        assert caught.value.response.headers["Retry-After"] == "1"
        assert (await slack.chat_postMessage(channel="CDATA", text="2"))["ok"]
        clock.advance(1)
        root = str((await slack.chat_postMessage(channel="CGENERAL", text="2"))["ts"])
        start = {"channel": "CGENERAL", "thread_ts": root, **ANN}
        for _ in range(20):
            await slack.api_call("chat.startStream", json=start)
        assert await code(slack.api_call("chat.startStream", json=start)) == "ratelimited"
        clock.advance(60)
        assert (await slack.api_call("chat.startStream", json=start))["ok"]

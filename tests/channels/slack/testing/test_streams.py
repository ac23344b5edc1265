"""Streams of the stand-in, through the real SDK: what they show and how they end."""

from typing import Any

import pytest

from agent_core.testing import FakeClock
from channels.slack import limits
from channels.slack.testing import SlackStandIn, Team
from tests.channels.slack.testing.refusals import Slack, code, status

ANN: Any = {"recipient_user_id": "UANN", "recipient_team_id": "T0001"}


@pytest.fixture
async def root(stand_in: SlackStandIn, team: Team) -> str:
    return (await team.mentions("UANN", "CGENERAL", "hello")).ts


async def test_a_streamed_answer_is_seen_while_it_grows(team: Team, slack: Slack, root: str):
    """A person sees text and tasks as they come, and the session's status with them."""
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="One ", **ANN))["ts"])
    task = {"type": "task_update", "id": "q", "title": "Query", "status": "in_progress"}
    await slack.chat_appendStream(channel="CGENERAL", ts=ts, chunks=[task])
    await slack.chat_appendStream(channel="CGENERAL", ts=ts, markdown_text="two")
    (answer,) = team.answers("CGENERAL", root)
    assert answer.streaming
    assert answer.source == "One two"
    assert [(each.title, each.status) for each in answer.tasks] == [("Query", "in_progress")]
    assert status(team, "CGENERAL", root) == "processing"
    done = task | {"status": "complete", "output": "42 rows"}
    await slack.chat_stopStream(
        channel="CGENERAL",
        ts=ts,
        chunks=[done],
        metadata={"event_type": "run", "event_payload": {"id": "r"}},
    )
    (answer,) = team.answers("CGENERAL", root)
    assert not answer.streaming
    assert [(each.status, each.output) for each in answer.tasks] == [("complete", "42 rows")]
    assert answer.metadata == {"event_type": "run", "event_payload": {"id": "r"}}
    assert status(team, "CGENERAL", root) == "active"


async def test_a_stream_needs_a_thread_and_a_recipient(team: Team, slack: Slack, root: str):
    """Outside direct messages a stream without a recipient is refused, and everywhere one without a thread."""
    start = slack.chat_startStream
    assert await code(start(channel="CGENERAL", thread_ts=root)) == "missing_recipient_user_id"
    assert (
        await code(start(channel="CGENERAL", thread_ts=root, recipient_user_id="UANN")) == "missing_recipient_team_id"
    )
    assert await code(start(channel="CGENERAL", thread_ts="", **ANN)) == "invalid_thread_ts"
    assert await code(start(channel="CGENERAL", thread_ts="1.000000", **ANN)) == "invalid_thread_ts"
    private = await team.says("UANN", "UANN", "hello")
    assert (await start(channel="DANN", thread_ts=private.ts))["ok"]


async def test_a_stream_lives_five_minutes(clock: FakeClock, team: Team, slack: Slack, root: str):
    """After that it takes nothing and its message can be updated; before, it cannot."""
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="a", **ANN))["ts"])
    assert await code(slack.chat_update(channel="CGENERAL", ts=ts, text="b")) == "streaming_state_conflict"
    clock.advance(limits.STREAM_AGE)
    append = slack.chat_appendStream(channel="CGENERAL", ts=ts, markdown_text="b")
    assert await code(append) == "message_not_in_streaming_state"
    assert await code(slack.chat_stopStream(channel="CGENERAL", ts=ts)) == "message_not_in_streaming_state"
    assert status(team, "CGENERAL", root) == "active"
    await slack.chat_update(channel="CGENERAL", ts=ts, text="the whole")
    assert [each.text for each in team.answers("CGENERAL", root)] == ["the whole"]


async def test_a_stop_ends_the_streams_of_the_thread(
    stand_in: SlackStandIn, team: Team, slack: Slack, listener, root: str
):
    """Slack stops them itself, names them to the app, and refuses what comes late."""
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="a", **ANN))["ts"])
    dispatched = await team.stops("UANN", "CGENERAL", root)
    assert dispatched.acked
    (event,) = [each for each in listener.events if each["type"] == "agent_session_stopped"]
    assert event["streaming_message_ts"] == [ts]
    assert await code(slack.chat_appendStream(channel="CGENERAL", ts=ts, markdown_text="b")) == "stopped_by_user"
    assert team.answers("CGENERAL", root)[0].source == "a"


LONG = "x" * 257
TASK = {"type": "task_update", "id": "q", "title": "Query", "status": "in_progress"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "no_text"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"chunks": [{"type": "markdown_text", "text": "x" * 6_001}] * 2}, "msg_too_long"),
        ({"chunks": [{"type": "song", "text": "la"}]}, "invalid_chunks"),
        ({"chunks": [TASK | {"title": LONG}]}, "invalid_chunks"),
        ({"chunks": [TASK | {"output": LONG}]}, "invalid_chunks"),
        ({"chunks": [TASK | {"status": "completed"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "section"}]}]}, "invalid_blocks"),
    ],
)
async def test_a_stream_takes_only_what_slack_takes(slack: Slack, team: Team, root: str, given: Any, expected: str):
    """What breaks a rule is refused, and leaves the stream as it was."""
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="a", **ANN))["ts"])
    assert await code(slack.chat_appendStream(channel="CGENERAL", ts=ts, **given)) == expected
    (answer,) = team.answers("CGENERAL", root)
    assert (answer.source, answer.tasks, answer.streaming) == ("a", (), True)


async def test_blocks_and_tasks_keep_their_place(slack: Slack, team: Team, root: str):
    """Blocks keep their place between two pieces of text; surplus ones are dropped with a warning."""
    ts = (await slack.chat_startStream(channel="CGENERAL", thread_ts=root, chunks=[TASK], **ANN))["ts"]
    divider = {"type": "divider"}
    chunks = [{"type": "markdown_text", "text": "one"}, {"type": "blocks", "blocks": [divider] * 51}]
    said = await slack.chat_appendStream(channel="CGENERAL", ts=ts, chunks=chunks)
    assert said["warning"] == "surplus_blocks_dropped"
    await slack.chat_stopStream(channel="CGENERAL", ts=ts, markdown_text="two", session_status="suspended")
    (answer,) = team.answers("CGENERAL", root)
    kinds = [block["type"] for block in answer.blocks]
    assert kinds == ["task_card", "markdown", *["divider"] * 50, "markdown"]
    assert answer.blocks[0]["title"] == "Query"
    assert status(team, "CGENERAL", root) == "suspended"


async def test_only_the_apps_own_stream_can_be_written(slack: Slack, team: Team, root: str):
    """A person's message is no stream, a message that is gone is not found, and a stopped stream stays stopped."""
    append = slack.chat_appendStream
    assert await code(append(channel="CGENERAL", ts=root, markdown_text="b")) == "message_not_owned_by_app"
    assert await code(append(channel="CGENERAL", ts="1.000000", markdown_text="b")) == "message_not_found"
    ts = (await slack.chat_startStream(channel="CGENERAL", thread_ts=root, markdown_text="a", **ANN))["ts"]
    await slack.chat_stopStream(channel="CGENERAL", ts=ts)
    assert await code(append(channel="CGENERAL", ts=ts, markdown_text="b")) == "message_not_in_streaming_state"

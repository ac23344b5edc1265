"""What the stand-in refuses because Slack does: tables, metadata, rates; and the scopes it says of a token."""

from typing import Any

from channels.slack.testing import Team
from tests.channels.slack.samples import SAMPLES
from tests.channels.slack.testing.refusals import Slack, code, refusal

TABLE = SAMPLES["table"]
ANN: dict[str, Any] = {"recipient_user_id": "UANN", "recipient_team_id": "T0001"}
METADATA: dict[str, Any] = {"event_type": "run", "event_payload": {"id": "r"}}


async def test_a_message_has_one_table(team: Team, slack: Slack):
    """A second table block is refused with its place, in a post and over all that a stream was given."""
    assert (await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[TABLE]))["ok"]
    said = await refusal(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[TABLE, TABLE]))
    assert (said["error"], said["errors"][0]["pointer"]) == ("invalid_blocks", "/blocks/1")
    assert said["errors"][0]["code"] == "only_one_table_allowed"
    root = (await team.says("UANN", "CGENERAL", "hello")).ts
    chunks = [{"type": "blocks", "blocks": [TABLE]}]
    ts = str((await slack.chat_startStream(channel="CGENERAL", thread_ts=root, chunks=chunks, **ANN))["ts"])
    assert await code(slack.chat_appendStream(channel="CGENERAL", ts=ts, chunks=chunks)) == "invalid_blocks"
    assert await code(slack.chat_stopStream(channel="CGENERAL", ts=ts, blocks=[TABLE])) == "invalid_blocks"
    assert (await slack.chat_stopStream(channel="CGENERAL", ts=ts))["ok"]


async def test_only_the_end_of_a_stream_takes_metadata(team: Team, slack: Slack):
    """At the start and with an append it is refused, and no stream is begun."""
    root = (await team.says("UANN", "CGENERAL", "hello")).ts
    start = {"channel": "CGENERAL", "thread_ts": root, "markdown_text": "a", **ANN}
    said = await refusal(slack.api_call("chat.startStream", json={**start, "metadata": METADATA}))
    assert said["error"] == "invalid_arguments"
    assert team.answers("CGENERAL", root) == ()
    ts = (await slack.api_call("chat.startStream", json=start))["ts"]
    more = {"channel": "CGENERAL", "ts": ts, "markdown_text": "b", "metadata": METADATA}
    assert await code(slack.api_call("chat.appendStream", json=more)) == "invalid_arguments"
    assert (await slack.chat_stopStream(channel="CGENERAL", ts=ts, metadata=METADATA))["ok"]


async def test_each_answer_says_what_the_token_may_do(team: Team, slack: Slack):
    """The scopes of the token are in a header, as with Slack, and only who may reads people's addresses."""
    said = await slack.auth_test()
    assert "users:read.email" in said.headers["x-oauth-scopes"].split(",")
    assert (await slack.users_info(user="UANN"))["user"]["profile"]["email"] == "ann@acme.example"
    team.workspace.scopes -= {"users:read.email"}
    assert "users:read.email" not in (await slack.auth_test()).headers["x-oauth-scopes"].split(",")
    assert "email" not in (await slack.users_info(user="UANN"))["user"]["profile"]

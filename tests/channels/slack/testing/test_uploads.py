"""Uploads in the stand-in through the real SDK: three steps, processed for a while, refused as Slack does."""

import aiohttp
import pytest

from agent_core.testing import FakeClock
from channels.slack.testing import InjectedFault, SlackStandIn, Team
from tests.channels.slack.outbound.drawings import png
from tests.channels.slack.testing.refusals import Slack, code, refusal


async def send(slack: Slack, name: str, content: bytes) -> str:
    """Take the first two steps, and return the id of the file."""
    given = await slack.files_getUploadURLExternal(filename=name, length=len(content))
    async with aiohttp.ClientSession() as http, http.post(given["upload_url"], data=content) as answer:
        assert await answer.text() == f"OK - {len(content)}"
    return str(given["file_id"])


def image(file: str) -> dict[str, object]:
    return {"type": "image", "slack_file": {"id": file}, "alt_text": "A chart"}


async def test_the_sdk_uploads_in_one_go(team: Team, slack: Slack):
    """A file with a thread is a message of the app there, which events and `files.info` show."""
    root = (await team.says("UANN", "CGENERAL", "The file, please")).ts
    said = await slack.files_upload_v2(
        filename="a.csv", content="a,b", title="Rows", channel="CGENERAL", thread_ts=root, request_file_info=False
    )
    (answer,) = team.answers("CGENERAL", root)
    assert [(file["name"], file["title"], file["mimetype"]) for file in answer.files] == [("a.csv", "Rows", "text/csv")]
    found = (await slack.files_info(file=said["files"][0]["id"]))["file"]
    assert found["shares"] == {"public": {"CGENERAL": [{"ts": answer.ts, "thread_ts": root}]}}


async def test_an_upload_is_completed_once(team: Team, slack: Slack):
    """A second completion, one of unknown bytes and one of no bytes are refused; nothing is shared twice."""
    root = (await team.says("UANN", "CGENERAL", "The file, please")).ts
    file = await send(slack, "a.csv", b"a,b")
    where = {"channel_id": "CGENERAL", "thread_ts": root}
    assert await code(slack.files_info(file=file)) == "file_not_found"
    assert (await slack.files_completeUploadExternal(files=[{"id": file, "title": "Rows"}], **where))["ok"]
    assert await code(slack.files_completeUploadExternal(files=[{"id": file}], **where)) == "file_not_found"
    assert len(team.answers("CGENERAL", root)) == 1
    begun = await slack.files_getUploadURLExternal(filename="b.csv", length=3)
    assert await code(slack.files_completeUploadExternal(files=[{"id": begun["file_id"]}])) == "file_not_found"


async def test_a_picture_is_shown_once_it_is_processed(
    team: Team, slack: Slack, stand_in: SlackStandIn, clock: FakeClock
):
    """An image block is refused while its file is processed, with a pointer to it; a file that is no picture always."""
    team.workspace.processing = 2_000
    file, table = await send(slack, "a.png", png()), await send(slack, "a.csv", b"a,b")
    for each in (file, table):
        await slack.files_completeUploadExternal(files=[{"id": each}])
    said = await refusal(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[image(file)]))
    assert (said["error"], said["errors"][0]["pointer"]) == ("invalid_blocks", "/blocks/0/slack_file")
    clock.advance(2)
    assert (await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[image(file)]))["ok"]
    assert await code(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[image(table)])) == "invalid_blocks"


async def test_a_shared_file_arrives_when_it_is_processed(team: Team, slack: Slack, clock: FakeClock):
    """The message of a file is not there while the file is processed, and its id is not in the answer."""
    team.workspace.processing = 2_000
    root = (await team.says("UANN", "CGENERAL", "The file, please")).ts
    file = await send(slack, "a.csv", b"a,b")
    said = await slack.files_completeUploadExternal(files=[{"id": file}], channel_id="CGENERAL", thread_ts=root)
    assert set(said["files"][0]) == {"id", "title"}
    assert team.answers("CGENERAL", root) == ()
    assert (await slack.files_info(file=file))["file"]["shares"] == {}
    clock.advance(2)
    assert [each["name"] for each in team.answers("CGENERAL", root)[0].files] == ["a.csv"]


async def test_uploads_need_their_scope_and_the_announced_length(team: Team, slack: Slack):
    """Without `files:write` there is no URL; other bytes than announced are not kept."""
    begun = await slack.files_getUploadURLExternal(filename="a.csv", length=9)
    async with aiohttp.ClientSession() as http, http.post(begun["upload_url"], data=b"a,b") as answer:
        assert answer.status == 400
    team.workspace.scopes -= {"files:write"}
    assert await code(slack.files_getUploadURLExternal(filename="a.csv", length=3)) == "missing_scope"


@pytest.mark.parametrize("points", [True, False])
async def test_blocks_of_a_type_are_refused_on_demand(slack: Slack, team: Team, stand_in: SlackStandIn, points: bool):
    """A fault refuses the calls with a block of a type, in chunks too, with a pointer to it or without."""
    armed = stand_in.fault(InjectedFault("invalid_blocks", block="divider", points=points, times=None))
    root = (await team.says("UANN", "CGENERAL", "Well?")).ts
    text = {"type": "markdown", "text": "hello"}
    assert (await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[text]))["ok"]
    said = await refusal(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[text, {"type": "divider"}]))
    assert [each["pointer"] for each in said.get("errors", [])] == (["/blocks/1"] if points else [])
    chunks = [{"type": "markdown_text", "text": "a"}, {"type": "blocks", "blocks": [{"type": "divider"}]}]
    ann = {"recipient_user_id": "UANN", "recipient_team_id": "T0001"}
    said = await refusal(slack.chat_startStream(channel="CGENERAL", thread_ts=root, chunks=chunks, **ann))
    assert [each["pointer"] for each in said.get("errors", [])] == (["/chunks/1/blocks/0"] if points else [])
    assert armed.struck == 2

"""Files over the real SDK: the bytes go where Slack said, and to no other host, without the token."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from channels.slack import api as f
from channels.slack.api import UPLOAD, SlackApi
from channels.slack.testing import InjectedFault, SimulatedWorkspace, SlackStandIn


@pytest.fixture
async def stand_in() -> AsyncIterator[SlackStandIn]:
    made = SlackStandIn(workspaces=[SimulatedWorkspace.example()], rates=None)
    async with made.serving():
        yield made


@pytest.fixture
async def api(stand_in: SlackStandIn) -> AsyncIterator[SlackApi]:
    async with aiohttp.ClientSession() as http:
        yield SlackApi(stand_in.team().bot_token, session=http, base_url=f"{stand_in.base_url}api/")


async def test_a_file_is_uploaded_and_known(stand_in: SlackStandIn, api: SlackApi):
    """Three steps make a file; the token is in the calls, and not with the bytes."""
    file, url = await api.upload_url("a.csv", 3, alt="Rows")
    await api.put_bytes(url, b"a,b")
    await api.complete_upload(file, "Rows")
    assert (await api.file(file))["title"] == "Rows"
    (sent,) = stand_in.called("upload")
    assert sent.arguments == {"file": file, "length": 3, "authorization": False}
    with pytest.raises(f.SlackRefused, match="file_not_found"):
        await api.file("F404")


@pytest.mark.parametrize(
    "url",
    [
        "https://files.example.com/upload/v1/x",
        "http://files.slack.com/upload/v1/x",
        "https://files.slack.com@example.com/upload",
        "https://files.slack.com:8443/upload",
        "https://name:word@files.slack.com/upload",
        "https://files.slack.com.example.com/upload",
        "http://127.0.0.1:1/upload",
        "file:///etc/passwd",
        "/upload",
        "",
    ],
)
async def test_bytes_go_to_no_other_host(api: SlackApi, url: str):
    """A URL that is not of files.slack.com, nor of the stand-in itself, is not asked."""
    with pytest.raises(f.SlackRefused, match="not of files"):
        await api.put_bytes(url, b"secret")


async def test_with_slack_itself_only_its_own_host_is_asked(stand_in: SlackStandIn):
    """With Slack's own API the bytes go to files.slack.com alone, not even to the host of the API."""
    async with aiohttp.ClientSession() as http:
        api = SlackApi("xoxb-1", session=http)
        for url in (f"{stand_in.base_url}upload/v1/T0001/F1", "https://slack.com/upload"):
            with pytest.raises(f.SlackRefused, match="not of files"):
                await api.put_bytes(url, b"secret")
    assert stand_in.calls == []


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (InjectedFault("server_error", on="upload"), f.Uncertain),
        (InjectedFault("answer_lost", on="upload"), f.Uncertain),
        (InjectedFault("request_lost", on="upload"), f.Uncertain),
        (InjectedFault("ratelimited", on="upload", seconds=7), f.Limited),
        (None, f.SlackRefused),
    ],
)
async def test_each_outcome_of_sending_bytes_has_its_error(
    stand_in: SlackStandIn, api: SlackApi, fault: InjectedFault | None, expected: type[f.SlackFailure]
):
    """Sending bytes is done, refused, limited or uncertain, as any other call is."""
    if fault is not None:
        stand_in.fault(fault)
    _, url = await api.upload_url("a.csv", 3)
    with pytest.raises(expected) as caught:
        await api.put_bytes(url, b"a,b" if fault else b"other bytes")
    assert caught.value.method == UPLOAD
    if isinstance(caught.value, f.Limited):
        assert caught.value.retry_after == 7

"""The outcome of a call to Slack: the real SDK over real sockets, against a small scripted server."""

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from channels.slack import api as f
from channels.slack.api import Identity, SlackApi, open_session

TOKEN = "xoxb-1-made-up-secret"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedSlack:
    """A server that records its requests and gives scripted answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.peers: set[Any] = set()
        self.tokens: set[str] = set()
        self.answer: Answer = self.say({"ok": True, "ts": "1.5"})

    @staticmethod
    def say(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
        async def answer(_: web.Request) -> web.StreamResponse:
            if isinstance(data, str):
                return web.Response(text=data, status=status, headers=headers)
            return web.json_response(data, status=status, headers=headers)

        return answer

    async def take(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.peers.add(request.transport.get_extra_info("peername"))
        self.tokens.add(request.headers["Authorization"])
        fields = dict(request.query) if request.method == "GET" else json.loads(await request.text())
        self.asked.append((request.path.removeprefix("/api/"), fields))
        return await self.answer(request)


@pytest.fixture
async def server() -> ScriptedSlack:
    return ScriptedSlack()


@pytest.fixture
async def api(server: ScriptedSlack) -> AsyncIterator[SlackApi]:
    app = web.Application()
    app.router.add_route("*", "/api/{method}", server.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with open_session() as session:
        yield SlackApi(TOKEN, session=session, base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/api/")
    await runner.cleanup()


async def failing(call: Awaitable[Any]) -> f.SlackFailure:
    with pytest.raises(f.SlackFailure) as caught:
        await call
    return caught.value


async def test_a_post_sends_exactly_its_arguments(server: ScriptedSlack, api: SlackApi):
    """A post carries its text, blocks, thread and metadata; nothing in it is linked, fetched or unfurled."""
    blocks = [{"type": "divider"}]
    assert await api.post("C1", "hi", blocks=blocks, thread_ts="1.1", metadata={"event_type": "e"}) == "1.5"
    plain = {"parse": "none", "unfurl_links": False, "unfurl_media": False}
    given = {"channel": "C1", "text": "hi", "blocks": blocks, "thread_ts": "1.1", "metadata": {"event_type": "e"}}
    assert server.asked == [("chat.postMessage", given | plain)]
    assert server.tokens == {f"Bearer {TOKEN}"}


async def test_an_update_without_blocks_sends_none(server: ScriptedSlack, api: SlackApi):
    """What is not given is not sent, so that an update by text alone takes the blocks away."""
    await api.update("C1", "1.5", "all")
    await api.ephemeral("C1", "U1", "psst")
    assert server.asked == [
        ("chat.update", {"channel": "C1", "ts": "1.5", "text": "all", "parse": "none"}),
        ("chat.postEphemeral", {"channel": "C1", "user": "U1", "text": "psst", "parse": "none"}),
    ]


async def test_a_stream_begins_grows_and_ends(server: ScriptedSlack, api: SlackApi):
    """A stream names its thread and its reader, grows by chunks, and may end with a status for its session."""
    chunks = [{"type": "markdown_text", "text": "Hel"}]
    ts = await api.start_stream("C1", "1.1", chunks, recipient_user="U1", recipient_team="T1")
    await api.append_stream("C1", ts, chunks)
    await api.stop_stream("C1", ts, session_status="suspended")
    reader = {"recipient_user_id": "U1", "recipient_team_id": "T1"}
    assert server.asked == [
        ("chat.startStream", {"channel": "C1", "thread_ts": "1.1", "chunks": chunks} | reader),
        ("chat.appendStream", {"channel": "C1", "ts": "1.5", "chunks": chunks}),
        ("chat.stopStream", {"channel": "C1", "ts": "1.5", "session_status": "suspended"}),
    ]


async def test_a_session_has_a_status_a_title_and_prompts(server: ScriptedSlack, api: SlackApi):
    """A status brings Slack's warning back; prompts name no thread, with which they would do nothing."""
    server.answer = server.say({"ok": True, "warning": "missing_agent_session_stopped_event_subscription"})
    warned = await api.set_status("C1", "1.1", "processing", title="Hello", initiator="U1")
    assert warned == "missing_agent_session_stopped_event_subscription"
    await api.rename("C1", "1.1", "New")
    await api.set_prompts("D1", [{"title": "a", "message": "b"}])
    session = {"channel_id": "C1", "thread_ts": "1.1"}
    status = {"status": "processing", "title": "Hello", "initiator_user_id": "U1"}
    assert server.asked == [
        ("agents.sessions.setStatus", session | status),
        ("agents.sessions.rename", session | {"title": "New"}),
        ("assistant.threads.setSuggestedPrompts", {"channel_id": "D1", "prompts": [{"title": "a", "message": "b"}]}),
    ]


async def test_a_thread_is_read_page_by_page(server: ScriptedSlack, api: SlackApi):
    """One call reads one page with metadata; the cursor of the last page is None."""
    server.answer = server.say({"ok": True, "messages": [{"ts": "1.1"}], "response_metadata": {"next_cursor": "n=="}})
    page = await api.replies("C1", "1.1", oldest="1.0", limit=15)
    assert (page.messages, page.cursor) == (({"ts": "1.1"},), "n==")
    server.answer = server.say({"ok": True, "messages": [], "response_metadata": {"next_cursor": ""}})
    assert (await api.replies("C1", "1.1", cursor="n==")).cursor is None
    first = {"channel": "C1", "ts": "1.1", "oldest": "1.0", "limit": "15", "include_all_metadata": "1"}
    assert server.asked[0] == ("conversations.replies", first)
    assert server.asked[1][1]["cursor"] == "n=="


async def test_people_and_views(server: ScriptedSlack, api: SlackApi):
    """Users, groups, direct messages, views and the identity of the token are read."""
    server.answer = server.say({"ok": True, "user": {"id": "U1"}})
    assert await api.user("U1") == {"id": "U1"}
    server.answer = server.say({"ok": True, "users": ["U1", "U2"]})
    assert await api.usergroup_users("S1") == ("U1", "U2")
    server.answer = server.say({"ok": True, "channel": {"id": "D1"}})
    assert await api.open_dm("U1") == "D1"
    server.answer = server.say({"ok": True, "view": {"id": "V1"}})
    assert await api.views_open("1.2.abc", {"type": "modal"}) == "V1"
    server.answer = server.say({"ok": True, "team_id": "T1", "user_id": "U9", "bot_id": "B1", "enterprise_id": None})
    assert await api.auth() == Identity("T1", "U9", "B1", None)


async def test_all_calls_share_a_connection(server: ScriptedSlack, api: SlackApi):
    """Calls one after the other open one connection."""
    for _ in range(5):
        await api.post("C1", "hi")
    assert len(server.peers) == 1


async def test_an_installation_of_an_organisation_names_the_workspace(server: ScriptedSlack, api: SlackApi):
    """Where one token serves many workspaces, each call says which one it means."""
    async with open_session() as session:
        await SlackApi(TOKEN, session=session, base_url=api._client.base_url, team="T9").post("C1", "hi")
    assert server.asked[0][1]["team_id"] == "T9"


async def test_a_proxy_is_used_for_the_outside_only(
    server: ScriptedSlack, api: SlackApi, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
):
    """A proxy of the environment is used, unless NO_PROXY names the host: a stand-in on this machine is reached."""
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_tcp_port}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "")
    async with open_session() as session:
        outside = SlackApi(TOKEN, session=session, base_url=api._client.base_url)
        assert isinstance(await failing(outside.post("C1", "hi")), f.NotSent)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        assert await outside.post("C1", "hi") == "1.5"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("message_not_in_streaming_state", f.Expired),
        ("stopped_by_user", f.StoppedByUser),
        ("streaming_state_conflict", f.Streaming),
        ("msg_too_long", f.TextTooLong),
        ("message_not_found", f.TargetMissing),
        ("channel_not_found", f.TargetMissing),
        ("is_archived", f.TargetMissing),
        ("not_in_channel", f.TargetMissing),
        ("account_inactive", f.TargetMissing),
        ("internal_error", f.Uncertain),
        ("fatal_error", f.Uncertain),
        ("invalid_auth", f.Unauthorised),
        ("token_revoked", f.Unauthorised),
        ("invalid_blocks", f.BadBlocks),
        ("invalid_chunks", f.BadBlocks),
        ("ratelimited", f.Limited),
        ("unknown_method", f.NoStreaming),
        ("channel_type_not_supported", f.NoStreaming),
        ("no_text", f.SlackRefused),
        ("a_code_of_next_year", f.SlackRefused),
    ],
)
async def test_each_code_has_one_meaning(
    server: ScriptedSlack, api: SlackApi, code: str, expected: type[f.SlackFailure]
):
    """Whatever code Slack answers with, the failure has one class, and its text names method and code."""
    server.answer = server.say({"ok": False, "error": code})
    failure = await failing(api.append_stream("C1", "1.5", []))
    assert type(failure) is expected
    assert "chat.appendStream" in str(failure)
    if not isinstance(failure, f.Limited):
        assert failure.reason == code
        assert code in str(failure)


async def test_whether_streams_lack_here_or_everywhere(server: ScriptedSlack, api: SlackApi):
    """A workspace without streams is distinguished from a conversation without; other methods are simply refused."""
    server.answer = server.say({"ok": False, "error": "unknown_method"})
    lacking = await failing(api.start_stream("C1", "1.1", []))
    assert isinstance(lacking, f.NoStreaming)
    assert lacking.everywhere
    assert isinstance(await failing(api.set_status("C1", "1.1", "active")), f.SlackRefused)
    server.answer = server.say({"ok": False, "error": "missing_recipient_team_id"})
    lacking = await failing(api.start_stream("C1", "1.1", []))
    assert isinstance(lacking, f.NoStreaming)
    assert not lacking.everywhere


@pytest.mark.parametrize(("given", "expected"), [("7", 7.0), ("0", 1.0), ("soon", 60.0), (None, 60.0)])
async def test_a_429_says_when_again(server: ScriptedSlack, api: SlackApi, given: str | None, expected: float):
    """The failure carries Slack's Retry-After; without a usable one a whole window, and never less than a second."""
    headers = {"Retry-After": given} if given is not None else None
    server.answer = server.say({"ok": False, "error": "ratelimited"}, 429, headers)
    failure = await failing(api.post("C1", "hi"))
    assert isinstance(failure, f.Limited)
    assert failure.retry_after == expected
    server.answer = server.say("slow down", 429, headers)
    assert isinstance(await failing(api.post("C1", "hi")), f.Limited)


async def test_bad_blocks_are_pointed_at(server: ScriptedSlack, api: SlackApi):
    """The pointers of either form of Slack's answer are kept, each once, and what it says of them is in the text."""
    said = ["must provide an object [json-pointer:/blocks/1/text]"]
    objects = [{"pointer": "/blocks/3", "code": "too_long", "message": "must be less than 3001 characters"}]
    server.answer = server.say(
        {"ok": False, "error": "invalid_blocks", "errors": [*said, *objects], "response_metadata": {"messages": said}}
    )
    failure = await failing(api.post("C1", "hi"))
    assert isinstance(failure, f.BadBlocks)
    assert failure.pointers == ("/blocks/1/text", "/blocks/3")
    assert "must be less than 3001 characters" in str(failure)


async def test_a_missing_scope_is_named_with_its_remedy(server: ScriptedSlack, api: SlackApi):
    """Who reads the failure knows which scope to add, and where."""
    server.answer = server.say(
        {"ok": False, "error": "missing_scope", "needed": "users:read", "provided": "chat:write"}
    )
    failure = await failing(api.user("U1"))
    assert isinstance(failure, f.Unauthorised)
    assert failure.needed == "users:read"
    assert "users.info needs the scope `users:read`" in str(failure)
    assert "install the app again" in str(failure)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_server_error_is_uncertain(server: ScriptedSlack, api: SlackApi, status: int):
    """After a 5xx the call may have been made, whatever its body says."""
    for body in ("<html>bad gateway</html>", {"ok": False, "error": "not_in_channel"}):
        server.answer = server.say(body, status)
        assert isinstance(await failing(api.post("C1", "hi")), f.Uncertain)


@pytest.mark.parametrize("body", ["<html>sign in</html>", "null", "[1]", "", '{"ok": false}'])
@pytest.mark.parametrize("kind", ["text/plain", "text/html", "application/json"])
async def test_an_answer_that_is_not_slacks_is_uncertain(server: ScriptedSlack, api: SlackApi, body: str, kind: str):
    """A page of a proxy, or half an answer, does not say that nothing was done."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type=kind)

    server.answer = answer
    assert isinstance(await failing(api.post("C1", "hi")), f.Uncertain)


async def test_a_client_error_without_a_code_is_a_refusal(server: ScriptedSlack, api: SlackApi):
    """A 404 from a wrong address is named by its status."""
    server.answer = server.say("nothing here", 404)
    failure = await failing(api.post("C1", "hi"))
    assert isinstance(failure, f.SlackRefused)
    assert failure.reason == "HTTP 404"


async def cut(request: web.Request) -> web.StreamResponse:
    """Close the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_inside(request: web.Request) -> web.StreamResponse:
    """Close the connection inside the answer."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"ok": tr')
    assert request.transport is not None
    request.transport.abort()
    return response


@pytest.mark.parametrize("answer", [cut, cut_inside])
async def test_a_connection_cut_after_sending_is_uncertain(server: ScriptedSlack, api: SlackApi, answer: Answer):
    """What was sent may have been done; it is sent once."""
    server.answer = answer
    assert isinstance(await failing(api.post("C1", "hi")), f.Uncertain)
    assert len(server.asked) == 1


async def test_a_timeout_is_uncertain(server: ScriptedSlack, api: SlackApi):
    """A call that is not answered in time may have been done."""
    asked = asyncio.Event()

    async def silence(_: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    server.answer = silence
    base_url = api._client.base_url
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.2)) as session:
        impatient = SlackApi(TOKEN, session=session, base_url=base_url)
        assert isinstance(await failing(impatient.post("C1", "hi")), f.Uncertain)
    assert asked.is_set()


async def test_a_refused_connection_was_not_sent(unused_tcp_port: int):
    """A refused connection means the call was not made, and the failure names the host."""
    async with open_session() as session:
        api = SlackApi(TOKEN, session=session, base_url=f"http://127.0.0.1:{unused_tcp_port}/api/")
        failure = await failing(api.post("C1", "hi"))
    assert isinstance(failure, f.NotSent)
    assert "127.0.0.1" in str(failure)


ENDS = {
    "refused": ScriptedSlack.say({"ok": False, "error": "missing_scope", "needed": "chat:write"}),
    "limited": ScriptedSlack.say({"ok": False, "error": "ratelimited"}, 429),
    "no json": ScriptedSlack.say("<html>", 502),
    "half": cut_inside,
    "cut": cut,
}


@pytest.mark.parametrize("end", ENDS)
async def test_the_token_is_nowhere(server: ScriptedSlack, api: SlackApi, end: str, caplog: pytest.LogCaptureFixture):
    """Neither a failure, nor what hangs on it, nor its traceback with all locals, nor any log holds the token."""
    caplog.set_level(logging.DEBUG)
    for name in ("parley.slack.sdk", "slack_sdk", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    server.answer = ENDS[end]
    failure = await failing(api.post("C1", "hi"))
    assert failure.__cause__ is None
    assert failure.__context__ is None
    trace = traceback.TracebackException.from_exception(failure, capture_locals=True)
    shown = "".join(trace.format()) + repr(vars(failure)) + repr(failure.args) + repr(api)
    assert "chat.postMessage" in caplog.text  # the SDK did log
    assert TOKEN not in shown + caplog.text

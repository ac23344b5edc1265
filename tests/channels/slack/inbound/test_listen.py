"""How Slack's requests are received: what is let in, over requests and over sockets, and what never gets out."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import aiohttp
import pytest
from slack_sdk.signature import SignatureVerifier
from structlog.testing import capture_logs

from channels.slack.serving import PATHS, Listener
from channels.slack.testing import InjectedFault
from tests.channels.slack.rig import Rig, rigged

pytestmark = pytest.mark.sampled(3)

SECRET = "stand-in-signing-secret"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@pytest.fixture
async def rig(make_core) -> AsyncIterator[Rig]:
    async with rigged(make_core) as made:
        yield made


async def sent(
    rig: Rig,
    body: bytes,
    *,
    path: str = PATHS[0],
    kind: str = JSON,
    secret: str = SECRET,
    at: float | None = None,
) -> tuple[int, str]:
    """Send *body*, signed with *secret* at the time *at*, and return status and text of the answer."""
    stamp = str(int(time.time() if at is None else at))
    signature = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body.decode(errors="replace"))
    headers = {"Content-Type": kind, "X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": str(signature)}
    async with (
        aiohttp.ClientSession() as session,
        session.post(rig.url + path, data=body, headers=headers) as answer,
    ):
        return answer.status, await answer.text()


def event(**about: object) -> bytes:
    """Return the envelope of an event in the first workspace."""
    return json.dumps({"type": "event_callback", "team_id": "T0001", "event_id": "Ev1", "event": about}).encode()


HELLO = event(type="message", channel="DANN", channel_type="im", user="UANN", text="hello", ts="1767225600.000100")


@pytest.mark.parametrize("path", PATHS)
async def test_what_slack_has_not_signed_is_refused(rig: Rig, path):
    """A wrong, missing or stale signature gets 401, and nothing is written."""
    assert (await sent(rig, HELLO, path=path, secret="another"))[0] == 401
    assert (await sent(rig, HELLO, path=path, at=time.time() - 301))[0] == 401
    async with aiohttp.ClientSession() as session, session.post(rig.url + path, data=HELLO) as answer:
        assert answer.status == 401
    assert (await rig.core.sessions()).items == ()
    assert (await sent(rig, HELLO))[0] == 200
    assert len((await rig.core.sessions()).items) == 1


@pytest.mark.parametrize("body", [b"\xff\xfe", b"{", b"[1]", b'"text"', b"payload=%7B"])
async def test_what_is_no_payload_is_refused(rig: Rig, body):
    """What cannot be read gets an error of its own, signed or not."""
    assert 400 <= (await sent(rig, body, kind=JSON if body[:1] != b"p" else FORM))[0] < 500


async def test_a_command_that_is_replayed_does_nothing(rig: Rig):
    """A signed slash command asks once; the same request again is acknowledged, and nothing is posted or asked."""
    form = {"command": "/parley", "text": "How are sales?", "team_id": "T0001", "channel_id": "CGENERAL"}
    body = urlencode({**form, "user_id": "UANN", "trigger_id": "1.2.abc", "response_url": "https://x.example"}).encode()
    now = time.time()
    assert await sent(rig, body, path=PATHS[2], kind=FORM, at=now) == (200, "")
    for _ in range(2):
        assert await sent(rig, body, path=PATHS[2], kind=FORM, at=now) == (200, "")
    assert len((await rig.core.sessions()).items) == 1
    page = await (await rig.workspaces.space("T0001")).api.history("CGENERAL")
    assert len([each for each in page.messages if "How are sales?" in str(each.get("text"))]) == 1


async def test_slack_is_answered_its_challenge(rig: Rig):
    """The address that a manifest names is confirmed as Slack wants it."""
    status, text = await sent(rig, json.dumps({"type": "url_verification", "challenge": "abc"}).encode())
    assert (status, json.loads(text)) == (200, {"challenge": "abc"})


async def test_events_before_our_identity_is_known_are_sent_again(rig: Rig):
    """Slack is not kept waiting longer than it waits: it gets 503, and the same is taken in when it comes again."""
    timeout, rig.listener._identify_timeout = rig.listener._identify_timeout, 0.05
    async with rig.workspaces._asking:  # a request is under way, without an answer
        assert (await sent(rig, HELLO))[0] == 503
    rig.listener._identify_timeout = timeout
    assert (await rig.core.sessions()).items == ()
    assert (await sent(rig, HELLO))[0] == 200
    assert len((await rig.core.sessions()).items) == 1


async def test_unknown_payloads_are_acknowledged_and_logged_once(rig: Rig):
    """Whatever Slack invents is taken note of once per kind, and no reason to send it again."""
    unknown = [
        (event(type="invented"), JSON),
        (event(type="message", channel="C1"), JSON),
        (json.dumps({"type": "invented", "team": {"id": "T0001"}}).encode(), JSON),
        (
            urlencode(
                {
                    "payload": json.dumps(
                        {"type": "block_actions", "team": {"id": "T0001"}, "actions": [{"action_id": "x"}]}
                    )
                }
            ).encode(),
            FORM,
        ),
    ]
    with capture_logs() as logs:
        for body, kind in unknown * 2:
            assert await sent(rig, body, kind=kind) == (200, "")
    noted = [each["kind"] for each in logs if each["event"] == "slack.unknown"]
    assert noted == ["event_callback invented", "message, of an unknown form", "invented", "block_actions x"]


async def test_an_unknown_workspace_is_ignored(rig: Rig):
    """What comes for a workspace without an installation is acknowledged, logged once and ignored."""
    foreign = HELLO.replace(b"T0001", b"T0009")
    with capture_logs() as logs:
        assert [await sent(rig, foreign), await sent(rig, foreign)] == [(200, ""), (200, "")]
    assert [each["event"] for each in logs] == ["slack.not_ours"]


async def test_our_identity_is_asked_for_again_after_a_failure(make_core):
    """While it is not known who we are in Slack nothing is acknowledged; once it is, it is not asked for again."""
    async with rigged(make_core) as rig:
        rig.stand_in.fault(InjectedFault("server_error", on="auth.test"))
        assert (await sent(rig, HELLO))[0] == 503
        assert (await sent(rig, HELLO))[0] == 200
        asked = len(rig.stand_in.called("auth.test"))
        await rig.team.says("UANN", "UANN", "more")
        assert len(rig.stand_in.called("auth.test")) == asked


async def test_a_bug_of_ours_does_not_lose_a_message(rig: Rig, monkeypatch):
    """What fails unexpectedly is not acknowledged, and the log has it."""

    async def broken(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.receiver, "take", broken)
    with capture_logs() as logs:
        assert (await sent(rig, HELLO))[0] == 500
    assert [each["event"] for each in logs] == ["slack.failed"]


async def test_no_token_is_ever_logged(rig: Rig, caplog, capsys):
    """At the most talkative level, with errors on every side, no token and no secret is in a log or a trace."""
    caplog.set_level(logging.DEBUG)
    tokens = [rig.team.bot_token, rig.stand_in.app.app_token, SECRET]
    for fault in (
        InjectedFault("refused", on="users.info", code="invalid_auth"),
        InjectedFault("request_lost", on="chat.postEphemeral"),
        InjectedFault("server_error", on="conversations.replies"),
    ):
        rig.stand_in.fault(fault)
    dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
    await rig.team.mentions("UGUEST", "CGENERAL", "hello")
    await rig.team.mentions("UANN", "CGENERAL", "hello", dispatched.ts)
    async with rig.listener.socket("xapp-wrong-token", ping=0.1):
        await rig.stand_in.until(lambda: rig.stand_in.called("apps.connections.open"))
    out, err = capsys.readouterr()
    logged = caplog.text + out + err
    assert "slack" in logged
    assert not [each for each in [*tokens, "xapp-wrong-token"] if each in logged]


async def test_settings_of_slacks_own_tools_change_nothing(rig: Rig, monkeypatch):
    """The names that Bolt reads from the environment on its own make it neither forget nor fetch anything."""
    for name in ("SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET", "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET"):
        monkeypatch.setenv(name, "from-the-environment")
    listener = Listener(rig.receiver, rig.workspaces, signing_secret=SECRET, api_url=f"{rig.stand_in.base_url}api/")
    monkeypatch.setattr(rig.listener, "_requests", listener._requests)
    assert (await sent(rig, HELLO))[0] == 200
    assert (await sent(rig, HELLO, secret="from-the-environment"))[0] == 401


def test_without_a_signing_secret_there_are_no_routes(rig: Rig):
    """Where nothing could be verified nothing is listened to."""
    listener = Listener(rig.receiver, rig.workspaces, signing_secret=None)
    assert (listener.router().routes, len(rig.listener.router().routes)) == ([], 3)


async def test_a_socket_does_the_same(make_core):
    """Mentions, commands, shortcuts and Stop come by Socket Mode as they do by requests."""
    async with rigged(make_core, socket=5.0) as rig:
        dispatched = await rig.team.mentions("UANN", "CGENERAL", "hello")
        assert dispatched.acked
        await rig.ended("CGENERAL", dispatched.ts)
        assert await rig.said("CGENERAL", dispatched.ts) == ["hello"]
        empty = await rig.team.command("UANN", "CGENERAL", "/parley")
        assert "your question" in empty.deliveries[0].answer["text"]
        assert (await rig.team.shortcut("UBEN", "ask_message", "CGENERAL", dispatched.ts)).acked
        assert (await rig.team.stops("UANN", "CGENERAL", dispatched.ts)).acked
        assert len(await rig.said("CGENERAL", dispatched.ts)) == 2


async def test_a_silent_socket_is_replaced(make_core):
    """An open but silent connection is detected and replaced; messages sent meanwhile arrive over the next one."""
    async with rigged(make_core, socket=0.2) as rig:
        rig.stand_in.sockets.deafen()
        await rig.stand_in.until(lambda: any(not each.deaf for each in rig.stand_in.sockets.open))
        assert (await rig.team.says("UANN", "UANN", "hello")).acked


async def test_slack_may_ask_for_another_connection(make_core):
    """When Slack refreshes its connections the next one is there at once."""
    async with rigged(make_core, socket=5.0) as rig:
        opened = rig.stand_in.sockets.opened
        await rig.stand_in.sockets.disconnect("refresh_requested")
        await rig.stand_in.until(lambda: rig.stand_in.sockets.open)
        assert rig.stand_in.sockets.opened > opened
        assert (await rig.team.says("UANN", "UANN", "hello")).acked


async def test_what_cannot_be_kept_is_not_acknowledged_on_a_socket_either(make_core, monkeypatch):
    """Slack sends an envelope again that was not taken in."""
    async with rigged(make_core, socket=5.0) as rig:
        armed = rig.stand_in.fault(InjectedFault("server_error", on="users.info", times=2))
        rig.stand_in.sockets._ack_within, patient = 1.0, rig.stand_in.sockets._ack_within
        saying = asyncio.create_task(rig.team.says("UANN", "UANN", "hello"))
        await rig.stand_in.until(lambda: armed.struck == 2)
        rig.stand_in.sockets._ack_within = patient
        dispatched = await saying
        assert dispatched.failures == ("timeout",)
        assert dispatched.acked
        assert await rig.said("DANN", dispatched.ts) == ["hello"]


async def test_a_restart_forgets_no_message(make_core):
    """What was taken in by a process that is gone is not taken in again by the next one."""
    async with rigged(make_core) as rig:
        assert (await sent(rig, HELLO))[0] == 200
        await rig.ended("DANN", "1767225600.000100")
        await rig.core.stop()
    async with rigged(make_core) as rig:
        assert (await sent(rig, HELLO))[0] == 200
        assert await rig.said("DANN", "1767225600.000100") == ["hello"]
        assert rig.model.calls == 0

"""Webhooks over real sockets: signed questions, answers of every kind, and what counts when there is none."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent_core.agents import Hook, HookEvent, HttpConfig, chain
from agent_core.errors import InvalidInput
from agent_core.hooks.chain import Allow, Deny, Modify, Occasion
from agent_core.hooks.http import MAX_ANSWER, PURPOSE, UNASKED, check_http, sign
from agent_core.hooks.rules import NOWHERE, HookResolvers
from agent_core.messages import Actor
from agent_core.net.fetch import Fetch
from agent_core.secrets import Secrets
from agent_core.testing import FakeClock
from tests.agent_core.net.stage import Site, Write, last, moved, ok, serving
from tests.cases import for_each
from tests.conftest import SECRETS

SECRET = "whsec-0123456789abcdef"
PRE = Occasion(
    event="PreToolUse",
    hook="http-1",
    agent="assistant",
    session="session_1",
    run="run_1",
    channel="slack",
    actor=Actor("U1", "user", "Änn"),
    tool="pay",
    call="call_1",
    arguments={"amount": 5, "to": "ärger"},
)
POST = Occasion(
    **{**{name: getattr(PRE, name) for name in PRE.__struct_fields__}, "event": "PostToolUse", "result": "7"}
)


def at(event: HookEvent, **more: Any) -> Occasion:
    more = {"hook": "http-1", "agent": "a", "session": "s", "run": "r", "channel": "web", "actor": None, **more}
    return Occasion(event=event, **more)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving() as site:
        yield site


class WebhookAsker:
    """Asks the webhook of a site as a core does: a sealed secret, the guarded fetch, a clock that does not advance."""

    def __init__(self, site: Site, *, allow: tuple[str, ...] | None = None, secrets: Secrets = SECRETS) -> None:
        self.site, self.clock = site, FakeClock()
        allow = (f"127.0.0.1:{site.port}",) if allow is None else allow
        self.fetch = Fetch(allow, clock=self.clock)
        self.resolvers = HookResolvers(self.clock, self.fetch, secrets)

    async def __call__(self, occasion: Occasion = PRE, **config: Any) -> Any:
        config = {"url": self.site.url("/hook", "127.0.0.1"), "secret": SECRETS.seal(SECRET, PURPOSE), **config}
        hook = Hook(event=occasion.event, type="http", config=config)
        (named,) = chain([hook], occasion.event)
        return await self.resolvers.ask(named, occasion)


@pytest.fixture
async def asker(site: Site) -> AsyncIterator[WebhookAsker]:
    asker = WebhookAsker(site)
    yield asker
    await asker.fetch.close()


def says(**reply: Any) -> bytes:
    return ok(json.dumps(reply).encode(), "Content-Type: application/json")


ANSWERS: list[tuple[Occasion, dict[str, Any], Any]] = [
    (PRE, {"decision": "allow"}, Allow()),
    (PRE, {"decision": "allow", "reason": "fine", "more": [1]}, Allow("fine")),
    (PRE, {"decision": "deny"}, Deny()),
    (PRE, {"decision": "deny", "reason": "Zu teuer."}, Deny("Zu teuer.")),
    (PRE, {"decision": "deny", "reason": "x" * 5000}, Deny("x" * 1000)),
    (PRE, {"decision": "modify", "arguments": {"amount": 1}}, Modify(arguments={"amount": 1})),
    (PRE, {"decision": "modify", "arguments": {}, "reason": "r"}, Modify(arguments={}, reason="r")),
    (POST, {"decision": "modify", "result": ""}, Modify(result="")),
    (POST, {"decision": "modify", "result": "x", "arguments": None}, Modify(result="x")),
    (at("PreResponse", text="hi"), {"decision": "modify", "text": "ho"}, Modify(text="ho")),
    (at("OnRunStart", text="hi"), {"decision": "deny", "reason": "no"}, Deny("no")),
]


@pytest.mark.parametrize(("occasion", "reply", "meant"), ANSWERS)
async def test_what_an_answer_means(
    asker: WebhookAsker, site: Site, occasion: Occasion, reply: dict[str, Any], meant: Any
):
    """Allow, deny and modify mean what they say, at the event that is asked about."""
    site.answers["/hook"] = says(**reply)
    assert await asker(occasion) == meant


async def test_what_is_asked(asker: WebhookAsker, site: Site):
    """The question is a signed POST of what the hook is asked about; what does not apply is left out."""
    site.answers["/hook"] = says(decision="allow")
    await asker()
    (request,) = site.requests
    assert (request.method, request.path, request.headers["content-type"]) == ("POST", "/hook", "application/json")
    assert json.loads(request.body) == {
        "event": "PreToolUse", "hook": "http-1", "agent": "assistant", "session": "session_1", "run": "run_1",
        "channel": "slack", "actor": {"id": "U1", "kind": "user", "name": "Änn"}, "tool": "pay", "call": "call_1",
        "arguments": {"amount": 5, "to": "ärger"},
    }  # fmt: skip


async def test_the_signature_is_the_receivers_to_check(asker: WebhookAsker, site: Site):
    """HMAC-SHA256 over the timestamp, a dot and the body as it came; another secret or body does not fit."""
    site.answers["/hook"] = says(decision="allow")
    await asker()
    (request,) = site.requests
    stamp, signature = request.headers["x-parley-timestamp"], request.headers["x-parley-signature"]
    assert stamp == str(asker.clock.now() // 1000)
    assert signature == "v1=" + hmac.new(SECRET.encode(), f"{stamp}.".encode() + request.body, "sha256").hexdigest()
    assert signature == sign(SECRET, int(stamp), request.body)
    assert signature not in (sign("other", int(stamp), request.body), sign(SECRET, int(stamp) + 1, request.body))
    assert signature != sign(SECRET, int(stamp), request.body + b" ")


def test_a_known_message_has_a_known_signature():
    """The signature of a known message, with which a receiver in any language can test itself."""
    assert sign("0123456789abcdef", 1767225600, b'{"event":"PreToolUse"}') == (
        "v1=" + "7fb965c971384cce075adacf4dc54fcac80efe1129b3b5bf8466c0344e1c0c6a"
    )


async def test_the_delivery_is_known_again(asker: WebhookAsker, site: Site):
    """The same question has the same id later, so that a retry is recognised; about other arguments it has another."""
    site.answers["/hook"] = says(decision="allow")
    await asker()
    asker.clock.advance(3600)
    await asker()
    await asker(at("PreToolUse", run="run_1", tool="pay", call="call_1", arguments={"amount": 6}))
    first, again, other = (request.headers["x-parley-delivery"] for request in site.requests)
    assert (first == again, first == other) == (True, False)
    assert site.requests[0].headers["x-parley-signature"] != site.requests[1].headers["x-parley-signature"]


HUGE = b'{"decision": "allow", "reason": "' + b"x" * MAX_ANSWER + b'"}'
RUBBISH: dict[str, tuple[bytes | Write, str]] = {
    "nothing": (ok(b""), "no JSON"),
    "a page": (ok(b"<html>Sign in</html>", "Content-Type: text/html"), "no JSON"),
    "a list": (ok(b'["allow"]'), "Expected `object`, got `array`"),
    "cut short": (ok(b'{"decision": "all'), "no JSON"),
    "two answers": (ok(b'{"decision": "allow"}{"decision": "deny"}'), "no JSON"),
    "no decision": (says(reason="yes"), "missing required field `decision`"),
    "an unknown decision": (says(decision="ALLOW"), "$.decision"),
    "a number": (says(decision=1), "$.decision"),
    "a reason that is none": (says(decision="deny", reason={"a": 1}), "$.reason"),
    "arguments that are none": (says(decision="modify", arguments=[1]), "$.arguments"),
    "nothing modified": (says(decision="modify"), "that goes with `arguments`"),
    "null modified": (says(decision="modify", arguments=None), "that goes with `arguments`"),
    "another event's": (says(decision="modify", result="x"), "that goes with `arguments`"),
    "too much modified": (says(decision="modify", arguments={}, text="x"), "with nothing else"),
    "allowed and changed": (says(decision="allow", arguments={}), "only `modify` changes"),
    "Latin-1": (ok('{"decision": "deny", "reason": "zu früh"}'.encode("latin-1")), "no JSON in UTF-8"),
    "UTF-16": (ok('{"decision": "deny"}'.encode("utf-16"), "Content-Type: application/json; charset=utf-16"), "UTF-8"),
    "half a character": (ok(b'{"decision": "deny", "reason": "\\ud800"}'), "no JSON"),
    "deep": (ok(b'{"decision": "allow", "more": ' + b"[" * 100_000), "no JSON"),
    "a huge number": (ok(b'{"decision": "modify", "arguments": {"a": 1e999}}'), "does not fit"),
    "too large": (ok(HUGE), f"more than {MAX_ANSWER} bytes"),
    "an error": (ok(b'{"decision": "allow"}', status="500 Oh"), "It answered 500"),
    "not found": (ok(b'{"decision": "allow"}', status="404 No"), "It answered 404"),
    "a redirect": (moved("/other", 307), "It answered 307, a redirect"),
    "no HTTP": (last(b"hello\r\n\r\n"), "no HTTP"),
    "hung up": (last(b""), "answer"),
}


@pytest.mark.parametrize("kind", RUBBISH)
async def test_an_invalid_answer_counts_as_on_error_says(asker: WebhookAsker, site: Site, kind: str):
    """An invalid answer counts as `on_error` says; the error has the cause and not the secret."""
    site.answers["/hook"], message = RUBBISH[kind]
    opened, closed = await asker(on_error="allow"), await asker(on_error="deny")
    assert isinstance(opened, Allow)
    assert opened.reason is None
    assert isinstance(closed, Deny)
    assert closed.reason == UNASKED
    assert opened.error == closed.error
    assert message in str(opened.error)
    assert SECRET not in str(opened.error)
    assert len(str(opened.error)) < 400
    assert [request.path for request in site.requests] == ["/hook", "/hook"], "a redirect is not followed"


async def test_nothing_can_be_changed_at_the_start(asker: WebhookAsker, site: Site):
    """A run's start can be refused, not rewritten."""
    site.answers["/hook"] = says(decision="modify", text="other")
    ruling = await asker(at("OnRunStart", text="hi"), on_error="deny")
    assert ruling == Deny(UNASKED, "Its answer is `modify`, but nothing can be changed at `OnRunStart`.")


async def test_an_observer_of_ends_need_not_answer(asker: WebhookAsker, site: Site):
    """At the end of a run any 2xx will do; anything else is an error."""
    site.answers["/hook"] = ok(b"", status="204 Gone well")
    assert await asker(at("OnRunComplete", status="completed", text="Done.")) == Allow()
    site.answers["/hook"] = ok(b"", status="503 Later")
    assert (await asker(at("OnRunComplete", status="failed"))).error.startswith("It answered 503")


async def test_a_slow_answer(asker: WebhookAsker, site: Site):
    """A webhook that exceeds its timeout counts as failed; the default is five seconds."""
    received, never = asyncio.Event(), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set()
        await never.wait()

    site.answers["/hook"] = wait
    configs: tuple[dict[str, Any], ...] = ({}, {"timeout_s": 0.5})
    for config in configs:
        seconds = config.get("timeout_s", 5)
        asking = asyncio.create_task(asker(on_error="deny", **config))
        await received.wait()
        asker.clock.advance(seconds - 0.1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asking.done()
        asker.clock.advance(0.1)
        ruling = await asking
        assert (ruling.reason, f"within {seconds:g} s" in ruling.error) == (UNASKED, True)
        received.clear()
    never.set()


async def test_an_unreachable_webhook_failed(site: Site):
    """A webhook that cannot be reached counts as failed."""
    asker = WebhookAsker(site, allow=("127.0.0.1:9",))
    ruling = await asker(url="http://127.0.0.1:9/", on_error="deny")
    assert ruling.reason == UNASKED
    assert "cannot be reached" in ruling.error
    await asker.fetch.close()


async def test_an_inner_address_is_the_operators_to_allow(site: Site):
    """A webhook inside the network is not asked unless the operator lets it through; the error says how."""
    asker = WebhookAsker(site, allow=())
    ruling = await asker()
    assert isinstance(ruling, Allow)
    assert "PARLEY_FETCH_ALLOW" in str(ruling.error)
    assert site.requests == []
    await asker.fetch.close()


async def test_a_secret_of_another_key(site: Site):
    """A secret that cannot be opened is reported as such; nothing is sent without its signature."""
    asker = WebhookAsker(site, secrets=Secrets(b"another key"))
    ruling = await asker(on_error="deny")
    assert ruling.reason == UNASKED
    assert "Its secret cannot be opened" in ruling.error
    assert site.requests == []
    await asker.fetch.close()


async def test_a_core_that_cannot_ask():
    """A core without a fetch answers for its webhooks as their authors said."""
    (named,) = chain([Hook(event="PreToolUse", type="http", config={"url": "u", "secret": "s"})], "PreToolUse")
    assert await HookResolvers(FakeClock()).ask(named, PRE) == Allow(error=NOWHERE)


async def test_the_secret_is_nowhere(asker: WebhookAsker, site: Site, caplog: pytest.LogCaptureFixture):
    """Neither logs nor what is answered hold a webhook's secret, however it goes."""
    caplog.set_level(0)
    with capture_logs() as logs:
        for site.answers["/hook"] in (says(decision="deny"), ok(b"?"), last(b""), ok(b"", status="500 Oh")):
            assert SECRET not in repr(await asker())
    assert SECRET not in caplog.text + str(logs)


CHECKS: list[tuple[dict[str, Any], str]] = [
    ({"url": "rules.example/hook"}, "url"),
    ({"url": "ftp://rules.example/"}, "url"),
    ({"url": "https://user:pass@rules.example/"}, "url"),
    ({"url": "https://rules.example:99999/"}, "url"),
    ({"url": "https://rules..example/"}, "url"),
    ({"url": "https:///hook"}, "url"),
    ({"url": "https://rules.example/a b"}, "url"),
    ({"url": "http://2130706433/"}, "url"),
    ({"url": "https://rülès.example/"}, "xn--"),
    ({"url": "https://rules.example/" + "x" * 9000}, "url"),
    ({"secret": "short"}, "16 to 512 characters"),
    ({"secret": "${HOOK_SECRET_OF_MINE}"}, "only agents' files"),
    ({"timeout_s": 0.05}, "between 0.1 and 60"),
    ({"timeout_s": 61}, "between 0.1 and 60"),
    ({"timeout_s": float("nan")}, "between 0.1 and 60"),
]


@for_each("config, message", CHECKS)
def test_invalid_webhook_addresses_are_refused(config: dict[str, Any], message: str):
    """An invalid address is refused when the agent is written, without a lookup; no secret is shown."""
    with pytest.raises(InvalidInput) as caught:
        check_http("hooks[0].config", HttpConfig(**{"url": "https://rules.example/", "secret": SECRET, **config}))
    assert message in str(caught.value)
    assert str(caught.value).startswith("`hooks[0].config.")
    assert str(config.get("secret", SECRET)) not in str(caught.value)
    assert "pass@" not in str(caught.value)


@for_each("url", ["https://rules.example", "http://127.0.0.1:9000/x?y=1", "https://[::1]:8443/", "HTTPS://A.b/"])
def test_any_http_address_may_be_a_webhook(url: str):
    """Any http or https address may be named; what may be asked is decided when it is."""
    check_http("config", HttpConfig(url=url, secret=SECRET, timeout_s=0.1))
    check_http("config", HttpConfig(url=url, secret=SECRET, timeout_s=60))

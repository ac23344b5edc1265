"""Failures of official servers, by their own shapes: classified once, explained to the operator, without secrets."""

import pytest

from agent_core.messages import KINDS
from agent_core.providers.failing import RETRYABLE
from agent_core.testing import fail, say
from agent_core.testing.models import status
from tests.agent_core.providers.contract import written as w
from tests.agent_core.providers.contract.wires import KEY, MESSAGES, RESPONSES
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)

EVERYWHERE = [kind for kind in KINDS if kind != "stale_reasoning"]
ENDS = [kind for kind in EVERYWHERE if kind in RETRYABLE]
"""What an official server may still say when its answer has begun."""


@for_each("kind", EVERYWHERE)
async def test_a_refused_request_is_classified(kind, ask):
    """Each error that a vendor answers a request with is of the same kind on every wire."""
    received = await ask([fail(kind)])
    assert received.failure is not None
    assert received.failure.kind == kind, received.failure
    assert received.failure.retryable == (kind in RETRYABLE)
    assert received.failure.retry_after is None
    assert received.parts == ()


@pytest.mark.parametrize("wire", [MESSAGES, RESPONSES], ids=lambda wire: wire.name)
async def test_thinking_that_is_refused_is_classified(dial, wire):
    """Where a vendor checks earlier thinking, its refusal is distinguished from other bad requests."""
    received = await (await dial(wire, [[fail("stale_reasoning")]])).receive()
    assert received.end == "stale_reasoning", received.failure


@for_each("kind", ENDS)
async def test_an_error_after_the_answer_has_begun_is_classified(kind, ask):
    """An error in the stream, after a status of 200, is of the same kind as one that answers the request."""
    received = await ask([say("Half an ans"), fail(kind)])
    assert received.parts == (("text", "Half an ans"),)
    assert received.failure is not None
    assert received.failure.kind == kind, received.failure
    assert received.failure.retryable


@for_each("kind", ["rate_limited", "overloaded"])
async def test_retry_after_is_reported(kind, ask):
    """`retry-after` reaches the loop, long ones too: it decides, not the SDK."""
    received = await ask([fail(kind, retry_after=300)])
    assert received.failure is not None
    assert (received.failure.kind, received.failure.retry_after) == (kind, 300)


async def test_retry_after_in_milliseconds_is_reported(ask):
    """`retry-after-ms` goes before `retry-after`."""
    body = '{"error": {"type": "rate_limit_error", "message": "Slow."}}'
    headers = {"retry-after-ms": "1500", "retry-after": "2", "content-type": "application/json"}
    received = await ask([status(429, body, headers)])
    assert received.failure is not None
    assert (received.failure.kind, received.failure.retry_after) == ("rate_limited", 1.5)


async def test_an_error_is_asked_for_once(dial, wire):
    """The SDKs repeat nothing by themselves: every try is the loop's own and in the log."""
    line = await dial(wire, [[fail("overloaded")], [say("Never asked.")]])
    assert (await line.receive()).end == "overloaded"
    assert line.models.calls == 1


@for_each(
    "answer, kind",
    [
        (status(502, "<html><body>Bad Gateway</body></html>", {"content-type": "text/html"}), "error"),
        (status(503, "", {"content-type": "text/plain"}), "overloaded"),
        (status(529, "no JSON", {"content-type": "application/json"}), "overloaded"),
        (status(404, "404 page not found", {"content-type": "text/plain"}), "misconfigured"),
        (status(400, '"just a string"', {"content-type": "application/json"}), "invalid"),
        (status(400, "[]", {"content-type": "application/json"}), "invalid"),
        (status(418, '{"error": null}', {"content-type": "application/json"}), "invalid"),
        (status(500, '{"error": "out of memory"}', {"content-type": "application/json"}), "error"),
        (status(401, '{"detail": "Unauthorized"}', {"content-type": "application/json"}), "auth"),
        (status(413, '{"error": {"message": "too large"}}', {"content-type": "application/json"}), "context_overflow"),
    ],
)
async def test_errors_in_no_vendors_shape_are_classified_by_their_status(answer, kind, ask):
    """Proxies and small servers answer in HTML, with plain text or with nothing; their status still tells."""
    received = await ask([answer])
    assert received.end == kind, received.failure


GARBAGE = {
    "bytes that are no text": b"data: \xff\xfe\x00\x80\n\n",
    "JSON that is cut": b'data: {"type": "message_start", "mess\n\n',
    "JSON of another kind": b"data: [1, 2, 3]\n\n",
    "a number for a text": b'event: ping\ndata: {"type": 7, "choices": 7}\n\n',
}


@for_each("case", GARBAGE)
async def test_garbage_is_a_failure_that_is_tried_again(case, ask):
    """What cannot be read fails the call as the provider's fault; it raises nothing."""
    received = await ask([w.stream(GARBAGE[case])])
    assert received.end in ("error", "network"), received.failure
    assert received.failure is not None
    assert received.failure.retryable


async def test_a_page_in_the_place_of_an_answer_is_a_failure(ask):
    """A login page with status 200 is no answer."""
    received = await ask([w.stream(b"<!doctype html><title>Sign in</title>", content_type="text/html")])
    assert received.end == "misconfigured", received.failure


async def test_an_event_without_end_is_given_up(dial, wire, monkeypatch):
    """A server that never ends an event does not fill the memory."""
    monkeypatch.setattr("agent_core.net.sse.MAX_EVENT", 100_000)
    received = await (await dial(wire, [[w.stream(b"data: " + b"x" * 300_000)]])).receive()
    assert received.end == "error", received.failure


@for_each("kind", EVERYWHERE)
async def test_a_failure_names_the_remedy_and_no_secret(kind, ask):
    """What the operator reads names the provider and a remedy, and never the key."""
    received = await ask([fail(kind)])
    assert received.failure is not None
    assert len(received.failure.message) > 40
    assert KEY not in received.failure.message


async def test_an_echoed_key_is_redacted(dial, wire):
    """A server that repeats the key in its error does not bring it into the log."""
    body = f'{{"error": {{"type": "authentication_error", "message": "Incorrect API key provided: {KEY}."}}}}'
    line = await dial(wire, [[status(401, body, {"content-type": "application/json"})]])
    failure = (await line.receive()).failure
    assert failure is not None
    assert failure.kind == "auth"
    assert KEY not in failure.message


async def test_a_wrong_key_is_reported_as_such(dial, wire):
    """The server's own check of the key is classified as authentication."""
    line = await dial(wire, [[say("Never.")]], key="bad-key")
    failure = (await line.receive()).failure
    assert failure is not None
    assert failure.kind == "auth"
    assert "key" in failure.message.lower()

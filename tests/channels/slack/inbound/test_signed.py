"""Slack's edge: what is odd is refused in one form, and what people do in Slack counts once."""

import json
import time
from typing import Any, cast
from urllib.parse import urlencode

from hypothesis import example, given
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier
from starlette.requests import Request
from structlog.testing import capture_logs

from channels.slack.api import Identity
from channels.slack.pace import Installation, Workspaces
from channels.slack.receive import Receiver
from channels.slack.serving import PATHS, Listener
from tests.cases import for_each

SECRET = "stand-in-signing-secret"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
HEADER = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=80)
STAMPS = st.sampled_from(["", "-1", "1e9", "9" * 400, "9" * 11, "²", "nan", " 1", "0x1", "1.5"]) | HEADER
SIGNATURES = st.sampled_from(["", "v0=", "v0=" + "0" * 64, "v0=" + "é" * 64, "v1=" + "0" * 64]) | HEADER
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda v: st.lists(v, max_size=2), max_leaves=4
)
NAMES = ("type", "event", "team_id", "authorizations", "command", "message", "view", "actions", "user", "channel")
KINDS = ("event_callback", "block_actions", "view_submission", "message_action", "message", "app_mention")
INNER = st.dictionaries(st.sampled_from((*NAMES, "ts", "text", "id")), st.sampled_from(KINDS) | VALUES, max_size=4)
PAYLOADS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS) | VALUES | INNER, max_size=6)


class Takes:
    """A receiver that takes everything and does nothing."""

    def note(self, event: str, **more: str) -> None:
        """Log nothing."""

    async def is_new(self, payload: dict[str, Any]) -> bool:
        return bool(payload)

    async def take(self, home: Installation, asked: object) -> None:
        """Do nothing with what was read."""


class Known:
    """Workspaces that are all ours."""

    async def find(self, team: str) -> Installation:
        return Installation(me=Identity(team="T1", user="UBOT", bot="B1", enterprise=None), space=cast("Any", None))


def listener() -> Listener:
    return Listener(cast("Receiver", Takes()), cast("Workspaces", Known()), signing_secret=SECRET)


async def answer(body: bytes, kind: str, headers: dict[str, str]) -> tuple[int, dict[str, Any] | None]:
    """Hand a request to a listener as its server would; return the status, and the problem if it is one."""
    given = [
        (name.lower().encode(), value.encode("latin-1")) for name, value in {**headers, "content-type": kind}.items()
    ]
    scope = {"type": "http", "method": "POST", "path": PATHS[0], "query_string": b"", "headers": given}

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    found = await listener().http(Request(scope, receive))
    is_problem = found.headers.get("content-type") == "application/problem+json"
    return found.status_code, json.loads(bytes(found.body)) if is_problem else None


def signed(body: bytes) -> dict[str, str]:
    stamp = str(int(time.time()))
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=stamp, body=body.decode())
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": str(signature)}


@given(STAMPS, SIGNATURES, st.binary(max_size=40), st.sampled_from([JSON, FORM, "", "text/plain"]))
@example("9" * 400, "v0=" + "0" * 64, b"{}", JSON)
@example("99999999999", "v0=" + "0" * 64, b"\xff", FORM)
async def test_odd_headers_are_no_signature(stamp: str, signature: str, body: bytes, kind: str):
    """Whatever stands in the headers of an unsigned request, it is answered 401 as a problem, and nothing is logged."""
    with capture_logs() as logs:
        status, problem = await answer(body, kind, {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature})
    assert (status, problem and problem["code"]) == (401, "unauthorized")
    assert logs == []


@given(PAYLOADS)
async def test_odd_payloads_are_no_errors_of_ours(payload: dict[str, Any]):
    """A signed payload of any form is taken or answered 400 as a problem, never with a traceback."""
    with capture_logs() as logs:
        for body, kind in (
            (json.dumps(payload).encode(), JSON),
            (urlencode({"payload": json.dumps(payload)}).encode(), FORM),
            (urlencode({name: str(value) for name, value in payload.items()}).encode(), FORM),
        ):
            status, problem = await answer(body, kind, signed(body))
            assert status == 200 or (status == 400 and problem is not None and problem["status"] == 400), body
    assert "slack.failed" not in [each["event"] for each in logs]


@for_each(
    "body, kind",
    [
        (b"[" * 100_000, JSON),
        (b'{"a":' * 100_000, JSON),
        (b"[1]", JSON),
        (b"", JSON),
        (b"payload=" + b"%5B" * 50_000, FORM),
        (b"payload=1", FORM),
        (b"a=1&" * 1_000, FORM),
        (b'{"type":"event_callback","event":"x"}', JSON),
        (b'{"type":"event_callback","team_id":"T1","event":[1]}', JSON),
        (b'{"type":"event_callback","event":null}', JSON),
        (b'{"type":"event_callback"}', JSON),
        (
            urlencode({"payload": '{"type":"block_actions","team":{"id":"T"},"user":{"id":5},"actions":[]}'}).encode(),
            FORM,
        ),
        (
            urlencode(
                {"payload": '{"type":"block_actions","team":{"id":"T"},"user":{"id":5},"actions":[{}]}'}
            ).encode(),
            FORM,
        ),
        (urlencode({"payload": '{"type":"block_actions","team":null,"user":null,"actions":null}'}).encode(), FORM),
        (urlencode({"payload": '{"type":"view_submission","view":7}'}).encode(), FORM),
        (urlencode({"payload": '{"type":"view_submission","view":7,"team":null}'}).encode(), FORM),
        (
            urlencode({"payload": '{"type":"block_actions","team":{"id":5},"user":{"id":"U"},"actions":[]}'}).encode(),
            FORM,
        ),
    ],
)
async def test_a_signed_body_that_is_no_payload_is_a_bad_request(body: bytes, kind: str):
    """Nested, cut or empty bodies are answered 400 as a problem, also with Slack's signature."""
    status, problem = await answer(body, kind, signed(body))
    assert (status, problem and problem["code"]) == (400, "invalid_request")


async def test_a_look_at_our_certificate_needs_no_signature():
    """Slack's `ssl_check` is answered 200, and only by itself."""
    assert (await answer(b"ssl_check=1&token=x", FORM, {}))[0] == 200
    assert (await answer(b"ssl_check=2", FORM, {}))[0] == 401

"""Whether a request is of Slack's, and can be read; pure but for the clock of the signature's age."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs

from slack_sdk.signature import SignatureVerifier
from starlette.responses import Response

from channels.slack.inbound.headers import FORM, SHORT, signature
from channels.slack.web_api.client import Json

_CODES = {400: "invalid_request", 401: "unauthorized", 500: "internal_error", 503: "unavailable"}
UNREADABLE = "The body is no payload of Slack's."
_KINDS = {"event": dict, "view": dict, "team": dict, "user": dict, "actions": list}
"""What Bolt and our own handlers take these fields to be; slash commands, whose fields differ, come as plain forms."""
_NEEDED = {"event_callback": "event", "block_actions": "actions"}
"""The field, by type of payload, without which Bolt cannot say what happened."""
_LATER = "That cannot be taken in just now; send the same again."


class Malformed(Exception):
    """A payload is not of Slack's form."""


def is_signed(verifier: SignatureVerifier, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether *body* is signed by Slack, not long ago; an odd header is no signature."""
    values = signature(headers)
    if values is None:
        return False
    try:
        return verifier.is_valid(body, *values)
    except UnicodeDecodeError:  # Slack signs text
        return False


def is_ssl_check(content_type: str, body: bytes) -> bool:
    """Return whether *body* is Slack's look at our certificate, which asks for nothing and is not signed."""
    if not content_type.startswith(FORM) or len(body) > SHORT:
        return False
    return parse_qs(body.decode(errors="replace"), max_num_fields=20).get("ssl_check") == ["1"]


def check_body(content_type: str, body: bytes) -> None:
    """Raise `Malformed` unless Bolt can read *body*: one object of JSON, or a form, whose payload is one."""
    try:
        text = body.decode()
        if content_type.startswith(FORM):
            form = parse_qs(text, keep_blank_values=True, max_num_fields=200)
            text = form["payload"][0] if "payload" in form else "{}"
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(UNREADABLE) from None
    if not isinstance(value, dict) or not _is_payload(cast("Json", value)):
        raise Malformed(UNREADABLE)


def _is_payload(value: Json) -> bool:
    """Return whether the fields of *value* that Bolt looks into are of the types that it takes them to be."""
    if any(value.get(name) is not None and not isinstance(value[name], kind) for name, kind in _KINDS.items()):
        return False
    needed = _NEEDED.get(str(value.get("type")))
    if needed is not None and not value.get(needed):
        return False
    owners = (cast("Json", value.get(each) or {}) for each in ("team", "user"))
    return all(isinstance(each.get("id"), str | None) for each in owners)


def problem(status: int, detail: str = "") -> Response:
    """Return an error as every other surface of Parley does."""
    code, title = _CODES.get(status, "error"), HTTPStatus(status).phrase
    posted = detail or (_LATER if status == HTTPStatus.SERVICE_UNAVAILABLE else f"{title}; the log says more.")
    body: Json = {"type": "about:blank", "title": title, "status": status, "code": code, "detail": posted, "errors": []}
    return Response(json.dumps(body), status, media_type="application/problem+json")

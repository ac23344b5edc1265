"""One request to an OAuth 2 token endpoint (RFC 6749, 5): who asks, for what, and the token that comes of it."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from agent_core.errors import ParleyError
from agent_core.net.bounds import Bounds, Fetched, FetchPort
from agent_core.net.errors import FetchFailed
from agent_core.secrets import scrubbed

BOUNDS = Bounds(seconds=15.0, first_byte=15.0, size=100_000)
_MAX_LIFE = 30 * 86_400.0
_MAX_REASON = 200
_REFUSALS = (400, 401)
ClientNaming = Literal["basic", "post", "none"]
"""How the client names itself: in the `Authorization` header, as fields of the form, or by its id alone."""


class TokenFailed(ParleyError):
    """A token endpoint gave no token; the message names the endpoint and what it said, and holds no secret.

    *refused* is the `error` of an answer with status 400 or 401 (RFC 6749, 5.2).
    """

    code = "token_failed"

    def __init__(self, message: str, refused: str | None = None) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who asks; *secret* is the secret itself, empty where *auth* is `none`."""

    id: str
    secret: str = field(default="", repr=False)
    auth: ClientNaming = "none"

    @property
    def basic(self) -> str:
        """Return the value of the `Authorization` header after `Basic`."""
        return b64encode(f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Granted:
    """A token that can be sent; *seconds* is its life, None where the endpoint does not say, *refresh* renews it."""

    token: str = field(repr=False)
    seconds: float | None
    refresh: str | None = field(default=None, repr=False)
    scope: str | None = None


async def granted(fetch: FetchPort, url: str, client: OAuthClient, form: Mapping[str, str | None]) -> Granted:
    """Return the token that the endpoint *url* gives *client* for *form*; raises `TokenFailed`."""
    where = f"The token endpoint `{urlsplit(url).netloc}`"
    headers, body = form_request(client, form)
    try:
        fetched = await fetch(url, method="POST", headers=headers, body=body, redirects=0, bounds=BOUNDS)
    except FetchFailed as error:
        raise TokenFailed(f"{where} gave no token: {error}") from None
    return _read(where, fetched, client, form)


def form_request(client: OAuthClient, form: Mapping[str, str | None]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body in which *client* sends *form*, without what is empty in it."""
    fields = dict(form)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    match client.auth:
        case "basic":
            headers["Authorization"] = f"Basic {client.basic}"
        case "post":
            fields |= {"client_id": client.id, "client_secret": client.secret}
        case "none":
            fields |= {"client_id": client.id}
    return headers, urlencode({name: value for name, value in fields.items() if value}).encode()


def _read(where: str, fetched: Fetched, client: OAuthClient, form: Mapping[str, str | None]) -> Granted:
    """Return the token in an answer; raise `TokenFailed`."""
    try:
        answer = msgspec.json.decode(fetched.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        answer = {}
    if fetched.status != 200:  # noqa: PLR2004 - what RFC 6749 asks for
        reason = ": ".join(str(answer[name]) for name in ("error", "error_description") if answer.get(name))
        hidden = _without(reason, client, form)[:_MAX_REASON]
        refused = str(answer.get("error")) if fetched.status in _REFUSALS else None
        raise TokenFailed(f"{where} answered {fetched.status}{f' ({hidden})' if hidden else ''}.", refused)
    token, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(token, str) or not _can_be_sent(token):
        raise TokenFailed(f"{where} answered without an `access_token` that can be sent.")
    if str(kind).lower() != "bearer":
        raise TokenFailed(f"{where} gives tokens of another type than `Bearer`, which is the only one that is sent.")
    refresh, scope = answer.get("refresh_token"), answer.get("scope")
    return Granted(
        token,
        _seconds(answer.get("expires_in")),
        refresh if isinstance(refresh, str) and refresh else None,
        scope if isinstance(scope, str) and scope else None,
    )


def _can_be_sent(token: str) -> bool:
    return token.isascii() and token.isprintable() and bool(token.strip()) and " " not in token


def _seconds(value: Any) -> float | None:
    """Return the life of a token; some endpoints write the number as text."""
    try:
        return min(max(0.0, float(value)), _MAX_LIFE)
    except (TypeError, ValueError):
        return None


_SECRETS = ("code", "code_verifier", "refresh_token")
"""Fields of a form that are secrets of a login."""


def _without(text: str, client: OAuthClient, form: Mapping[str, str | None]) -> str:
    """Return *text* without what was sent, however the endpoint spells it."""
    sent = {name.replace("_", " "): form.get(name) or "" for name in _SECRETS}
    return scrubbed(text, {**sent, "client secret": client.secret, "credentials": client.basic})

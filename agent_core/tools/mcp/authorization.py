"""A login at an MCP server: authorization code with PKCE, from the page that an operator opens to tokens, and renewed.

It waits for no one: what is between its two halves is a value, `PendingLogin`. The SDK's own provider waits for people
inside a request, and runs all calls of a server one after another.
"""

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.messages import visible
from agent_core.net.fetch import Bounds, Fetch
from agent_core.net.targets import FetchFailed
from agent_core.net.tokens import Granted, OAuthClient, TokenFailed, form_request, granted
from agent_core.servers import LoginClient, LoginFailed, McpLogin, McpOAuth, McpServer, PendingLogin
from agent_core.tools.mcp.metadata import (
    SHOWN,
    MetadataRefused,
    Protected,
    is_issuer,
    may_carry,
    protection_of,
    resource_of,
)
from agent_core.tools.mcp.token_place import TokenPlace, token_place

MINUTES = 10
"""For how long a page may stay open before its login is begun again."""
_CREATED = (200, 201)
_BOUNDS = Bounds(seconds=15.0, first_byte=15.0, size=100_000)
_OFFLINE = "offline_access"
_SHARED = ("url", "issuer", "token_endpoint", "revocation_endpoint", "client", "resource", "scope")
"""Fields of a login that has begun which the one that it ends in keeps."""
_NO_OAUTH = McpOAuth(grant="authorization_code")


@dataclass(frozen=True, slots=True)
class Begun:
    """A login that has begun: the *page* that an operator opens, and what ends it."""

    page: str
    pending: PendingLogin


class Authorization:
    """Logs in at servers, by requests through the guard of *fetch*.

    *document* is the address at which this deployment describes itself as a client, None where it does not.
    """

    def __init__(self, fetch: Fetch, clock: Clock, document: str | None = None) -> None:
        self._fetch, self._clock, self._document = fetch, clock, document

    async def begin(self, server: McpServer, redirect_uri: str, scope: str | None = None) -> Begun:
        """Return the page at which *server* is logged in to for *scope*, which comes back to *redirect_uri*.

        *server* has its secrets filled in. Raises `LoginFailed`, with the remedy.
        """
        oauth = server.oauth or _NO_OAUTH
        protected, place, page = await self._found(server, oauth)
        scope = scope or _scope(oauth, protected, place.said)
        client = await self._client(server, oauth, place, redirect_uri, scope)
        verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(32)
        pending = PendingLogin(
            url=resource_of(server.url or ""),
            issuer=place.issuer,
            token_endpoint=place.endpoint,
            revocation_endpoint=place.other("revocation", self._fetch),
            client=client,
            resource=_resource(oauth, protected, server.url or ""),
            scope=scope,
            redirect_uri=redirect_uri,
            state=state,
            verifier=verifier,
            names_issuer=place.said.get("authorization_response_iss_parameter_supported") is True,
            until=self._clock.now() + MINUTES * 60_000,
        )
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": pending.resource,
            "scope": scope,
            "prompt": "consent" if _OFFLINE in (scope or "").split() else None,
        }
        query = urlencode({name: value for name, value in asked.items() if value})
        return Begun(f"{page}{'&' if '?' in page else '?'}{query}", pending)

    async def complete(self, server: McpServer, pending: PendingLogin, redirected: str) -> McpLogin:
        """Return the login that the address *redirected*, to which the page led, ends; raises `LoginFailed`."""
        if self._clock.now() >= pending.until:
            raise LoginFailed(f"The login was begun more than {MINUTES} minutes ago; begin it again.")
        if pending.url != resource_of(server.url or ""):
            raise LoginFailed(f"The MCP server `{server.name}` has another `url` by now; log in again.")
        form = {
            "grant_type": "authorization_code",
            "code": _code(pending, redirected),
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
            "resource": pending.resource,
        }
        try:
            found = await granted(self._fetch, pending.token_endpoint, _asking(server, pending.client), form)
        except TokenFailed as error:
            raise LoginFailed(f"The login at `{visible(pending.issuer)[:SHOWN]}` gave no token: {error}") from None
        shared = {name: getattr(pending, name) for name in _SHARED}
        return self._login({**shared, "refresh_token": None}, found)

    async def renewed(self, server: McpServer, login: McpLogin) -> McpLogin:
        """Return what follows *login*, by its refresh token; raises `TokenFailed`."""
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
        found = await granted(self._fetch, login.token_endpoint, _asking(server, login.client), form)
        return self._login(msgspec.structs.asdict(login), found)

    async def revoke(self, server: McpServer, login: McpLogin) -> bool:
        """Have the authorization server forget *login* (RFC 7009); return whether it said that it did."""
        if login.revocation_endpoint is None:
            return False
        token = login.refresh_token or login.access_token
        kind = "refresh_token" if login.refresh_token else "access_token"
        headers, body = form_request(_asking(server, login.client), {"token": token, "token_type_hint": kind})
        try:
            answer = await self._fetch(
                login.revocation_endpoint, method="POST", headers=headers, body=body, redirects=0, bounds=_BOUNDS
            )
        except FetchFailed:
            return False
        return answer.status in _CREATED

    def _login(self, before: dict[str, Any], found: Granted) -> McpLogin:
        """Return the login of *found*; what the endpoint does not repeat stays as it was *before* (RFC 6749, 6)."""
        now = self._clock.now()
        new: dict[str, Any] = {
            "access_token": found.token,
            "refresh_token": found.refresh or before["refresh_token"],
            "scope": found.scope or before["scope"],
            "given_at": now,
            "until": None if found.seconds is None else now + round(found.seconds * 1000),
        }
        return McpLogin(**{**before, **new})

    async def _found(self, server: McpServer, oauth: McpOAuth) -> tuple[Protected, TokenPlace, str]:
        """Return how *server* is protected, who gives its tokens, and the page to log in at; raises `LoginFailed`."""
        try:
            protected = await protection_of(server, self._fetch)
            place = await token_place(server, oauth, protected.issuers, self._fetch)
        except MetadataRefused as error:
            raise LoginFailed(str(error)) from None
        where = f"The MCP server `{server.name}` has its logins at `{visible(place.issuer)[:SHOWN]}`, which"
        page, methods = place.said.get("authorization_endpoint"), place.said.get("code_challenge_methods_supported")
        if not isinstance(page, str):
            raise LoginFailed(f"{where} has no page for them; use client credentials or `headers`.")
        if "S256" not in methods if isinstance(methods, list) else oauth.issuer is None:
            raise LoginFailed(f"{where} does not say that it takes PKCE (S256); set `oauth.issuer` if you trust it.")
        if not may_carry(page, self._fetch):
            named = f"`{visible(page)[:SHOWN]}` (`authorization_endpoint`)"
            raise LoginFailed(f"{where} names {named}, which is not HTTPS: nothing is sent there.")
        return protected, place, page

    async def _client(
        self, server: McpServer, oauth: McpOAuth, place: TokenPlace, redirect_uri: str, scope: str | None
    ) -> LoginClient:
        """Return who asks: the configured client, this deployment's own document, or a client that is registered."""
        if oauth.client_id:
            return LoginClient(
                id=oauth.client_id, auth=oauth.auth if oauth.client_secret else "none", is_configured=True
            )
        if self._document is not None and place.said.get("client_id_metadata_document_supported") is True:
            return LoginClient(id=self._document, auth="none")
        if (registration := place.other("registration", self._fetch)) is None:
            raise LoginFailed(
                f"`{visible(place.issuer)[:SHOWN]}`, where the MCP server `{server.name}` has its logins, "
                f"registers no clients by itself: register one there with the redirect address {redirect_uri}, and set "
                "`oauth: {grant: authorization_code, client_id: …}`."
            )
        return await self._registered(registration, redirect_uri, scope)

    async def _registered(self, place: str, redirect_uri: str, scope: str | None) -> LoginClient:
        """Register a client (RFC 7591); raises `LoginFailed`."""
        wanted = {
            "client_name": "Parley",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            **({"scope": scope} if scope else {}),
        }
        headers, body = {"Content-Type": "application/json", "Accept": "application/json"}, msgspec.json.encode(wanted)
        where = f"The registration of a client at `{urlsplit(place).netloc}`"
        try:
            answer = await self._fetch(place, method="POST", headers=headers, body=body, redirects=0, bounds=_BOUNDS)
            said = msgspec.json.decode(answer.body, type=dict[str, Any])
        except (FetchFailed, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LoginFailed(f"{where} failed: {visible(str(error))[:SHOWN]}; set `oauth.client_id`.") from None
        id, secret = said.get("client_id"), said.get("client_secret")
        if answer.status not in _CREATED or not isinstance(id, str) or not _can_be_sent(id):
            why = visible(" ".join(str(said.get(each, "")) for each in ("error", "error_description"))).strip()[:SHOWN]
            raise LoginFailed(f"{where} was refused ({answer.status} {why}); set `oauth.client_id`.")
        method = said.get("token_endpoint_auth_method")
        if not isinstance(secret, str) or not _can_be_sent(secret) or method == "none":
            return LoginClient(id=id, auth="none")
        return LoginClient(id=id, auth="post" if method == "client_secret_post" else "basic", secret=secret)


def _can_be_sent(text: str) -> bool:
    """Return whether *text* may be a client's id or secret (RFC 6749, A.1, A.2)."""
    return bool(text) and text.isascii() and text.isprintable()


def _asking(server: McpServer, client: LoginClient) -> OAuthClient:
    """Return *client* with its secret; a configured one's is what its server has now. Raises `LoginFailed`."""
    oauth = server.oauth
    if not client.is_configured:
        return OAuthClient(client.id, client.secret or "", client.auth)
    if oauth is None or oauth.client_id != client.id:
        raise LoginFailed(f"The MCP server `{server.name}` has another `oauth.client_id` by now; log in again.")
    return OAuthClient(client.id, oauth.client_secret or "", oauth.auth if oauth.client_secret else "none")


def _resource(oauth: McpOAuth, protected: Protected, url: str) -> str | None:
    match oauth.resource:
        case str(written):
            return written
        case True:
            return protected.resource or resource_of(url)
        case _:
            return None


def _scope(oauth: McpOAuth, protected: Protected, said: Mapping[str, Any]) -> str | None:
    """Return the scope that is asked for: as it is written, else what the server names, and what keeps the login."""
    if oauth.scope is not None or protected.scope is None:
        return oauth.scope
    known, scopes = said.get("scopes_supported"), protected.scope.split()
    offline = isinstance(known, list) and _OFFLINE in known and _OFFLINE not in scopes
    return " ".join([*scopes, _OFFLINE] if offline else scopes)


def _code(pending: PendingLogin, redirected: str) -> str:
    """Return the code in the address *redirected*, after its state and its issuer were checked."""
    try:
        given = {name: values[-1] for name, values in parse_qs(urlsplit(redirected.strip()).query).items()}
    except ValueError:
        raise LoginFailed("What the page led to (`redirected`) is no address: paste its last address, whole.") from None
    if not secrets.compare_digest(given.get("state", "").encode(), pending.state.encode()):
        raise LoginFailed("The address is not that of this login (`state`): log in again, and use the newest page.")
    issuer = given.get("iss")
    if (issuer is None and pending.names_issuer) or (issuer is not None and not is_issuer(issuer, pending.issuer)):
        said = f"`{visible(issuer)[:SHOWN]}`" if issuer else "nothing"
        raise LoginFailed(
            f"The page came from {said} and not from `{visible(pending.issuer)[:SHOWN]}` (`iss`): the login was ended, "
            "since another server may be playing that one."
        )
    if "code" not in given:
        words = visible(": ".join(filter(None, (given.get("error"), given.get("error_description")))))[:SHOWN]
        raise LoginFailed(f"The login was refused: {words or 'the address has no `code`'}.")
    return given["code"]

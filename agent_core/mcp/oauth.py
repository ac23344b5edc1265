"""What an MCP server and its authorization server publish of access: requests for it, and a reading that trusts none.

The server names its authorization server (RFC 9728), and that its endpoints (RFC 8414, OpenID Connect Discovery).
"""

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from agent_core.clock import Clock
from agent_core.errors import ParleyError
from agent_core.messages import visible
from agent_core.net.fetch import BOUNDS, Bounds, Fetch
from agent_core.net.targets import PORTS, FetchFailed, check_text
from agent_core.net.tokens import Granted, OAuthClient, TokenFailed, form_request, granted
from agent_core.servers import LoginClient, LoginFailed, McpLogin, McpOAuth, McpServer, PendingLogin

FOUND = 200
_UNAUTHORIZED = 401
SHOWN = 200
"""Characters that are shown of a URL that a server names."""
_RESOURCE, _SERVER, _OPENID = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_BOUNDS = Bounds(seconds=10.0, first_byte=10.0, size=100_000)
_SCOPE = re.compile(r"[!#-\[\]-_a-~]+")
"""A scope as it can be sent (RFC 6749, 3.3), without a backquote, which would end the command that it is shown in."""
_FIELD = r'\b{}\s*=\s*(?:"([^"]*)"|([^\s,"]+))'


class MetadataRefused(ParleyError):
    """What a server publishes of access cannot be used; the message names the server, the field and the remedy."""

    code = "metadata_refused"


class Protected(msgspec.Struct, frozen=True):
    """What a server says of its protection: its name as a *resource*, the *issuers* of its tokens, and their scope."""

    resource: str | None
    issuers: tuple[str, ...]
    scope: str | None


async def protection_of(server: McpServer, fetch: Fetch) -> Protected:
    """Return how *server* is protected, by its refusal of a request and by its metadata; nothing where it is silent.

    Raises `MetadataRefused` for metadata that are of another resource, or that name what is no address.
    """
    url = server.url or ""
    challenge = await _challenge(server, fetch)
    place = _field(challenge, "resource_metadata")
    about = await metadata(fetch, (*((place,) if place else ()), *_places(url, _RESOURCE)))
    resource = about.get("resource")
    if isinstance(resource, str) and not is_address(resource):
        raise _no_address(server.name, "resource", resource)
    if isinstance(resource, str) and not _covers(resource, url):
        raise MetadataRefused(
            f"The MCP server `{server.name}` says that it is `{visible(resource)[:SHOWN]}`, which its `url` is not: a "
            "token for that would not be for this one. Correct its `url`."
        )
    return Protected(
        resource if isinstance(resource, str) else None,
        _issuers(server.name, about),
        scope_in(challenge) or readable_scope(" ".join(_texts(about.get("scopes_supported")))),
    )


async def issuers_of(server: McpServer, fetch: Fetch) -> tuple[str, ...]:
    """Return the authorization servers that *server* names; raises `MetadataRefused` for one that is no address."""
    return _issuers(server.name, await metadata(fetch, _places(server.url or "", _RESOURCE)))


def scope_in(challenge: str) -> str | None:
    """Return the scope that a `WWW-Authenticate` header names, None without one."""
    return readable_scope(_field(challenge, "scope"))


def error_in(challenge: str) -> str | None:
    """Return the error that a `WWW-Authenticate` header names (RFC 6750, 3.1), None without one."""
    return _field(challenge, "error")


def readable_scope(said: object) -> str | None:
    """Return the scopes of *said* that can be sent (RFC 6749, 3.3), None where there are none."""
    scopes = said.split() if isinstance(said, str) else []
    return " ".join(filter(_SCOPE.fullmatch, scopes)) or None


async def issuer_metadata(issuer: str, fetch: Fetch) -> Mapping[str, Any]:
    """Return the metadata of *issuer*, empty when there are none; the caller compares the `issuer` in them."""
    after = f"{issuer.rstrip('/')}{_OPENID}"
    return await metadata(fetch, dict.fromkeys((*_places(issuer, _SERVER), *_places(issuer, _OPENID), after)))


def is_issuer(said: object, issuer: str) -> bool:
    """Return whether metadata that say *said* are those of *issuer* (RFC 8414, 3.3): as text, but for a last `/`."""
    return isinstance(said, str) and (said == issuer or (said.rstrip("/") == issuer.rstrip("/")))


async def metadata(fetch: Fetch, places: Mapping[str, Any] | tuple[str, ...]) -> dict[str, Any]:
    """Return the first JSON object that one of *places* gives, else an empty one."""
    for place in places:
        try:
            answer = await fetch(place, headers={"Accept": "application/json"}, redirects=0, bounds=BOUNDS)
            if answer.status == FOUND:
                return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (FetchFailed, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return {}


def may_carry(url: str, fetch: Fetch) -> bool:
    """Return whether tokens may travel to *url*: over HTTPS, or to what the operator allows themselves."""
    try:
        place = origin(url)
        return place[0] == "https" or fetch.guard.target(*place) in fetch.guard.allow
    except (ValueError, FetchFailed):
        return False


def is_address(url: str) -> bool:
    """Return whether *url* can be read as an address over HTTP: what a server names may be any text."""
    try:
        origin(url)
    except (ValueError, FetchFailed):
        return False
    return True


def origin(url: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of *url*; raises ValueError."""
    check_text(url)
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS.get(parts.scheme)


def is_same_origin(url: str, other: str) -> bool:
    """Return whether both are of one origin."""
    try:
        return origin(url) == origin(other)
    except (ValueError, FetchFailed):
        return False


def resource_of(url: str) -> str:
    """Return *url* as the name of what a token is for: without what may be secret in it, and without a fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def written_origin(url: str) -> str:
    """Return the origin of *url* as it is written."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


async def _challenge(server: McpServer, fetch: Fetch) -> str:
    """Return the `WWW-Authenticate` with which *server* refuses a request without a token, else an empty text."""
    headers = {**server.headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        answer = await fetch(server.url or "", method="POST", headers=headers, body=_PING, redirects=0, bounds=_BOUNDS)
    except FetchFailed:  # its metadata may be there; if not, that is what is said
        return ""
    return answer.headers.get("www-authenticate", "") if answer.status == _UNAUTHORIZED else ""


def _field(challenge: str, name: str) -> str | None:
    found = re.search(_FIELD.format(name), challenge, re.IGNORECASE)
    return None if found is None else (found[1] or found[2] or None)


def _covers(resource: str, url: str) -> bool:
    """Return whether *resource* is *url*, or a part of its server that *url* lies in."""
    path, wanted = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
    return is_same_origin(resource, url) and (wanted == path or wanted.startswith(f"{path}/"))


def _places(url: str, known: str) -> tuple[str, ...]:
    """Return where the metadata *known* of *url* may be: with its path after it, then without."""
    place, path = f"{written_origin(url)}{known}", urlsplit(url).path.rstrip("/")
    return (f"{place}{path}", place) if path else (place,)


def _issuers(server: str, about: Mapping[str, Any]) -> tuple[str, ...]:
    issuers = _texts(about.get("authorization_servers"))
    if (wrong := next((each for each in issuers if not is_address(each)), None)) is not None:
        raise _no_address(server, "authorization_servers", wrong)
    return issuers


def _no_address(server: str, field: str, said: str) -> MetadataRefused:
    return MetadataRefused(
        f"The MCP server `{server}` publishes metadata whose `{field}` has `{visible(said)[:SHOWN]}`, which is no "
        "address: it has to be corrected there; with `oauth.issuer`, or by `headers`, you need not wait for that."
    )


def _texts(said: object) -> tuple[str, ...]:
    return tuple(each for each in cast("list[object]", said) if isinstance(each, str)) if isinstance(said, list) else ()


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """The authorization server *issuer* of an MCP server, its token *endpoint*, and all that it *said*, unchecked."""

    issuer: str
    endpoint: str
    said: Mapping[str, Any]

    def other(self, kind: str, fetch: Fetch) -> str | None:
        """Return its `{kind}_endpoint`, None where it has none to which tokens may travel."""
        place = self.said.get(f"{kind}_endpoint")
        return place if isinstance(place, str) and may_carry(place, fetch) else None


async def token_place(server: McpServer, oauth: McpOAuth, issuers: tuple[str, ...], fetch: Fetch) -> TokenPlace:
    """Return where tokens for *server* come from: the written issuer, else the first of *issuers*, else itself.

    Raises `MetadataRefused`, also where the client's secret would go to what the operator did not write and the
    server's own origin is not: else a server could send it to anyone.
    """
    issuer = oauth.issuer or next(iter(issuers), written_origin(server.url or ""))
    named = visible(issuer)[:SHOWN]
    where = f"The MCP server `{server.name}` has its access tokens from `{named}`, which"
    if not may_carry(issuer, fetch):
        raise MetadataRefused(f"{where} is not HTTPS: nothing is sent there.")
    said = await issuer_metadata(issuer, fetch)
    if not said:
        raise MetadataRefused(f"{where} publishes nothing about them; set `oauth.issuer`, or use `headers`.")
    if not is_issuer(said.get("issuer"), issuer):
        raise MetadataRefused(
            f"{where} publishes metadata of another issuer (`issuer`); send nothing there before that is explained."
        )
    endpoint = oauth.token_url or said.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise MetadataRefused(f"{where} does not say where they are given (`token_endpoint`); use `headers`.")
    shown = f"`{visible(endpoint)[:SHOWN]}` (`token_endpoint`)"
    if not may_carry(endpoint, fetch):
        raise MetadataRefused(f"{where} names {shown}, which is not HTTPS: nothing is sent there.")
    is_written = oauth.issuer or oauth.token_url
    if oauth.client_secret and not is_written and not is_same_origin(endpoint, server.url or ""):
        raise MetadataRefused(
            f"{where} names {shown}: the client secret is sent only to the "
            f"server's own origin, or to what you write; set `oauth.issuer` to `{named}` if that is who it belongs to."
        )
    return TokenPlace(str(said["issuer"]), endpoint, said)


MINUTES = 10
"""For how long a page may stay open before its login is begun again."""
_CREATED = (200, 201)
_AUTHORIZATION_BOUNDS = Bounds(seconds=15.0, first_byte=15.0, size=100_000)
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
            resource=named_resource(oauth, protected.resource or resource_of(server.url or "")),
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
                login.revocation_endpoint,
                method="POST",
                headers=headers,
                body=body,
                redirects=0,
                bounds=_AUTHORIZATION_BOUNDS,
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
            answer = await self._fetch(
                place, method="POST", headers=headers, body=body, redirects=0, bounds=_AUTHORIZATION_BOUNDS
            )
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


def named_resource(oauth: McpOAuth, own: str) -> str | None:
    """Return the resource that a token is asked for, as *oauth* says: what is written, or the server's *own* name."""
    return own if oauth.resource is True else oauth.resource or None


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

"""What an MCP server and its authorization server publish of access: requests for it, and a reading that trusts none.

The server names its authorization server (RFC 9728), and that its endpoints (RFC 8414, OpenID Connect Discovery).
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from agent_core.errors import ParleyError
from agent_core.messages import visible
from agent_core.net.fetch import BOUNDS, Bounds, Fetch
from agent_core.net.targets import PORTS, FetchFailed, check_text
from agent_core.servers import McpServer

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

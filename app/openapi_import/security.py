"""How an operation's callers name themselves, as headers that refer to secrets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.openapi_import.document import Document, Json


@dataclass(frozen=True, slots=True)
class SchemeAccess:
    """What a request carries; *secrets* are the names to set, with what each is."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    oauth: Mapping[str, str] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])


def access_of(document: Document, operation: Json) -> SchemeAccess | None:
    """Return the first way in that an HTTP tool can take; None when there are ways in, and none of them."""
    listed: Any = operation.get("security", document.root.get("security"))
    ways: list[Any] = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if not ways:
        return SchemeAccess()
    return next((access for way in ways if (access := _way(document, way)) is not None), None)


def _way(document: Document, way: Mapping[str, Any]) -> SchemeAccess | None:
    schemes: Any = (document.root.get("components") or {}).get("securitySchemes") or {}
    access = SchemeAccess()
    for name, scopes in way.items():
        one = _scheme(document.resolved(schemes.get(name)), secret_name(document.title, name), scopes)
        if one is None or (access.oauth and one.oauth):
            return None
        secrets = {**access.secrets, **one.secrets}
        access = SchemeAccess(
            {**access.headers, **one.headers}, {**access.query, **one.query}, access.oauth or one.oauth, secrets
        )
    return access


def _scheme(scheme: Json, secret: str, scopes: Any) -> SchemeAccess | None:
    place = f"{{{{secret:{secret}}}}}"
    match scheme:
        case {"type": "http", "scheme": str() as kind} if kind.lower() == "bearer":
            return SchemeAccess({"Authorization": f"Bearer {place}"}, secrets={secret: "a bearer token"})
        case {"type": "http", "scheme": str() as kind} if kind.lower() == "basic":
            return SchemeAccess({"Authorization": f"Basic {place}"}, secrets={secret: "base64 of user:password"})
        case {"type": "apiKey", "in": "header", "name": str() as name}:
            return SchemeAccess({name: place}, secrets={secret: f"the header {name}"})
        case {"type": "apiKey", "in": "query", "name": str() as name}:
            return SchemeAccess(query={name: place}, secrets={secret: f"the query parameter {name}"})
        case {"type": "apiKey", "in": "cookie", "name": str() as name}:
            return SchemeAccess({"Cookie": f"{name}={place}"}, secrets={secret: f"the cookie {name}"})
        case {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": str() as url}}}:
            return _oauth(url, secret, scopes)
        case {"type": "oauth2" | "openIdConnect"}:
            return SchemeAccess({"Authorization": f"Bearer {place}"}, secrets={secret: "an access token"})
        case _:
            return None


def _oauth(url: str, secret: str, scopes: Any) -> SchemeAccess:
    client, own = f"{secret[:55]}_ID", f"{secret[:55]}_SECRET"
    oauth = {"token_url": url, "client_id": f"{{{{secret:{client}}}}}", "client_secret": f"{{{{secret:{own}}}}}"}
    if isinstance(scopes, list) and scopes:
        oauth["scope"] = " ".join(map(str, scopes))
    return SchemeAccess(oauth=oauth, secrets={client: "the OAuth client's id", own: "the OAuth client's secret"})


def secret_name(title: str, scheme: str) -> str:
    """Return the name of the secret for *scheme* of the API *title*, such as `SHOP_API_KEY`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", f"{title} {scheme}")
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper()
    return name[-64:].strip("_") or "API_KEY"

"""A made-up authorization server: it registers clients, shows a page, and gives, renews and revokes tokens."""

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Self
from urllib.parse import urlencode

from aiohttp import web

_TENANT = "/tenant"
_GRACE = 0.01
_PAGE = """<!doctype html><meta charset="utf-8"><title>Log in</title>
<h1>A made-up login</h1><p>A client asks for access to {resource}, for {scope}.</p>
<p><a href="{allow}">Allow</a> · <a href="{refuse}">Refuse</a></p>"""


class FakeLogins:
    """An authorization server with PKCE, whose refresh tokens are good once, from `async with` to its end.

    It serves on a port of its own, or on that of the server which it gives tokens for: `FakeMcp(tools, logins=…)`.
    With *asks* its page waits for a person, else it consents at once. Tests change the rest at any time: *says* changes
    its metadata (None leaves a field out), *back* what its page leads back with, *lasts* the life of its tokens in
    seconds. *refuses* is an error of its token endpoint, which repeats the refresh token as *repeats* spells it. *held*
    holds the answers to refresh requests and to revocations back. *secret* is what clients must send as
    `client_secret`, where it is set. *seen* are the forms that came, by path. Only the newest access token is let in.
    """

    def __init__(self, *, asks: bool = False) -> None:
        self.asks = asks
        self.says: dict[str, Any] = {}
        self.back: dict[str, str | None] = {}
        self.refuses: str | None = None
        self.secret: str | None = None
        self.repeats: Callable[[str], str] = str
        self.lasts: int | None = 3600
        self.seen: dict[str, list[dict[str, Any]]] = {"authorize": [], "token": [], "register": [], "revoke": []}
        self.held = asyncio.Event()
        self.held.set()
        self.host = ""
        self._access: str | None = None
        self._refresh: str | None = None
        self._codes: dict[str, dict[str, str]] = {}
        self._runner: web.AppRunner | None = None

    @property
    def issuer(self) -> str:
        """Return the name of the authorization server, which has a path, as those of tenants have."""
        return f"http://{self.host}{_TENANT}"

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request with these *headers* has the newest token."""
        return self._access is not None and headers.get("authorization") == f"Bearer {self._access}"

    def routes(self) -> list[web.RouteDef]:
        """Return what it serves; *host* is set once its port is known."""
        return [
            web.get(f"/.well-known/oauth-authorization-server{_TENANT}", self._metadata),
            web.get("/authorize", self._authorize),
            web.post("/token", self._token),
            web.post("/register", self._register),
            web.post("/revoke", self._revoke),
        ]

    async def start(self) -> None:
        """Listen on a port of its own."""
        app = web.Application()
        app.router.add_routes(self.routes())
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_GRACE)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _metadata(self, _request: web.Request) -> web.Response:
        origin = f"http://{self.host}"
        says = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "revocation_endpoint": f"{origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["tools", "offline_access"],
            "authorization_response_iss_parameter_supported": True,
            **self.says,
        }
        return web.json_response({name: said for name, said in says.items() if said is not None})

    async def _authorize(self, request: web.Request) -> web.Response:
        fields = dict(request.query)
        choice = fields.pop("choice", None if self.asks else "allow")
        if choice is None:
            links = {each: f"/authorize?{urlencode({**fields, 'choice': each})}" for each in ("allow", "refuse")}
            shown = {"resource": fields.get("resource", ""), "scope": fields.get("scope", "all that it has"), **links}
            page = _PAGE.format(**{name: escape(text) for name, text in shown.items()})
            return web.Response(text=page, content_type="text/html")
        self.seen["authorize"].append(fields)
        answer = {"error": "access_denied", "error_description": "You refused."}
        if choice == "allow":
            code = f"code-{len(self._codes) + 1}"
            self._codes[code] = fields
            answer = {"code": code}
        back = {**answer, "state": fields.get("state"), "iss": self.issuer, **self.back}
        query = urlencode({name: text for name, text in back.items() if text is not None})
        raise web.HTTPFound(f"{fields['redirect_uri']}?{query}")

    async def _register(self, request: web.Request) -> web.Response:
        fields = await request.json()
        self.seen["register"].append(fields)
        return web.json_response({"client_id": f"client-{len(self.seen['register'])}", **fields}, status=201)

    async def _revoke(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.seen["revoke"].append(form)
        await self.held.wait()
        if form.get("token") in (self._access, self._refresh):
            self._access = self._refresh = None
        return web.Response()

    async def _token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.seen["token"].append(form)
        is_known = self.secret is None or form.get("client_secret") == self.secret
        refuses = self.refuses or (None if is_known else "invalid_client")
        is_good = is_known and self._is_good(form)
        n = len(self.seen["token"])
        if is_good and refuses is None:  # from here on the one before is good no more
            self._refresh = f"refresh-{n}"
        if form["grant_type"] == "refresh_token":
            await self.held.wait()
        if refuses is not None or not is_good:
            spelled = self.repeats(form.get("refresh_token", ""))
            error = {"error": refuses or "invalid_grant", "error_description": f"No {spelled}."}
            return web.json_response(error, status=400)
        self._access = f"access-{n}"
        answer = {"access_token": f"access-{n}", "token_type": "bearer", "refresh_token": f"refresh-{n}"}
        return web.json_response(answer if self.lasts is None else {**answer, "expires_in": self.lasts})

    def _is_good(self, form: dict[str, str]) -> bool:
        if form["grant_type"] == "refresh_token":
            return form["refresh_token"] == self._refresh
        fields = self._codes.pop(form["code"], None)
        if fields is None or fields["redirect_uri"] != form["redirect_uri"]:
            return False
        challenge = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        return challenge == fields["code_challenge"] and form.get("resource") == fields.get("resource")

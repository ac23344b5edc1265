"""A scripted authorization server over real sockets, the browser of an operator, and what is built on both."""

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from agent_core import Core
from agent_core.clock import Clock
from agent_core.domain.mcp import McpServer
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools.tooling import ToolPorts
from agent_core.testing.mcp import FakeMcp, sample_tools
from agent_core.tools.base import ToolError
from agent_core.tools.mcp.connections import McpConnected
from agent_core.tools.toolset import Scope
from tests.agent_core.tools.mcp.stage import Stage, texts
from tests.conftest import MakeCore

REDIRECT = "http://127.0.0.1:9/callback"


class LoginSite:
    """An authorization server with PKCE whose refresh tokens are good once; *says* changes its metadata.

    *back* changes what its page leads back with, *refuses* is an error of its token endpoint, *lasts* the life of its
    tokens in seconds. *held* holds the answers to refresh requests back. *seen* are the forms that came, by path.
    """

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.back: dict[str, str | None] = {}
        self.refuses: str | None = None
        self.lasts: int | None = 3600
        self.seen: dict[str, list[dict[str, Any]]] = {"authorize": [], "token": [], "register": [], "revoke": []}
        self.held = asyncio.Event()
        self.held.set()
        self.good: str | None = None
        self.refresh: str | None = None
        self._codes: dict[str, dict[str, str]] = {}
        self._runner: web.AppRunner | None = None
        self.host = ""

    @property
    def issuer(self) -> str:
        return f"http://{self.host}/tenant"

    def admits(self, headers: Any) -> bool:
        return self.good is not None and headers.get("authorization") == f"Bearer {self.good}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/.well-known/oauth-authorization-server/tenant", self._metadata)
        app.router.add_get("/authorize", self._authorize)
        for name, answer in (("token", self._token), ("register", self._register), ("revoke", self._revoke)):
            app.router.add_post(f"/{name}", answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.host = "{}:{}".format(*self._runner.addresses[0])

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def browse(self, page: str) -> str:
        """Return where *page* leads the browser, once its operator has consented."""
        async with aiohttp.ClientSession() as browser, browser.get(page, allow_redirects=False) as answer:
            return answer.headers["Location"]

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
        asked = dict(request.query)
        self.seen["authorize"].append(asked)
        code = f"code-{len(self._codes) + 1}"
        self._codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer, **self.back}
        query = urlencode({name: text for name, text in back.items() if text is not None})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{query}")

    async def _register(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.seen["register"].append(asked)
        return web.json_response({"client_id": f"client-{len(self.seen['register'])}", **asked}, status=201)

    async def _revoke(self, request: web.Request) -> web.Response:
        self.seen["revoke"].append({key: str(value) for key, value in (await request.post()).items()})
        return web.Response()

    async def _token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.seen["token"].append(form)
        if form["grant_type"] == "refresh_token":
            await self.held.wait()
        if self.refuses is not None or not self._is_good(form):
            said = {"error": self.refuses or "invalid_grant", "error_description": f"No {form.get('refresh_token')}."}
            return web.json_response(said, status=400)
        n = len(self.seen["token"])
        self.good, self.refresh = f"access-{n}", f"refresh-{n}"
        answer = {"access_token": self.good, "token_type": "bearer", "refresh_token": self.refresh}
        return web.json_response(answer if self.lasts is None else {**answer, "expires_in": self.lasts})

    def _is_good(self, form: dict[str, str]) -> bool:
        if form["grant_type"] == "refresh_token":
            return form["refresh_token"] == self.refresh
        asked = self._codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return False
        challenge = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        return challenge == asked["code_challenge"] and form["resource"] == asked["resource"]


@dataclass
class LoginStage:
    """A *core* whose server `fake` wants the tokens of *site*; `others` are cores of further processes."""

    core: Core
    fake: FakeMcp
    site: LoginSite
    cores: list[Core]
    stage: Stage

    async def login(self) -> None:
        """Log in at the server, as an operator does."""
        logins = self.core.tools.servers.logins
        begun = await logins.begin("fake", REDIRECT)
        await logins.complete("fake", begun.ticket, await self.site.browse(begun.url))
        await self.core.tools.servers.refresh("fake")

    async def said(self, core: int = 0) -> str:
        """Return what a call of a tool returns, or why it fails."""
        tools = await self.cores[core].tools.servers.tools(Scope())
        outcome = await tools["mcp__fake__echo"].call({"text": "hi"}, self.stage.context())
        return outcome.message if isinstance(outcome, ToolError) else texts(outcome)[0]

    async def refused(self) -> str:
        """Return why a login is refused."""
        try:
            await self.login()
        except Exception as error:  # noqa: BLE001 - what is said is what is tested
            return str(error)
        return ""


@asynccontextmanager
async def login_stage(
    make_core: MakeCore, clock: Clock | None = None, cores: int = 1, **options: Any
) -> AsyncGenerator[LoginStage]:
    """Give a stage whose server has *options*."""
    site = LoginSite()
    await site.start()
    async with FakeMcp(sample_tools()) as fake:
        fake.admits, fake.protected_by = site.admits, site.issuer
        fetch, made = Fetch((fake.host, site.host)), list[Core]()
        connections = McpConnected(fetch)
        for _ in range(cores):
            connections = McpConnected(fetch, clock=clock)
            ports = ToolPorts(fetch=fetch, mcp=connections)
            made.append(await make_core(tool_ports=ports, **({} if clock is None else {"clock": clock})))
        await made[0].tools.servers.create(McpServer(name="fake", url=fake.url, **options))
        yield LoginStage(made[0], fake, site, made, Stage(connections))
        for core in made:
            await core.stop(grace=0.1)
        await fetch.close()
    await site.stop()

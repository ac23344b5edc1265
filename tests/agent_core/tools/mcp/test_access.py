"""Who may use an MCP server: headers, statuses, client credentials; and no secret in what is said."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web

from agent_core.domain.mcp import McpOAuth
from agent_core.testing.mcp import FakeCall, FakeMcp, FakeTool, sample_tools
from agent_core.tools.base import ToolError
from agent_core.tools.mcp.port import McpUnavailable
from tests.agent_core.tools.mcp.stage import Stage, server_of, staged, texts

SECRET = "s3cr3t-of-the-tests"


@pytest.fixture
async def fake() -> AsyncIterator[FakeMcp]:
    async with FakeMcp(sample_tools()) as fake:
        yield fake


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_headers_of_the_server_and_of_the_call_are_sent(era: Any) -> None:
    """Headers of the server and of the call are sent."""
    async with FakeMcp(sample_tools(), era=era) as fake, staged(fake.host) as stage:
        server = server_of(fake, headers={"X-Key": SECRET})
        for who in ("ann", "bob"):
            assert texts(await stage.call(server, "echo", text=who, headers={"X-Who": who})) == [who]
            assert fake.asked_for("tools/call")[-1].headers["x-who"] == who
        assert all(each.headers["x-key"] == SECRET for each in fake.asked)
        await stage.connections.discover(server)
        assert "x-who" not in fake.asked_for("tools/list")[-1].headers


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "refuses the credentials"), (403, "does not allow"), (404, "no MCP endpoint"), (500, "500")],
)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_statuses_are_distinguished(era: Any, status: int, said: str) -> None:
    """Statuses are distinguished."""
    async with FakeMcp(sample_tools(), era=era) as fake, staged(fake.host) as stage:
        await stage.connections.discover(server_of(fake))
        fake.status = status
        outcome = await stage.call(server_of(fake), "echo", text="hi")
        assert isinstance(outcome, ToolError)
        assert said in outcome.message
        async with staged(fake.host) as fresh:
            with pytest.raises(McpUnavailable, match=said) as raised:
                await fresh.connections.discover(server_of(fake))
        assert raised.value.status == status
        fake.status = None
        assert texts(await stage.call(server_of(fake), "echo", text="back")) == ["back"]


async def test_no_secret_is_said_or_logged(fake: FakeMcp) -> None:
    """No secret is said or logged."""

    def leak(call: FakeCall) -> str:
        raise ValueError(call.headers["x-key"])

    async def lie(call: FakeCall) -> dict[str, Any]:
        return {"content": [{"type": call.headers["authorization"]}]}

    fake.tools.extend([FakeTool("lie", answer=lie), FakeTool("leak", answer=leak)])
    server = server_of(fake, headers={"X-Key": SECRET, "Authorization": f"Bearer {SECRET}2"})
    with structlog.testing.capture_logs() as logs:
        async with staged(fake.host) as stage:
            said = [str(await stage.call(server, each)) for each in ("lie", "nope")]
            said.append(repr(stage.connections))
        async with staged() as stage:
            said.append(str(await stage.call(server, "echo", text="hi")))
            bad = server_of(fake, headers={"X-Key": f"{SECRET}\n"})
            said.append(str(await stage.call(bad, "echo", text="hi")))
    assert SECRET not in json.dumps([*said, str(logs)])
    assert "may not be reached" in said[-2]
    assert "characters that none may" in said[-1]


class TokenSite:
    """An authorization server: its tokens are counted, and only the newest is good."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.runner: web.AppRunner | None = None
        self.host = ""

    @property
    def good(self) -> str:
        return f"Bearer token-{len(self.asked)}"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_get("/.well-known/oauth-authorization-server", self._metadata)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.host = "{}:{}".format(*self.runner.addresses[0])

    async def _token(self, request: web.Request) -> web.Response:
        self.asked.append({key: str(value) for key, value in (await request.post()).items()})
        answer = {"access_token": f"token-{len(self.asked)}", "token_type": "Bearer", "expires_in": 3600}
        return web.json_response(answer)

    async def _metadata(self, _request: web.Request) -> web.Response:
        issuer = f"http://{self.host}"
        return web.json_response({"issuer": issuer, "token_endpoint": f"{issuer}/token"})


@pytest.fixture
async def site() -> AsyncIterator[TokenSite]:
    site = TokenSite()
    await site.start()
    yield site
    assert site.runner is not None
    await site.runner.cleanup()


@pytest.mark.parametrize("found", [True, False])
async def test_client_credentials_are_fetched_and_renewed(fake: FakeMcp, site: TokenSite, *, found: bool) -> None:
    """Client credentials are fetched and renewed."""
    fake.protected_by = f"http://{site.host}"
    fake.admits = lambda headers: headers.get("authorization") == site.good
    oauth = McpOAuth(
        client_id="us", client_secret=SECRET, scope="tools", token_url=None if found else f"http://{site.host}/token"
    )
    server = server_of(fake, oauth=oauth)
    async with staged(fake.host, site.host) as stage:
        await _three(stage, server)
        assert [each["scope"] for each in site.asked] == ["tools"]
        site.asked.append({"scope": "revoked"})  # the token that we have is good no more
        await _three(stage, server)
        assert len(site.asked) == 3


async def _three(stage: Stage, server: Any) -> None:
    for n in range(3):
        assert texts(await stage.call(server, "echo", text=str(n))) == [str(n)]

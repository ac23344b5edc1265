"""Who may use an MCP server: headers, statuses, client credentials; and no secret in what is said."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog
from aiohttp import web

from agent_core.clock import SystemClock
from agent_core.mcp.login_tokens import McpTokens
from agent_core.mcp.port import McpUnavailable
from agent_core.net.fetch import Fetch
from agent_core.servers import McpOAuth, McpServer
from agent_core.testing.mcp import FakeCall, FakeMcp, FakeProtocolError, FakeTool, sample_tools
from agent_core.tools.base import ToolError
from tests.agent_core.tools.mcp.stage import McpCaller, server_of, staged, texts
from tests.cases import for_each

SECRET = "s3cr3t-of-the-tests"


@pytest.fixture
async def fake() -> AsyncIterator[FakeMcp]:
    async with FakeMcp(sample_tools()) as fake:
        yield fake


@for_each("era", ["modern", "legacy"])
async def test_headers_of_the_server_and_of_the_call_are_sent(era: Any) -> None:
    """Headers of the server and of the call are sent."""
    async with FakeMcp(sample_tools(), era=era) as fake, staged(fake.host) as stage:
        server = server_of(fake, headers={"X-Key": SECRET})
        for who in ("ann", "bob"):
            assert texts(await stage.call(server, "echo", text=who, headers={"X-Who": who})) == [who]
            assert fake.asked_for("tools/call")[-1].headers["x-who"] == who
        assert [each for each in fake.asked if each.headers["x-key"] != SECRET] == []
        await stage.connections.discover(server)
        assert "x-who" not in fake.asked_for("tools/list")[-1].headers


@for_each(
    "status, said",
    [(401, "refuses the credentials"), (403, "does not allow"), (404, "no MCP endpoint"), (500, "500")],
)
@for_each("era", ["modern", "legacy"])
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
    """An authorization server: its tokens are counted, and only the newest is good; *says* changes its metadata.

    *refuses* is the error with which it refuses requests that name a `resource`; those are kept in *turned_away*.
    """

    def __init__(self) -> None:
        self.says: dict[str, str | None] = {}
        self.asked: list[dict[str, str]] = []
        self.refuses: str | None = None
        self.turned_away: list[dict[str, str]] = []
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
        form = {key: str(value) for key, value in (await request.post()).items()}
        if self.refuses is not None and "resource" in form:
            self.turned_away.append(form)
            return web.json_response({"error": self.refuses}, status=400)
        self.asked.append(form)
        answer = {"access_token": f"token-{len(self.asked)}", "token_type": "Bearer", "expires_in": 3600}
        return web.json_response(answer)

    async def _metadata(self, _request: web.Request) -> web.Response:
        origin = f"http://{self.host}"
        says = {"issuer": origin, "token_endpoint": f"{origin}/token", **self.says}
        return web.json_response({name: said for name, said in says.items() if said is not None})


@pytest.fixture
async def site() -> AsyncIterator[TokenSite]:
    site = TokenSite()
    await site.start()
    yield site
    assert site.runner is not None
    await site.runner.cleanup()


async def test_client_credentials_are_fetched_and_renewed(fake: FakeMcp, site: TokenSite) -> None:
    """Client credentials are fetched and renewed."""
    fake.admits = lambda headers: headers.get("authorization") == site.good
    oauth = McpOAuth(client_id="us", client_secret=SECRET, scope="tools", token_url=f"http://{site.host}/token")
    server = server_of(fake, oauth=oauth)
    async with staged(fake.host, site.host) as stage:
        await _three(stage, server)
        [asked] = site.asked
        assert (asked["scope"], asked["resource"], "client_id" in asked) == ("tools", fake.url, False)
        site.asked.append({"scope": "revoked"})  # the token that we have is good no more
        await _three(stage, server)
        assert len(site.asked) == 3


async def test_a_token_request_names_the_audience_and_the_client_as_it_is_configured(site: TokenSite) -> None:
    """`audience` goes along, `auth: post` puts the client into the form, and the resource holds nothing private."""
    oauth = McpOAuth(client_id="us", client_secret=SECRET, audience="api", auth="post")
    server = McpServer(name="own", url=f"http://{site.host}/mcp?key=private", oauth=oauth)
    assert await _found(site, server, site.host) == "token-1"
    [asked] = site.asked
    resource = f"http://{site.host}/mcp"
    named = {"client_id": "us", "client_secret": SECRET, "audience": "api", "resource": resource}
    assert asked == {"grant_type": "client_credentials", **named}


@pytest.mark.parametrize("error", ["invalid_target", "invalid_request"])
async def test_an_endpoint_that_refuses_resource_is_asked_without_it(
    fake: FakeMcp, site: TokenSite, error: str
) -> None:
    """It is asked once more, and never again with it."""
    site.refuses, fake.admits = error, lambda headers: headers.get("authorization") == site.good
    oauth = McpOAuth(client_id="us", client_secret=SECRET, token_url=f"http://{site.host}/token")
    async with staged(fake.host, site.host) as stage:
        await _three(stage, server_of(fake, oauth=oauth))
        site.asked.append({"scope": "revoked"})
        await _three(stage, server_of(fake, oauth=oauth))
    assert [each["resource"] for each in site.turned_away] == [fake.url]
    assert site.asked[0] == site.asked[2] == {"grant_type": "client_credentials"}


@pytest.mark.parametrize(
    ("resource", "refuses", "said"),
    [
        (False, "invalid_target", "token-1"),
        ("api://ours", None, "token-1"),
        ("api://ours", "invalid_target", "400 (invalid_target)"),
        (True, "invalid_client", "400 (invalid_client)"),
    ],
)
async def test_the_resource_is_what_the_operator_writes(
    site: TokenSite, *, resource: bool | str, refuses: str | None, said: str
) -> None:
    """What is written is sent as it is and never left out, `false` sends none, and other errors are not asked again."""
    site.refuses = refuses
    oauth = McpOAuth(client_id="us", client_secret=SECRET, resource=resource)
    assert said in await _found(site, McpServer(name="own", url=f"http://{site.host}/mcp", oauth=oauth), site.host)
    sent = [each.get("resource") for each in (*site.asked, *site.turned_away)]
    own = f"http://{site.host}/mcp" if resource else None
    assert sent == [resource if isinstance(resource, str) else own]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_access_token_that_a_server_repeats_is_masked(site: TokenSite, era: Any) -> None:
    """Neither a result, nor progress, nor an error, nor a listing has the token."""

    async def repeat(call: FakeCall) -> str:
        await call.progress(1, 2, call.headers["authorization"])
        return call.headers["authorization"]

    def fail(call: FakeCall) -> str:
        raise FakeProtocolError(-32000, call.headers["authorization"])

    tools = [FakeTool("repeat", answer=repeat), FakeTool("fail", answer=fail)]
    async with FakeMcp(tools, era=era) as fake, staged(fake.host, site.host) as stage:
        fake.tools.append(FakeTool("listed", description="Bearer token-1"))
        server = server_of(
            fake, oauth=McpOAuth(client_id="us", client_secret=SECRET, token_url=f"http://{site.host}/token")
        )
        listing = await stage.connections.discover(server)
        outcomes = [await stage.call(server, name) for name in ("repeat", "fail")]
        said = f"{listing} {outcomes} {stage.shown}"
    assert said.count("Bearer [secret access token]") == 4
    assert "token-1" not in said


async def test_credentials_that_lack_a_scope_name_the_line_to_write(fake: FakeMcp, site: TokenSite) -> None:
    """What the server wants (403 `insufficient_scope`) beside what is configured; for operators and for the model."""
    place = f"http://{site.host}/token"
    server = server_of(fake, oauth=McpOAuth(client_id="us", client_secret=SECRET, scope="read", token_url=place))
    fake.lacks = "write"
    said = 'its credentials lack a scope; set `oauth.scope` to "read write"'
    async with staged(fake.host, site.host) as stage:
        with pytest.raises(McpUnavailable, match=said):
            await stage.connections.discover(server)
        outcome = await stage.call(server, "echo", text="hi")
    assert isinstance(outcome, ToolError)
    assert said in outcome.message


async def _three(stage: McpCaller, server: Any) -> None:
    for n in range(3):
        assert texts(await stage.call(server, "echo", text=str(n))) == [str(n)]


async def _found(site: TokenSite, server: McpServer, *allowed: str) -> str:
    """Return the token that *server* is reached with, or why there is none."""
    fetch = Fetch(allow=allowed)
    oauth = server.oauth or McpOAuth(client_id="us", client_secret=SECRET)
    tokens = McpTokens(server, oauth, fetch, SystemClock())
    try:
        return await tokens.token()
    except McpUnavailable as error:
        return str(error)
    finally:
        await tokens.close()
        await fetch.close()


async def _refused(site: TokenSite, server: McpServer, *allowed: str) -> str:
    said = await _found(site, server, *allowed)
    assert not site.asked
    assert "set `oauth.token_url`" in said
    return said


async def test_the_servers_own_origin_gives_tokens_by_its_metadata(site: TokenSite) -> None:
    """A server that gives its tokens itself needs no `token_url`."""
    assert await _found(site, McpServer(name="own", url=f"http://{site.host}/mcp"), site.host) == "token-1"


@for_each(
    "says, why",
    [
        ({"issuer": None}, "`issuer`"),
        ({"issuer": "https://as.example"}, "`issuer`"),
        ({"token_endpoint": "https://thief.example/token"}, "names `https://thief.example/token`"),
        ({"token_endpoint": None}, "does not say where"),
    ],
)
async def test_metadata_that_leads_elsewhere_gets_no_secret(
    site: TokenSite, says: dict[str, str | None], why: str
) -> None:
    """No secret is sent to what a server's metadata names beyond its own origin, or whose metadata is another's."""
    site.says = says
    assert why in await _refused(site, McpServer(name="own", url=f"http://{site.host}/mcp"), site.host)


async def test_a_server_cannot_have_the_secret_sent_to_another_host(fake: FakeMcp, site: TokenSite) -> None:
    """The authorization server that a server names gets no request for a token when it is of another origin."""
    fake.protected_by = f"http://{site.host}"
    assert f"names `http://{site.host}/token`" in await _refused(site, server_of(fake), fake.host, site.host)


async def test_a_secret_is_sent_without_tls_only_to_allowed_hosts(site: TokenSite) -> None:
    """A server over plain HTTP that the operator's allow list does not name gets no secret."""
    assert "is not HTTPS" in await _refused(site, McpServer(name="plain", url="http://mcp.example/mcp"))

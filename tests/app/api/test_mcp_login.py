"""Routes of logins at MCP servers."""

from collections.abc import AsyncIterator

import httpx
import pytest

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.mcp.oauth import Authorization
from agent_core.net.fetch import Fetch
from agent_core.servers import McpServer
from app.api.routes.mcp import client_document
from app.compose import create_app
from app.settings import Settings
from app.storage import ApiKey
from channels.web.identity import TokenSigner
from tests.agent_core.tools.mcp.login_site import REDIRECT, LoginStage, browse, login_stage
from tests.conftest import MakeCore

KEY = ApiKey(bytes(32))
ROUTE = "/v1/mcp-servers/fake/login"


@pytest.fixture
async def stage(make_core: MakeCore) -> AsyncIterator[LoginStage]:
    async with login_stage(make_core) as stage:
        yield stage


@pytest.fixture
def core(stage: LoginStage) -> Core:
    return stage.core


async def test_a_login_is_begun_completed_and_forgotten(client: httpx.AsyncClient, stage: LoginStage):
    """The page and a ticket come out, the address of the page goes in; no answer has a token or the PKCE verifier."""
    begun = await client.post(ROUTE, json={"redirect_uri": REDIRECT})
    assert begun.status_code == 200, begun.text
    assert begun.json()["issuer"] == stage.site.issuer
    redirected = await browse(begun.json()["url"])
    done = await client.post(f"{ROUTE}/complete", json={"ticket": begun.json()["ticket"], "redirected": redirected})
    assert (done.status_code, done.json()["status"], done.json()["login"]["status"]) == (200, "ok", "ok")
    again = await client.post(f"{ROUTE}/complete", json={"ticket": begun.json()["ticket"], "redirected": redirected})
    assert (again.status_code, again.json()["code"]) == (409, "login_failed")
    [form] = [each for each in stage.site.seen["token"] if each["code_verifier"]][:1]
    said = begun.text + done.text + again.text
    assert not any(text in said for text in (form["code_verifier"], "access-1", "refresh-1"))
    assert (await client.delete(ROUTE)).status_code == 204
    assert (await client.get("/v1/mcp-servers/fake")).json()["login"] is None


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"redirect_uri": "http://thief.example/"}, "redirect_uri"),
        ({"redirect_uri": "http://127.0.0.1:x@thief.example/"}, "redirect_uri"),
        ({"redirect_uri": "http://["}, "redirect_uri"),
        ({}, "redirect_uri"),
    ],
)
async def test_a_page_leads_back_to_the_operator_alone(client: httpx.AsyncClient, body: dict[str, str], path: str):
    """Neither to another host without encryption, nor nowhere."""
    refused = await client.post(ROUTE, json=body)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, path)


@pytest.mark.parametrize(("url", "status"), [("https://parley.example/", 200), ("http://parley.example", 404)])
async def test_a_deployment_describes_itself_as_a_client(
    stage: LoginStage, settings: Settings, tokens: TokenSigner, url: str, status: int
):
    """Authorization servers read without a key who asks, at the address that is its id; over HTTPS alone."""
    app = create_app(stage.core, settings.model_copy(update={"public_url": url}), tokens=tokens, api_key=KEY)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url) as client:
        found = await client.get("/oauth/mcp-client.json")
    assert found.status_code == status, found.text
    if status == 200:
        assert found.json()["client_id"] == client_document(url) == "https://parley.example/oauth/mcp-client.json"
        stage.site.says = {"client_id_metadata_document_supported": True}
        fetch = Fetch((stage.fake.host, stage.site.host))
        login = Authorization(fetch, SystemClock(), client_document(url))
        begun = await login.begin(McpServer(name="fake", url=stage.fake.url), REDIRECT)
        await fetch.close()
        assert begun.pending.client.id == found.json()["client_id"]
        assert not stage.site.seen["register"]

"""The demo page, its token, the widget's script, and tokens for other sites."""

import httpx
import pytest
from fastapi import FastAPI

from agent_core import Core
from app.compose import create_app
from app.settings import Settings
from app.storage.keys import ApiKey
from channels.web import routes
from channels.web.identity import TokenSigner
from tests.app.conftest import caller


@pytest.fixture
def static(tmp_path, monkeypatch):
    """A page and a script of their own."""
    (tmp_path / "demo.html").write_text("<p>{{notice}}</p>")
    (tmp_path / "parley-chat.js").write_text("export {};\n")
    monkeypatch.setattr(routes, "STATIC", tmp_path)
    return tmp_path


async def test_the_page_says_that_it_is_a_demonstration(anyone: httpx.AsyncClient, static):
    """The page comes with a strict policy, is kept nowhere, and names what answers."""
    answer = await anyone.get("/widget-demo")
    assert answer.status_code == 200
    assert "demonstration" in answer.text
    assert "{{" not in answer.text
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(policy)
    assert answer.headers["Cache-Control"] == "no-store"


async def test_a_reload_is_the_same_visitor(anyone: httpx.AsyncClient, core: Core, tokens: TokenSigner):
    """The token lasts 15 minutes; the cookie that no script can read keeps the visitor."""
    first = await anyone.get("/widget-demo/token")
    second = await anyone.get("/widget-demo/token")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    one, two = (tokens.read(answer.json()["token"]) for answer in (first, second))
    assert one
    assert one == two
    assert one.agent == (await core.agents.get("assistant")).id
    anyone.cookies.clear()
    third = tokens.read((await anyone.get("/widget-demo/token")).json()["token"])
    assert third
    assert third.actor != one.actor


async def test_the_demo_token_opens_a_session(app: FastAPI, anyone: httpx.AsyncClient):
    """What the page mints is enough to talk."""
    token = (await anyone.get("/widget-demo/token")).json()["token"]
    async with caller(app, token) as visitor:
        assert (await visitor.post("/v1/sessions", json={})).status_code == 201


@pytest.mark.parametrize("path", ["/widget-demo", "/widget-demo/token"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("127.0.0.1.evil.example:8000", 403),
        ("[", 403),
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
    ],
)
async def test_only_this_machines_names_lead_to_the_demo(anyone: httpx.AsyncClient, static, path, host, status):
    """A name that was rebound to this machine gets 403 as a problem."""
    answer = await anyone.get(path, headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "forbidden"


async def test_other_sites_get_no_demo_token(anyone: httpx.AsyncClient):
    """A page of another origin cannot mint a visitor here."""
    answer = await anyone.get("/widget-demo/token", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403


async def test_the_demo_is_gone_when_it_is_off(core: Core, tokens: TokenSigner, tmp_path):
    """With PARLEY_DEMO off neither page nor token exist."""
    settings = Settings(_env_file=None, data=tmp_path, demo_page=False)  # type: ignore[call-arg]
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(b""))
    async with caller(app, "") as client:
        for path in ("/widget-demo", "/widget-demo/token"):
            assert (await client.get(path, headers={"Host": "localhost"})).status_code == 404


async def test_the_script_is_asked_for_again_and_sent_once(anyone: httpx.AsyncClient, static):
    """The bundle has a tag; who has it already gets 304."""
    first = await anyone.get("/widget/parley-chat.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    again = await anyone.get("/widget/parley-chat.js", headers={"If-None-Match": f'"old", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_site_gets_tokens_for_its_visitors(client: httpx.AsyncClient, tokens: TokenSigner, core: Core):
    """An operator's key buys a token that names actor and agent and ends after `ttl` seconds."""
    body = {"actor": {"id": "u1", "name": "Ada"}, "agent": "assistant", "ttl": 60}
    answer = await client.post("/v1/web/visitor-tokens", json=body)
    assert answer.status_code == 201
    found = tokens.read(answer.json()["token"])
    assert found
    assert (found.actor.id, found.actor.name, found.actor.kind) == ("u1", "Ada", "visitor")
    assert found.agent == (await core.agents.get("assistant")).id
    assert answer.json()["expires_at"].endswith("Z")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"actor": "u1", "agent": "assistant"}, 201),
        ({"actor": "u1", "agent": "unknown"}, 404),
        ({"actor": "u1"}, 422),
        ({"actor": "u1", "agent": "assistant", "ttl": 0}, 422),
        ({"actor": {"id": "u1", "kind": "agent"}, "agent": "assistant"}, 422),
    ],
)
async def test_token_requests_are_checked(client: httpx.AsyncClient, body, status):
    """Agents that are not there, endless tokens and other kinds of actors are refused."""
    assert (await client.post("/v1/web/visitor-tokens", json=body)).status_code == status

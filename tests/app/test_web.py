"""The demo page, its token, the widget's script, and tokens for other sites."""

import base64
import hashlib
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import structlog
import yaml
from fastapi import FastAPI
from msgspec import convert
from starlette.requests import Request

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.errors import RateLimited
from app.compose import create_app
from app.settings import Settings, place_of
from app.storage import ApiKey
from channels.web import routes
from channels.web.demo import WAIT, Door, Unauthorized
from channels.web.identity import TokenSigner
from channels.web.routes import widget
from tests.app.conftest import caller
from tests.cases import for_each

pytestmark = pytest.mark.sampled(3)

DEMO = (
    *("/widget-demo", "/widget-demo/token", "/widget-demo/status", "/widget-demo?show=states"),
    *("/widget-demo/demo.js", "/widget-demo/states.js", "/widget-demo/gallery.css"),
)


@pytest.fixture
def static(tmp_path, monkeypatch):
    """A page and scripts of their own."""
    (tmp_path / "demo.html").write_text("<p>{{notice}}</p>{{main}}<ul>{{problems}}</ul>{{agents}}")
    (tmp_path / "gallery.html").write_text("{{build}} {{integrity}} {{agent}}")
    for name in ("demo.js", "states.js", "gallery.css"):
        (tmp_path / name).write_text("export {};\n")
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


async def test_the_page_shows_the_agent_that_is_asked_for(anyone: httpx.AsyncClient):
    """Each agent has a page, by its name or id; without either it is `assistant`, and the others can be chosen."""
    for query, name in (("", "assistant"), ("?agent=filed", "filed"), ("?agent=", "assistant")):
        page = (await anyone.get(f"/widget-demo{query}")).text
        heading = f'token-url="/widget-demo/token?agent={name}" heading="{name.capitalize()}"></parley-chat>'
        assert f'<parley-chat agent="{name}" {heading}' in page
        assert f'<a href="/widget-demo?show=states&amp;agent={name}">' in page
        assert re.findall(r'<option value="(\w+)"[^>]*?( selected)?>', page) == [
            (each, " selected" if each == name else "") for each in ("assistant", "filed")
        ]


async def test_the_gallery_has_the_snippet_of_this_build(anyone: httpx.AsyncClient):
    """The page of states knows the version and the hash of the script, and the agent that its snippet embeds."""
    answer = await anyone.get("/widget-demo?show=states&agent=filed")
    assert answer.status_code == 200
    assert f'data-build="{widget().build}"' in answer.text
    assert (
        f'data-integrity="{html.escape(widget().files["parley-chat.js"].integrity)}" data-agent="filed"' in answer.text
    )
    assert '<a href="/widget-demo?agent=filed">' in answer.text
    assert '<a href="/widget-demo?show=states&amp;agent=filed" aria-current="page">' in answer.text
    assert "{{" not in answer.text
    assert "'unsafe-inline'" not in answer.headers["Content-Security-Policy"]
    for part, kind in re.findall(r'/widget-demo/(\w+\.(css|js))"', answer.text):
        found = await anyone.get(f"/widget-demo/{part}")
        assert (found.status_code, found.headers["content-type"].partition(";")[0]) == (
            200,
            "text/css" if kind == "css" else "text/javascript",
        )
    assert (await anyone.get("/widget-demo/parley-chat.js")).status_code == 404
    assert (await anyone.get("/widget-demo/demo.html")).status_code == 404


async def test_a_token_of_the_page_is_for_its_agent(anyone: httpx.AsyncClient, core: Core, tokens: TokenSigner):
    """The page's token opens conversations with the agent that the page shows, and with no other."""
    for name in ("filed", "assistant"):
        found = tokens.read((await anyone.get(f"/widget-demo/token?agent={name}")).json()["token"])
        assert found
        assert found.agent == (await core.agents.get(name)).id
    assert (await anyone.get("/widget-demo/token?agent=nothing")).status_code == 404


async def test_the_page_names_the_agents_when_there_is_none_of_the_name(anyone: httpx.AsyncClient):
    """An unknown agent is one sentence, with the name as it was written and a link to each agent that there is."""
    answer = await anyone.get("/widget-demo", params={"agent": "<b>x\u202e{{main}}"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert (
        "There is no agent <code>&lt;b&gt;x\\u{202e}{{main}}</code>; choose "
        '<a href="/widget-demo?agent=assistant">assistant</a> or <a href="/widget-demo?agent=filed">filed</a>.'
    ) in answer.text
    assert "<parley-chat" not in answer.text


async def test_without_agents_the_page_says_how_to_make_one(anyone: httpx.AsyncClient, core: Core):
    """A server without agents has a page, with a file that is an agent."""
    await core.agents.sync_files([])
    for agent in await core.agents.all():
        await core.agents.delete(agent.id)
    answer = await anyone.get("/widget-demo")
    assert answer.status_code == 200
    assert "There is no agent yet." in answer.text
    assert '<body data-watch="on">' in answer.text, "it looks for the first agent"
    (example,) = re.findall(r"<pre>(.*?)</pre>", answer.text, re.DOTALL)
    assert convert(yaml.safe_load(example), Definition).name == "assistant"
    assert (await anyone.get("/widget-demo/token")).status_code == 404


async def test_the_page_reports_what_could_not_be_loaded(core: Core, tokens: TokenSigner, settings: Settings):
    """What is broken is on the page at once and later, and gone when it is corrected."""
    found = ["agents/a.yaml: `<name>` \u202e is missing."]
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(b""), broken=lambda: found)
    async with peer(app, "127.0.0.1") as client:
        page = (await client.get("/widget-demo")).text
        assert '<body data-watch="on">' in page
        assert '<section class="problems" role="alert">' in page
        assert "<li>agents/a.yaml: `&lt;name&gt;` \\u{202e} is missing.</li>" in page
        status = (await client.get("/widget-demo/status")).json()
        assert status["problems"] == ["agents/a.yaml: `<name>` \\u{202e} is missing."]
        assert [each["name"] for each in status["agents"]] == ["assistant", "filed"]
        assert "demonstration" in status["agents"][0]["notice"]
        found.clear()
        assert '<section class="problems" role="alert" hidden>' in (await client.get("/widget-demo")).text
        assert (await client.get("/widget-demo/status")).json()["problems"] == []


async def test_the_root_leads_this_machine_to_the_page(app: FastAPI, locked: FastAPI):
    """Whom the page is open to is led there from `/`; to all others there is nothing, as at any unknown address."""
    async with peer(app, "127.0.0.1") as near, peer(app, "203.0.113.7") as far, peer(locked, "127.0.0.1") as asked:
        led = await near.get("/")
        assert (led.status_code, led.headers["location"]) == (307, "/widget-demo")
        assert led.headers["Cache-Control"] == "no-store"
        refused = [await far.get("/"), await asked.get("/"), await near.get("/", headers={"Host": "evil.example"})]
        refused += [await near.get("/", headers=header) for header in FORWARDED]
        for answer in refused:
            assert answer.status_code == 404
            assert (answer.json()["code"], answer.json()["detail"]) == ("not_found", "There is nothing at `/`.")
        assert (await asked.get("/", auth=("", "open sesame"))).status_code == 307


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


@for_each("path", DEMO)
@for_each(
    "host, status",
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


@asynccontextmanager
async def peer(app: FastAPI, address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Give a caller whose connection comes from *address*."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 123))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
        yield client


FORWARDED = ({"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"Via": "1.1 x"}, {"X-Real-IP": "::1"})


@pytest.mark.parametrize("path", DEMO)
async def test_the_demo_is_open_to_this_machine_alone(app: FastAPI, static, path):
    """What counts is the peer of the connection: neither a name nor a header makes another machine this one."""
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 403), ("203.0.113.7", 403)):
        async with peer(app, address) as client:
            assert (await client.get(path)).status_code == status
            for header in FORWARDED:
                answer = await client.get(path, headers=header)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
                assert "PARLEY_DEMO_PASSWORD" in answer.json()["detail"]


@pytest.fixture
def locked(core: Core, tokens: TokenSigner, tmp_path) -> FastAPI:
    """An application whose demo page has a password."""
    settings = Settings(_env_file=None, data=tmp_path, host="::", demo_password="open sesame")  # type: ignore[call-arg]
    return create_app(core, settings, tokens=tokens, api_key=ApiKey(b""))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", DEMO)
async def test_a_password_opens_the_demo(locked: FastAPI, static, path):
    """With a password the page asks every caller for it, this machine's too, and proxies do not matter."""
    for address in ("127.0.0.1", "203.0.113.7"):
        async with peer(locked, address) as client:
            asked = await client.get(path)
            assert (asked.status_code, asked.json()["code"]) == (401, "unauthorized")
            assert asked.headers["WWW-Authenticate"].startswith("Basic ")
            for header in ({}, *FORWARDED):
                answer = await client.get(path, headers=header, auth=("anyone", "open sesame"))
                assert answer.status_code == 200
            assert (await client.get(path, headers={"Authorization": "Basic %%"})).status_code == 401


async def test_wrong_passwords_are_slowed():
    """After five wrong passwords an address, or a /64 network, has to wait, even with the right one; each is logged."""
    time = 1_000.0
    door = Door("open sesame", now=lambda: time, place_of=place_of)

    def asking(password: str, address: str = "203.0.113.7") -> Request:
        header = b"Basic " + base64.b64encode(f"x:{password}".encode())
        scope = {"type": "http", "headers": [(b"authorization", header)], "client": (address, 1)}
        return Request(scope)

    for near, far in (("203.0.113.7", "203.0.113.8"), ("2001:db8::1", "2001:db8:0:1::1")):
        with structlog.testing.capture_logs() as logs:
            for last in "12345":
                with pytest.raises(Unauthorized):
                    await door(asking("guess", near[:-1] + last if ":" in near else near))
        assert [each["event"] for each in logs] == ["demo_password.wrong"] * 4 + ["demo_password.slowed"]
        assert "guess" not in str(logs)
        with pytest.raises(RateLimited) as caught:
            await door(asking("open sesame", near))
        assert caught.value.retry_after == WAIT
        await door(asking("open sesame", far))
        time += WAIT
        await door(asking("open sesame", near))


@pytest.mark.whole
async def test_only_names_of_the_list_are_answered(core: Core, tokens: TokenSigner, tmp_path):
    """With PARLEY_HOSTS other names answer 421 as a problem; health does under any, this machine under its own."""
    settings = Settings(_env_file=None, data=tmp_path, hosts="parley.example.com, *.example.org")  # type: ignore[call-arg]
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(b""))
    async with peer(app, "127.0.0.1") as near, peer(app, "203.0.113.7") as far:
        for client, host, status in (
            (far, "parley.example.com", 200),
            (far, "PARLEY.example.com:8443", 200),
            (far, "a.example.org", 200),
            (far, "example.org", 421),
            (far, "evil.example", 421),
            (far, "parley.example.com.evil.example", 421),
            (far, "localhost", 421),
            (far, "[", 421),
            (near, "localhost:8000", 200),
            (near, "evil.example", 421),
        ):
            answer = await client.get("/openapi.json", headers={"Host": host})
            assert answer.status_code == status, host
            assert (await client.get("/healthz", headers={"Host": host})).status_code == 200
        assert answer.json()["code"] == "wrong_host"
        assert (await near.get("/openapi.json", headers={"X-Forwarded-For": "203.0.113.7"})).status_code == 421


async def test_the_demo_is_gone_when_it_is_off(core: Core, tokens: TokenSigner, tmp_path):
    """With PARLEY_DEMO off neither page nor token exist."""
    settings = Settings(_env_file=None, data=tmp_path, demo_page=False)  # type: ignore[call-arg]
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(b""))
    async with caller(app, "") as client:
        for path in ("/", *DEMO):
            assert (await client.get(path, headers={"Host": "localhost"})).status_code == 404


async def test_the_script_is_asked_for_again_and_sent_once(anyone: httpx.AsyncClient, static):
    """The bundle has a tag; who has it already gets 304."""
    first = await anyone.get("/widget/parley-chat.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert first.headers["Cache-Control"] == "no-cache"
    tag = first.headers["ETag"]
    again = await anyone.get("/widget/parley-chat.js", headers={"If-None-Match": f'"old", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")


async def test_no_two_versions_of_the_scripts_meet(anyone: httpx.AsyncClient):
    """Each chunk is named by its hash where it is loaded from: kept for good, and missing under another's."""
    texts = [(await anyone.get(f"/widget/{name}")).text for name in widget().files]
    pages = {"parley-chat.js", "parley-operator.js", "parley-loader.js", "parley-frame.js"}
    for chunk in (name for name in widget().files if name not in pages):
        key = re.escape(chunk.removeprefix("parley-").removesuffix(".js"))
        (pin,) = {each for text in texts for each in re.findall(rf'[{{,]"?{key}"?:"([A-Za-z0-9+/]{{43}}=)"', text)}
        version = pin[:16].replace("+", "-").replace("/", "_")
        kept = await anyone.get(f"/widget/{chunk}?v={version}")
        assert base64.b64encode(hashlib.sha256(kept.content).digest()).decode() == pin
        assert kept.headers["content-type"].startswith("text/javascript")
        assert "immutable" in kept.headers["Cache-Control"]
    assert (await anyone.get("/widget/parley-renders.js?v=0123456789abcdef")).status_code == 404
    latest = await anyone.get("/widget/parley-renders.js")
    assert (latest.status_code, latest.headers["Cache-Control"]) == (200, "no-cache")


async def test_a_pinned_version_never_changes(anyone: httpx.AsyncClient):
    """Under the version of its build a script is what its `integrity` says, for good; under another there is none."""
    build, files = widget().build, widget().files
    for name, file in files.items():
        answer = await anyone.get(f"/widget/{build}/{name}")
        assert f"sha384-{base64.b64encode(hashlib.sha384(answer.content).digest()).decode()}" == file.integrity
        assert len(answer.content) == file.bytes
        assert "immutable" in answer.headers["Cache-Control"]
    assert (await anyone.get("/widget/000000000000/parley-chat.js")).status_code == 404
    assert (await anyone.get(f"/widget/{build}/demo.js")).status_code == 404


async def test_a_refused_actor_is_named_without_the_words_of_a_library(client: httpx.AsyncClient):
    """What is wrong with a field is said of that field, whatever branch of a union and validator found it."""
    answer = await client.post("/v1/web/visitor-tokens", json={"actor": {"id": "operator"}, "agent": "assistant"})
    assert answer.status_code == 422
    assert {each["path"] for each in answer.json()["errors"]} <= {"actor", "actor.id"}
    assert "function-" not in answer.text


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

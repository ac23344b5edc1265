"""The operator's page over HTTP: who may log in, what the cookie and the tokens open, and what ends them."""

import base64
import hashlib
import re
import socket

import httpx
import pytest
import structlog
from fastapi import FastAPI

from agent_core.core import Core
from app.compose import create_app
from app.settings import Settings
from app.storage import ApiKey, Keys
from channels.web.identity import LOGIN_SECONDS, OPERATOR, OPERATOR_SECONDS, SCOPES, TokenSigner
from tests.app.conftest import KEY, SECRET, caller
from tests.cases import for_each

OWN = {"Sec-Fetch-Site": "same-origin"}


async def log_in(anyone: httpx.AsyncClient, key: str = KEY) -> httpx.Response:
    return await anyone.post("/operator/login", json={"key": key}, headers=OWN)


async def token_of(anyone: httpx.AsyncClient) -> str:
    answer = await anyone.post("/operator/token", headers=OWN)
    assert answer.status_code == 200, answer.text
    return answer.json()["token"]


async def make_key(client: httpx.AsyncClient, *scopes: str) -> dict:
    made = await client.post("/v1/keys", json={"name": "Mara", "scopes": list(scopes)})
    assert made.status_code == 201
    return made.json()


@for_each("path", ["/operator", "/operator/"])
async def test_the_page_is_bound_by_a_strict_policy(anyone: httpx.AsyncClient, path: str):
    """The page runs the one script whose hash it names, has no inline code, cannot be framed, and is kept nowhere."""
    page = await anyone.get(path)
    assert page.status_code == 200
    policy = dict(rule.split(" ", 1) for rule in page.headers["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page.text)
    assert scripts == [""]
    assert "<style" not in page.text
    assert "{{" not in page.text
    script = await anyone.get("/widget/parley-operator.js")
    digest = base64.b64encode(hashlib.sha384(script.content).digest()).decode()
    assert f'src="/widget/parley-operator.js" integrity="sha384-{digest}"' in page.text
    again = await anyone.get("/widget/parley-operator.js", headers={"If-None-Match": script.headers["ETag"]})
    assert again.status_code == 304


async def test_a_key_becomes_a_cookie_without_the_key(anyone: httpx.AsyncClient):
    """After a login the browser keeps a signed cookie for this page alone, which no script can read."""
    done = await log_in(anyone)
    assert done.status_code == 200
    assert done.json() == {"actor": {"id": "operator", "kind": "service"}, "scopes": sorted(SCOPES)}
    cookie = done.headers["set-cookie"]
    assert KEY not in cookie
    assert f"Max-Age={LOGIN_SECONDS}" in cookie
    rules = {rule.strip().lower() for rule in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/operator"} <= rules
    assert "secure" not in rules, "this one came by http"
    assert done.headers["Cache-Control"] == "no-store"


async def test_the_cookie_goes_over_https_alone_where_there_is(core: Core, tokens: TokenSigner, tmp_path):
    """Where others reach the server by https, the cookie is sent by nothing else."""
    settings = Settings(_env_file=None, data=tmp_path, public_url="https://parley.example")  # type: ignore[call-arg]
    app = create_app(core, settings, tokens=tokens, api_key=ApiKey(hashlib.sha256(KEY.encode()).digest()))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://parley.example") as anyone:
        done = await log_in(anyone)
    assert "; secure" in done.headers["set-cookie"].lower()
    assert "Strict-Transport-Security" in done.headers


async def test_the_token_of_a_login_opens_the_api(app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient):
    """The page's token lasts minutes, acts as the key, and opens what the key's scopes open."""
    key = await make_key(client, "read")
    await log_in(anyone, key["secret"])
    made = (await anyone.post("/operator/token", headers=OWN)).json()
    assert made["scopes"] == ["read"]
    assert made["actor"] == {"id": key["actor"], "kind": "service", "name": "Mara"}
    async with caller(app, made["token"]) as page:
        assert (await page.get("/v1/sessions")).status_code == 200
        refused = await page.post("/v1/sessions", json={"agent": "assistant"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_the_token_is_short(anyone: httpx.AsyncClient, tokens: TokenSigner):
    """A token that leaks from the page is worthless after minutes; near the end of the login it ends with that."""
    await log_in(anyone)
    read = tokens.read_login(anyone.cookies["parley_operator"])
    assert read is not None
    now = read.expires - LOGIN_SECONDS
    assert abs(tokens.operator_of(read, OPERATOR, ()).expires - now - OPERATOR_SECONDS) <= 2
    late = TokenSigner(Keys(SECRET).derive, now=lambda: read.expires - 7)
    assert late.operator_of(read, OPERATOR, ()).expires == read.expires


async def test_the_cookie_opens_nothing_of_the_api(anyone: httpx.AsyncClient):
    """Neither a browser's cookie nor its text as a bearer token opens /v1: no other site can use it there."""
    await log_in(anyone)
    assert (await anyone.get("/v1/sessions")).status_code == 401
    text = anyone.cookies["parley_operator"]
    assert (await anyone.get("/v1/sessions", headers={"Authorization": f"Bearer {text}"})).status_code == 401


async def test_no_token_logs_in(
    app: FastAPI, anyone: httpx.AsyncClient, tokens: TokenSigner, visitor: httpx.AsyncClient
):
    """Only a key logs in: no visitor's token, no operator's, and no token as a cookie."""
    for text in (visitor.headers["Authorization"].removeprefix("Bearer "), tokens.operator().text):
        assert (await log_in(anyone, text)).status_code == 401
        anyone.cookies.set("parley_operator", text)
        assert (await anyone.post("/operator/token", headers=OWN)).status_code == 401
        anyone.cookies.clear()


@for_each("path", ["/operator/login", "/operator/token", "/operator/logout"])
@for_each(
    "headers, is_own",
    [
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://127.0.0.1:9000"}, False),
        ({"Origin": "http://127.0.0.1:8000"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://parley.example"}, True),
    ],
)
async def test_other_sites_are_refused(anyone: httpx.AsyncClient, path: str, headers: dict[str, str], is_own: bool):
    """No page of another site logs a person in or out, or gets a token, whatever cookie the browser would send."""
    answer = await anyone.post(path, json={"key": KEY} if "login" in path else None, headers=headers)
    assert (answer.status_code == 403) is not is_own
    assert is_own or "set-cookie" not in answer.headers


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("near", "host", "settings", "status"),
    [
        (True, "localhost:8000", {}, 200),
        (True, "[::1]:8000", {}, 200),
        (True, "192.168.1.5:8000", {}, 200),
        (True, f"{socket.gethostname()}:8000", {}, 200),
        (True, "rebind.evil:8000", {}, 403),
        (True, "localhost.rebind.evil", {}, 403),
        (True, "127.0.0.1.rebind.evil", {}, 403),
        (True, "", {}, 403),
        (True, "rebind.evil:8000", {"host": "::"}, 403),
        (True, "parley.example", {"public_url": "http://parley.example"}, 200),
        (True, "parley.example", {"hosts": "parley.example"}, 200),
        (True, "rebind.evil", {"hosts": "parley.example"}, 421),
        (False, "parley:8000", {"host": "::"}, 200),
    ],
    ids=str,
)
async def test_names_that_lead_here_from_elsewhere_are_refused(
    core: Core, tokens: TokenSigner, tmp_path, near: bool, host: str, settings: dict[str, str], status: int
):
    """A browser on this machine gets the page under the machine's names and addresses; others by any name it has."""
    made = Settings(_env_file=None, data=tmp_path, **settings)  # type: ignore[call-arg]
    app = create_app(core, made, tokens=tokens, api_key=ApiKey(hashlib.sha256(KEY.encode()).digest()))
    transport = httpx.ASGITransport(app, client=("127.0.0.1" if near else "10.0.0.7", 123))
    own = {"Host": host, "Origin": f"http://{host}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as anyone:
        page = await anyone.get("/operator", headers=own)
        done = await anyone.post("/operator/login", json={"key": KEY}, headers=own)
        token = await anyone.post("/operator/token", headers=own)
    assert [each.status_code for each in (page, done, token)] == [status] * 3


async def test_forms_of_other_sites_are_not_read(anyone: httpx.AsyncClient):
    """A login is JSON, which no form of another site can send."""
    assert (await anyone.post("/operator/login", data={"key": KEY}, headers=OWN)).status_code == 400


async def test_failed_logins_are_logged_and_slowed(anyone: httpx.AsyncClient):
    """A wrong key answers 401, is logged with its address and without the key, and after thirty a minute 429."""
    with structlog.testing.capture_logs() as logs:
        first = await log_in(anyone, "wrong-key")
        assert (first.status_code, first.json()["code"]) == (401, "unauthorized")
        for _ in range(29):
            await log_in(anyone, "wrong-key")
        slowed = await log_in(anyone, "wrong-key")
    assert slowed.status_code == 429
    assert int(slowed.headers["Retry-After"]) > 0
    assert logs[0]["event"] == "login.failed"
    assert "wrong-key" not in str(logs)
    assert (await log_in(anyone)).status_code == 200, "a valid key still works"


async def test_revoking_the_key_ends_its_logins(app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient):
    """Once a key is revoked, neither the cookie nor a token of a login with it is accepted."""
    key = await make_key(client, "read")
    await log_in(anyone, key["secret"])
    token = await token_of(anyone)
    await client.delete(f"/v1/keys/{key['id']}")
    assert (await anyone.post("/operator/token", headers=OWN)).status_code == 401
    async with caller(app, token) as page:
        assert (await page.get("/v1/sessions")).status_code == 401


async def test_rotating_the_key_ends_its_logins(app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient):
    """A new secret ends logins at once, and the old secret, though it works on for programs, logs no one in."""
    key = await make_key(client, "read")
    await log_in(anyone, key["secret"])
    token = await token_of(anyone)
    fresh = (await client.post(f"/v1/keys/{key['id']}/rotate", json={"grace": 3600})).json()["secret"]
    assert (await anyone.post("/operator/token", headers=OWN)).status_code == 401
    async with caller(app, token) as page:
        assert (await page.get("/v1/sessions")).status_code == 401
    async with caller(app, key["secret"]) as program:
        assert (await program.get("/v1/sessions")).status_code == 200
    assert (await log_in(anyone, key["secret"])).status_code == 401
    assert (await log_in(anyone, fresh)).status_code == 200


async def test_another_printed_key_ends_the_logins_of_the_one_before(core: Core, anyone: httpx.AsyncClient, tmp_path):
    """A login with PARLEY_API_KEY ends when the server is started with another one."""
    await log_in(anyone)
    cookie = anyone.cookies["parley_operator"]
    settings = Settings(_env_file=None, data=tmp_path)  # type: ignore[call-arg]
    for key, status in ((KEY, 200), ("another-key", 401)):
        digest = ApiKey(hashlib.sha256(key.encode()).digest())
        app = create_app(core, settings, tokens=TokenSigner(Keys(SECRET).derive), api_key=digest)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as again:
            again.cookies.set("parley_operator", cookie)
            assert (await again.post("/operator/token", headers=OWN)).status_code == status


async def test_changed_scopes_end_tokens_and_keep_the_login(
    app: FastAPI, anyone: httpx.AsyncClient, client: httpx.AsyncClient
):
    """A key that loses a scope loses it in the page at once; the next token has the new scopes."""
    key = await make_key(client, "read", "run")
    await log_in(anyone, key["secret"])
    token = await token_of(anyone)
    await client.patch(f"/v1/keys/{key['id']}", json={"scopes": ["read"]})
    async with caller(app, token) as page:
        assert (await page.get("/v1/sessions")).status_code == 401
    assert (await anyone.post("/operator/token", headers=OWN)).json()["scopes"] == ["read"]


async def test_logging_out_ends_the_login_everywhere(app: FastAPI, anyone: httpx.AsyncClient):
    """After the logout the cookie is gone, and a copy of it or of its tokens opens nothing; other logins go on."""
    await log_in(anyone)
    other = anyone.cookies["parley_operator"]
    anyone.cookies.clear()
    await log_in(anyone)
    cookie, token = anyone.cookies["parley_operator"], await token_of(anyone)
    done = await anyone.post("/operator/logout", headers=OWN)
    assert done.status_code == 204
    assert "Max-Age=0" in done.headers["set-cookie"]
    for text, status in ((cookie, 401), (other, 200)):
        anyone.cookies.clear()
        anyone.cookies.set("parley_operator", text, domain="127.0.0.1", path="/operator")
        assert (await anyone.post("/operator/token", headers=OWN)).status_code == status
    async with caller(app, token) as page:
        assert (await page.get("/v1/sessions")).status_code == 401


async def test_a_login_is_over_after_a_working_day(anyone: httpx.AsyncClient, tokens: TokenSigner):
    """The login ends twelve hours after it began, however much it was used."""
    await log_in(anyone)
    cookie = anyone.cookies["parley_operator"]
    read = tokens.read_login(cookie)
    assert read is not None
    assert TokenSigner(Keys(SECRET).derive, now=lambda: read.expires - 1).read_login(cookie) == read
    assert TokenSigner(Keys(SECRET).derive, now=lambda: read.expires).read_login(cookie) is None


async def test_logins_are_on_the_record(anyone: httpx.AsyncClient, client: httpx.AsyncClient):
    """Who logged in and out is in the record of operations, under the id that revokes the login."""
    key = await make_key(client, "read")
    await log_in(anyone, key["secret"])
    await anyone.post("/operator/logout", headers=OWN)
    lines = [line for line in (await client.get("/v1/audit")).text.splitlines() if "/operator/" in line]
    assert [re.findall(r"POST /operator/(\w+)", line) for line in lines] == [["login"], ["logout"]]
    assert [line for line in lines if key["actor"] not in line] == []


async def test_a_login_can_be_revoked_by_its_id(anyone: httpx.AsyncClient, client: httpx.AsyncClient, tokens):
    """An operator ends another's login by the id that the record names."""
    await log_in(anyone)
    login = tokens.read_login(anyone.cookies["parley_operator"])
    await client.post("/v1/web/revocations", json={"token": login.id})
    assert (await anyone.post("/operator/token", headers=OWN)).status_code == 401

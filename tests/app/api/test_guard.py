"""The gate before all routes."""

import asyncio
import re
import time

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from agent_core.messages import Actor
from app.api import guard
from app.api.guard import BODIES, RequestGuard
from app.storage import Keys
from channels.web.identity import TokenSigner
from tests.app.api.test_keys import made
from tests.app.conftest import KEY, SECRET, caller
from tests.cases import for_each

JSON = {"Content-Type": "application/json"}
PROBLEM = "application/problem+json"


@for_each("header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}])
@for_each("path", ["/v1/agents", "/v1/runs/x/events", "/v1/nothing"])
async def test_every_route_under_v1_asks_for_a_key(anyone: httpx.AsyncClient, path, header):
    """Without a key or token that counts everything under /v1 answers 401 and says how to ask."""
    answer = await anyone.get(path, headers=header)
    assert (answer.status_code, answer.headers["content-type"]) == (401, PROBLEM)
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
async def test_health_and_description_are_open(anyone: httpx.AsyncClient, path):
    """No key is asked for by health, readiness and the API's description."""
    assert (await anyone.get(path)).status_code == 200


@for_each(
    "content",
    [b"{", b'{"agent": NaN}', b'{"agent": "\\ud800"}', b"\xff", b'{"a": 1e999}', b'{"a": ' + b"9" * 5_000 + b"}"],
)
async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient, content):
    """Malformed JSON answers 400 invalid_json, whatever is wrong with it."""
    answer = await client.post("/v1/sessions", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, PROBLEM)
    assert answer.json()["code"] == "invalid_json"


async def test_another_media_type_is_not_json(client: httpx.AsyncClient):
    """A form answers 400 invalid_json with the header to send."""
    answer = await client.post("/v1/sessions", data={"agent": "assistant"})
    assert answer.status_code == 400
    assert "application/json" in answer.json()["detail"]


@for_each(
    "path, most",
    [
        ("/v1/sessions", 64_000),
        ("/v1/web/visitor-tokens", 64_000),
        ("/v1/sessions/x/fork", 64_000),
        ("/v1/runs/x/cancel", 64_000),
        ("/v1/sessions/x/messages", 409_600),
        ("/v1/agents/assistant/runs", 409_600),
        ("/v1/runs/x/tool-outputs", 409_600),
        ("/v1/approvals/x", 409_600),
        ("/v1/agents", 2_000_000),
    ],
)
async def test_a_body_has_the_bound_of_its_route(client: httpx.AsyncClient, path: str, most: int):
    """One byte more answers 413 and names the bound, with and without a `Content-Length`; as many pass the guard."""

    async def pieces(size: int):
        for begin in range(0, size, 50_000):
            yield b" " * min(50_000, size - begin)

    for content in (b" " * (most + 1), pieces(most + 1)):
        answer = await client.post(path, content=content, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert f"{most:,}" in answer.json()["detail"]
    assert (await client.post(path, content=pieces(most), headers=JSON)).status_code == 400


def test_each_bound_is_that_of_a_route(app: FastAPI):
    """The table of bounds names no route that does not exist; Slack's are there once Slack is served."""
    known = {context.path_format for context in iter_route_contexts(app.routes)}
    assert {path for path in BODIES if not path.startswith("/slack/")} <= known


@pytest.mark.parametrize(
    ("method", "path", "key", "status"),
    [
        ("POST", "/v1/sessions", "Bearer wrong", 401),
        ("POST", "/v1/sessions", None, 401),
        ("POST", "/v1/nothing", "operator", 404),
        ("POST", "/nothing", None, 404),
        ("POST", "/slack/events", None, 404),
        ("POST", "/slack/nothing", None, 404),
        ("PUT", "/v1/sessions", "operator", 405),
        ("POST", "/healthz", None, 405),
        ("POST", "/widget-demo", None, 405),
        ("POST", "/v1/agents", "visitor", 403),
        ("POST", "/v1/agents/assistant/runs", "visitor", 403),
        ("PATCH", "/v1/agents/assistant", "visitor", 403),
        ("POST", "/v1/web/visitor-tokens", "visitor", 403),
    ],
)
async def test_refusals_leave_the_body_unread(app: FastAPI, tokens, core, method, path, key, status):
    """Unknown callers, paths and methods, and what is not the caller's to do, are answered with the body unread."""
    agent = await core.agents.get("assistant")
    visitor = tokens.visitor(Actor(id="ada", kind="visitor"), agent=agent.id).text
    credential = {"operator": f"Bearer {KEY}", "visitor": f"Bearer {visitor}"}.get(key, key)
    read = 0

    async def endless():
        nonlocal read
        while True:
            read += 1
            yield b"["

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as caller:
        headers = {**JSON, **({} if credential is None else {"Authorization": credential})}
        answer = await caller.request(method, path, content=endless(), headers=headers)
    assert (answer.status_code, answer.headers["content-type"], read) == (status, PROBLEM, 0)


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/keys", "/v1/approvals/apr_1"])
async def test_a_key_without_the_scope_leaves_the_body_unread(app: FastAPI, client: httpx.AsyncClient, path: str):
    """What a key may not do is refused before anything of it is read."""
    key, read = await made(client, "read"), []

    async def endless():
        while True:
            read.append(1)
            yield b"["

    async with caller(app, key["secret"]) as reports:
        answer = await reports.post(path, content=endless(), headers=JSON)
    assert (answer.status_code, answer.json()["code"], read) == (403, "forbidden", [])


async def test_values_of_a_body_are_bounded(client: httpx.AsyncClient):
    """More than 20,000 fields and items answer 422, before the body is read as JSON or whole."""

    async def endless():
        yield b'{"text": "a", "metadata": ['
        for _ in range(1_000):
            yield b"1," * 1_000
        raise AssertionError("it was read on")

    answer = await client.post("/v1/sessions/x/messages", content=endless(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "20,000" in answer.json()["detail"]


@for_each("count", [21, 900, 9_000])
@for_each("letter", ["a", "\x01", "🦊"])
async def test_errors_name_twenty_fields_in_eight_kilobytes(client: httpx.AsyncClient, count: int, letter: str):
    """However many fields are wrong, and however they are called, the answer is short and says how many more."""
    width = 50 if count < 1_000 else 1
    body = {f"{letter * width}{number}": 1 for number in range(count)}
    answer = await client.post("/v1/agents/assistant/runs", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert len(answer.content) <= 8_000
    *named, rest = answer.json()["errors"]
    assert 1 <= len(named) <= 20
    assert rest["path"] == ""
    assert re.fullmatch(r"… and [\d,]+ more\.", rest["message"])
    assert int(re.sub(r"\D", "", rest["message"])) + len(named) in {count, count + 1}  # and that `input` is missing


async def test_large_bodies_at_once_are_bounded(app: FastAPI, monkeypatch):
    """What all callers together have sent of unfinished bodies is bounded; beyond it the answer is 503, for a while."""
    monkeypatch.setattr(guard, "MAX_BODIES", guard.MAX_BODIES._replace(everyone=100_000))
    first, began = asyncio.Event(), asyncio.Event()

    async def held():
        yield b'{"text": "' + b"x" * 90_000
        began.set()
        await first.wait()
        yield b'"}'

    async with caller(app, KEY) as one, caller(app, KEY) as two:
        waiting = asyncio.create_task(one.post("/v1/sessions/x/messages", content=held(), headers=JSON))
        await began.wait()
        refused = await two.post("/v1/sessions/y/messages", json={"text": "y" * 20_000})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        first.set()
        assert (await waiting).status_code == 404
        assert (await two.post("/v1/sessions/y/messages", json={"text": "y" * 20_000})).status_code == 404


async def test_one_visitor_leaves_room_for_others(app: FastAPI, tokens, core, monkeypatch):
    """What one visitor has sent of unfinished bodies is bounded; others, and operators, go on."""
    monkeypatch.setattr(guard, "MAX_BODIES", guard.MAX_BODIES._replace(visitor=60_000))
    agent = (await core.agents.get("assistant")).id
    ada, ben = (tokens.visitor(Actor(id=name, kind="visitor"), agent=agent).text for name in ("ada", "ben"))
    began, end = asyncio.Event(), asyncio.Event()

    async def held():
        yield b'{"text": "' + b"x" * 50_000
        began.set()
        await end.wait()
        yield b'"}'

    async with caller(app, ada) as first, caller(app, ben) as second, caller(app, KEY) as operator:
        url, large = "/v1/sessions/x/messages", {"text": "y" * 20_000}
        waiting = asyncio.create_task(first.post(url, content=held(), headers=JSON))
        await began.wait()
        assert (await first.post(url, json=large)).status_code == 503
        assert (await second.post(url, json=large)).status_code == 404
        assert (await operator.post(url, json=large)).status_code == 404
        end.set()
        assert (await waiting).status_code == 404
        assert (await first.post(url, json=large)).status_code == 404


async def test_forms_of_one_address_leave_room_for_others(app: FastAPI, tokens, core, monkeypatch):
    """Forms that stall are bounded by address too, for an id may cost nothing; at another address there is room."""
    monkeypatch.setattr(guard, "MAX_FORMS", guard.MAX_FORMS._replace(address=60_000))
    agent = (await core.agents.get("assistant")).id
    began, end = asyncio.Event(), asyncio.Event()
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'

    async def held():
        yield head + b"x" * 50_000
        began.set()
        await end.wait()
        yield b"\r\n--x--\r\n"

    def visitor(id: str, address: str) -> httpx.AsyncClient:
        token = tokens.visitor(Actor(id=id, kind="visitor"), agent=agent).text
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "multipart/form-data; boundary=x"}
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)

    form = head + b"y" * 20_000 + b"\r\n--x--\r\n"
    async with visitor("ada", "203.0.113.7") as ada, visitor("ben", "203.0.113.7") as ben:
        waiting = asyncio.create_task(ada.post("/v1/files", content=held()))
        await began.wait()
        assert (await ben.post("/v1/files", content=form)).status_code == 503
        async with visitor("ben", "203.0.113.8") as elsewhere:
            assert (await elsewhere.post("/v1/files", content=form)).status_code == 201
        end.set()
        assert (await waiting).status_code == 201
        assert (await ben.post("/v1/files", content=form)).status_code == 201


SIGNATURE = {"X-Slack-Request-Timestamp": "1700000000", "X-Slack-Signature": "v0=" + "0" * 64}


def slack_from(address: str) -> httpx.AsyncClient:
    """Return a client at *address* of the one application that all tests of Slack's edge use."""
    transport = httpx.ASGITransport(SLACK, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://parley.test")


async def _ok(request: Request) -> Response:
    return Response(str(len(await request.body())))


_routes = [Route("/slack/events", _ok, methods=["POST"])]
SLACK = RequestGuard(Router(_routes), routes=_routes)


async def test_one_address_does_not_silence_slack(monkeypatch):
    """Unfinished bodies of one address are bounded, and those of other addresses are still read."""
    monkeypatch.setattr(guard, "MAX_BODIES", guard.MAX_BODIES._replace(address=100_000))
    end = asyncio.Event()
    began: asyncio.Queue[None] = asyncio.Queue()

    async def held():
        yield b"x" * 45_000
        began.put_nowait(None)
        await end.wait()

    async with slack_from("203.0.113.7") as one, slack_from("203.0.113.8") as other:
        waiting = [asyncio.create_task(one.post("/slack/events", content=held(), headers=SIGNATURE)) for _ in range(2)]
        for _ in waiting:
            await began.get()
        assert (await one.post("/slack/events", content=b"x" * 45_000, headers=SIGNATURE)).status_code == 503
        assert (await other.post("/slack/events", content=b"x" * 45_000, headers=SIGNATURE)).text == "45000"
        end.set()
        assert [answer.text for answer in await asyncio.gather(*waiting)] == ["45000"] * 2
        assert (await one.post("/slack/events", content=b"x" * 45_000, headers=SIGNATURE)).text == "45000"


@for_each(
    "headers",
    [
        {},
        {**SIGNATURE, "X-Slack-Signature": "v0=short"},
        {**SIGNATURE, "X-Slack-Request-Timestamp": "soon"},
        {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "1001"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
async def test_what_is_not_signed_like_slack_is_not_read(headers: dict[str, str]):
    """Without well-formed signature headers Slack's paths answer 401 and read no body, but for a short form."""

    async def endless():
        raise AssertionError("it was read")
        yield b""

    async with slack_from("203.0.113.7") as client:
        answer = await client.post("/slack/events", content=endless(), headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (401, PROBLEM)
        assert answer.json()["code"] == "unauthorized"
        assert (await client.post("/slack/events", data={"ssl_check": "1"})).text == "11"


NUL = "a\0b"


@for_each(
    "path, body, field",
    [
        ("/v1/sessions/x/messages", {"text": NUL}, "text"),
        ("/v1/sessions/x/messages", {"text": "a", "idempotency_key": NUL}, "idempotency_key"),
        ("/v1/agents/assistant/runs", {"input": NUL}, "input"),
        (
            "/v1/agents/assistant/runs",
            {"messages": [{"role": "user", "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": NUL}]}]},
            "messages[0].parts[1].text",
        ),
        ("/v1/sessions", {"agent": "assistant", "actor": {"id": "u1", "name": NUL}}, "actor.name"),
        ("/v1/sessions", {"agent": "assistant", "actor": NUL}, "actor"),
        ("/v1/sessions", {"agent": "assistant", "metadata": {"a": [1, {"b": NUL}]}}, "metadata.a[1].b"),
        ("/v1/sessions", {"agent": "assistant", "metadata": {"a": {NUL: 1}}}, "metadata.a.a\\u0000b"),
        ("/v1/agents", {"name": "a", "instructions": NUL}, "instructions"),
        ("/v1/web/visitor-tokens", {"agent": "assistant", "actor": NUL}, "actor"),
    ],
)
async def test_the_nul_character_is_refused(client: httpx.AsyncClient, path, body, field):
    """U+0000, which not every database can keep, answers 422 with its place, wherever a body has it."""
    answer = await client.post(path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [error["path"] for error in answer.json()["errors"]] == [field]
    assert "U+0000" in answer.json()["detail"]


async def test_the_nul_character_names_nothing(client: httpx.AsyncClient):
    """An id with U+0000 is unknown, a filter with it is invalid; its escape as plain text is text like any other."""
    assert (await client.get("/v1/sessions/ses%00")).status_code == 404
    assert (await client.get("/v1/sessions?actor=a%00b")).status_code == 422
    answer = await client.post("/v1/sessions", json={"agent": "assistant", "metadata": {"a": ["\\u0000"]}})
    assert answer.json()["metadata"] == {"a": ["\\u0000"]}


async def test_sites_of_the_list_may_call(anyone: httpx.AsyncClient):
    """A preflight of an allowed origin may send token and cursor; another origin gets nothing."""
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization,last-event-id"}
    good = await anyone.options("/v1/sessions", headers={"Origin": "https://site.example", **asked})
    bad = await anyone.options("/v1/sessions", headers={"Origin": "https://evil.example", **asked})
    assert good.status_code == 200
    assert good.headers["Access-Control-Allow-Origin"] == "https://site.example"
    assert "Access-Control-Allow-Origin" not in bad.headers
    assert (bad.status_code, bad.headers["content-type"], bad.json()["code"]) == (403, PROBLEM, "forbidden")


async def test_failed_logins_are_slowed(anyone: httpx.AsyncClient, client: httpx.AsyncClient, visitor, capsys):
    """After thirty wrong keys in a minute an address gets 429 for more; a valid key works, an old token gets 401."""
    wrong = {"Authorization": "Bearer a-guess-that-no-log-has"}
    answers = [await anyone.get("/v1/agents", headers=wrong) for _ in range(32)]
    assert [answer.status_code for answer in answers] == [401] * 30 + [429] * 2
    slowed = answers[-1]
    assert (slowed.json()["code"], 1 <= int(slowed.headers["Retry-After"]) <= 60) == ("rate_limited", True)
    assert (await anyone.get("/v1/agents")).status_code == 401, "without a key nothing failed"
    assert (await client.get("/v1/agents")).status_code == 200
    assert (await visitor.get("/v1/sessions")).status_code == 200
    old = {"Authorization": f"Bearer {expired()}"}
    assert (await anyone.get("/v1/sessions", headers=old)).status_code == 401
    assert "a-guess" not in "".join(capsys.readouterr())


def expired() -> str:
    """Return a visitor's token of yesterday, signed by the application."""
    early = TokenSigner(Keys(SECRET).derive, now=lambda: time.time() - 86_400)
    return early.visitor(Actor(id="ada", kind="visitor"), agent="agent_1").text

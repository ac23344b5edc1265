"""Attackers with requests: paths, hosts, methods, bodies and headers that no client should send."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.e2e.conftest import StartServer
from tests.e2e.frames import Frames
from tests.e2e.problems import keeps_quiet, refused
from tests.e2e.raw import exchange, get
from tests.e2e.server import KEY, Server
from tests.e2e.test_kill import RUNS, id_of, opened

SITE = "https://site.example"
JSON = {"Content-Type": "application/json"}
MAX_CHARACTERS = 100_000
FOX = "🦊"
WINDOW = 1.0
"""Seconds in which what answers at all has answered; one that waits for more is as right."""


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that answers flat out, and lets one site embed its widget."""
    return start_shared(rate=0, PARLEY_ORIGINS=SITE)


async def test_no_path_leads_out(server: Server):
    """However a path is written, it serves no file but the widget's script and the demo page."""
    paths = [
        "/widget/../app/main.py",
        "/widget/../../../../../../etc/passwd",
        "/widget/..%2f..%2fpyproject.toml",
        "/widget/%2e%2e/%2e%2e/pyproject.toml",
        "/widget/..%5c..%5cpyproject.toml",
        "/widget/%252e%252e/pyproject.toml",
        "/widget/parley-chat.js/../demo.html",
        "/widget/parley-chat.js%00.html",
        "/widget/",
        "/widget/demo.html",
        "/static/parley-chat.js",
        "//etc/passwd",
        "/.env",
        "/data/parley.db",
        "/widget-demo/",
        "/widget-demo/../../data/secret.key",
        "http://localhost/etc/passwd",
    ]
    for path in paths:
        refused(await exchange(server, get(path)), 404, "not_found")


async def test_the_demo_answers_to_this_machine_only(server: Server):
    """Page and token of the demo answer to no name but this machine's own, whatever else a request claims."""
    hosts = [
        b"evil.example",
        b"localhost.evil.example",
        b"127.0.0.1@evil.example",
        b"evil.example:80",
        b"127.1",
        b"[",
        b"",
    ]
    for host in hosts:
        refused(await exchange(server, get("/", host=host)), 404, "not_found")
    for path in ("/widget-demo", "/widget-demo/token", "/widget-demo/status"):
        for host in hosts:
            claims = (b"X-Forwarded-Host: localhost", b"Forwarded: host=localhost", b"X-Forwarded-For: 127.0.0.1")
            refused(await exchange(server, get(path, *claims, host=host)), 403, "forbidden")
        for host in (b"localhost", b"127.0.0.1:80", b"[::1]"):
            assert (await exchange(server, get(path, host=host))).status_code == 200
        cross = await exchange(server, get(path, b"Sec-Fetch-Site: cross-site"))
        refused(cross, 403, "forbidden")


async def test_methods_that_a_path_does_not_know(server: Server):
    """A method that a path does not know is 405 with the ones it knows; unknown paths are 404."""
    async with server.client() as client:
        for method, path, allow in [
            ("PUT", "/v1/agents", "GET, POST"),
            ("DELETE", "/v1/sessions", "GET, POST"),
            ("PATCH", "/v1/sessions/x", "DELETE, GET"),
            ("OPTIONS", "/v1/sessions", "GET, POST"),
            ("TRACE", "/healthz", "GET"),
            ("POST", "/widget-demo", "GET"),
        ]:
            answer = await client.request(method, path)
            refused(answer, 405, "method_not_allowed")
            assert answer.headers["allow"] == allow
        for path in ("/v1", "/v1/", "/v2/agents", "/healthz/", "/v1/agents/a%2Fb", "/docs", "/redoc"):
            refused(await client.get(path), 404, "not_found")


async def test_head_has_no_body(server: Server):
    """HEAD is answered without a body, with what GET says or with 405; nothing hangs, not even on a stream."""
    async with server.client() as client:
        session = await opened(client)
        for path in ("/healthz", "/v1/agents", "/openapi.json", "/widget-demo", f"{session}/events", "/nothing"):
            answer = await client.head(path)
            assert answer.content == b""
            assert answer.status_code in {200, 404, 405}


async def test_bodies_that_are_no_json(server: Server):
    """What is not JSON, by its bytes or its content type, is 400 `invalid_json`; what is far too deep 422."""
    bodies = [
        b"{",
        b"nonsense",
        b'{"text": NaN}',
        b'{"text": "a" "b"}',
        b'{"text": "\xff"}',
        b'{"text": "lone \\ud800 surrogate"}',
        b'{"text": "lone \\udc00 surrogate"}',
        b'{"text": "\\ud800\\ud800"}',
        b'{"text": 1e999}',
        b"\x00",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
    ]
    deep = [b"[" * 100_000, b"[" * 50_000 + b"]" * 50_000, b'{"a":' * 60_000 + b"1" + b"}" * 60_000]
    async with server.client() as client:
        path = f"{await opened(client)}/messages"
        for body in bodies:
            refused(await client.post(path, content=body, headers=JSON), 400, "invalid_json")
        for body in deep:
            refused(await client.post(path, content=body, headers=JSON), 422, "invalid_request")
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonx",
            "",
        ):
            sent = await client.post(path, content=b'{"text": "Hello"}', headers={"Content-Type": kind})
            refused(sent, 400, "invalid_json")
        assert (await client.get(path)).json()["items"] == []


async def test_bodies_that_are_no_message(server: Server):
    """JSON that is no message is 422, names the field, and is not taken."""
    async with server.client() as client:
        path = f"{await opened(client)}/messages"
        for body in [
            [],
            None,
            {},
            {"text": ""},
            {"text": " \n\t "},
            {"text": 1},
            {"text": "a\0b"},
            {"text": ["a"]},
            {"text": "a", "role": "system"},
            {"text": "a", "overlap": "shout"},
            {"text": "a", "idempotency_key": "k" * 201},
            {"text": "a", "controls": {"max_steps": 0}},
            {"text": "a", "controls": {"temperature": 3}},
            {"text": "a", "controls": {"effort": "hard"}},
            {"text": "a", "__proto__": {}},
        ]:
            refused(await client.post(path, json=body), 422, "invalid_request")
        refused(await client.post(path, content=b"", headers=JSON), 422, "invalid_request")
        assert (await client.get(path)).json()["items"] == []


@pytest.mark.parametrize("letter", ["x", FOX, '"'])
async def test_the_border_of_a_long_text(server: Server, letter: str):
    """A hundred thousand code points are taken, whatever their bytes, and come back; one more is 413."""
    async with server.client() as client:
        session = await opened(client)
        whole = letter * MAX_CHARACTERS
        assert (await client.post(f"{session}/messages", json={"text": whole})).status_code == 202
        refused(await client.post(f"{session}/messages", json={"text": whole + letter}), 413, "too_large")
        run = await client.post(RUNS, json={"input": whole, "session": id_of(session)})
        assert run.json()["status"] == "completed", run.text
        refused(await client.post(RUNS, json={"input": whole + letter}), 413, "too_large")
        frames = Frames()
        async with client.stream("GET", f"{session}/events?until=idle") as response:
            async for _ in frames.read(response):
                pass
    texts = [frame.data["parts"][0]["text"] for frame in frames.of("message.received")]
    assert texts == [whole, whole]


async def test_bodies_without_end(server: Server):
    """A body over the limit is 413 at once, announced or not, and the server keeps none of it."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b" " * 100_000

    async with server.client() as client:
        before = server.memory
        big = b'{"text": "' + b"x" * 2_000_000 + b'"}'
        refused(await client.post(RUNS, content=big, headers=JSON), 413, "too_large")
        refused(await client.post(RUNS, content=endless(), headers=JSON), 413, "too_large")
        announced = get(RUNS, b"Authorization: Bearer " + KEY.encode(), b"Content-Length: 99999999999999")
        refused(await exchange(server, announced.replace(b"GET", b"POST", 1)), 413, "too_large")
        assert server.memory - before < 30_000_000


async def test_text_with_odd_characters_comes_back(server: Server):
    """Control and direction characters, line ends of every kind and a family of emoji are text like any other."""
    odd = "ab\x1b[31m\u202e\u200d👩‍👩‍👧\ufeff\ufffe\U0010ffff\r\n\u2028\u2029\x7f data: x\n\nevent: run.completed\n"
    async with server.client() as client:
        session = await opened(client)
        run = await client.post(RUNS, json={"input": odd, "session": id_of(session)})
        assert run.json()["status"] == "completed"
        messages = (await client.get(f"{session}/messages")).json()["items"]
        assert messages[0]["parts"] == [{"type": "text", "text": odd}]
        frames = Frames()
        async with client.stream("GET", f"{session}/events?until=idle") as response:
            async for _ in frames.read(response):
                pass
        assert frames.of("message.received")[0].data["parts"] == [{"type": "text", "text": odd}]
        assert len(frames.of("run.completed")) == 1


async def test_nothing_is_injected_into_a_header(server: Server):
    """Line breaks in names, keys and paths reach no header of any answer."""
    evil = "x\r\nSet-Cookie: evil=1\r\n\r\n<script>"
    async with server.client() as client:
        session = await opened(client)
        for answer in [
            await client.post(RUNS, json={"input": "Hi", "mode": "stream", "idempotency_key": evil}),
            await client.post(f"{session}/messages", json={"text": evil, "idempotency_key": evil}),
            await client.post(
                "/v1/sessions", json={"agent": "assistant", "actor": {"id": evil}, "metadata": {evil: evil}}
            ),
            await client.post("/v1/sessions", json={"agent": evil}),
            await client.post("/v1/agents", json={"name": evil, "instructions": "x"}),
            await client.get("/v1/agents/" + "x%0d%0aSet-Cookie:%20evil=1"),
            await client.get("/nothing%0d%0aSet-Cookie:%20evil=1"),
            await client.get("/v1/sessions", params={"actor": evil, "cursor": evil}),
            await client.get(f"{session}/events", params={"after": evil}),
            await client.get("/widget-demo", headers={"Cookie": "parley_visitor=evil; a=b"}),
        ]:
            assert "set-cookie" not in answer.headers
            assert "evil" not in str(answer.headers)
            keeps_quiet(answer)


async def test_a_foreign_site_gets_nothing(server: Server):
    """Only sites that PARLEY_ORIGINS names may read answers; cookies never count."""
    async with server.client() as client:
        for origin, allowed in [
            (SITE, True),
            ("https://evil.example", False),
            ("null", False),
            (f"{SITE}.evil.example", False),
        ]:
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            asked["Access-Control-Request-Headers"] = "authorization,last-event-id,content-type"
            answers = [
                await client.options("/v1/sessions", headers=asked),
                await client.get("/v1/sessions", headers={"Origin": origin}),
                await client.get("/v1/nothing", headers={"Origin": origin}),
                await client.get("/v1/sessions", headers={"Origin": origin, "Authorization": "Bearer wrong"}),
            ]
            for answer in answers:
                assert answer.headers.get("access-control-allow-origin") == (SITE if allowed else None)
                assert "access-control-allow-credentials" not in answer.headers
            assert answers[0].is_success == allowed


async def test_requests_that_are_no_http(server: Server):
    """Whatever comes over the socket, the server answers or hangs up, and goes on serving."""
    key = b"Authorization: Bearer " + KEY.encode()
    for request in [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: a\r\n" + key + b"\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: a\r\n"
        + key
        + b"\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)) + b"\r\n",
    ]:
        await tolerated(server, request)
    async with server.client() as client:
        assert (await client.get("/readyz")).status_code == 200


async def tolerated(server: Server, request: bytes) -> None:
    """Send *request*; the connection is answered, or ended, or waits for the rest of it."""
    try:
        answer = await asyncio.wait_for(exchange(server, request), WINDOW)
    except (TimeoutError, ConnectionError, IndexError):
        return
    assert answer.status_code < 500
    keeps_quiet(answer)


async def test_the_cursor_of_a_stream(server: Server):
    """An invalid sequence number is 400 `unknown_cursor`; the header takes precedence over the parameter."""
    async with server.client() as client:
        session = await opened(client)
        for cursor in ("-1", "1.5", "", "x", "0x1", "1e3", "99", "9" * 30, "٣", "1 ", "+1", "\x00"):
            answer = await client.get(f"{session}/events", params={"after": cursor, "until": "idle"})
            refused(answer, 400, "unknown_cursor")
        for header, after in (("x", "1"), ("-1", "1"), ("99", "1"), ("", "1"), ("1", "-1"), ("1", "")):
            headers = {"Last-Event-ID": header}
            answer = await client.get(f"{session}/events", params={"after": after}, headers=headers)
            refused(answer, 400, "unknown_cursor")
        newest: httpx.Response = await client.get(
            f"{session}/events", params={"after": "0", "until": "idle"}, headers={"Last-Event-ID": "2"}
        )
        assert (newest.status_code, newest.content) == (200, b"")


async def test_a_request_that_is_cut_off_does_nothing(server: Server):
    """A body that ends before its announced length is not acted on, even if what came of it is whole JSON."""
    async with server.client() as client:
        session = await opened(client)
        body = b'{"text": "Hello"}'
        head = get(f"{session}/messages", b"Authorization: Bearer " + KEY.encode(), b"Content-Type: application/json")
        length = b"Content-Length: %d\r\n\r\n" % (len(body) + 1)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.replace(b"GET", b"POST", 1)[:-2] + length + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        await opened(client)
        assert (await client.get(f"{session}/messages")).json()["items"] == []


async def test_parts_are_no_way_around_the_border(server: Server):
    """The parts of a message count together: what is too long as one text is too long as two."""
    async with server.client() as client:
        for size, status in ((MAX_CHARACTERS // 2, 200), (MAX_CHARACTERS // 2 + 1, 413)):
            parts = [{"type": "text", "text": "x" * size}, {"type": "text", "text": "x" * (MAX_CHARACTERS // 2)}]
            answer = await client.post(RUNS, json={"messages": [{"role": "user", "parts": parts}]})
            assert answer.status_code == status, answer.text[:300]

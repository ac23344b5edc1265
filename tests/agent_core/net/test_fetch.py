"""The guarded fetch: what it sends, what it gives back, and what the operator lets through."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from agent_core.net.fetch import Bounds, Fetch, FetchFailed, FetchRefused
from agent_core.testing import FakeClock
from tests.agent_core.net.stage import PUBLIC, Names, Roads, Site, moved, ok, serving
from tests.cases import for_each


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site on loopback."""
    async with serving() as found:
        yield found


@pytest.fixture
def names() -> Names:
    """Names, of which one is public."""
    return Names(site_example=[[PUBLIC]])


@pytest.fixture
async def fetch(names) -> AsyncIterator[Fetch]:
    """A fetch whose public addresses lead to loopback."""
    found = Fetch(resolve=names, dial=Roads())
    yield found
    await found.close()


async def test_an_answer_comes_back(fetch, site):
    """A GET gives the status, the headers in lower case, the body and the address."""
    site.answers["/?q=1"] = ok(b"hi", "X-Kind: plain", status="201 Created")
    found = await fetch(site.url("/?q=1#part"))
    assert (found.status, found.headers["x-kind"], found.body) == (201, "plain", b"hi")
    assert found.url == site.url("/?q=1")
    assert site.requests[0].headers["host"] == f"site.example:{site.port}"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_what_is_sent(fetch, site, method):
    """Any method is sent with the caller's headers and body."""
    await fetch(site.url("/in"), method=method, headers={"X-Sign": "abc", "Content-Type": "a/b"}, body=b"{}")
    request = site.requests[0]
    assert (request.method, request.path, request.body) == (method, "/in", b"{}")
    assert (request.headers["x-sign"], request.headers["content-type"]) == ("abc", "a/b")


async def test_the_head_of_an_answer_alone(fetch, site):
    """A HEAD has no body, however long it would have been."""
    site.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n"
    found = await fetch(site.url(), method="HEAD")
    assert (found.headers["content-length"], found.body) == ("99999999", b"")


@pytest.mark.parametrize("status", ["404 Not Found", "500 Internal Server Error"])
async def test_an_unhappy_answer_is_one(fetch, site, status):
    """A status of 400 and more is no error of the fetch."""
    site.answers["/"] = ok(b"sorry", status=status)
    found = await fetch(site.url())
    assert (found.status, found.body) == (int(status[:3]), b"sorry")


async def test_a_connection_is_kept(fetch, site, names):
    """A second request to the same host takes the same connection, without another lookup."""
    await fetch(site.url("/a"))
    await fetch(site.url("/b"))
    assert (site.connections, names.asked) == (1, ["site.example"])


async def test_a_redirect_of_a_post_is_returned(fetch, site):
    """A redirect in answer to a webhook is returned and not followed."""
    site.answers["/"] = moved("/other", 307)
    found = await fetch(site.url(), method="POST", body=b"{}")
    assert (found.status, [request.path for request in site.requests]) == (307, ["/"])


async def test_the_operator_lets_a_target_through(site):
    """What PARLEY_FETCH_ALLOW names is asked, although its address is private; its other ports are not."""
    fetch = Fetch([f"wiki.internal:{site.port}"], resolve=Names(wiki_internal=[["127.0.0.1"]]))
    assert (await fetch(site.url(host="wiki.internal"))).body == b"hello"
    async with serving() as beside:
        with pytest.raises(FetchRefused, match=f"add wiki.internal:{beside.port} to PARLEY_FETCH_ALLOW"):
            await fetch(beside.url(host="wiki.internal"))
        assert beside.connections == 0
    await fetch.close()


async def test_a_name_that_is_let_through_does_not_open_its_address(site):
    """The entry of a name does not let through its address, nor another name at it, nor the other way round."""
    known = Names(wiki_internal=[["127.0.0.1"]], other_internal=[["127.0.0.1"]])
    by_name, by_address = Fetch([f"wiki.internal:{site.port}"], resolve=known), Fetch([f"127.0.0.1:{site.port}"])
    for url in (site.url(host="127.0.0.1"), site.url(host="other.internal")):
        with pytest.raises(FetchRefused):
            await by_name(url)
    assert (await by_address(site.url(host="127.0.0.1"))).status == 200
    with pytest.raises(FetchRefused):
        await by_address(site.url(host="localhost"))
    await by_name.close()
    await by_address.close()


@for_each(
    "entry, url",
    [
        ("[::1]:8080", "http://[0:0:0:0:0:0:0:1]:8080/"),
        ("WIKI.internal:80", "http://wiki.INTERNAL/"),
        ("wiki.internal:443", "https://wiki.internal/"),
        ("wiki.internal:22", "http://wiki.internal:22/"),
        ("10.0.0.7:6000", "http://10.0.0.7:6000/"),
    ],
)
async def test_how_a_target_is_written(entry, url):
    """A target is the same however it is written, and its port may be any."""
    roads = Roads(closed=["::1", "10.0.0.7", "10.0.0.8"])
    fetch = Fetch([entry], resolve=Names(wiki_internal=[["10.0.0.8"]]), dial=roads)
    with pytest.raises(FetchFailed, match="cannot be reached: refused") as failed:
        await fetch(url)
    assert not isinstance(failed.value, FetchRefused)
    assert len(roads.taken) == 1
    await fetch.close()


@for_each(
    "entry",
    [
        "wiki.internal", "wiki.internal:", "wiki.internal:0", "wiki.internal:65536", "wiki.internal:http", ":80",
        "*:80", "wiki.internal:*", "http://wiki.internal:80", "wiki.internal:80/", "a@wiki.internal:80", "::1:80",
        "[::1]", "0x7f.1:80", "127.1:80", "[fe80::1%eth0]:80", "wiki .internal:80", "wiki.internal.:80",
        "é.internal:80", "",
    ],
)  # fmt: skip
def test_what_is_no_target(entry):
    """An entry of the operator's list that is no host:port is an error at once."""
    with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, settings say it better
        Fetch([entry])


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"])
async def test_no_proxy_is_used(fetch, site, monkeypatch, name):
    """A proxy that the environment names is not asked: it would connect to unchecked addresses."""
    async with serving() as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await fetch(site.url())
        assert (proxy.connections, len(site.requests)) == (0, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "other"), ("Content-Length", "1"), ("Transfer-Encoding", "chunked"), ("Connection", "close"),
        ("Upgrade", "h2c"), ("Proxy-Authorization", "s"), ("TE", "trailers"), ("Accept-Encoding", "br"),
        ("X", "a\r\nX-Other: b"), ("X", "a\n"), ("X", "\0"), ("X", "é"), ("X: Y", "a"), ("X\r\nY", "a"), ("", "a"),
    ],
)  # fmt: skip
async def test_headers_that_are_not_sent(fetch, site, name, value):
    """What frames a message, and what would break out of its line, is refused before anything is sent."""
    with pytest.raises(FetchRefused) as refused:
        await fetch(site.url(), headers={name: value})
    assert site.connections == 0
    assert value not in str(refused.value) or len(value) == 1


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET /", "", "GET\r\nX: 1"])
async def test_methods_that_are_not_sent(fetch, site, method):
    """A tunnel, and what is no method, is refused."""
    with pytest.raises(FetchRefused):
        await fetch(site.url(), method=method)
    assert site.connections == 0


async def test_the_next_address_is_tried(site):
    """Where one address of a name does not answer, the next one does."""
    roads = Roads(closed=["8.8.8.8"])
    fetch = Fetch(resolve=Names(site_example=[["8.8.8.8", PUBLIC]]), dial=roads)
    assert (await fetch(site.url())).status == 200
    assert roads.taken == ["8.8.8.8", PUBLIC]
    await fetch.close()


async def test_an_address_that_is_silent_is_given_up(site):
    """An address that does not answer costs three seconds, then the next one is tried."""

    class Silent(Roads):
        async def connect_tcp(self, host, port, *args, **kwargs):
            if host == "8.8.8.8":
                await asyncio.Event().wait()
            return await super().connect_tcp(host, port)

    clock, roads = FakeClock(), Silent()
    fetch = Fetch(resolve=Names(site_example=[["8.8.8.8", PUBLIC]]), dial=roads, clock=clock)
    asking = asyncio.create_task(fetch(site.url()))
    await clock.slept(3)
    clock.advance(3)
    assert (await asking).status == 200
    assert roads.taken == [PUBLIC]
    await fetch.close()


async def test_this_machine_at_its_public_address(site):
    """A public address that is this machine's own is refused before anything is sent: the inside may be open there."""

    class Own(Roads):
        async def connect_tcp(self, host, port, *args, **kwargs):
            stream = await super().connect_tcp(host, port)
            known = stream.get_extra_info
            stream.get_extra_info = lambda info: (host, 1) if info == "client_addr" else known(info)
            return stream

    names = Names(site_example=[[PUBLIC]])
    fetch = Fetch(resolve=names, dial=Own())
    with pytest.raises(FetchRefused, match="local"):
        await fetch(site.url())
    assert site.requests == []
    await fetch.close()
    allowed = Fetch([f"site.example:{site.port}"], resolve=names, dial=Own())
    assert (await allowed(site.url())).status == 200
    await allowed.close()


@pytest.mark.parametrize("url", ["http://unknown.example/", "https://unknown.example/"])
async def test_an_unknown_host_name(fetch, url):
    """A name without an address is an error that says so."""
    with pytest.raises(FetchFailed, match=r"`unknown\.example:[0-9]+` cannot be reached: its name is not known"):
        await fetch(url)


async def test_a_refused_connection(fetch, site):
    """A refused connection is an error that names host and port, and nothing else of the address."""
    async with serving() as gone:
        pass
    with pytest.raises(FetchFailed) as failed:
        await fetch(gone.url("/secret-path?key=secret"))
    assert f"site.example:{gone.port}" in str(failed.value)
    assert "secret" not in str(failed.value)


async def test_a_client_of_others_is_guarded(site):
    """A client that others make on the transport follows no redirect to a private address, and uses no proxy."""
    names, roads = Names(site_example=[[PUBLIC]], inside_example=[["10.0.0.1"]]), Roads()
    site.answers["/out"] = moved(site.url("/in", host="inside.example"))
    transport = await Fetch(resolve=names, dial=roads).transport()
    async with httpx2.AsyncClient(transport=transport, follow_redirects=True) as client:
        assert (await client.get(site.url())).text == "hello"
        with pytest.raises(FetchRefused):
            await client.get(site.url("/out"))
        with pytest.raises(FetchRefused):
            await client.get(site.url(host="a:b@site.example"))
        with pytest.raises(httpx2.ConnectError):
            await client.get(site.url(host="unknown.example"))
    assert roads.taken == [PUBLIC]


async def test_a_client_gets_its_own_errors_for_a_broken_answer(site):
    """What goes wrong on the wire is an error of httpx2 for a client that others make."""

    async def cut(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal")
        writer.close()

    site.answers["/"] = cut
    transport = await Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=Roads()).transport()
    async with httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(site.url())


async def test_a_stopped_fetch_leaves_no_connection(fetch, site):
    """Cancelling a fetch closes the connection."""
    asked = asyncio.Event()

    async def silence(reader, writer):
        asked.set()
        await reader.read()

    site.answers["/"] = silence
    asking = asyncio.create_task(fetch(site.url(), bounds=Bounds(seconds=60)))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await site.left.wait()

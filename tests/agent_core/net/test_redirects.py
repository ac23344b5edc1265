"""Redirects of the guarded fetch: each is checked like a first request, and takes along no more than it must."""

from collections.abc import AsyncIterator

import pytest

from agent_core.net.fetch import Fetch, FetchRefused
from tests.agent_core.net.stage import PUBLIC, Names, Roads, Site, moved, serving

SECRETS = {"Authorization": "Bearer s", "X-Parley-Signature": "v1=s", "Cookie": "s", "X-Api-Key": "s"}
INSIDE = (
    "http://127.0.0.1:{}/", "http://localhost:{}/", "http://[::1]:{}/", "http://0:{}/", "http://2130706433:{}/",
    "http://0x7f.1:{}/", "http://127。0。0。1:{}/", "//127.0.0.1:{}/", "//10.0.0.1/", "http://169.254.169.254/latest/",
    "http://inside.example:{}/", "https://inside.example/", "http://[::ffff:127.0.0.1]:{}/", "http://127.1:{}/",
    "http://a:b@site.example:{}/", "http://site.example:{}@127.0.0.1/", "http://site.example:22/",
    "file:///etc/passwd", "ftp://site.example/", "gopher://site.example:{}/", "javascript:alert(1)",
    "\\\\127.0.0.1:{}\\", "/\\127.0.0.1:{}/",
    "http:\\\\127.0.0.1:{}/", "http://site.example\\@127.0.0.1:{}/", "http:///127.0.0.1:{}/", "http://", "http://:80/",
    "http://site.example:99999/", "http://site.example./", "//", "http:127.0.0.1:{}", "/a b", "http://[::1",
    "//[", "///127.0.0.1:{}/", "://127.0.0.1:{}/", "///",
    "http://user@169.254.169.254/", "data:text/html,hi", "unix:///run/x.sock", "http://100.100.100.200/", "//0/",
)  # fmt: skip


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site on loopback."""
    async with serving() as found:
        yield found


@pytest.fixture
async def other() -> AsyncIterator[Site]:
    """Another one."""
    async with serving() as found:
        yield found


@pytest.fixture
def roads() -> Roads:
    """Roads to loopback."""
    return Roads()


@pytest.fixture
async def fetch(roads) -> AsyncIterator[Fetch]:
    """A fetch that knows two public sites, and one inside."""
    inside = {"inside.example": [["10.0.0.1"]], "localhost": [["127.0.0.1"]]}
    names = Names(site_example=[[PUBLIC]], other_example=[["8.8.8.8"]], **inside)
    found = Fetch(resolve=names, dial=roads)
    yield found
    await found.close()


@pytest.mark.parametrize(
    "location", ["/there", "there", "//site.example:{}/there", "http://site.example:{}/there", "?x#y"]
)
async def test_a_get_is_sent_on(fetch, site, location):
    """A redirect, written in full or not, is followed, and the answer says where it came from."""
    site.answers["/"] = moved(location.format(site.port))
    found = await fetch(site.url())
    assert found.body == b"hello"
    assert found.url == site.url("/?x" if location == "?x#y" else "/there")


async def test_a_redirect_to_the_inside(fetch, site, other, roads):
    """A public site cannot send a request on to the inside, to odd addresses or to another protocol."""
    for number, location in enumerate(INSIDE):
        site.answers[f"/{number}"] = moved(location.format(other.port))
        with pytest.raises(FetchRefused):
            await fetch(site.url(f"/{number}"))
    assert (len(site.requests), other.connections) == (len(INSIDE), 0)
    assert set(roads.taken) == {PUBLIC}


async def test_a_redirect_at_the_end_of_a_chain(fetch, site, other):
    """The fourth redirect is checked like the first."""
    for n in range(4):
        site.answers[f"/{n}"] = moved(f"/{n + 1}")
    site.answers["/4"] = moved(other.url(host="inside.example"))
    with pytest.raises(FetchRefused, match=r"inside\.example"):
        await fetch(site.url("/0"))
    assert (len(site.requests), other.connections) == (5, 0)


async def test_a_site_that_sends_round_in_circles(fetch, site):
    """After five redirects it is enough, or after as many as the caller says."""
    site.answers["/"] = moved("/")
    with pytest.raises(FetchRefused, match="and so did 5 before it"):
        await fetch(site.url())
    assert len(site.requests) == 6
    with pytest.raises(FetchRefused):
        await fetch(site.url(), redirects=1)
    assert len(site.requests) == 8
    assert (await fetch(site.url(), redirects=0)).status == 302


@pytest.mark.parametrize("status", [300, 304, 305, 306, 309])
async def test_what_is_no_redirect(fetch, site, status):
    """Only the five kinds of redirect are followed."""
    site.answers["/"] = moved("/there", status)
    assert (await fetch(site.url())).status == status


async def test_a_redirect_to_nowhere(fetch, site):
    """A redirect without an address is an answer."""
    site.answers["/"] = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"
    assert (await fetch(site.url())).status == 302


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"), (303, "DELETE", "GET"),
        (307, "POST", "POST"), (308, "PUT", "PUT"), (301, "PUT", "PUT"), (302, "DELETE", "DELETE"),
        (303, "HEAD", "HEAD"),
        (303, "GET", "GET"), (308, "GET", "GET"),
    ],
)  # fmt: skip
async def test_what_a_redirect_makes_of_a_request(fetch, site, status, method, then):
    """The method and the body after a redirect are those of the standard."""
    site.answers["/"] = moved("/there", status)
    body = b"" if method in ("GET", "HEAD") else b"{}"
    await fetch(site.url(), method=method, body=body, headers={"Content-Type": "a/b"}, redirects=1)
    request = site.requests[-1]
    assert (request.path, request.method, request.body) == ("/there", then, body if then == method else b"")
    assert ("content-type" in request.headers) == (then == method and (status, then) != (303, "GET"))


async def test_secrets_stay_with_their_host(fetch, site, other):
    """Keys, signatures and cookies go along within a host and port, and to no other."""
    site.answers |= {"/": moved("/same"), "/same": moved(other.url(host="other.example"))}
    await fetch(site.url(), headers=SECRETS | {"Accept": "text/plain", "User-Agent": "me"})
    assert {name.lower() for name in SECRETS} <= set(site.requests[1].headers)
    assert set(other.requests[0].headers) == {"host", "accept", "user-agent", "accept-encoding"}
    assert (other.requests[0].headers["accept"], other.requests[0].headers["user-agent"]) == ("text/plain", "me")


async def test_dropped_secrets_are_not_sent_again(fetch, site, other):
    """What was dropped at another host stays dropped when that one sends the request back."""
    site.answers["/"] = moved(other.url("/", host="other.example"))
    other.answers["/"] = moved(site.url("/again"))
    await fetch(site.url(), headers=SECRETS)
    assert not {name.lower() for name in SECRETS} & set(site.requests[1].headers)


@pytest.mark.parametrize("host", ["site.example", "www.site.example", "other.example"])
async def test_another_port_and_another_name_are_others(site, other, host):
    """The same name at another port is not trusted with secrets, nor is a name below it."""
    fetch = Fetch(resolve=Names(**{name: [[PUBLIC]] for name in ("site.example", host)}), dial=Roads())
    site.answers["/"] = moved(other.url(host=host))
    await fetch(site.url(), headers=SECRETS)
    assert not {name.lower() for name in SECRETS} & set(other.requests[0].headers)
    await fetch.close()


async def test_secrets_are_dropped_at_another_name(fetch, site):
    """Secrets go by the name and not by the address or the port: two names may share both."""
    site.answers["/"] = moved(site.url("/then", host="other.example"))
    await fetch(site.url(), headers=SECRETS)
    assert [request.path for request in site.requests] == ["/", "/then"]
    assert not {name.lower() for name in SECRETS} & set(site.requests[1].headers)


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_is_not_sent_to_another_host(fetch, site, other, status):
    """A redirect that keeps the body is not followed to another host."""
    site.answers["/"] = moved(other.url(host="other.example"), status)
    with pytest.raises(FetchRefused, match="a body is not sent there"):
        await fetch(site.url(), method="POST", body=b"secret", redirects=1)
    assert other.connections == 0


async def test_the_operator_lets_a_redirect_through(site, other):
    """A redirect may lead inside where the operator allows the target."""
    names = Names(site_example=[[PUBLIC]], inside_example=[["127.0.0.1"]])
    fetch = Fetch([f"inside.example:{other.port}"], resolve=names, dial=Roads())
    site.answers["/"] = moved(other.url(host="inside.example"))
    assert (await fetch(site.url())).url == other.url(host="inside.example")
    await fetch.close()

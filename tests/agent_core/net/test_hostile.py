"""Hostile addresses: however the inside is written, the guarded fetch sends nothing there."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from ipaddress import ip_address

import httpcore2
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans, lists, sampled_from

from agent_core.net.exchange import HostRequest
from agent_core.net.fetch import Fetch, FetchFailed, FetchRefused
from tests.agent_core.net.stage import PUBLIC, Names, Roads, Site, serving
from tests.cases import for_each

# Ways to write a host that leads to this machine: some resolver, or some reader of URLs, takes each.
HERE = """
127.0.0.1 127.0.0.2 127.255.255.254 127.1 127.0.1 127.000.000.001 0127.0.0.1 0177.0.0.1 0177.0.0.01 0177.01
017700000001 00000177.0.0.1 0x7f.0.0.1 0x7F.0x0.0x0.0x1 0x7f.1 0x7f000001 0X7F000001 0x7f.0.0.0x1 0x07f.0.0.1 0x
2130706433 02130706433 6425673729 0x17f000001 127.0.0.1. 127.0.0.1.. 127.1. .127.0.0.1 127..0.1 127.0.0.1.0x
127.0.0.1%00 127.0.0.1%20 127%2e0%2e0%2e1 %31%32%37.0.0.1 127.0.0.1%0a %6c%6f%63%61%6c%68%6f%73%74 127.0.0.1;.example
１２７.０.０.１ ①②⑦.⓪.⓪.① 127。0。0。1 127．0．0．1 127｡0｡0｡1 １２７。1 ٠.0.0.1 ۱۲۷.0.0.1
0 0.0.0.0 00.0.0.0 0x0 0.0 0.0.0 0.0.0.1 +127.0.0.1 -127.0.0.1 127.0.0.-1
localhost LOCALHOST LocalHost localhost. localhost.. loc%61lhost localhost%00 ⓛⓞⓒⓐⓛⓗⓞⓢⓣ ｌｏｃａｌｈｏｓｔ lo\xadcalhost
lo\u200bcalhost ℓocalhost localhoſt localhost\ufe0f \u202elocalhost localhost,example localhost!
[::1] [::] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::0001] [0::1] [::0:1] [::0.0.0.1]
[::ffff:127.0.0.1] [::FFFF:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::127.0.0.1] [::7f00:1] [::ffff:0:127.0.0.1]
[64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::127.0.0.1] [2002:7f00:1::] [2002:7f00:1::1] [2001:0:7f00:1::]
[2600::5efe:7f00:1] [2600::200:5efe:127.0.0.1] [::1%25lo] [::1%lo] [::1%251] [::ffff:127.0.0.1%25lo] [::ffff:0.0.0.0]
::1 [[::1]] [::1]] [::1].example [127.0.0.1] [::127.1] [::ffff:0x7f000001] [::ffff:127.000.000.001] [v1.::1] [] [::g]
[1::2::3] [::1]8 [localhost] [::1\u3002]
"""
# What a network keeps to itself, and what clouds answer secrets at.
INSIDE = """
10.0.0.1 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 192.168.255.255 100.64.0.1 100.127.255.255
169.254.169.254 169.254.170.2 169.254.0.23 169.254.42.42 100.100.100.200 192.0.0.192 168.63.129.16 192.0.0.170
2852039166 0xa9fea9fe 0xA9.0xFE.0xA9.0xFE 0251.0376.0251.0376 169.254.43518 169.16689662 025177524776 0251.254.169.254
192.0.2.1 198.51.100.1 203.0.113.1 198.18.0.1 198.19.255.255 192.88.99.1 224.0.0.1 239.255.255.250 240.0.0.1
255.255.255.255 0.255.255.255 3232235777 0xc0a80101 10.1 012.0.0.1 172.1048577
[fe80::1] [fe80::a9fe:a9fe] [febf::1] [fe80::1%25eth0] [fec0::1] [fc00::1] [fd00::1] [fd00:ec2::254] [fd20:ce::254]
[fd00:42::42] [ff02::1] [ff0e::1] [100::1] [2001:db8::1] [3fff::1] [5f00::1] [2001:2::1] [2001:10::1] [2001:20::1]
[2001::1] [4000::1] [e000::1] [::ffff:10.0.0.1] [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::a9fe:a9fe]
[64:ff9b::10.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b::168.63.129.16] [64:ff9b:1::1] [2002:a9fe:a9fe::] [2002:a00:1::1]
[2002:808:808::1] [::ffff:8.8.8.8] [::8.8.8.8] [2001:0:4136:e378:8000:63bf:3fff:fdd2] [2600::5efe:a9fe:a9fe]
"""
# Addresses that two readers may read in two ways, or that are none of the web; {s} is a public site, {p} its port.
WRITINGS = (
    "http://{s}@127.0.0.1:{p}/", "http://127.0.0.1@{s}:{p}/", "http://a:b@{s}:{p}/", "http://@{s}:{p}/",
    "http://:@{s}:{p}/", "http://a%40b@{s}:{p}/", "http://{s}:{p}@127.0.0.1/", "http://{s}\\@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}\\@{s}/", "http://{s}\\127.0.0.1:{p}/", "http:\\\\{s}:{p}\\", "http:/\\{s}:{p}/",
    "http://{s}:{p}\\.example/", "http://{s}:{p}/\\..\\", "http://{s} :{p}/", " http://{s}:{p}/", "http://{s}:{p}/ ",
    "http://{s}:{p}/a b", "http://{s}\t:{p}/", "http://{s}:{p}/\r\nX-Other: 1", "http://{s}:{p}/\n", "ht\ntp://{s}:{p}/",
    "http://{s}:{p}/\0", "http://{s}\0.example:{p}/", "http://{s}:{p}/\x7f", "http://{s}:{p}/\x85", "http://{s}:{p}/\u2028",
    "http://{s}\u00a0:{p}/", "http://{s}:{p}/\u202egpj", "\ufeffhttp://{s}:{p}/", "http://{s}:/", "http://{s}:x/",
    "http://{s}:+{p}/", "http://{s}:-1/", "http://{s}: {p}/", "http://{s}:８０８０/", "http://{s}:8_080/", "http://{s}:0/",
    "http://{s}:65536/", "http://{s}:99999/", "http://{s}:{p}:80/", "http://{s}:0x1f90/", "http://{s}:{p}%20/",
    "http://{s}%2f.example:{p}/", "http://{s}%23.example:{p}/", "http://{s}%3f@127.0.0.1:{p}/", "http://{s}%00:{p}/",
    "http://a..example:{p}/", "http://.example:{p}/", "http://example.:{p}/", "http://-a.example:{p}/",
    "http://a-.example:{p}/", "http://a$b.example:{p}/", "http://a'b.example:{p}/", "http://a*b.example:{p}/",
    "http://{long}.example:{p}/", "http://{many}:{p}/", "http://{s}:{p}/{far}", "http:///{s}:{p}/", "http://:{p}/",
    "http:{s}:{p}/", "http:/{s}:{p}/", "//{s}:{p}/", "{s}:{p}/", "/", "", "http://", "http:", "https://", "http://?",
    "http://#@{s}:{p}/", "http://[{s}]:{p}/", "http://xn--\u00e9.example:{p}/", "http://[::1]@{s}:{p}/",
)  # fmt: skip
SCHEMES = (
    "ftp://{s}/", "file:///etc/passwd", "file://{s}/etc/passwd", "gopher://{s}:{p}/_GET", "dict://{s}:{p}/d", "ws://{s}/",
    "wss://{s}/", "ldap://{s}/", "tftp://{s}/", "jar:http://{s}!/", "data:text/plain,hi", "javascript:alert(1)",
    "unix:///var/run/docker.sock", "http+unix://%2fvar%2frun%2fdocker.sock/", "netdoc:///etc/hosts", "sftp://{s}/",
    "view-source:http://{s}/", "url:http://{s}/", "httpx://{s}/", "http2://{s}/", "ｈttp://{s}/", "blob:http://{s}/",
)  # fmt: skip
PORTS = (1, 7, 22, 23, 25, 53, 79, 81, 110, 111, 143, 389, 445, 465, 514, 587, 636, 993, 995, 1023, 1719, 2049, 4190,
         5060, 6000, 6665, 6667, 6697, 10080)  # fmt: skip
# What names resolve to; one bad address among good ones is enough.
ANSWERS = (
    ["127.0.0.1"], ["0.0.0.1"], ["10.1.2.3"], ["169.254.169.254"], ["100.100.100.200"], ["168.63.129.16"], ["::1"],
    ["::ffff:127.0.0.1"], ["::ffff:93.184.216.34"], ["fd00:ec2::254"], ["fe80::1%eth0"], ["fe80::1"], ["::"],
    ["64:ff9b::a00:1"], ["2002:7f00:1::"],
    [PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [PUBLIC, "2606:2800::1", "::1"], ["224.0.0.1"],
    ["255.255.255.255"], [PUBLIC, *["8.8.8.8"] * 50, "192.168.0.1"], ["2606:2800::1", "10.0.0.1"], ["localhost"], [""],
    ["127.0.0.1:80"], ["0x7f.1"], ["017700000001"], [PUBLIC + " "],
)  # fmt: skip

HONEST = (
    "http://site.example:{}/", "HTTP://SITE.Example:{}/", "http://site.example:{}?q=/@127.0.0.1",
    "http://8080.site.example:{}/",
    "http://site.example:{}/a/../../b", "http://site.example:{}/%00%0d%0a", "http://site.example:{}/#@127.0.0.1",
    "http://site.example:{}/é?q=ü", "http://_a.xn--strae-oqa.example:{}/", "http://straße.example:{}/",
    "http://93.184.216.34:{}/", "http://[2606:2800:220:1::1]:{}/", "http://[64:ff9b::8.8.8.8]:{}/",
    "http://[2606:2800:0:0:0:0:0:1]:{}/", "http://site。example:{}/", "http://127.0.0.1.site.example:{}/",
    "http://a:{}/", "http://xn--a.example:{}/",
)  # fmt: skip
PIECES = (
    "http://", "https://", "http:", ":", "/", "//", "@", "\\", "127.0.0.1", "[", "]", "[::1]", "site.example", "%", "#",
    "?", ".", "。", "．", "0x7f", "1", "0", "2130706433", ":8080", "\t", "\n", " ", "%00", "%2e", "%40", "%2f", "a",
    "xn--a", "é", "ß", "\xad", "⁄", "／", "＼", "：", "＠", "..", "_", "-", "①", "[2606:2800::1]", "[::ffff:8.8.8.8]",
    "8.8.8.8", "localhost", "\u200d", "*",
)  # fmt: skip


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A site on loopback, which must not hear anything."""
    async with serving() as found:
        yield found
        assert (found.connections, found.requests) == (0, [])


def test_there_are_enough_of_them():
    """The tables hold more than 300 hostile addresses."""
    urls = {*HERE.split(), *INSIDE.split(), *WRITINGS, *SCHEMES}
    assert len(urls) + len(PORTS) + len(ANSWERS) > 300


@for_each("table", [HERE, INSIDE])
@for_each("scheme", ["http", "https"])
async def test_hosts_of_the_inside(site, table, scheme):
    """With the machine's own resolver and sockets, no way to write a host of the inside reaches anything."""
    fetch = Fetch()
    urls = [f"{scheme}://{host}{port}/" for host in table.split() for port in (f":{site.port}", "")]
    assert await let_through(fetch, urls) == []
    await fetch.close()


@for_each("table", [WRITINGS, SCHEMES])
async def test_odd_addresses(site, table):
    """What could be read in two ways, and what is not of the web, is refused before any name is looked up."""
    names, roads = Names(site_example=[[PUBLIC]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    parts = {"s": "site.example", "p": site.port, "long": "a" * 64, "many": ".".join(["a" * 9] * 27), "far": "a" * 8192}
    assert await let_through(fetch, [url.format(**parts) for url in table]) == []
    assert (names.asked, roads.taken) == ([], [])
    await fetch.close()


async def test_ports_of_others(site):
    """A port that no web server has is not connected to, at a public host either."""
    names, roads = Names(site_example=[[PUBLIC]]), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    for port in PORTS:
        with pytest.raises(FetchRefused, match=f"add site.example:{port} to PARLEY_FETCH_ALLOW"):
            await fetch(f"http://site.example:{port}/")
    assert (names.asked, roads.taken) == ([], [])
    await fetch.close()


async def test_names_of_the_inside(site):
    """A name is refused for one address that is not public, wherever it stands among the others."""
    names, roads = Names(**{f"n{number}.example": [answer] for number, answer in enumerate(ANSWERS)}), Roads()
    fetch = Fetch(resolve=names, dial=roads)
    for name in names.known:
        with pytest.raises(FetchRefused, match="resolves to an address that is not public"):
            await fetch(site.url(host=name))
    assert (len(names.asked), roads.taken) == (len(ANSWERS), [])
    await fetch.close()


async def test_honest_addresses():
    """The guard is not in the way of public hosts, however unusual."""
    known = (
        "site.example",
        "_a.xn--strae-oqa.example",
        "xn--strae-oqa.example",
        "a",
        "xn--a.example",
        "8080.site.example",
    )
    names = Names(**{name: [[PUBLIC]] for name in (*known, "127.0.0.1.site.example")})
    fetch = Fetch(resolve=names, dial=Roads())
    async with serving() as site:
        found = [(await fetch(url.format(site.port))).status for url in HONEST]
    assert found == [200] * len(HONEST)
    await fetch.close()


class Closed(Roads):
    """Roads that lead nowhere."""

    async def connect_tcp(self, host, *args, **kwargs):
        self.taken.append(host)
        raise httpcore2.ConnectError("closed")


@pytest.fixture
async def walker() -> AsyncIterator[tuple[Fetch, Roads]]:
    """A fetch, and the roads that it takes: they are all closed."""
    roads = Closed()
    fetch = Fetch(resolve=Names(site_example=[[PUBLIC]], localhost=[["127.0.0.1"]]), dial=roads)
    yield fetch, roads
    await fetch.close()


@given(lists(sampled_from(PIECES), min_size=1, max_size=7).map("".join), booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
async def test_any_address(walker, text, sent_on):
    """However pieces of addresses are put together, what is connected to is public, at first or after a redirect."""
    fetch, roads = walker
    asked = HostRequest("GET", httpx2.URL("https://site.example/a"), {}, b"")
    with suppress(FetchFailed):
        found = await fetch(str(asked.onward(302, text).url) if sent_on else f"http://{text}")
        pytest.fail(f"{found} was there")
    assert [address for address in roads.taken if not (ip_address(address).is_global and ":ffff:" not in address)] == []


async def let_through(fetch: Fetch, urls: Iterable[str]) -> list[str]:
    """Return what was not refused, with what it led to."""
    found = []
    for url in urls:
        try:
            found.append(f"{url!r}: {await fetch(url)}")
        except FetchRefused:
            continue
        except FetchFailed as error:
            found.append(f"{url!r}: {error}")
    return found

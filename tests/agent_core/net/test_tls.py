"""The guarded fetch over TLS: it connects to an address and verifies the certificate of the name."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core.net.fetch import Fetch, FetchFailed, FetchRefused
from tests.agent_core.net.stage import PUBLIC, Names, Roads, Site, moved, serving

# A certificate of site.example that signs itself, for these tests alone, and its key.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBnjCCAUSgAwIBAgIUAVDRHgU7YYFoNIrCJPWpmQBOe0owCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMc2l0ZS5leGFtcGxlMCAXDTI2MTEyMTIyNTIxOVoYDzIxMjYx
MDI4MjI1MjE5WjAXMRUwEwYDVQQDDAxzaXRlLmV4YW1wbGUwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAARwEXlTAlwbyX19nH8rbUYt34j/S9FfE8u1fIBBxMP5v1et
mqwSFqXP+7AaHX5vOS14g/molycB4YC5urLeq8s3o2wwajAdBgNVHQ4EFgQU/uP4
TtJ6SNRTIq9zObuUFmdH6i4wHwYDVR0jBBgwFoAU/uP4TtJ6SNRTIq9zObuUFmdH
6i4wFwYDVR0RBBAwDoIMc2l0ZS5leGFtcGxlMA8GA1UdEwEB/wQFMAMBAf8wCgYI
KoZIzj0EAwIDSAAwRQIhAOD9wbH0IlNABMpJ9hJz45nQ+wOQdn0cwPl8a286KAQf
AiBJJ7zZyRUO6fo/uGFRyTp8jmTD9XSDi+/ddKkh0iXwbA==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg/RQFASXl7VszC1tD
mhDSd0wOqIO/856L022PIwrtDHKhRANCAARwEXlTAlwbyX19nH8rbUYt34j/S9Ff
E8u1fIBBxMP5v1etmqwSFqXP+7AaHX5vOS14g/molycB4YC5urLeq8s3
-----END PRIVATE KEY-----
"""
NAMES = ("site.example", "other.example")


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch) -> Path:
    """The certificate, which this machine trusts."""
    path = tmp_path / "site.pem"
    path.write_text(CERTIFICATE + KEY)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.fixture
async def site(trusted, shown) -> AsyncIterator[Site]:
    """A site with that certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted)
    context.sni_callback = lambda _, name, __: shown.append(name)
    async with serving(ssl=context) as found:
        yield found


@pytest.fixture
def shown() -> list[str]:
    """The names that clients showed to the site."""
    return []


@pytest.fixture
async def fetch() -> AsyncIterator[Fetch]:
    """A fetch that knows two names of one address."""
    found = Fetch(resolve=Names(**{name: [[PUBLIC]] for name in NAMES}), dial=Roads())
    yield found
    await found.close()


async def test_the_certificate_is_checked_against_the_name(fetch, site, shown):
    """The connection goes to an address; SNI, the certificate and the Host header have the name."""
    found = await fetch(f"https://site.example:{site.port}/")
    assert (found.status, shown) == (200, ["site.example"])
    assert site.requests[0].headers["host"] == f"site.example:{site.port}"


@pytest.mark.parametrize("host", ["other.example", PUBLIC])
async def test_a_certificate_of_another_name_is_refused(fetch, site, host):
    """A certificate of another name is refused, also right after its own name was asked at the same address."""
    await fetch(f"https://site.example:{site.port}/")
    with pytest.raises(FetchFailed, match="certificate verify failed"):
        await fetch(f"https://{host}:{site.port}/")
    assert len(site.requests) == 1


async def test_an_untrusted_certificate_is_refused(site, monkeypatch):
    """A certificate that this machine does not trust is refused."""
    monkeypatch.delenv("SSL_CERT_FILE")
    fetch = Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=Roads())
    with pytest.raises(FetchFailed, match="certificate verify failed"):
        await fetch(f"https://site.example:{site.port}/?key=secret")
    assert site.requests == []
    await fetch.close()


async def test_an_allowed_target_needs_a_valid_certificate(site):
    """A target that the operator allows needs a certificate of its name like all others."""
    entries = [f"{name}:{site.port}" for name in NAMES]
    fetch = Fetch(entries, resolve=Names(**{name: [["127.0.0.1"]] for name in NAMES}))
    assert (await fetch(f"https://site.example:{site.port}/")).status == 200
    with pytest.raises(FetchFailed, match="certificate verify failed"):
        await fetch(f"https://other.example:{site.port}/")
    await fetch.close()


async def test_no_encryption_where_it_is_expected(fetch):
    """A site that does not speak TLS is an error where the address says https."""

    async def plain(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving() as site:
        site.raw = plain
        with pytest.raises(FetchFailed, match="cannot be reached"):
            await fetch(f"https://site.example:{site.port}/")


async def test_encryption_where_none_is_expected(fetch, site):
    """A site that speaks TLS, and is asked without, is an error."""
    with pytest.raises(FetchFailed):
        await fetch(site.url())


async def test_encryption_that_breaks_off(fetch, site):
    """A connection whose encryption breaks within the answer is an error like any other."""

    async def garble(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")
        await writer.drain()
        writer.transport._ssl_protocol._transport.write(b"garbage" * 9)
        await reader.read()

    site.answers["/"] = garble
    with pytest.raises(FetchFailed, match="The connection to `site"):
        await fetch(f"https://site.example:{site.port}/")


async def test_certificates_that_cannot_be_read(trusted, site):
    """Where the machine's certificates cannot be read nothing is fetched, until they can be."""
    fetch = Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=Roads())
    trusted.rename(trusted.with_suffix(".gone"))
    with pytest.raises(FetchFailed, match="the certificates cannot be read"):
        await fetch(f"https://site.example:{site.port}/")
    await fetch.close()
    trusted.with_suffix(".gone").rename(trusted)
    assert (await fetch(f"https://site.example:{site.port}/")).status == 200
    await fetch.close()


@pytest.mark.parametrize("location", ["http://site.example:{}/", "http://site.example/", "HTTP://other.example/"])
async def test_a_redirect_to_http_is_refused(fetch, site, location):
    """A redirect from https to http is never followed."""
    site.answers["/"] = moved(location.format(site.port))
    with pytest.raises(FetchRefused, match="without encryption"):
        await fetch(f"https://site.example:{site.port}/")


async def test_a_redirect_to_https_is_followed(site):
    """A redirect from http to https of the same host, at the usual ports, keeps the keys and the body."""
    async with serving() as plain:
        roads = Roads(ports={80: plain.port, 443: site.port})
        fetch = Fetch(resolve=Names(site_example=[[PUBLIC]]), dial=roads)
        plain.answers["/"] = moved("https://site.example/", 308)
        found = await fetch(
            "http://site.example/", method="POST", headers={"Authorization": "s"}, body=b"{}", redirects=1
        )
        assert (found.url, site.requests[0].body, site.requests[0].headers["authorization"]) == (
            "https://site.example/", b"{}", "s",
        )  # fmt: skip
        await fetch.close()

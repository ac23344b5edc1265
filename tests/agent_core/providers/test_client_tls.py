"""Encryption on the way to a model: which certificates a client trusts, and no others."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import aiohttp.connector
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent_core.agents import Snapshot
from agent_core.controls import Controls
from agent_core.providers.anthropic import anthropic
from agent_core.providers.base import CallFailed, Request
from agent_core.providers.compatible import compatible
from agent_core.providers.openai import openai
from tests.agent_core.net.test_tls import CERTIFICATE as STRANGER
from tests.agent_core.providers.contract.wires import ConnectedProvider

ASKED = Request("m", Snapshot("h", "any:m", "Be brief.", ()), (), Controls(), "s")
MAKERS = (anthropic, openai, compatible)
REFUSAL = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine that signs itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(names, critical=False).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), True
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(form[0]) + key.private_bytes(*form))
    return path


@pytest.fixture
async def url(certificate) -> AsyncIterator[str]:
    """A server that speaks TLS with that certificate, and refuses every key."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(REFUSAL)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def failure(provider: ConnectedProvider) -> CallFailed:
    """Return how the only thing ends that is asked of *provider*."""
    try:
        [*_, last] = [delta async for batch in provider.stream(ASKED) for delta in batch]
    finally:
        await provider.close()
    assert isinstance(last, CallFailed)
    return last


@pytest.mark.parametrize("make", MAKERS)
async def test_a_stranger(make, url):
    """A server with an untrusted certificate gets no request, and the operator gets the reason."""
    found = await failure(make(api_key="secret", base_url=url))
    assert found.kind == "network"
    assert "certificate verify failed" in found.message


@pytest.mark.parametrize("make", MAKERS)
async def test_trusted(make, url, certificate, monkeypatch):
    """Whom SSL_CERT_FILE names is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert (await failure(make(api_key="secret", base_url=url))).kind == "auth"


@pytest.mark.parametrize("make", MAKERS)
async def test_other_authorities_are_not_trusted(make, url, certificate, tmp_path, monkeypatch):
    """Whom it does not name is not, were they trusted otherwise."""
    other = tmp_path / "other.pem"
    other.write_text(STRANGER)
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=certificate))
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert (await failure(make(api_key="secret", base_url=url))).kind == "network"

"""The proxies in front of a server: which are believed, and what is said of those that are not."""

import structlog
from starlette.responses import Response

from app.api.body import MAX_PEERS, UnnamedProxies, trust_proxies
from app.settings import network
from tests.app.test_web import peer
from tests.cases import for_each


@for_each(
    "proxies, address, seen",
    [
        ("", "127.0.0.1", "127.0.0.1"),
        ("10.0.0.0/8", "127.0.0.1", "127.0.0.1"),
        ("10.0.0.0/8", "10.0.0.7", "203.0.113.9"),
    ],
)
async def test_only_proxies_of_the_list_are_believed(proxies, address, seen):
    """`X-Forwarded-For` counts from a proxy of PARLEY_TRUSTED_PROXIES, as the last that is none of them."""
    found = []

    async def app(scope, receive, send):
        found.append((scope["client"][0], scope["scheme"]))
        await Response()(scope, receive, send)

    given = [network(each) for each in proxies.split()]
    async with peer(trust_proxies(app, proxies=given), address) as client:  # type: ignore[arg-type]
        headers = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9, 10.0.0.8", "X-Forwarded-Proto": "https"}
        await client.get("/", headers=headers)
    assert found == [(seen, "https" if seen == "203.0.113.9" else "http")]


async def test_proxies_that_no_setting_names_are_warned_of():
    """Once an hour and peer, with the setting to write; strangers' headers use up no warning of a proxy nearby."""
    time = 0.0
    app = UnnamedProxies(Response(), proxies=[network("10.0.0.0/8")], now=lambda: time)

    async def warned(address: str, **headers: str) -> list[str]:
        with structlog.testing.capture_logs() as logs:
            async with peer(app, address) as client:  # type: ignore[arg-type]
                assert (await client.get("/", headers={k.replace("_", "-"): v for k, v in headers.items()})).is_success
        assert [line for line in logs if "PARLEY_TRUSTED_PROXIES" not in line["remedy"]] == []
        return [line["peer"] for line in logs if line["event"] == "proxy.not_trusted"]

    for n in range(20):
        assert await warned(f"203.0.113.{n}", X_Real_IP="::1") == [f"203.0.113.{n}"] * (n < MAX_PEERS)
    assert await warned("127.0.0.1") == []
    assert await warned("10.0.0.7", X_Forwarded_For="198.51.100.1") == []
    assert await warned("127.0.0.1", X_Forwarded_For="198.51.100.1") == ["127.0.0.1"]
    time = 3599.0
    assert await warned("127.0.0.1", Forwarded="for=198.51.100.1") == []
    time = 3600.0
    assert await warned("127.0.0.1", Forwarded="for=198.51.100.1") == ["127.0.0.1"]
    assert await warned("203.0.113.99", Forwarded="for=198.51.100.1") == ["203.0.113.99"]

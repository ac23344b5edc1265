"""What servers and authorization servers publish of access, when it is not what they should publish."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.clock import SystemClock
from agent_core.mcp.login_tokens import McpTokens
from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpUnavailable
from agent_core.net.fetch import Fetch, Fetched
from agent_core.servers import LoginFailed, McpOAuth, McpServer, PendingLogin
from tests.cases import for_each

URL, ISSUER, HOME = "https://mcp.example/mcp", "https://as.example", "http://127.0.0.1:9/callback"
GOOD: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "registration_endpoint": f"{ISSUER}/register",
    "code_challenge_methods_supported": ["S256"],
}
_TEXTS = st.text(alphabet=list("a/:[]@?#é \ud800\0"), max_size=12)
HOSTILE = st.one_of(
    st.sampled_from(
        [
            "https://[",
            "http://[::1",
            "https://[::::]/",
            "https://a:99999/",
            "https://a:b",
            "//",
            "https://",
            "\ud800",
            "",
        ]
    ),
    st.sampled_from(
        ["https://ａ.example", "https://a@b", "javascript:1", "https://as.example\n", "https://as.example/?a"]
    ),
    st.none(),
    st.booleans(),
    st.integers(),
    _TEXTS,
    st.lists(st.one_of(_TEXTS, st.sampled_from(["https://[", ISSUER]), st.none(), st.lists(st.none()))),
    st.just({"a": None}),
)


class PublishedFetch(Fetch):
    """Gives metadata and a registration instead of what servers would answer."""

    def __init__(self, *, about: Mapping[str, Any], said: Mapping[str, Any], client: Any, challenge: str) -> None:
        super().__init__()
        self._about, self._said, self._client, self._challenge = about, said, client, challenge

    async def __call__(self, url: str, *, method: str = "GET", **options: Any) -> Fetched:
        if method == "POST" and url == URL:
            return Fetched(401, {"www-authenticate": self._challenge}, b"", url)
        if method == "POST":
            return Fetched(201, {}, json.dumps({"client_id": self._client}).encode(), url)
        said = self._about if "protected-resource" in url else self._said
        return Fetched(200, {}, json.dumps(said).encode(), url)


def _server(**oauth: Any) -> McpServer:
    return McpServer(name="far", url=URL, oauth=McpOAuth(**oauth) if oauth else None)


async def _begun(*, about: Any = (), said: Any = (), client: Any = "us", challenge: str = "") -> Any:
    fetch = PublishedFetch(
        about={"authorization_servers": [ISSUER], **dict(about)},
        said={**GOOD, **dict(said)},
        client=client,
        challenge=challenge,
    )
    tokens = McpTokens(_server(), McpOAuth(client_id="us", client_secret="s"), fetch, SystemClock())
    with suppress(McpUnavailable):
        await tokens.token()
    return await Authorization(fetch, SystemClock()).begin(_server(), HOME)


@given(
    about=st.dictionaries(st.sampled_from(["resource", "authorization_servers", "scopes_supported"]), HOSTILE),
    said=st.dictionaries(st.sampled_from([*GOOD, "scopes_supported", "revocation_endpoint"]), HOSTILE),
    client=HOSTILE,
    challenge=st.one_of(
        st.text(alphabet=[*'Bearer scope_tmdu="[]:/ ,\\', "é"], max_size=40),
        st.sampled_from(["https://[", "https://a:99999/", "", f"{ISSUER}/x"]).map(
            lambda each: f'Bearer resource_metadata="{each}"'
        ),
    ),
)
def test_no_metadata_is_more_than_a_refusal(about: Any, said: Any, client: Any, challenge: str) -> None:
    """Whatever is published, a login begins with addresses that can be opened, or is refused in words."""
    with suppress(LoginFailed):
        begun = asyncio.run(_begun(about=about, said=said, client=client, challenge=challenge))
        assert begun.page.startswith("https://")
        assert msgspec.json.encode(begun.pending)


@for_each(
    "about, field",
    [({"resource": "https://["}, "`resource`"), ({"authorization_servers": ["https://["]}, "`authorization_servers`")],
)
async def test_what_is_no_address_is_named_with_its_server_and_its_field(about: Any, field: str) -> None:
    """An operator reads which server publishes it, under which name, and what they can do."""
    with pytest.raises(LoginFailed) as refused:
        await _begun(about=about)
    assert [each for each in ("`far`", field, "`https://[`", "`oauth.issuer`") if each not in str(refused.value)] == []


async def test_a_pasted_text_that_is_no_address_is_named() -> None:
    """What cannot be read ends no login, and says what to paste."""
    begun = await _begun()
    pending: PendingLogin = begun.pending
    fetch = PublishedFetch(about={}, said=GOOD, client="us", challenge="")
    with pytest.raises(LoginFailed, match=r"`redirected`.*whole"):
        await Authorization(fetch, SystemClock()).complete(_server(), pending, "http://[")

"""Logins of operators at MCP servers: what is asked, what is checked, renewal, and what is said of it."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from agent_core.errors import InvalidInput
from agent_core.servers import McpLogin, McpOAuth
from agent_core.testing import FakeClock
from tests.agent_core.tools.mcp.login_site import REDIRECT, browse, login_stage
from tests.conftest import MakeCore
from tests.polling import until

LOGIN = McpOAuth(grant="authorization_code")


async def test_a_login_gives_tokens_that_are_sealed_and_renewed(make_core: MakeCore) -> None:
    """From a page with PKCE, state and resource to calls; a spent token is renewed, and the refresh token rotates."""
    clock = FakeClock()
    async with login_stage(make_core, clock) as stage:
        servers, site = stage.core.tools.servers, stage.site
        before = await servers.refresh("fake")
        assert (before.status, before.login) == ("failing", None)
        assert "run `parley mcp login fake`" in str(before.error)
        await stage.login()
        found = await servers.refresh("fake")
        assert found.status == "ok", found.error
        assert found.login is not None
        assert (found.login.status, found.login.issuer, found.login.remedy) == ("ok", site.issuer, None)
        [asked], [wanted], [sent] = site.seen["authorize"], site.seen["register"], site.seen["token"]
        assert (asked["resource"], asked["scope"]) == (stage.fake.url, "tools offline_access")
        assert wanted["redirect_uris"] == [asked["redirect_uri"]] == [REDIRECT]
        assert (sent["client_id"], "client_secret" in sent) == ("client-1", False)
        assert await stage.said() == "hi"
        first = servers.stored[0].login
        clock.advance(3600 - 30)  # it still holds: it is renewed beside the call
        assert await stage.said() == "hi"
        await until(lambda: servers.stored[0].login != first)
        clock.advance(3700)  # it is spent: the call waits for the next
        assert await stage.said() == "hi"
        assert [each.get("refresh_token") for each in site.seen["token"]] == [None, "refresh-1", "refresh-2"]
        assert {each["resource"] for each in site.seen["token"]} == {stage.fake.url}
        sealed = str(servers.stored[0].login)
        assert sealed.startswith("v1.")
        assert not any(word in sealed for word in ("access-", "refresh-", "client-1"))


@pytest.mark.parametrize(
    ("back", "why"),
    [
        ({"state": "another"}, "`state`"),
        ({"iss": "https://thief.example"}, "came from `https://thief.example`"),
        ({"iss": None}, "came from nothing"),
        ({"code": None, "error": "access_denied", "error_description": "Not you."}, "access_denied: Not you."),
        ({"code": "stolen"}, "invalid_grant"),
    ],
)
async def test_a_page_that_does_not_belong_to_the_login_ends_it(
    make_core: MakeCore, back: dict[str, str | None], why: str
) -> None:
    """Another state, another issuer, a refusal and a foreign code give no login."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        stage.site.back = back
        assert why in await stage.refused()
        login = (await stage.core.tools.servers.get("fake")).login
        assert login is not None
        assert (login.status, login.why) == ("none", "not logged in")
        assert len(stage.site.seen["token"]) == (back.get("code") == "stolen")


@pytest.mark.parametrize(
    ("says", "options", "why"),
    [
        ({"issuer": "https://as.example"}, {}, "metadata of another issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, {}, "PKCE"),
        ({"code_challenge_methods_supported": None}, {}, "PKCE"),
        ({"token_endpoint": "http://thief.example/token"}, {}, "which is not HTTPS"),
        ({"authorization_endpoint": "javascript:alert(1)"}, {}, "which is not HTTPS"),
        ({"registration_endpoint": None}, {}, f"redirect address {REDIRECT}"),
        ({}, {"client_id": "us", "client_secret": "s3cr3t"}, "set `oauth.issuer` to"),
    ],
)
async def test_an_authorization_server_that_cannot_be_trusted_is_not_logged_in_to(
    make_core: MakeCore, says: dict[str, Any], options: dict[str, Any], why: str
) -> None:
    """No page is opened where metadata are not the issuer's own, without PKCE, or where a secret would go astray."""
    async with login_stage(make_core, oauth=McpOAuth(grant="authorization_code", **options)) as stage:
        stage.site.says = says
        assert why in await stage.refused()
        assert not stage.site.seen["authorize"]


async def test_a_configured_client_sends_its_secret_to_the_issuer_that_the_operator_wrote(make_core: MakeCore) -> None:
    """The secret is read where it is configured, for the exchange and for each renewal."""
    clock = FakeClock()
    async with login_stage(make_core, clock) as stage:
        await stage.core.tools.secrets.put("CLIENT", "s3cr3t-1")
        oauth = {"client_id": "us", "client_secret": "{{secret:CLIENT}}", "issuer": stage.site.issuer, "auth": "post"}
        await stage.core.tools.servers.update("fake", {"oauth": {**oauth, "grant": "authorization_code"}})
        await stage.login()
        await stage.core.tools.secrets.put("CLIENT", "s3cr3t-2")
        await stage.stage.connections.forget("fake")  # what follows its news would renew with the earlier secret
        clock.advance(3700)
        assert await stage.said() == "hi"
        assert [each["client_secret"] for each in stage.site.seen["token"]] == ["s3cr3t-1", "s3cr3t-2"]
        assert not stage.site.seen["register"]


async def test_one_process_renews_and_calls_of_all_go_on(make_core: MakeCore) -> None:
    """Two processes with many calls ask for one token; calls whose token still holds do not wait for it."""
    clock = FakeClock()
    async with login_stage(make_core, clock, cores=2) as stage:
        await stage.login()
        await stage.core.tools.servers.refresh("fake")
        await stage.cores[1].tools.revisions.look()
        stage.site.held.clear()
        clock.advance(3600 - 30)
        assert [await stage.said(core) for core in (0, 1)] == ["hi", "hi"]
        await until(lambda: len(stage.site.seen["token"]) == 2)
        clock.advance(40)
        calls = [asyncio.create_task(stage.said(core)) for core in (0, 1, 0, 1)]
        await until(lambda: clock.sleepers > 0)
        stage.site.held.set()

        def moved() -> bool:
            clock.advance(0.25)
            return all(each.done() for each in calls)

        await until(moved)
        assert [each.result() for each in calls] == ["hi"] * 4
        assert len(stage.site.seen["token"]) == 2


@pytest.mark.parametrize(
    ("refuses", "status", "said"), [("invalid_grant", "ended", "has ended"), ("server_error", "ok", "renewed now")]
)
async def test_a_renewal_that_is_refused_says_what_to_do(
    make_core: MakeCore, refuses: str, status: str, said: str
) -> None:
    """What ends a login needs an operator; what is down now is tried again."""
    clock = FakeClock()
    async with login_stage(make_core, clock, oauth=LOGIN) as stage:
        await stage.login()
        stage.site.refuses = refuses
        clock.advance(3700)
        message = await stage.said()
        assert said in message
        assert "refresh-1" not in message
        found = (await stage.core.tools.servers.get("fake")).login
        assert found is not None
        assert (found.status, found.remedy is None) == (status, status == "ok")
        stage.site.refuses = None
        if status == "ended":
            assert "run `parley mcp login fake`" in await stage.said()
            await stage.login()
        assert await stage.said() == "hi"


async def test_a_login_without_a_refresh_token_expires(make_core: MakeCore) -> None:
    """Then calls and the API name the command."""
    clock = FakeClock()
    async with login_stage(make_core, clock, oauth=LOGIN) as stage:
        await stage.login()
        logins = stage.core.tools.servers.logins
        login = await logins.login("fake")
        assert isinstance(login, McpLogin)
        await logins.put("fake", login, replace(login, refresh_token=None))
        clock.advance(3700)
        assert "has expired; run `parley mcp login fake`" in await stage.said()
        found = (await stage.core.tools.servers.get("fake")).login
        assert found is not None
        assert (found.status, found.remedy) == ("expired", "run `parley mcp login fake`")


async def test_tokens_go_to_the_address_that_they_are_for_and_are_gone_after_a_logout(make_core: MakeCore) -> None:
    """Another `url` has no login, a logout revokes the refresh token, and a ticket is that of its server alone."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        servers = stage.core.tools.servers
        await stage.login()
        await servers.logins.logout("fake")
        assert stage.site.seen["revoke"] == [
            {"token": "refresh-1", "token_type_hint": "refresh_token", "client_id": "client-1"}
        ]
        assert "is not logged in to" in await stage.said()
        await stage.login()
        begun = await servers.logins.begin("fake", REDIRECT)
        changed = await servers.update("fake", {"url": f"{stage.fake.url}/other"})
        assert changed.login is not None
        assert changed.login.status == "none"
        with pytest.raises(InvalidInput, match="ticket"):
            await servers.logins.complete("fake", begun.ticket[:-4] + "AAAA", await browse(begun.url))
        with pytest.raises(InvalidInput, match="redirect_uri"):
            await servers.logins.begin("fake", "http://thief.example/callback")

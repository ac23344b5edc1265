"""How logins at MCP servers end, and what is kept of one that is cut off while it is renewed."""

import asyncio
from urllib.parse import quote

import msgspec
import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from agent_core.errors import Unavailable
from agent_core.mcp.login_tokens import LoginTokens
from agent_core.mcp.port import McpUnavailable, ServerLogins
from agent_core.net.fetch import Fetch
from agent_core.servers import LoginClient, LoginFailed, McpLogin, McpOAuth, McpServer, PendingLogin
from agent_core.store import servers as rows
from agent_core.store.servers import SERVER
from agent_core.testing import FakeClock
from agent_core.testing.mcp import FakeLogins
from tests.agent_core.tools.mcp.login_site import LoginStage, login_stage
from tests.cases import for_each
from tests.conftest import MakeCore
from tests.polling import until

pytestmark = pytest.mark.whole

LOGIN = McpOAuth(grant="authorization_code")


async def _held(stage: LoginStage, core: int = 0) -> McpLogin | None:
    """Return the login as another process reads it."""
    await stage.cores[core].tools.revisions.look()
    return await stage.cores[core].tools.servers.logins.login("fake")


async def test_a_renewal_that_a_shutdown_meets_keeps_what_it_is_given(make_core: MakeCore) -> None:
    """The endpoint has spent the refresh token when the process stops: the next one is stored, and another has it."""
    clock = FakeClock()
    async with login_stage(make_core, clock, cores=2) as stage:
        await stage.login()
        await stage.core.tools.servers.refresh("fake")
        stage.site.held.clear()
        clock.advance(3600 - 30)
        assert await stage.said() == "hi"
        await until(lambda: len(stage.site.seen["token"]) == 2)
        closing = asyncio.create_task(stage.core.stop(grace=0.1))
        await until(lambda: stage.cores[0].tools.servers._connections._closed)  # type: ignore[union-attr]
        assert not closing.done()
        stage.site.held.set()
        await closing
        login = await _held(stage, 1)
        assert login is not None
        assert login.refresh_token == "refresh-2"


async def test_an_issuer_that_is_silent_holds_a_shutdown_up_for_seconds(make_core: MakeCore) -> None:
    """A renewal that a shutdown meets is waited for, but not for ever; another process may renew then."""
    clock = FakeClock()
    async with login_stage(make_core, clock, cores=2) as stage:
        await stage.login()
        await stage.core.tools.servers.refresh("fake")
        stage.site.held.clear()
        clock.advance(3600 - 30)
        assert await stage.said() == "hi"
        await until(lambda: len(stage.site.seen["token"]) == 2)
        closing, began = asyncio.create_task(stage.core.stop(grace=0.1)), clock.now()

        def moved() -> bool:
            clock.advance(0.25)
            return closing.done()

        await until(moved)
        assert clock.now() - began >= 10_000
        await closing
        login = await _held(stage, 1)
        assert login is not None
        assert await stage.cores[1].tools.servers.logins.claim("fake", login) is True
        stage.site.held.set()


async def test_a_rotated_secret_of_a_configured_client_ends_no_login(make_core: MakeCore) -> None:
    """The issuer refuses the secret of before: calls name what to correct, then go on; no one logs in again."""
    clock = FakeClock()
    async with login_stage(make_core, clock) as stage:
        core, site = stage.core, stage.site
        await core.tools.secrets.put("CLIENT", "s3cr3t-1")
        oauth = {"client_id": "us", "client_secret": "{{secret:CLIENT}}", "issuer": site.issuer, "auth": "post"}
        await core.tools.servers.update("fake", {"oauth": {**oauth, "grant": "authorization_code"}})
        await stage.login()
        site.secret = "s3cr3t-2"
        clock.advance(3700)
        said = await _said_in_time(stage, clock)
        assert "invalid_client" in said
        assert "correct `oauth.client_secret` of the server, or what it names with `parley secrets set`" in said
        found = (await core.tools.servers.get("fake")).login
        assert found is not None
        assert (found.status, found.why) == ("ok", None)
        await core.tools.secrets.put("CLIENT", "s3cr3t-2")
        assert await _said_in_time(stage, clock) == "hi"
        assert len(site.seen["authorize"]) == 1


async def _said_in_time(stage: LoginStage, clock: FakeClock) -> str:
    """Return what a call says, also when it waits by *clock* for a renewal of another connection."""
    asked = asyncio.create_task(stage.said())

    def moved() -> bool:
        clock.advance(0.25)
        return asked.done()

    await until(moved)
    return asked.result()


class AwayLogins(ServerLogins):
    """Stored logins of a database that is away for the first tries; *keeps* is whether one is still wanted."""

    def __init__(self, login: McpLogin, *, fails: int = 0, keeps: bool = True) -> None:
        self.login_, self._fails, self._keeps, self.tries = login, fails, keeps, 0

    async def login(self, _server: str, /) -> McpLogin | None:
        return self.login_ if self._keeps or not self.tries else None

    async def claim(self, _server: str, _spent: McpLogin, /) -> McpLogin | bool | None:
        return True

    async def put(self, _server: str, _spent: McpLogin, new: McpLogin, /) -> bool:
        self.tries += 1
        if self.tries <= self._fails:
            raise Unavailable("The database is away.")
        self.login_ = new if self._keeps else self.login_
        return self._keeps


def _login(site: FakeLogins, clock: FakeClock) -> McpLogin:
    return McpLogin(
        url="https://mcp.example/mcp",
        issuer=site.issuer,
        token_endpoint=f"http://{site.host}/token",
        revocation_endpoint=f"http://{site.host}/revoke",
        client=LoginClient(id="us", auth="none"),
        resource=None,
        scope=None,
        access_token="access-0",
        refresh_token="refresh-0",
        given_at=clock.now() - 3_600_000,
        until=clock.now() - 1,
    )


@for_each("fails, kept", [(3, True), (99, False)])
async def test_a_new_login_is_kept_by_several_tries(*, fails: int, kept: bool) -> None:
    """A database that is away for a moment loses no refresh token; one that stays away is given up on."""
    clock = FakeClock()
    async with FakeLogins() as site:
        site._refresh = "refresh-0"
        logins, fetch = AwayLogins(_login(site, clock), fails=fails), Fetch((site.host,))
        tokens = LoginTokens(McpServer(name="far", url="https://mcp.example/mcp"), logins, fetch, clock)
        asked = asyncio.create_task(tokens.token())

        def moved() -> bool:
            clock.advance(1)
            return asked.done()

        await until(moved)
        assert isinstance(asked.exception(), Unavailable) is not kept
        assert (logins.login_.refresh_token == "refresh-1") is kept
        assert len(site.seen["token"]) == 1
        await tokens.close()
        await fetch.close()


async def test_a_login_that_is_wanted_no_more_when_it_was_renewed_is_revoked() -> None:
    """An operator logged out meanwhile: what the endpoint has given since is forgotten there as well."""
    clock = FakeClock()
    async with FakeLogins() as site:
        site._refresh = "refresh-0"
        logins, fetch = AwayLogins(_login(site, clock), keeps=False), Fetch((site.host,))
        tokens = LoginTokens(McpServer(name="far", url="https://mcp.example/mcp"), logins, fetch, clock)
        await tokens.token()
        assert [each["token"] for each in site.seen["revoke"]] == ["refresh-1"]
        await tokens.close()
        await fetch.close()


@pytest.mark.parametrize("change", [None, {"url": "/other"}, {"oauth": {"client_id": "other"}}])
async def test_a_server_that_is_deleted_or_another_one_by_now_ends_its_login(
    make_core: MakeCore, change: dict[str, object] | None
) -> None:
    """The refresh token is revoked; a server of the same name, address or client has no login of the one before."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        await stage.login()
        servers = stage.core.tools.servers
        if change is None:
            await servers.delete("fake")
            await servers.create(McpServer(name="fake", url=stage.fake.url, oauth=LOGIN))
        else:
            oauth = {"grant": "authorization_code", **change.get("oauth", {})}  # type: ignore[dict-item]
            url = f"{stage.fake.url}{change.get('url', '')}"
            await servers.update("fake", {"url": url, "oauth": oauth})
        assert [each["token"] for each in stage.site.seen["revoke"]] == ["refresh-1"]
        login = (await servers.get("fake")).login
        assert login is not None
        assert (login.status, await _held(stage)) == ("none", None)


@pytest.mark.parametrize("change", [None, {"url": "/other"}, {"client_id": "other"}])
async def test_what_the_file_takes_out_or_changes_is_revoked(
    make_core: MakeCore, change: dict[str, str] | None
) -> None:
    """By one request of which no start waits; a file that says the same ends nothing."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        servers, same = stage.core.tools.servers, McpServer(name="fake", url=stage.fake.url, oauth=LOGIN)
        await servers.sync_files([same])
        await stage.login()
        await servers.sync_files([same])
        assert await _held(stage) is not None
        oauth = McpOAuth(grant="authorization_code", client_id=(change or {}).get("client_id"))
        other = McpServer(name="fake", url=f"{stage.fake.url}{(change or {}).get('url', '')}", oauth=oauth)
        stage.site.held.clear()
        await servers.sync_files([] if change is None else [other])
        assert await _held(stage) is None
        stage.site.held.set()
        await servers.logins.stop()
        assert [each["token"] for each in stage.site.seen["revoke"]] == ["refresh-1"]


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_revocation_that_fails_is_logged_and_holds_no_stop_up(make_core: MakeCore, *, hangs: bool) -> None:
    """An issuer that is silent or gone: the login has ended here, and the log says what is left to do there."""
    clock = FakeClock()
    async with login_stage(make_core, clock, oauth=LOGIN) as stage:
        servers = stage.core.tools.servers
        await servers.sync_files([McpServer(name="fake", url=stage.fake.url, oauth=LOGIN)])
        await stage.login()
        stage.site.held.clear()
        if not hangs:
            await stage.site.stop()
        with capture_logs() as logs:
            await servers.sync_files([])
            stopping = asyncio.create_task(servers.logins.stop())

            def moved() -> bool:
                clock.advance(1)
                return stopping.done()

            await until(moved)
        (line,) = [line for line in logs if line["event"] == "mcp.not_revoked"]
        assert (line["server"], line["remedy"]) == ("fake", "revoke it at its issuer")
        assert await _held(stage) is None
        stage.site.held.set()


async def test_a_logout_ends_no_login_that_came_meanwhile(make_core: MakeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another operator has begun between its look and its write stays, and the logout says so."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        await stage.login()
        drop = rows.drop_login

        def late(connection, stored):  # type: ignore[no-untyped-def]
            connection.execute(update(SERVER).where(SERVER.c.key == stored.key).values(login=b"v1.another"))
            return drop(connection, stored)

        monkeypatch.setattr(rows, "drop_login", late)
        with pytest.raises(LoginFailed, match="log out again"):
            await stage.core.tools.servers.logins.logout("fake")
        assert not stage.site.seen["revoke"]


async def test_a_scope_that_lacks_is_named_with_the_command_that_asks_for_it(make_core: MakeCore) -> None:
    """For the model, and for operators until the next login: what the login has and what the server wants."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        await stage.login()
        servers = stage.core.tools.servers
        stage.fake.lacks = "admin"
        command = "run `parley mcp login fake --scope 'tools offline_access admin'`"
        assert f"its credentials lack a scope; {command}" in await stage.said()
        login = (await servers.get("fake")).login
        assert login is not None
        assert (login.status, login.remedy) == ("ok", command)
        stage.fake.lacks = None
        await stage.login()
        login = (await servers.get("fake")).login
        assert login is not None
        assert login.remedy is None


async def test_a_definition_of_another_version_is_read_without_its_newer_fields(make_core: MakeCore) -> None:
    """Both serve during a deploy; what is not set is not stored, so that an older version reads it too."""
    async with login_stage(make_core, oauth=LOGIN) as stage:
        core = stage.core
        stored = core.tools.servers.stored[0]
        assert msgspec.json.decode(stored.definition)["oauth"] == {"grant": "authorization_code"}
        newer = msgspec.json.decode(stored.definition)
        newer |= {"later": 1, "oauth": {**newer["oauth"], "later": {"a": 1}}}
        raw = msgspec.json.encode(newer)
        await core.tools.servers._store.write(
            lambda connection: connection.execute(update(SERVER).values(definition=raw))
        )
        assert (await core.tools.servers.get("fake")).oauth == stored.server.oauth


def test_what_is_shown_of_a_login_is_no_secret() -> None:
    """In a log or a trace: who gives the tokens, and none of them."""
    client = LoginClient(id="us", auth="post", secret="s3cr3t-1")
    shared = {"url": "u", "issuer": "i", "token_endpoint": "t", "revocation_endpoint": None, "client": client}
    login = McpLogin(
        **shared, resource=None, scope=None, access_token="s3cr3t-2", refresh_token="s3cr3t-3", given_at=0, until=None
    )
    more = {"redirect_uri": "r", "state": "s3cr3t-4", "verifier": "s3cr3t-5", "names_issuer": False, "until": 0}
    shown = repr([client, login, PendingLogin(**shared, resource=None, scope=None, **more)])
    assert "s3cr3t" not in shown
    assert shown.count("issuer='i'") == 2


@for_each("spelled", [str, quote, lambda text: text.replace("/", "\\/"), lambda text: text.encode().hex()])
async def test_a_token_that_an_endpoint_repeats_is_masked(spelled) -> None:  # type: ignore[no-untyped-def]
    """As it is, and as a URL or JSON writes it; what is no spelling of it stays."""
    clock = FakeClock()
    async with FakeLogins() as site:
        logins, fetch = AwayLogins(_login(site, clock)), Fetch((site.host,))
        secret = "refresh/0 token"
        logins.login_ = msgspec.structs.replace(logins.login_, refresh_token=secret)
        site.repeats = spelled
        tokens = LoginTokens(McpServer(name="far", url="https://mcp.example/mcp"), logins, fetch, clock)
        with pytest.raises(McpUnavailable) as refused:
            await tokens.token()
        is_spelled = spelled(secret) != secret.encode().hex()
        assert (spelled(secret) in str(refused.value)) is not is_spelled
        assert ("[secret refresh token]" in str(refused.value)) is is_spelled
        await tokens.close()
        await fetch.close()

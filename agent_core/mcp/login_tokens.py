"""The access tokens of MCP servers: by client credentials, or by an operator's login.

The SDK's own provider runs all calls of a server one after another, and waits for people inside a request.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace

from agent_core.clock import Clock, within
from agent_core.errors import Unavailable
from agent_core.mcp.http_client import Tokens
from agent_core.mcp.oauth import Authorization, MetadataRefused, issuers_of, named_resource, resource_of, token_place
from agent_core.mcp.port import McpUnavailable, ServerLogins
from agent_core.net.fetch import Fetch
from agent_core.net.tokens import ClientCredentials, ClientTokens, TokenFailed, leeway
from agent_core.servers import LoginFailed, McpLogin, McpOAuth, McpServer, remedy_of, uses_login

_NO_RESOURCE = frozenset({"invalid_target", "invalid_request"})
"""What endpoints answer that do not take the parameter `resource`, or not that one."""


class McpTokens:
    """The access tokens for one server; where they come from is found by its metadata, when it is not configured.

    The operator's secret goes to the `token_url` that they wrote, or to the server's own origin.
    """

    def __init__(self, server: McpServer, oauth: McpOAuth, fetch: Fetch, clock: Clock) -> None:
        self._server, self._name, self._oauth, self._fetch = server, server.name, oauth, fetch
        self._tokens = ClientTokens(fetch, clock)
        self._endpoint = oauth.token_url
        self._resource = named_resource(oauth, resource_of(server.url or ""))

    async def token(self) -> str:
        """Return a token that has not expired; raises `McpUnavailable`."""
        credentials = await self._credentials()
        try:
            try:
                return await self._tokens.token(credentials)
            except TokenFailed as error:
                if self._oauth.resource is not True or not credentials.resource or error.refused not in _NO_RESOURCE:
                    raise
            # Not every endpoint knows `resource`, and no operator asked for it.
            token = await self._tokens.token(replace(credentials, resource=None))
        except TokenFailed as error:
            raise McpUnavailable(f"The MCP server `{self._name}` is not asked: {error}") from None
        self._resource = None
        return token

    async def renewed(self, refused: str) -> str:
        """Return another token than *refused*; raises `McpUnavailable`."""
        self._tokens.drop(await self._credentials(), refused)
        return await self.token()

    async def lacking(self, scope: str | None) -> str:
        """Return what an operator writes so that the server gets tokens for *scope*."""
        if scope is None:
            return "set `oauth.scope` to what it needs"
        held = (self._oauth.scope or "").split()
        return f'set `oauth.scope` to "{" ".join(dict.fromkeys([*held, *scope.split()]))}"'

    async def close(self) -> None:
        """End the requests that are under way."""
        await self._tokens.close()

    async def _credentials(self) -> ClientCredentials:
        if self._endpoint is None:
            self._endpoint = await self._found()
        oauth = self._oauth
        return ClientCredentials(
            self._endpoint,
            oauth.client_id or "",
            oauth.client_secret or "",
            oauth.scope,
            oauth.audience,
            oauth.auth,
            self._resource,
        )

    async def _found(self) -> str:
        """Return the token endpoint by what the server (RFC 9728) and its authorization server publish."""
        try:
            issuers = () if self._oauth.issuer else await issuers_of(self._server, self._fetch)
            return (await token_place(self._server, self._oauth, issuers, self._fetch)).endpoint
        except MetadataRefused as error:
            raise McpUnavailable(f"{error} Or set `oauth.token_url`.") from None


_ENDED = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""What endpoints answer when a login is over: what follows is an operator's to do.

A configured client that is refused (`invalid_client`) is no such end: its secret can be corrected.
"""
_CLIENT_REFUSED = (
    "It refuses the client: correct `oauth.client_secret` of the server, or what it names with `parley secrets set`. "
    "The login is kept, and renewed then."
)
"""The remedy for a configured client that is refused: its secret was changed there, which ends no login."""
_WAIT = 0.25
"""Seconds between two looks at a login that another process renews."""
_AGAIN = 5_000
"""Milliseconds after which a renewal that failed is tried again while the token still holds."""
_CLOSING = 10.0
"""Seconds for which a process that stops waits for a renewal: what it brings may be the only token that is good."""
_KEEPING, _MAX_PAUSE = 25_000, 5.0
"""Milliseconds for which a new login is tried to be kept: with its request less than one process renews it alone."""
_YOUNG = 60_000
"""Milliseconds for which a token is new: a server that refuses one would refuse the next as well."""


class LoginTokens:
    """The tokens of *server*; a call waits for a renewal only when its token has ended."""

    def __init__(self, server: McpServer, logins: ServerLogins, fetch: Fetch, clock: Clock) -> None:
        self._server, self._logins, self._clock = server, logins, clock
        self._authorization = Authorization(fetch, clock)
        self._url = resource_of(server.url or "")
        self._renewing: asyncio.Task[McpLogin] | None = None
        self._asking: asyncio.Task[McpLogin] | None = None
        self._not_before = 0

    async def token(self) -> str | None:
        """Return a token that holds, None for a server that may need none; raises `McpUnavailable`."""
        login = await self._known()
        if login is None:
            if self._server.oauth is None:
                return None
            raise McpUnavailable(f"The MCP server `{self._server.name}` {self._needed('is not logged in to')}.")
        now = self._clock.now()
        if login.until is None or now < login.until - _early(login):
            return login.access_token
        if now < login.until:
            if login.refresh_token is not None and now >= self._not_before:
                self._renewal(login)
            return login.access_token
        if login.refresh_token is None:
            raise McpUnavailable(f"The login at the MCP server `{self._server.name}` {self._needed('has expired')}.")
        return (await asyncio.shield(self._renewal(login))).access_token

    async def renewed(self, refused: str) -> str | None:
        """Return another token than *refused*, which the server did not take; raises `McpUnavailable`."""
        login = await self._known()
        if login is None or login.access_token != refused:
            return None if login is None else login.access_token
        if self._clock.now() - login.given_at < _YOUNG:
            raise McpUnavailable(
                f"The MCP server `{self._server.name}` refuses the access token that its login has just given "
                "(HTTP 401); look whether that login may use it.",
                401,
            )
        if login.refresh_token is None:
            await self._logins.end(self._server.name, login, "the server refuses the access token (HTTP 401)")
            raise McpUnavailable(f"The MCP server `{self._server.name}` {self._needed('refuses its login')}.", 401)
        return (await asyncio.shield(self._renewal(login))).access_token

    async def lacking(self, scope: str | None) -> str:
        """Note that the login lacks *scope*, and return the command that logs in for all that is needed."""
        login = await self._known()
        if scope is None:
            return self._remedy
        wanted = " ".join(dict.fromkeys([*((login and login.scope) or "").split(), *scope.split()]))
        if login is not None:
            await self._logins.lack(self._server.name, login, wanted)
        return remedy_of(self._server.name, wanted)

    async def close(self) -> None:
        """Wait for a renewal whose request is under way, for seconds: a refresh token may be good once."""
        for task, seconds in ((self._renewing, 0.0), (self._asking, _CLOSING)):
            if task is None or task.done():
                continue
            if seconds:
                with suppress(TimeoutError):
                    async with within(self._clock, seconds):
                        await asyncio.wait((task,))
            task.cancel()
            await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()  # seen: no call waits for it any more

    async def _known(self) -> McpLogin | None:
        """Return the login, unless it is that of another address: its tokens are sent nowhere else."""
        login = await self._logins.login(self._server.name)
        return login if login is not None and login.url == self._url else None

    def _renewal(self, spent: McpLogin) -> asyncio.Task[McpLogin]:
        """Return what renews the login; one is under way however many calls wait for it."""
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(spent), name="parley-mcp-login")
            self._renewing.add_done_callback(self._ended)
        return self._renewing

    def _ended(self, done: asyncio.Task[McpLogin]) -> None:
        self._renewing = None
        if done.cancelled() or done.exception() is not None:  # seen, also when no call waits for it
            self._not_before = self._clock.now() + _AGAIN

    async def _renew(self, spent: McpLogin) -> McpLogin:
        name = self._server.name
        while True:
            found = await self._logins.claim(name, spent)
            if isinstance(found, McpLogin):
                if found.url != self._url:
                    raise McpUnavailable(f"The MCP server `{name}` {self._needed('is another one by now')}.")
                return found
            if found is None:
                raise McpUnavailable(f"The MCP server `{name}` {self._needed('is not logged in to')}.")
            if found:
                self._asking = asyncio.create_task(self._asked(spent), name="parley-mcp-login-asked")
                return await asyncio.shield(self._asking)
            await self._clock.sleep(_WAIT)

    async def _asked(self, spent: McpLogin) -> McpLogin:
        name = self._server.name
        try:
            new = await self._authorization.renewed(self._server, spent)
        except (TokenFailed, LoginFailed) as error:
            refused = error.refused if isinstance(error, TokenFailed) else "invalid_client"
            is_ours = isinstance(error, TokenFailed) and refused == "invalid_client" and spent.client.is_configured
            if refused not in _ENDED or is_ours:
                await self._logins.release(name, spent)
                text = f"The login at the MCP server `{name}` cannot be renewed now: {error}"
                raise McpUnavailable(f"{text} {_CLIENT_REFUSED}" if is_ours else text) from None
            await self._logins.end(name, spent, str(error))
            raise McpUnavailable(f"The login at the MCP server `{name}` {self._needed('has ended')}: {error}") from None
        except BaseException:
            await self._logins.release(name, spent)
            raise
        await self._keep(spent, new)
        return new

    async def _keep(self, spent: McpLogin, new: McpLogin) -> None:
        """Keep *new*, by several tries: *spent* may be good no more. What is wanted no more is revoked."""
        name, until, pause = self._server.name, self._clock.now() + _KEEPING, _WAIT
        while True:
            try:
                kept = await self._logins.put(name, spent, new)
                break
            except Unavailable:
                if self._clock.now() >= until:
                    raise
            await self._clock.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
        if not kept and await self._logins.login(name) is None:
            await self._authorization.revoke(self._server, new)

    def _needed(self, what: str) -> str:
        return f"{what}; {self._remedy}"

    @property
    def _remedy(self) -> str:
        return remedy_of(self._server.name)


def tokens_of(server: McpServer, fetch: Fetch, clock: Clock, logins: ServerLogins | None) -> Tokens | None:
    """Return what gives the access tokens of *server*; None when its headers do."""
    if logins is not None and uses_login(server):
        return LoginTokens(server, logins, fetch, clock)
    return None if server.oauth is None else McpTokens(server, server.oauth, fetch, clock)


def _early(login: McpLogin) -> float:
    """Return how many milliseconds before its end *login* is renewed."""
    life = (login.until or login.given_at) - login.given_at
    return leeway(life / 1000) * 1000

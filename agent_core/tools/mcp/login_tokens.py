"""The access tokens of a server that an operator has logged in to, renewed before they end by one process at a time."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from agent_core.clock import Clock
from agent_core.domain.mcp import McpServer
from agent_core.domain.mcp_login import REMEDY, LoginFailed, McpLogin, uses_login
from agent_core.errors import ParleyError
from agent_core.net.client_credentials import leeway
from agent_core.net.fetch import Fetch
from agent_core.net.token_endpoint import TokenFailed
from agent_core.tools.mcp.authorization import Authorization
from agent_core.tools.mcp.http_client import Tokens
from agent_core.tools.mcp.logins import ServerLogins
from agent_core.tools.mcp.metadata import resource_of
from agent_core.tools.mcp.oauth import McpTokens
from agent_core.tools.mcp.port import McpUnavailable

_ENDED = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""What endpoints answer when a login is over: what follows is an operator's to do."""
_WAIT = 0.25
"""Seconds between two looks at a login that another process renews."""
_AGAIN = 5_000
"""Milliseconds after which a renewal that failed is tried again while the token still holds."""
_YOUNG = 60_000
"""Milliseconds for which a token is new: a server that refuses one would refuse the next as well."""


class LoginTokens:
    """The tokens of *server*; a call waits for a renewal only when its token has ended."""

    def __init__(self, server: McpServer, logins: ServerLogins, fetch: Fetch, clock: Clock) -> None:
        self._server, self._logins, self._clock = server, logins, clock
        self._authorization = Authorization(fetch, clock)
        self._url = resource_of(server.url or "")
        self._renewing: asyncio.Task[McpLogin] | None = None
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

    async def close(self) -> None:
        """End the renewal that is under way."""
        if (task := self._renewing) is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, ParleyError):
                await task

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
                return await self._asked(spent)
            await self._clock.sleep(_WAIT)

    async def _asked(self, spent: McpLogin) -> McpLogin:
        name = self._server.name
        try:
            new = await self._authorization.renewed(self._server, spent)
        except (TokenFailed, LoginFailed) as error:
            refused = error.refused if isinstance(error, TokenFailed) else "invalid_client"
            if refused not in _ENDED:
                await self._logins.release(name, spent)
                raise McpUnavailable(f"The login at the MCP server `{name}` cannot be renewed now: {error}") from None
            await self._logins.end(name, spent, str(error))
            raise McpUnavailable(f"The login at the MCP server `{name}` {self._needed('has ended')}: {error}") from None
        except BaseException:
            await _finished(self._logins.release(name, spent))
            raise
        await _finished(self._logins.put(name, spent, new))  # the one before may be good no more
        return new

    def _needed(self, what: str) -> str:
        return f"{what}; {REMEDY.format(self._server.name)}"


def tokens_of(server: McpServer, fetch: Fetch, clock: Clock, logins: ServerLogins) -> Tokens | None:
    """Return what gives the access tokens of *server*; None when its headers do."""
    if uses_login(server):
        return LoginTokens(server, logins, fetch, clock)
    return None if server.oauth is None else McpTokens(server, server.oauth, fetch, clock)


def _early(login: McpLogin) -> float:
    """Return how many milliseconds before its end *login* is renewed."""
    life = (login.until or login.given_at) - login.given_at
    return leeway(life / 1000) * 1000


async def _finished(work: Awaitable[None]) -> None:
    """Return when *work* is done, also when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise

"""The port to logins at MCP servers: what connections ask of what is stored."""

from typing import Protocol

from agent_core.servers import McpLogin


class ServerLogins(Protocol):
    """The logins of servers, by the servers' names; all processes have the same ones."""

    async def login(self, server: str, /) -> McpLogin | None:
        """Return the login as this process knows it, None without one."""
        ...

    async def claim(self, server: str, spent: McpLogin, /) -> McpLogin | bool | None:
        """Return a login that came after *spent*; None when there is none any more.

        Else whether this process alone may renew it now, and says so by `put`, `end` or `release`.
        """
        ...

    async def put(self, server: str, spent: McpLogin, new: McpLogin, /) -> bool:
        """Keep *new* in the place of *spent*, unless that is another one by now, or none; return whether it is kept."""
        ...

    async def lack(self, server: str, login: McpLogin, scope: str, /) -> None:
        """Note that *login* was refused something that needs *scope*."""
        ...

    async def end(self, server: str, spent: McpLogin, why: str, /) -> None:
        """Drop *spent*, unless it is another one by now: an operator has to log in again."""
        ...

    async def release(self, server: str, spent: McpLogin, /) -> None:
        """Let the next one renew *spent*."""
        ...


class NoLogins:
    """A process in which no one logs in."""

    async def login(self, _server: str, /) -> McpLogin | None:
        return None

    async def claim(self, _server: str, _spent: McpLogin, /) -> McpLogin | bool | None:
        return None

    async def put(self, _server: str, _spent: McpLogin, _new: McpLogin, /) -> bool:
        return False

    async def lack(self, _server: str, _login: McpLogin, _scope: str, /) -> None:
        """Do nothing, as in the others."""

    async def end(self, _server: str, _spent: McpLogin, _why: str, /) -> None:
        """Do nothing."""

    async def release(self, _server: str, _spent: McpLogin, /) -> None:
        """Do nothing."""

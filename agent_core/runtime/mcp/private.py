"""The private texts of MCP servers: sealed in the database, masked in answers. Both keep references to secrets."""

from collections.abc import Callable

from msgspec.structs import replace

from agent_core.agents import SECRET
from agent_core.mcp.served import with_private
from agent_core.secrets import Secrets, Unreadable
from agent_core.servers import McpServer

HIDDEN = "[hidden]"
"""What an answer has in the place of a private text; sent back it keeps the text as it is."""
_PURPOSE = "mcp server"
_OPEN, _CLOSE = "{{sealed:", "}}"


def sealed(server: McpServer, secrets: Secrets | None) -> McpServer:
    """Return *server* as it is stored; without *secrets* there is no key, and its texts are stored as they are."""
    if secrets is None:
        return server
    return _with_literals(server, lambda text: f"{_OPEN}{secrets.seal(text, _PURPOSE)}{_CLOSE}")


def opened(server: McpServer, secrets: Secrets | None) -> McpServer:
    """Return a stored *server* with its texts; raises `Unreadable`."""

    def read(text: str) -> str:
        if not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
            return text
        if secrets is None:
            raise Unreadable
        return secrets.open(text.removeprefix(_OPEN).removesuffix(_CLOSE), _PURPOSE)

    return with_private(server, read)


def masked(server: McpServer) -> McpServer:
    """Return *server* as answers show it: references to secrets stay, other private texts are hidden."""
    shown = _with_literals(server, lambda _: HIDDEN)
    url = shown.url if shown.url != HIDDEN or server.url is None else f"{server.url.partition('?')[0]}?{HIDDEN}"
    return replace(shown, url=url)


def unmasked(server: McpServer, stored: McpServer) -> McpServer:
    """Return *server* with each text that was sent back hidden as *stored* has it."""
    oauth, stored_oauth = server.oauth, stored.oauth
    if oauth is not None and stored_oauth is not None and oauth.client_secret == HIDDEN:
        oauth = replace(oauth, client_secret=stored_oauth.client_secret)
    args = [
        stored.args[place] if text == HIDDEN and place < len(stored.args) else text
        for place, text in enumerate(server.args)
    ]
    return replace(
        server,
        url=stored.url if server.url == masked(stored).url else server.url,
        headers=_kept(server.headers, stored.headers),
        env=_kept(server.env, stored.env),
        args=tuple(args),
        oauth=oauth,
    )


def _kept(texts: dict[str, str], stored: dict[str, str]) -> dict[str, str]:
    return {name: stored.get(name, text) if text == HIDDEN else text for name, text in texts.items()}


def _with_literals(server: McpServer, change: Callable[[str], str]) -> McpServer:
    """Return *server* with each private text that refers to no secret as *change* makes it; a URL with a query is one.

    A text that does is not private: what is secret in it is stored elsewhere.
    """
    changed = with_private(server, lambda text: text if SECRET.search(text) else change(text))
    return changed if server.url is not None and "?" in server.url else replace(changed, url=server.url)

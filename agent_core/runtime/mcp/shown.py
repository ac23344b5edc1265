"""MCP servers as operators see them; pure."""

from collections.abc import Mapping, Sequence

from msgspec.structs import asdict, replace

from agent_core.listings import (
    McpServerObject,
    ServedToolObject,
    ServerInfo,
    ServerStatus,
    changes_of,
    digest_of,
    is_held,
    names_of,
    offered_of,
    spec_of,
    taken,
)
from agent_core.runtime.mcp.private import masked
from agent_core.servers import McpAnnotations, McpListing, McpServer, McpTool, login_object
from agent_core.store.servers import NEVER, StoredServer

Names = Mapping[tuple[str, str], str]


def shown(stored: StoredServer, names: Names, now: int) -> McpServerObject:
    """Return *stored* for operators at *now*; *names* are those of its tools for agents, by server and its own name."""
    server, listing = stored.server, None if stored.kept is None else stored.kept.listing
    changes, accepted = changes_of(server, listing, stored.accepted), stored.accepted
    return McpServerObject(
        id=stored.id,
        **asdict(masked(server)),
        source=stored.source,
        status=status_of(stored),
        error=stored.error,
        login=login_object(server, stored.login_state, now),
        info=None if listing is None else _info(listing),
        tools=tuple(
            _tool(server, each, names[server.name, each.name]) for each in offered_of(server, listing, accepted)
        ),
        changes=changes,
        left_out=() if stored.kept is None else stored.kept.left_out,
        digest=None if listing is None else digest_of(listing),
        listed_at=stored.listed_at,
        failed_at=stored.failed_at,
        due_at=None if stored.due_at >= NEVER else stored.due_at,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def status_of(stored: StoredServer) -> ServerStatus:
    """Return how the server is: what an operator has to look at comes first."""
    if not stored.server.enabled:
        return "disabled"
    if stored.error is not None:
        return "failing"
    if stored.kept is None:
        return "new"
    return "changed" if is_held(changes_of(stored.server, stored.kept.listing, stored.accepted)) else "ok"


def brief(server: McpServerObject) -> McpServerObject:
    """Return *server* as a list has it: without schemas, and with the names of what has changed alone."""
    tools = tuple(replace(tool, parameters={}) for tool in server.tools)
    return replace(server, tools=tools, changes=tuple(replace(x, before=None, now=None) for x in server.changes))


def _info(listing: McpListing) -> ServerInfo:
    return ServerInfo(title=listing.title, version=listing.version, era=listing.era, instructions=listing.instructions)


def _tool(server: McpServer, tool: McpTool, name: str) -> ServedToolObject:
    spec = spec_of(server, tool, name)
    return ServedToolObject(
        name=name,
        tool=tool.name,
        title=spec.title,
        description=spec.description,
        effect=spec.effect,
        idempotent=spec.idempotent,
        parameters=spec.parameters,
        annotations=tool.annotations if tool.annotations != McpAnnotations() else None,
    )


def why_none(stored: StoredServer) -> str | None:
    """Return in a sentence why a server gives no tools; None if it does, also while it is away."""
    name = stored.server.name
    if not stored.server.enabled:
        return f"The MCP server `{name}` is disabled."
    if stored.kept is not None:
        return None
    return stored.error or f"The MCP server `{name}` has not said yet what it offers."


def names_in(stored: Sequence[StoredServer]) -> Names:
    """Return the names of all tools that were accepted, those that are gone too: they may come back."""
    return names_of(
        [
            (each.server.name, [tool.name for tool in each.accepted or () if taken(each.server, tool.name)])
            for each in stored
        ]
    )

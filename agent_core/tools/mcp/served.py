"""Tools of MCP servers as agents call them: secrets filled in at the last moment, and masked in what comes back."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from msgspec import structs

from agent_core.agents import ToolSpec, filled, secrets_in
from agent_core.errors import ParleyError
from agent_core.schemas import fitted, problems
from agent_core.secrets import scrubbed
from agent_core.servers import FilledServer, McpServer
from agent_core.tools.base import CallContext, Outcome, ToolError
from agent_core.tools.context_headers import context_headers
from agent_core.tools.mcp.credentials import written_in
from agent_core.tools.mcp.masking import Change, changed_outcome
from agent_core.tools.mcp.port import McpConnections


class ServerSecrets(Protocol):
    """Stored secrets."""

    async def values(self, names: Collection[str], /) -> Mapping[str, str]:
        """Return the secrets of these *names*; one that is missing is not among them, or raises a `ParleyError`."""
        ...


class MissingSecret(ParleyError):
    """A server refers to a secret that is not stored, or that cannot be opened."""

    code = "missing_secret"


class NoSecrets:
    """A process without stored secrets."""

    async def values(self, _names: Collection[str], /) -> Mapping[str, str]:
        return {}


async def ready(server: McpServer, secrets: ServerSecrets) -> tuple[McpServer, Mapping[str, str]]:
    """Return *server* with its secrets filled in, and what of it is masked in results; raises `MissingSecret`."""
    names, written = secrets_in(server), written_in(server)
    if not names:
        return server, written
    try:
        values = await secrets.values(names)
    except ParleyError as error:
        raise MissingSecret(f"A secret of the MCP server `{server.name}` cannot be used: {error}") from None
    if missing := sorted(names - values.keys()):
        listed = ", ".join(f"`{name}`" for name in missing)
        raise MissingSecret(
            f"The MCP server `{server.name}` refers to {listed}, which is not stored; `parley secrets set` stores it."
        )
    texts = structs.asdict(with_private(server, lambda text: filled(text, values)))
    return FilledServer(**texts, secrets=dict(values)), {**written, **values}


def with_private(server: McpServer, change: Change) -> McpServer:
    """Return *server* with the texts that may hold secrets as *change* makes them."""
    oauth = server.oauth
    return structs.replace(
        server,
        url=None if server.url is None else change(server.url),
        headers={name: change(text) for name, text in server.headers.items()},
        args=tuple(change(text) for text in server.args),
        env={name: change(text) for name, text in server.env.items()},
        oauth=oauth
        if oauth is None or oauth.client_secret is None
        else structs.replace(oauth, client_secret=change(oauth.client_secret)),
    )


@dataclass(frozen=True, slots=True)
class ServedTool:
    """The *tool* of *server*, by the server's own name, which agents have as *spec* says."""

    spec: ToolSpec
    server: McpServer
    tool: str
    connections: McpConnections
    secrets: ServerSecrets
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the server says of its arguments; models are shown what vendors take of it."""

    async def call(self, arguments: dict[str, Any], context: CallContext) -> Outcome:
        fit = fitted(self.parameters)
        arguments = fit.restored(arguments)
        if fit.offered is not fit.whole and (faults := problems(fit.whole, arguments)):
            return ToolError(f"The arguments do not fit `{self.spec.name}`: {'; '.join(map(str, faults))}")
        try:
            server, values = await ready(self.server, self.secrets)
        except MissingSecret as error:
            return ToolError(str(error))

        def plain(text: str) -> str:
            return scrubbed(text, values)

        def progress(text: str) -> None:
            context.progress(plain(text))

        shown = replace(context, progress=progress) if values else context
        headers = context_headers(self.server.context, context)
        try:
            repeatable = self.spec.effect == "read" or self.spec.idempotent
            outcome = await self.connections.call(server, self.tool, arguments, shown, headers, repeatable=repeatable)
        except Exception as error:  # noqa: BLE001 - its text may hold a secret
            raise RuntimeError(plain(f"{type(error).__name__}: {error}")) from None
        # In a thread: of a large result it may take a second.
        return await asyncio.to_thread(changed_outcome, outcome, plain) if values else outcome

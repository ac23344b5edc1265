"""The tools of MCP servers: their secrets filled in for a call, and masked in what comes back."""

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import structs

from agent_core.agents import SECRET, ToolSpec, filled, secrets_in
from agent_core.errors import ParleyError
from agent_core.mcp.port import Change, McpConnections, changed_outcome
from agent_core.schemas import fitted, problems
from agent_core.secrets import scrubbed
from agent_core.servers import FilledServer, McpServer
from agent_core.tools.base import CallContext, Outcome, ToolError, context_headers

_NAMED = re.compile(
    r"auth(?!or(?!i))|key|token|secret|passw|pwd|credential|cookie|signature|(?:\b|_)pat\b", re.IGNORECASE
)
"""In names of what is a credential; other texts, such as a path or a region, are in ordinary results too."""
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w+=-]{20,500}", re.ASCII)
"""What looks like a key, unless its name says that it is an id: that of a project is in results with good reason."""
_ID = re.compile(r"ids?$", re.IGNORECASE)
_SHORTEST = 8
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+", re.IGNORECASE)
_OPTION = re.compile(r"--?([\w.-]+)(?:[=:](.*))?", re.DOTALL)
_HEADER = re.compile(r"([\w-]+):\s*(.+)", re.DOTALL)


def written_in(server: McpServer) -> Mapping[str, str]:
    """Return the credentials in the texts of *server*, by where they are; references to secrets are none of them."""
    found: dict[str, str] = {}
    for place, name, text in _texts(server):
        value = _SCHEME.sub("", text, count=1) if _SCHEME.match(text) else text
        is_own = len(value) >= _SHORTEST and not SECRET.search(value)
        looks_so = _RANDOM.fullmatch(value) and not _ID.search(name)
        if is_own and (_NAMED.search(name) or value != text or looks_so):
            found[place] = value
    return found


def _texts(server: McpServer) -> Iterator[tuple[str, str, str]]:
    """Yield where a text is, its name, and the text."""
    for name, text in server.headers.items():
        yield f"header {name}", name, text
    for name, text in server.env.items():
        yield f"env {name}", name, text
    if server.oauth is not None and server.oauth.client_secret:
        yield "oauth.client_secret", "client_secret", server.oauth.client_secret
    before = ""
    for place, text in enumerate(server.args):
        option = _OPTION.fullmatch(text)
        header = _HEADER.fullmatch(text)
        if option is not None:
            before = option[1]
            if option[2]:
                yield f"args[{place}]", before, option[2]
        elif header is not None:  # as `--header "Authorization: Bearer …"` has it
            yield f"args[{place}]", header[1], header[2]
        else:
            yield f"args[{place}]", before, text
            before = ""
    if server.url is not None:
        try:
            where = urlsplit(server.url)
        except ValueError:  # nothing is sent there either
            return
        if where.password:
            yield "url", "password", unquote(where.password)
        for name, text in parse_qsl(where.query):
            yield f"url {name}", name, text


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

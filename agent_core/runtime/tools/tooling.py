"""Tooling: the tools of a core, wherever they come from, and what is stored of them. Reached as `core.tools`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent_core.mcp.oauth import Authorization
from agent_core.mcp.port import McpConnections
from agent_core.net.fetch import Fetch
from agent_core.net.targets import check_text
from agent_core.runtime.mcp.catalog import McpCatalog
from agent_core.runtime.tools.catalog import ToolCatalog
from agent_core.runtime.tools.revisions import Revisions
from agent_core.runtime.tools.secret_values import SecretValues
from agent_core.secrets import Secrets
from agent_core.store.store import Store
from agent_core.tools.http import HttpKind
from agent_core.tools.toolset import KindFactory, McpConfig, Merged, Noted, PythonConfig, Toolset, Wrapping


def _nowhere() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class ToolPorts:
    """What a process gives its core for tools.

    *places* returns where tools that are not defined come from, by their names, such as `tools/orders.py:3`. Without
    *fetch* there are no HTTP tools. *mcp* are the connections to MCP servers, without which these are only stored;
    *mcp_stdio* is whether the API may make servers of programs; *mcp_client* is where this deployment describes itself
    as a client of OAuth, an address of HTTPS.
    """

    places: Callable[[], Mapping[str, str]] = field(default=_nowhere)
    fetch: Fetch | None = None
    mcp: McpConnections | None = None
    mcp_stdio: bool = False
    mcp_client: str | None = None


NO_PORTS = ToolPorts()


class Tooling:
    """All tools: *shipped* are those that need no definition. `toolset` is what agents and runs use.

    *secrets* seals what is stored; None where the core has no key.

    Attach a kind of stored things here: it gets `revisions`, to see what other processes change, its toolset is merged
    into the base, and `kinds` has the factory of each kind of definitions.
    """

    def __init__(self, store: Store, shipped: Toolset, secrets: Secrets | None, ports: ToolPorts) -> None:
        self.revisions = Revisions(store)
        self.secrets = SecretValues(store, secrets, self.revisions)
        authorization = None if ports.fetch is None else Authorization(ports.fetch, store.clock, ports.mcp_client)
        self.servers = McpCatalog(
            store,
            self.revisions,
            ports.mcp,
            secrets=secrets,
            values=self.secrets,
            check_url=check_text if ports.fetch is None else ports.fetch.guard.check,
            stdio=ports.mcp_stdio,
            authorization=authorization,
        )
        base = Merged((shipped, self.servers))
        kinds: dict[str, KindFactory] = {
            "python": Wrapping(PythonConfig),
            "mcp": Wrapping(McpConfig, lambda: self.servers.names),
        }
        self._http = None if ports.fetch is None else HttpKind(ports.fetch, self.secrets.values, store.clock)
        if self._http is not None:
            kinds["http"] = self._http
        self.definitions = ToolCatalog(store, base, kinds, self.revisions, ports.places)
        self.toolset: Toolset = Noted(self.definitions, store.counters.know)

    async def start(self) -> None:
        """Load what is stored, and from now on what other processes change."""
        await self.revisions.start()
        self.servers.start()

    async def stop(self) -> None:
        """End what `start` began."""
        if self._http is not None:
            await self._http.tokens.close()
        await self.revisions.stop()
        await self.servers.stop()

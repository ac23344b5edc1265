"""The kind `http` of defined tools."""

import asyncio
import socket
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import structs

from agent_core.agents import ToolDefinition, secrets_in
from agent_core.clock import Clock
from agent_core.errors import NotFound
from agent_core.net.fetch import Fetch
from agent_core.net.targets import FetchRefused
from agent_core.net.tokens import ClientTokens
from agent_core.secrets import Unreadable
from agent_core.tools.base import Tool
from agent_core.tools.http.check import CheckUrl, check, parameters_of
from agent_core.tools.http.config import config_of
from agent_core.tools.http.request import RequestMaker
from agent_core.tools.http.tool import RESULT_LIMIT, HttpPorts, HttpTool, SecretSource
from agent_core.tools.kinds import spec_of

_CONNECT_SECONDS = 5.0
_GRACE_SECONDS = 2.0
"""How much later than the request the call of a read ends, so that the model reads which host was slow."""


class HttpKind:
    """Makes HTTP tools; their requests go through *fetch*, their secrets come from *secrets*."""

    def __init__(self, fetch: Fetch, secrets: SecretSource, clock: Clock, check_url: CheckUrl | None = None) -> None:
        """*check_url* says which addresses a definition may have; None: what the guard of *fetch* lets through."""
        self._check_url = check_url or fetch.guard.check
        self._fetch, self._secrets, self.tokens = fetch, secrets, ClientTokens(fetch, clock)
        self._ports = HttpPorts(fetch, secrets, self.tokens)

    def check(self, definition: ToolDefinition) -> None:
        """Raise `InvalidInput`, with the path of the field, for what cannot work anywhere."""
        check(definition, config_of(definition.config), self._check_url)

    def tool(self, definition: ToolDefinition, _known: Mapping[str, Tool], /) -> Tool:
        """Return the tool of a checked *definition*."""
        config = config_of(definition.config)
        maker = RequestMaker.of(definition, config)
        spec = spec_of(definition, parameters=parameters_of(maker.url), effect=config.effect)
        spec = structs.replace(spec, result_limit=min(spec.result_limit, RESULT_LIMIT))
        if spec.effect == "read":
            spec = structs.replace(spec, timeout=spec.timeout + _GRACE_SECONDS)
        return HttpTool(spec, definition, config, maker, self._ports)

    async def faults(self, definition: ToolDefinition, /) -> Sequence[str]:
        """Return what keeps its calls from working now: secrets that are missing, addresses that do not answer."""
        config = config_of(definition.config)
        urls = [config.url, *([config.oauth.token_url] if config.oauth else [])]
        faults = await self._missing(secrets_in([definition.config, definition.preset]))
        faults += [fault for url in urls if (fault := await self._unreachable(url))]
        return faults

    async def _missing(self, names: Collection[str]) -> list[str]:
        faults: list[str] = []
        for name in sorted(names):
            try:
                await self._secrets((name,))
            except (NotFound, Unreadable) as error:
                faults.append(str(error))
        return faults

    async def _unreachable(self, url: str) -> str | None:
        """Return why no connection can be made to the host of *url*; nothing is sent."""
        where = urlsplit(url)
        guard, host = self._fetch.guard, f"`{where.netloc}`"
        try:
            target = guard.target(where.scheme, (where.hostname or "").lower(), where.port)
            async with asyncio.timeout(_CONNECT_SECONDS):
                loop = asyncio.get_running_loop()
                infos = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
                guard.admit(target, [str(info[4][0]) for info in infos])
                _, writer = await asyncio.open_connection(str(infos[0][4][0]), target.port)
        except FetchRefused as error:
            return str(error)
        except TimeoutError:
            return f"{host} does not answer within {_CONNECT_SECONDS:g} s; is the address right?"
        except OSError as error:
            return f"{host} cannot be reached: {error.strerror or 'its name is not known'}."
        writer.close()
        return None

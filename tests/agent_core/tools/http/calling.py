"""HTTP tools in front of a real server on loopback, for tests of one call."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_core.agents import ToolDefinition
from agent_core.clock import SystemClock
from agent_core.errors import NotFound
from agent_core.messages import Actor, Text
from agent_core.net.fetch import Fetch
from agent_core.tools.base import CallContext, Done, Outcome, ToolError
from agent_core.tools.http import HttpKind
from tests.agent_core.net.stage import Site, serving


@dataclass
class Calling:
    """A *site*, and tools whose requests may go there and nowhere else on this machine."""

    site: Site
    kind: HttpKind
    secrets: dict[str, str] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)

    def definition(self, path: str = "/orders", **fields: Any) -> ToolDefinition:
        """Return a definition; of *fields* those of the definition itself are taken, the others are of its config."""
        own = {name: fields.pop(name) for name in list(fields) if name in ToolDefinition.__struct_fields__}
        config = {"url": self.site.url(path, "127.0.0.1"), **fields}
        return ToolDefinition(name="orders", config=config, **own)

    async def call(self, arguments: Mapping[str, Any] | None = None, path: str = "/orders", **fields: Any) -> Outcome:
        """Check the definition, and call its tool once."""
        definition = self.definition(path, **fields)
        self.kind.check(definition)
        tool = self.kind.tool(definition, {})
        return await tool.call({**(arguments or {}), **definition.preset}, self.call_context())

    async def done(self, *arguments: Any, **fields: Any) -> str:
        """Return the text of a call that succeeds."""
        outcome = await self.call(*arguments, **fields)
        assert isinstance(outcome, Done), outcome
        return "".join(part.text for part in outcome.parts if isinstance(part, Text))

    async def failed(self, *arguments: Any, **fields: Any) -> str:
        """Return what the model reads of a call that fails."""
        outcome = await self.call(*arguments, **fields)
        assert isinstance(outcome, ToolError), outcome
        return outcome.message

    def call_context(self) -> CallContext:
        """Return what a call gets beside its arguments."""
        progress: Callable[[str], None] = lambda _text: None  # noqa: E731
        actor = Actor("ann", "user", "Ann")
        return CallContext("call_1", "ses_1", "run_1", actor, "web", SystemClock(), progress, self.context)


@asynccontextmanager
async def calling(*allow: str) -> AsyncGenerator[Calling]:
    """Give a server and a kind of tools that may ask it."""
    async with serving() as site:
        fetch = Fetch((f"127.0.0.1:{site.port}", *allow))
        secrets: dict[str, str] = {}

        async def values(names: Collection[str]) -> Mapping[str, str]:
            if missing := [name for name in names if name not in secrets]:
                raise NotFound("secret", missing[0], f"An operator sets it with `parley secrets set {missing[0]}`.")
            return {name: secrets[name] for name in names}

        kind = HttpKind(fetch, values, SystemClock())
        try:
            yield Calling(site, kind, secrets)
        finally:
            await kind.tokens.close()
            await fetch.close()

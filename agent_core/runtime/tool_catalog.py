"""The catalogue of defined tools: stored, versioned definitions, and the tools that are made of them."""

from collections.abc import Callable, Mapping

from agent_core.runtime.revisions import Revisions
from agent_core.store.store import Store
from agent_core.tools.base import Tool
from agent_core.tools.kinds import KindFactory
from agent_core.tools.toolset import Scope, Toolset


class ToolCatalog:
    """Defined tools, beside those of *base* that need no definition; it is the toolset of both."""

    def __init__(
        self,
        store: Store,
        base: Toolset,
        kinds: Mapping[str, KindFactory],
        revisions: Revisions,
        places: Callable[[], Mapping[str, str]],
    ) -> None:
        self._store, self._base, self._kinds, self._revisions, self._places = store, base, kinds, revisions, places

    async def tools(self, scope: Scope, /) -> Mapping[str, Tool]:
        return await self._base.tools(scope)

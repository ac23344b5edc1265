"""What was shown: renders by their ids, and what draws those that a surface cannot draw itself."""

from collections.abc import Mapping
from typing import Any, Protocol

from agent_core.objects import RenderObject
from agent_core.store import listing
from agent_core.store.listing import Wanted
from agent_core.store.store import Store

EVERY = Wanted()
"""Any session."""


class ChartDrawer(Protocol):
    """Draws checked Vega-Lite specifications, see `charts.draw.Drawer`; what cannot be drawn is a `ParleyError`."""

    async def png(
        self, spec: Mapping[str, Any], /, *, scale: float = 2.0, dark: bool = False, owner: str = ""
    ) -> bytes: ...

    async def svg(self, spec: Mapping[str, Any], /, *, dark: bool = False, owner: str = "") -> bytes: ...

    async def check(self, spec: Mapping[str, Any], /, *, owner: str = "") -> None: ...


class Renders:
    """What the calls of this core's sessions have shown."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, id: str, wanted: Wanted = EVERY) -> RenderObject:
        """Return a render that was shown in a session that is *wanted*, the oldest one; raises `NotFound`.

        A fork shows what it copied under the same id.
        """
        return await self._store.read(lambda connection: listing.render(connection, id, wanted))

"""Costs: what model calls have cost, for operators."""

from agent_core.messages import CostFilter, CostGroup, CostItem
from agent_core.objects import Page
from agent_core.runtime.agents.roster import cursor_key
from agent_core.store import listing
from agent_core.store.store import Store

EVERYTHING = CostFilter()
"""All that was spent."""


class Costs:
    """What the model calls of this core's database have cost."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def listed(
        self, by: CostGroup, wanted: CostFilter = EVERYTHING, *, limit: int = 50, cursor: str | None = None
    ) -> Page[CostItem]:
        """Return sums of what is *wanted*: days with the latest first, others with the most expensive first.

        Raises `UnknownCursor`.
        """
        after = cursor_key(cursor)
        return await self._store.read(
            lambda connection: listing.costs(connection, by, wanted, limit=limit, after=after)
        )

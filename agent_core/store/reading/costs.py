"""What was spent, summed by agent, actor, channel, session or day."""

from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Label, Select, cast, func, select

from agent_core.messages import CostFilter, CostGroup, CostItem, Usage
from agent_core.objects import Page
from agent_core.quotas import NANO
from agent_core.store.tables import DEFAULT_PROJECT
from agent_core.store.work.catalog import AGENT
from agent_core.store.work.spending import SPENDING, SUMS, TOKENS

EPOCH = date(1970, 1, 1).toordinal()
_COUNTS = ("runs", "steps", "unmeasured", "unpriced")
_SPENT = tuple(name for name in TOKENS if name != "reasoning")  # which is a part of the output


def costs(
    connection: Connection, by: CostGroup, wanted: CostFilter, *, limit: int, after: int | None
) -> Page[CostItem]:
    """Return up to *limit* sums: days with the latest first, others with the most expensive first, then by tokens.

    *after* is the day before which days are listed, or how many of the others precede: their order moves while money
    is spent, and nothing else would hold better.
    """
    key = SPENDING.c[by]
    query = _filtered(select(key.label("key"), *map(_sum, (*_COUNTS, *SUMS))), wanted).group_by(key)
    if by == "day":
        query = query.order_by(key.desc()) if after is None else query.where(key < after).order_by(key.desc())
    else:
        spent = sum((func.coalesce(func.sum(SPENDING.c[name]), 0) for name in _SPENT), start=_ZERO)
        ranks = (func.coalesce(func.sum(SPENDING.c.cost), 0).desc(), spent.desc(), key)
        query = query.order_by(*ranks).offset(after or 0)
    rows = connection.execute(query.limit(limit + 1)).all()
    names = _names(connection, [row.key for row in rows]) if by == "agent" else {}
    items = tuple(_item(by, row, names) for row in rows[:limit])
    if len(rows) <= limit:
        return Page(items, None)
    return Page(items, str(rows[limit - 1].key if by == "day" else (after or 0) + limit))


_ZERO: ColumnElement[Any] = cast(0, BigInteger)


def _sum(name: str) -> Label[Any]:
    return func.sum(SPENDING.c[name]).label(name)


def _filtered(query: Select[*tuple[Any, ...]], wanted: CostFilter) -> Select[*tuple[Any, ...]]:
    query = query.where(SPENDING.c.project == DEFAULT_PROJECT)
    if wanted.first is not None:
        query = query.where(SPENDING.c.day >= wanted.first)
    if wanted.end is not None:
        query = query.where(SPENDING.c.day < wanted.end)
    if wanted.agent is not None:
        named = select(AGENT.c.id).where(AGENT.c.project == DEFAULT_PROJECT, AGENT.c.name == wanted.agent)
        query = query.where((SPENDING.c.agent == wanted.agent) | SPENDING.c.agent.in_(named))
    for name in ("actor", "channel", "session"):
        if (id := getattr(wanted, name)) is not None:
            query = query.where(SPENDING.c[name] == id)
    return query


def _names(connection: Connection, agents: list[str]) -> dict[str, str]:
    rows = connection.execute(select(AGENT.c.id, AGENT.c.name).where(AGENT.c.id.in_(agents)))
    return {row.id: row.name for row in rows}


def _item(by: CostGroup, row: Any, names: dict[str, str]) -> CostItem:
    sums = {name: None if getattr(row, name) is None else int(getattr(row, name)) for name in SUMS}
    return CostItem(
        key=date.fromordinal(EPOCH + row.key).isoformat() if by == "day" else row.key or None,
        name=names.get(row.key),
        **{name: int(getattr(row, name)) for name in _COUNTS},
        usage=Usage(**{name: sums[name] for name in TOKENS}),
        cost=_dollars(sums["cost"]),
        uncached_cost=_dollars(sums["uncached_cost"]),
    )


def _dollars(nano: int | None) -> str | None:
    """Return billionths of a dollar as a decimal in dollars."""
    return None if nano is None else f"{(Decimal(nano) / NANO).normalize():f}"

"""`parley cost`: what was spent, summed by day, agent, person, channel or session, as a table."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.printing import AsJson, Column, every, listed


class SumKey(StrEnum):
    """What sums are made by; `GET /v1/costs` knows the same."""

    DAY = "day"
    AGENT = "agent"
    ACTOR = "actor"
    CHANNEL = "channel"
    SESSION = "session"


def cost(
    *,
    by: Annotated[SumKey, typer.Option(help="What is summed by.")] = SumKey.DAY,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day (UTC).")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="DAY", help="The day (UTC) before which sums end.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what was spent, by day, agent, actor, channel or session."""
    items = every("/v1/costs", by=by.value, **{"from": first}, to=end)
    columns = (
        Column(by.value.upper(), _name, whole=True),
        Column("RUNS", lambda each: f"{each['runs']:,}"),
        Column("CALLS", lambda each: f"{each['steps']:,}"),
        Column("UNCACHED", lambda each: _tokens(each, "input")),
        Column("READ", lambda each: _tokens(each, "cache_read")),
        Column("WRITTEN", lambda each: _tokens(each, "cache_write_short", "cache_write_long")),
        Column("OUTPUT", lambda each: _tokens(each, "output")),
        Column("COST", lambda each: _usd(each["cost"])),
        Column("SAVED", _saved),
        Column("NOT IN IT", _missing),
    )
    listed(items, columns, as_json=as_json)


def _name(item: dict[str, Any]) -> str:
    return item["name"] or item["key"] or "(deleted)"


def _tokens(item: dict[str, Any], *kinds: str) -> str:
    counts = [item["usage"][kind] for kind in kinds if item["usage"][kind] is not None]
    return f"{sum(counts):,}" if counts else "?"


def _usd(amount: str | None) -> str:
    return "?" if amount is None else f"${Decimal(amount):.4f}"


def _saved(item: dict[str, Any]) -> str:
    """Return which share of the cost without a prompt cache it saved."""
    if item["cost"] is None or not item["uncached_cost"] or not Decimal(item["uncached_cost"]):
        return "-"
    return f"{1 - Decimal(item['cost']) / Decimal(item['uncached_cost']):.0%}"


def _missing(item: dict[str, Any]) -> str:
    """Return how many calls the cost lacks, and why."""
    gaps = ((item["unpriced"], "without a price"), (item["unmeasured"], "without tokens"))
    return ", ".join(f"{count:,} {why}" for count, why in gaps if count) or "-"

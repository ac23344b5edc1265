"""What was spent, summed by day, agent, person, channel or session, as a table."""

from decimal import Decimal
from enum import StrEnum
from typing import Any

from app.cli.printing import Column, every, listed


class SumKey(StrEnum):
    """What sums are made by; `GET /v1/costs` knows the same."""

    DAY = "day"
    AGENT = "agent"
    ACTOR = "actor"
    CHANNEL = "channel"
    SESSION = "session"


def print_costs(key: SumKey, *, first: str | None, end: str | None, as_json: bool) -> None:
    """Print what was spent by *key*, from the UTC day *first* until before *end*; raises what the server refuses."""
    items = every("/v1/costs", by=key.value, **{"from": first}, to=end)
    columns = (
        Column(key.value.upper(), _name, whole=True),
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

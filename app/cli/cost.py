"""`parley cost`: what a conversation cost, what it would have cost at best, and why there is a difference."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from app.cli.costs import SumKey, print_costs
from app.cli.printing import connect, line
from app.printer import say
from channels.legible import one_line

if TYPE_CHECKING:
    from app.cli.client import Client

GAP = "  "
WHY = {
    "expired": "the pause was longer than the cache keeps what was sent",
    "prefix": "something among the messages had changed, or was compacted",
    "tools": "the tools had changed",
    "system": "the system texts had changed",
    "model": "another model was asked before",
    "evicted": "it should have been in the cache, and was not",
    "unknown": "it is not known why it was not read",
    "not_marked": "the request was not marked for the cache",
    "below_minimum": "the prompt was shorter than what a cache keeps",
    "unread": "it was written and never read again",
    "lifetime": "it was written for longer than it was needed",
    "price": "it was billed at other prices than today's",
}
"""What the causes mean, for people."""


class _Heading(NamedTuple):
    title: str
    is_number: bool = True


HEADINGS = (
    _Heading("TIME (UTC)", is_number=False),
    _Heading("STEP"),
    _Heading("MODEL", is_number=False),
    _Heading("UNCACHED"),
    _Heading("READ"),
    _Heading("WRITTEN"),
    _Heading("LONG"),
    _Heading("OUTPUT"),
    _Heading("BILLED"),
    _Heading("IDEAL"),
    _Heading("BECAUSE", is_number=False),
)


def cost(
    session: Annotated[
        str | None, typer.Argument(help="The session's id; `parley sessions list` shows them. Without it: sums.")
    ] = None,
    *,
    by: Annotated[SumKey, typer.Option(help="Without a session: what is summed by.")] = SumKey.DAY,
    first: Annotated[str | None, typer.Option("--from", metavar="DAY", help="The first day (UTC) of sums.")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="DAY", help="The day (UTC) before which sums end.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one line of JSON.")] = False,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it as a picture, too.")] = None,
) -> None:
    """Print what each model call of a session cost, what it would have cost with a perfect prompt cache, and why.

    Without a session it prints what was spent, by day, agent, actor, channel or session.

    WRITTEN is kept for five minutes and LONG for an hour (OpenAI: half an hour and half a day).
    """
    if session is None:
        if png is not None:
            raise typer.BadParameter("it draws one session; name one.", param_hint="--png")
        print_costs(by, first=first, end=end, as_json=as_json)
        return
    costs, picture = asyncio.run(_read(session, drawn=png is not None))
    if as_json:
        line(costs)
    else:
        for text in described(costs):
            say(text)
    if png is not None and picture is not None:
        png.write_bytes(picture)
        if not as_json:
            say(f"\nDrawn into {one_line(str(png))}.")


async def _read(session: str, *, drawn: bool) -> tuple[dict[str, Any], bytes | None]:
    async with connect() as client:
        cost = await client.call("GET", f"/v1/sessions/{quote(session, safe='')}/cost")
        return cost, await _picture(client, cost) if drawn else None


async def _picture(client: "Client", cost: dict[str, Any]) -> bytes:
    from agent_core import ConfigError
    from app.cli.cost_chart import chart_of

    spec = chart_of(cost)
    if spec is None:
        raise ConfigError("There is nothing to draw: no model call of this session has a price; leave --png out.")
    body = {"kind": "chart", "title": spec["title"]["text"], "payload": {"spec": spec}}
    return await client.bytes("POST", "/v1/renders/preview", body=body, **{"as": "png"})


def described(cost: dict[str, Any]) -> list[str]:
    """Return what the API says of a session's cost as lines: a table of the calls, the sums, and the causes."""
    calls = cost["calls"]
    if not calls:
        return ["No model has answered in this session yet: it has cost nothing."]
    digits = _digits(calls)
    rows = [_cells(call, digits) for call in calls]
    return [*_table(rows), "", *_sums(cost, digits), *_caveats(cost)]


def _cells(call: dict[str, Any], digits: int) -> tuple[str, ...]:
    usage = call["usage"]
    step = str(call["n"]) if call["kind"] != "summary" else "-"
    retried = f".{call['attempt']}" if call["attempt"] > 1 else ""
    counts = (usage[name] for name in ("input", "cache_read", "cache_write_short", "cache_write_long", "output"))
    return (
        datetime.fromisoformat(call["asked_at"]).strftime("%m-%d %H:%M:%S"),
        step + retried,
        one_line(call["model"]),
        *(_count(each) for each in counts),
        _usd(call["billed"], digits),
        _usd(call["ideal"], digits),
        _because(call, digits),
    )


def _because(call: dict[str, Any], digits: int) -> str:
    match call["kind"]:
        case "child":
            return "a child run: not replayed"
        case "summary" if not call["causes"]:
            return "wrote a summary"
    if call["billed"] is None:
        return "tokens or price unknown"
    if call["ideal"] is None:
        return "its prompt, or today's price, is unknown"
    causes = [(cause, Decimal(amount)) for cause, amount in call["causes"].items()]
    smallest = Decimal(1).scaleb(-digits) / 2
    shown = sorted((each for each in causes if abs(each[1]) >= smallest), key=lambda each: -abs(each[1]))
    return ", ".join(f"{cause} {amount:+.{digits}f}" for cause, amount in shown)


def _sums(cost: dict[str, Any], digits: int) -> list[str]:
    billed, ideal, uncached = (Decimal(cost[name]) for name in ("billed", "ideal", "uncached"))
    summed = sum(call["ideal"] is not None for call in cost["calls"])
    amounts = f"billed {_usd(billed, digits)}, ideal {_usd(ideal, digits)}, without a cache {_usd(uncached, digits)}"
    lines = [f"{_many(summed, 'model call')}: {amounts}."]
    more = billed - ideal
    if not cost["causes"]:
        return [*lines, "No cache could have made it cheaper."] if summed else lines
    lines.append(f"Billed more than the ideal: {_usd(more, digits)}{_share(more, ideal)}. The causes:")
    causes = sorted(cost["causes"].items(), key=lambda each: -Decimal(each[1]))
    shares = [f"{Decimal(amount):+.{digits}f}" for _, amount in causes]
    room, width = max(len(cause) for cause, _ in causes), max(map(len, shares))
    for (cause, _), amount in zip(causes, shares, strict=True):
        lines.append(f"  {cause:<{room}}{GAP}{amount:>{width}}{GAP}{WHY.get(cause, '')}".rstrip())
    return lines


def _caveats(cost: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if cost["unknown"]:
        names = f" (no price: {', '.join(map(one_line, cost['unpriced']))})" if cost["unpriced"] else ""
        lines.append(f"{_many(cost['unknown'], 'call')} in no sum: tokens or price are not known{names}.")
    if cost["apart"]:
        lines.append(f"{_many(cost['apart'], 'call')} of child runs in no sum; billed: ${cost['apart_billed']}.")
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    from rich.cells import cell_len

    titles = [heading.title for heading in HEADINGS]
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    lines: list[str] = []
    for cells in (titles, *rows):
        padded = [
            (" " * (width - cell_len(cell)) + cell) if heading.is_number else cell + " " * (width - cell_len(cell))
            for cell, width, heading in zip(cells, widths, HEADINGS, strict=True)
        ]
        lines.append(GAP.join(padded).rstrip())
    return lines


def _digits(calls: Sequence[dict[str, Any]]) -> int:
    """Return how many decimals show three digits of the dearest call, four at least."""
    dearest = max((Decimal(call["billed"]) for call in calls if call["billed"]), default=Decimal(0))
    return min(9, max(4, 2 - dearest.adjusted())) if dearest else 4


def _usd(amount: str | Decimal | None, digits: int) -> str:
    return "?" if amount is None else f"${Decimal(amount):.{digits}f}"


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _share(more: Decimal, ideal: Decimal) -> str:
    return f" ({more / ideal:.1%})" if ideal else ""


def _many(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"

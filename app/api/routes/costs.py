"""The route of costs: what model calls used and cost, by agent, actor, channel, session or day."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from agent_core import InvalidInput
from agent_core.messages import CostFilter, CostGroup
from agent_core.store.listing import EPOCH
from app.api.bodies.wire import Cost, answer
from app.api.deps import Cursor, Limit, Name, Operator, Wired
from app.api.problems import answers

router = APIRouter(prefix="/v1/costs", tags=["costs"])
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII)
_DAY = timedelta(days=1)
_EXPLAINED = "a date such as 2026-11-01, or a time such as 2026-11-01T12:00:00Z, of which the UTC day counts."
From = Annotated[str | None, Query(alias="from", max_length=40, description=f"Inclusive. RFC 3339: {_EXPLAINED}")]
To = Annotated[str | None, Query(max_length=40, description="Exclusive; the day of a time within it counts whole.")]


async def wanted_of(
    *,
    from_: From = None,
    to: To = None,
    agent: Name | None = None,
    actor: Name | None = None,
    channel: Name | None = None,
    session: Name | None = None,
) -> CostFilter:
    """Return which spending is summed; raises `InvalidInput` naming the bound that is none."""
    first = None if from_ is None else _day("from", from_)
    end = None if to is None else _day("to", to, last=True)
    if first is not None and end is not None and end <= first:
        raise InvalidInput("to", "must be later than `from`: it is exclusive.")
    return CostFilter(first=first, end=end, agent=agent, actor=actor, channel=channel, session=session)


@router.get("", responses=answers(Cost, 400, 401, 403, 422))
async def list_costs(
    wired: Wired,
    _: Operator,
    limit: Limit,
    wanted: Annotated[CostFilter, Depends(wanted_of)],
    by: Annotated[CostGroup, Query()] = "day",
    cursor: Cursor = None,
) -> Response:
    """Sum what model calls used and cost, `by` day with the latest first, or by another key with the dearest first.

    Sums are kept by UTC day: a `from` or `to` within a day includes that day whole, and the answer says which days it
    covers, `from` inclusive and `to` exclusive.
    """
    listed = await wired.core.costs.listed(by, wanted, limit=limit, cursor=cursor)
    first, end = _text(wanted.first), _text(wanted.end)
    return answer(Cost(by=by, start=first, end=end, items=listed.items, next_cursor=listed.next_cursor))


def _day(name: str, text: str, *, last: bool = False) -> int:
    """Return the UTC day of *text*, counted since 1970-01-01; the next one where it is *last*, and within a day."""
    try:
        moment = _moment(text)
        day = moment.date() + _DAY if last and moment.time() != time.min else moment.date()
    except (ValueError, OverflowError):  # no such day, or one before the year 1 or after 9999
        raise InvalidInput(name, _EXPLAINED) from None
    return day.toordinal() - EPOCH


def _moment(text: str) -> datetime:
    """Return *text* in UTC; raises `ValueError`, `OverflowError`."""
    if _DATE.fullmatch(text):
        return datetime.combine(date.fromisoformat(text), time.min)
    if _TIME.fullmatch(text):
        return datetime.fromisoformat(text.upper()).astimezone(UTC).replace(tzinfo=None)
    raise ValueError(text)


def _text(day: int | None) -> str | None:
    return None if day is None else date.fromordinal(EPOCH + day).isoformat()

"""Routes of health, metrics and costs."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core.errors import InvalidInput
from agent_core.messages import CostFilter, CostGroup
from agent_core.store.listing import EPOCH
from app.api.deps import Cursor, Limit, Name, Operator, Wired
from app.api.problems import answers, problem
from app.api.wire import Cost, Health, answer
from app.serving.metrics import MEDIA_TYPE, Metrics, Requests
from app.serving.readers import Ready, Starting

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=answers(Health))
async def healthz() -> Response:
    """Answer that the process is alive."""
    return answer(Health("ok"))


@router.get("/readyz", responses=answers(Health, 503))
async def readyz(request: Request) -> Response:
    """Answer whether requests can be served now."""
    ready: Ready | Starting = request.app.state.ready
    fault = await ready.fault()
    if fault is not None:
        return problem(503, fault, headers={"Retry-After": "1"})
    return answer(Health("ok", await ready.warning()))


# The route label of a request that reached no route: the gate refused it, or its path is unknown.
NOWHERE = "none"
METHODS: Sequence[str] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TEXT = {200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}}
metrics_router = APIRouter(tags=["health"])


@metrics_router.get("/metrics", response_class=Response, responses={**answers(None, 401, 403, 503), **TEXT})
async def metrics(request: Request, _: Operator) -> Response:
    """Return counters and gauges in Prometheus's text format."""
    measured: Metrics | None = getattr(request.app.state, "metrics", None)
    if measured is None:
        return problem(503, "The process is starting.", headers={"Retry-After": "1"})
    return Response(await measured.text(), headers={"Content-Type": MEDIA_TYPE})


class Counting:
    """Counts the requests that pass."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = perf_counter(), False

        def note(status: int) -> None:
            self._requests.note(_method(scope), route_of(scope), status, perf_counter() - began)

        async def counted(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                note(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if not answered:  # the middleware that answers 500 is outside of this one
                note(500)
            raise


def install(app: FastAPI, metrics: Metrics, requests: Requests) -> None:
    """Make *app* count its requests and serve them at `/metrics`, which `Callers` protects."""
    app.state.metrics = metrics
    app.include_router(metrics_router)
    app.add_middleware(Counting, requests=requests)


def route_of(scope: Scope) -> str:
    """Return the template of the route that took a request: never an id."""
    return getattr(scope.get("route"), "path", NOWHERE)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "OTHER"


costs_router = APIRouter(prefix="/v1/costs", tags=["costs"])
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


@costs_router.get("", responses=answers(Cost, 400, 401, 403, 422))
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

"""The route of metrics, and what counts the requests."""

from collections.abc import Sequence
from time import perf_counter

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.deps import Operator
from app.api.problems import answers, problem
from app.serving.metrics import MEDIA_TYPE, Metrics, Requests

# The route label of a request that reached no route: the gate refused it, or its path is unknown.
NOWHERE = "none"
METHODS: Sequence[str] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TEXT = {200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}}
router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response, responses={**answers(None, 401, 403, 503), **TEXT})
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
    app.include_router(router)
    app.add_middleware(Counting, requests=requests)


def route_of(scope: Scope) -> str:
    """Return the template of the route that took a request: never an id."""
    return getattr(scope.get("route"), "path", NOWHERE)


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "OTHER"

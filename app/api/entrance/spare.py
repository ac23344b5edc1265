"""The last connections of a server: they serve health checks and operators, whatever others have opened."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.entrance.callers import bearer
from app.api.problems import problem
from app.serving.connections import FULL, SPARE, TRY_AGAIN
from channels.web.identity import Principal

HEALTH = frozenset({"/healthz", "/readyz"})


class SparePlaces:
    """Refuse, on a spare connection, all but health checks and those whom *identify* names as operators.

    A connection says nothing of who is at its other end; so its first request is read, and answered as one more
    connection of a full server would be.
    """

    def __init__(self, app: ASGIApp, *, identify: Callable[[str], Principal | None]) -> None:
        self._app, self._identify = app, identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refuse: Callable[[], None] | None = scope.get(SPARE)
        if refuse is None or scope["path"] in HEALTH or self._is_operator(scope):
            await self._app(scope, receive, send)
            return
        refuse()
        answer = problem(503, FULL, headers={"Retry-After": str(TRY_AGAIN), "Connection": "close"})
        await answer(scope, receive, send)

    def _is_operator(self, scope: Scope) -> bool:
        text = bearer(scope)
        principal = None if text is None else self._identify(text)
        return principal is not None and not principal.visitor

"""Routes that take what `RequestGuard` has read: a large body is validated once, outside of the event loop."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

READ = "parley.body"
"""Where a request's scope has its body as the model that its route takes, if it was large."""


class BodyRoute(APIRoute):
    """A route with a body; each route that takes JSON is one, or it would validate a large one on the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests, with what was read of them."""
        handle = super().get_route_handler()

        async def of_read(request: Request) -> Response:
            return await handle(_ReadRequest(request.scope, request.receive))

        return of_read


class _ReadRequest(Request):
    async def json(self) -> Any:
        """Return the body as its model, of which pydantic takes an instance as it is; a small one as JSON."""
        read = self.scope.get(READ)
        return await super().json() if read is None else read

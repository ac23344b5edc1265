"""Which sites may call from a browser: Starlette's CORS, with refusals as problems."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem
from app.serving.origins import AgentOrigins

METHODS = ("GET", "POST", "PATCH", "DELETE")
REQUESTED = ("Authorization", "Last-Event-ID", "Content-Type")
ANSWERED = ("Parley-After", "Parley-Run", "Parley-Session", "Parley-Time", "Retry-After")
_OK = 200


class Cors(CORSMiddleware):
    """Answer preflights, and let the pages of *origins* read answers, and those that *agents* name.

    A subclass, since Starlette has one method for the answer to a preflight, and no other place for it.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str], agents: AgentOrigins) -> None:
        super().__init__(
            app, allow_origins=origins, allow_methods=METHODS, allow_headers=REQUESTED, expose_headers=ANSWERED
        )

        self._agents = agents

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"]):
            await self._agents.look()
        await super().__call__(scope, receive, send)

    def is_allowed_origin(self, origin: str) -> bool:
        return super().is_allowed_origin(origin) or origin in self._agents

    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        if answer.status_code == _OK:
            return answer
        refused = problem(
            403,
            "A page of this origin may not send this request; PARLEY_ORIGINS has the origins that may, and an agent's "
            f"`web: {{anonymous: {{origins}}}}`, with {', '.join(METHODS)} and the headers {', '.join(REQUESTED)}.",
        )
        for name in ("vary", "access-control-allow-origin"):
            if name in answer.headers:
                refused.headers[name] = answer.headers[name]
        return refused

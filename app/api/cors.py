"""Which sites may call from a browser: Starlette's CORS, with refusals as problems."""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from app.api.problems import problem

METHODS = ("GET", "POST", "PATCH", "DELETE")
REQUESTED = ("Authorization", "Last-Event-ID", "Content-Type")
ANSWERED = ("Parley-Run", "Parley-Session", "Parley-Time")
_OK = 200


class Cors(CORSMiddleware):
    """Answer preflights, and let the pages of *origins* read answers.

    A subclass, since Starlette has one method for the answer to a preflight, and no other place for it.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str]) -> None:
        super().__init__(
            app, allow_origins=origins, allow_methods=METHODS, allow_headers=REQUESTED, expose_headers=ANSWERED
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        if answer.status_code == _OK:
            return answer
        refused = problem(
            403,
            "A page of this origin may not send this request; PARLEY_ORIGINS has the origins that may, "
            f"with {', '.join(METHODS)} and the headers {', '.join(REQUESTED)}.",
        )
        for name in ("vary", "access-control-allow-origin"):
            if name in answer.headers:
                refused.headers[name] = answer.headers[name]
        return refused

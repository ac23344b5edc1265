"""Who asks: the credential of whatever is under `/v1/` and at `/metrics` is known before anything else is read."""

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.plain import NUL
from app.api.problems import problem, unauthorized
from channels.web.identity import Principal

GUARDED = ("/v1/", "/metrics")
OPEN = frozenset({"/v1/web/anonymous"})
"""Paths of them that ask for no credential: they give one to those who have none."""


class Callers:
    """Refuse unidentified callers where a credential is asked for; the others' principal is left in the scope.

    On paths that are `OPEN` there is none.

    *identify* returns the principal of a bearer token, *refuse* the answer to an unidentified caller.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Callable[[str], Principal | None],
        refuse: Callable[[Scope], Response] = lambda _: unauthorized(),
    ) -> None:
        self._app, self._identify, self._refuse = app, identify, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"].startswith(GUARDED) and scope["path"] not in OPEN:
            if (principal := self._caller(Headers(scope=scope))) is None:
                app = self._refuse(scope)
            elif NUL in scope["path"]:
                app = problem(404, "Ids and names do not contain U+0000.")
            scope["parley.principal"] = principal
        await app(scope, receive, send)

    def _caller(self, headers: Headers) -> Principal | None:
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return self._identify(text.strip()) if scheme.lower() == "bearer" else None

"""Who asks: the credential of whatever is under `/v1/` and at `/metrics` is known before anything else is read."""

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_core import ParleyError
from app.api.entrance.plain import NUL
from app.api.problems import problem, refusal, unauthorized
from channels.web.identity import Principal

GUARDED = ("/v1/", "/metrics")
OPEN = frozenset({"/v1/web/anonymous"})
"""Paths of them that ask for no credential: they give one to those who have none."""


class Callers:
    """Refuse unidentified callers where a credential is asked for; the others' principal is left in the scope.

    On paths that are `OPEN` there is none.

    *identify* returns the principal of a bearer token, *refuse* the answer to an unidentified caller. *settle*
    completes the principal of a token that a site signed itself, for which the database is asked.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Callable[[str], Principal | None],
        refuse: Callable[[Scope], Response] = lambda _: unauthorized(),
        settle: Callable[[Principal], Awaitable[Principal]] | None = None,
    ) -> None:
        self._app, self._identify, self._refuse, self._settle = app, identify, refuse, settle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"].startswith(GUARDED) and scope["path"] not in OPEN:
            if (principal := self._caller(scope)) is None:
                app = self._refuse(scope)
            elif NUL in scope["path"]:
                app = problem(404, "Ids and names do not contain U+0000.")
            elif principal.signer is not None and self._settle is not None:
                try:
                    principal = await self._settle(principal)
                except ParleyError as error:  # outside of where the routes' errors become answers
                    app = refusal(error)
            scope["parley.principal"] = principal
        await app(scope, receive, send)

    def _caller(self, scope: Scope) -> Principal | None:
        text = bearer(scope)
        return None if text is None else self._identify(text)


def bearer(scope: Scope) -> str | None:
    """Return the bearer credential that a request was sent with."""
    scheme, _, text = Headers(scope=scope).get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None

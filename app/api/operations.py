"""The record of operations: what operators changed, written before they are answered, and the route that reads it."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Annotated

import msgspec
import structlog
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core import ParleyError
from agent_core.objects import OperationEntry
from agent_core.runtime.access import Access
from app.api.bodies.wire import OperationLine, operation_line
from app.api.deps import MAX_SEQ, Operator, Wired
from app.api.entrance.scopes import SCOPE_OF
from app.api.problems import answers
from channels.web.identity import Principal

IN_THEIR_LOGS = frozenset(
    {
        "POST /v1/agents/{id}/runs",  # its message names the key that sent it, as those of sessions do
        "POST /v1/files",  # the file's row has who sent it
        "POST /v1/renders/preview",  # nothing is kept
        "POST /v1/sessions",  # the session has whom it is for
        "POST /v1/sessions/{id}/messages",
        "POST /v1/sessions/{id}/replies",  # the reply has who gave it
    }
)
"""What is not on the record of operations: frequent, or long streams, and the session's log says who did it."""
RECORDED = tuple(route for route in SCOPE_OF if not route.startswith("GET ") and route not in IN_THEIR_LOGS)
"""What is recorded of operators, refused attempts too: every route that changes something but those."""
ABOUT_PEOPLE = "/v1/actors/"
NDJSON = "application/x-ndjson"
PAGE = 500
_KIND = re.compile(r":[a-z]+\}")
"""What a template says of the kind of an id: the record leaves it out."""
_log = structlog.get_logger("parley.operations")
router = APIRouter(tags=["keys"])


@router.get("/v1/audit", response_class=Response, responses=answers(OperationLine, 400, 401, 403, 422, media=NDJSON))
async def read_operations(wired: Wired, _: Operator, after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0) -> Response:
    """Read the record of what operators did after the line `after`, as lines of JSON."""
    first = await wired.core.access.operations(after=after, limit=PAGE)
    return StreamingResponse(_lines(wired.core.access, first), media_type=NDJSON)


class Recording:
    """Record what operators do, before they get the answer.

    *pseudonym* returns what is recorded of a person whose data is deleted.
    """

    def __init__(self, app: ASGIApp, *, access: Access, pseudonym: Callable[[str], str]) -> None:
        self._app, self._access, self._pseudonym = app, access, pseudonym
        self._routes: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for method, template in (line.split(" ") for line in RECORDED):
            self._routes.setdefault(method, []).append((template, compile_path(template)[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get("parley.principal")
        match = None if principal is None or principal.visitor else self._find(scope)
        if principal is None or match is None:
            await self._app(scope, receive, send)
            return
        route, names = match
        body = bytearray()
        start: Message = {}

        async def held(message: Message) -> None:
            nonlocal start
            if message["type"] != "http.response.body":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                await self._record(principal, route, names.get("id") or _id_in(body), start["status"])
                await send(start)
                await send({"type": "http.response.body", "body": bytes(body)})

        await self._app(scope, receive, held)

    def _find(self, scope: Scope) -> tuple[str, Mapping[str, str]] | None:
        """Return the recorded route of a request, and what its path names."""
        method = scope["method"]
        for template, pattern in self._routes.get(method, ()):
            if (match := pattern.match(scope["path"])) is not None:
                return f"{method} {_KIND.sub('}', template)}", match.groupdict()
        return None

    async def _record(self, principal: Principal, route: str, about: str | None, status: int) -> None:
        if about is not None and ABOUT_PEOPLE in route:
            about = self._pseudonym(about)
        try:
            await self._access.note(actor=principal.actor, route=route, about=about, result=status)
        except ParleyError as error:  # it was done: the answer says so, and the log that the record lacks it
            _log.error("operation.not_recorded", route=route, about=about, reason=str(error))


async def _lines(access: Access, batch: Sequence[OperationEntry]) -> AsyncIterator[bytes]:
    while batch:
        yield b"".join(msgspec.json.encode(operation_line(entry)) + b"\n" for entry in batch)
        batch = await access.operations(after=batch[-1].seq, limit=PAGE) if len(batch) == PAGE else ()


class _Named(msgspec.Struct):
    id: str | None = None


def _id_in(body: bytes | bytearray) -> str | None:
    """Return the `id` of the object in an answer."""
    try:
        return msgspec.json.decode(body, type=_Named).id
    except msgspec.MsgspecError:
        return None

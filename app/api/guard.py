"""Which scope each route takes of an operator's key: one table, and the check that reads it."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, get_args

from fastapi import Request
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as types_Scope

from agent_core.errors import Forbidden
from agent_core.messages import MAX_FILE
from agent_core.objects import Scope
from app.api.body import MAX_VALUES, READ, Scan, fault_in, no_json, read, too_complex
from app.api.deps import known_query, operator
from app.api.problems import problem, unauthorized
from app.api.routes.sessions import AROUND
from app.serving.caps import Caps, Held
from channels.slack.settings import UNSIGNED, signature, unsigned_bytes
from channels.web.identity import Principal

SCOPE_OF: Mapping[str, Scope] = {
    "GET /metrics": "read",
    "GET /v1/agents": "read",
    "GET /v1/agents/{id}": "read",
    "GET /v1/approvals": "read",
    "GET /v1/approvals/audit": "read",
    "GET /v1/approvals/{id:approval}": "read",
    "GET /v1/audit": "read",
    "GET /v1/costs": "read",
    "GET /v1/files/{id}": "read",
    "GET /v1/mcp-servers": "read",
    "GET /v1/mcp-servers/{id}": "read",
    "GET /v1/renders/{id:render}": "read",
    "GET /v1/renders/{id}.csv": "read",
    "GET /v1/renders/{id}.json": "read",
    "GET /v1/renders/{id}.png": "read",
    "GET /v1/renders/{id}.svg": "read",
    "GET /v1/runs": "read",
    "GET /v1/runs/{id}": "read",
    "GET /v1/runs/{id}/events": "read",
    "GET /v1/runs/{id}/tree": "read",
    "GET /v1/secrets": "read",
    "GET /v1/sessions": "read",
    "GET /v1/sessions/{id}": "read",
    "GET /v1/sessions/{id}/events": "read",
    "GET /v1/sessions/{id}/messages": "read",
    "GET /v1/tools": "read",
    "GET /v1/tools/{id}": "read",
    "GET /v1/web/agent": "read",
    "GET /v1/web/conversations": "read",
    "GET /v1/web/conversations/{id}/feedback": "read",
    "POST /v1/agents/{id}/runs": "run",
    "POST /v1/files": "run",
    "POST /v1/renders/preview": "run",
    "POST /v1/runs/{id}/cancel": "run",
    "POST /v1/runs/{id}/feedback": "run",
    "POST /v1/runs/{id}/tool-outputs": "run",
    "POST /v1/sessions": "run",
    "POST /v1/sessions/{id}/close": "run",
    "POST /v1/sessions/{id}/fork": "run",
    "POST /v1/sessions/{id}/messages": "run",
    "POST /v1/sessions/{id}/refreeze": "run",
    "POST /v1/sessions/{id}/replies": "run",
    "POST /v1/tools/{id}/call": "admin",
    "POST /v1/tools/{id}/test": "run",
    "POST /v1/web/conversations/{id}/branch": "run",
    "POST /v1/web/visitor-tokens": "run",
    "POST /v1/approvals/{id:approval}": "approve",
    "DELETE /v1/actors/{id:path}": "admin",
    "DELETE /v1/agents/{id}": "admin",
    "DELETE /v1/keys/{id}": "admin",
    "DELETE /v1/mcp-servers/{id}": "admin",
    "DELETE /v1/secrets/{id}": "admin",
    "DELETE /v1/sessions/{id}": "admin",
    "DELETE /v1/tools/{id}": "admin",
    "DELETE /v1/web/conversations/{id}": "admin",
    "GET /v1/keys": "admin",
    "GET /v1/keys/{id}": "admin",
    "DELETE /v1/web/keys/{id}": "admin",
    "GET /v1/web/keys": "admin",
    "GET /v1/web/revocations": "admin",
    "PATCH /v1/agents/{id}": "admin",
    "PATCH /v1/keys/{id}": "admin",
    "PATCH /v1/mcp-servers/{id}": "admin",
    "PATCH /v1/tools/{id}": "admin",
    "PATCH /v1/web/conversations/{id}": "run",
    "POST /v1/agents": "admin",
    "POST /v1/keys": "admin",
    "POST /v1/mcp-servers": "admin",
    "POST /v1/mcp-servers/{id}/accept": "admin",
    "POST /v1/mcp-servers/{id}/refresh": "admin",
    "POST /v1/mcp-servers/{id}/login": "admin",
    "POST /v1/mcp-servers/{id}/login/complete": "admin",
    "DELETE /v1/mcp-servers/{id}/login": "admin",
    "POST /v1/keys/{id}/rotate": "admin",
    "POST /v1/secrets": "admin",
    "POST /v1/tools": "admin",
    "POST /v1/web/keys": "admin",
    "POST /v1/web/revocations": "admin",
    "PUT /v1/secrets/{id}": "admin",
}
"""By method and template. A guarded route that is missing here takes `admin`, and a test fails."""


async def admitted(request: Request) -> None:
    """Refuse an operator whose key lacks the scope of the route, and query parameters that the route does not take."""
    principal: Principal | None = request.scope.get("parley.principal")
    if principal is not None:
        check_scope(principal, request.method, getattr(request.scope.get("route"), "path", ""))
    await known_query(request)


def check_scope(principal: Principal, method: str, template: str) -> None:
    """Raise `Forbidden` if *principal* is an operator whose key lacks the scope of the route at *template*."""
    needed = SCOPE_OF.get(f"{method} {template}", "admin")
    if not principal.visitor and needed not in principal.scopes:
        raise Forbidden(f"This takes a key with the scope `{needed}`; the one that was sent does not have it.")


SIGNED_PATHS = "/slack/"
"""Paths whose bodies are signed, some of them forms: only the route that checks the signature parses them."""
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
QUICK_BYTES, QUICK_VALUES = 64_000, 1_000
"""A body of no more bytes and values is checked in under 1 ms; a larger one is read outside of the event loop."""
MAX_BODIES = Caps(visitor=2_000_000, address=16_000_000, everyone=256_000_000)
"""Bytes of bodies that have not arrived whole, in this process."""
MAX_FORMS = Caps(visitor=50_000_000, address=125_000_000, everyone=1_000_000_000)
"""Bytes of forms with files that are on their way or read, on disk."""

SMALL = 64_000
"""Bytes of a body where nothing else is said."""
MESSAGE = 400 * 1024
"""Bytes where a text is sent: 100,000 characters of four bytes each, and what is around them."""
AGENT = 2_000_000
"""Bytes of an agent, which only operators send: instructions of 200,000 characters, schemas of 200 tools."""
TOOL = 300_000
"""Bytes of a tool's definition: a schema of 32,000, presets and a configuration of 64,000 each."""
RENDER = 600_000
"""Bytes of a render, of which the log holds 512,000, and what is around it."""
FILE = MAX_FILE + AROUND
"""Bytes of a form with a file; what an agent allows of it is less, see `uploads`."""
SECRET = 4_000
"""Bytes of a request for which no credential is asked: an agent and a secret."""
SIGNED = 1_000_000
"""Bytes of a request that is signed: it is read before it is known who sent it."""
BODIES = {
    "/v1/files": FILE,
    "/v1/sessions/{id}/messages": MESSAGE,
    "/v1/sessions/{id}/replies": MESSAGE,
    "/v1/agents/{id}/runs": MESSAGE,
    "/v1/runs/{id}/tool-outputs": MESSAGE,
    "/v1/runs/{id}/feedback": MESSAGE,
    "/v1/approvals/{id}": MESSAGE,
    "/v1/renders/preview": RENDER,
    "/v1/agents": AGENT,
    "/v1/agents/{id}": AGENT,
    "/v1/tools": TOOL,
    "/v1/tools/{id}": TOOL,
    "/v1/tools/{id}/call": MESSAGE,
    "/v1/web/anonymous": SECRET,
    "/slack/events": SIGNED,
    "/slack/interactivity": SIGNED,
    "/slack/commands": SIGNED,
}
"""The most bytes of a body by the path of its route."""

FORMS = frozenset({"/v1/files"})
"""The routes that read a form themselves, as it arrives."""

VALUES = {"/v1/renders/preview": 100_000}
"""The most values of a body where it is not `scan.MAX_VALUES`: 500 rows of many columns, as operators alone send."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """One route: *most* bytes and *values* of a body, *model* what it is read as, and whether *operators* alone use it.

    *template* is its path as `scopes.SCOPE_OF` names it.
    """

    path: str
    template: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    operators: bool
    most: int
    model: type[BaseModel] | None
    values: int = MAX_VALUES


class Entrances:
    """Finds the route of a request by the patterns that the router itself has compiled."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._all = tuple(_entrances(routes))

    def find(self, method: str, path: str) -> Entrance | None:
        """Return the route that takes *method* at *path*; None where the router answers 404 or 405."""
        for each in self._all:
            if method in each.methods and each.pattern.match(path):
                return each
        return None


def _entrances(routes: Sequence[BaseRoute]) -> Iterator[Entrance]:
    for context in iter_route_contexts(routes):
        if context.path_format is None or context.methods is None:
            continue
        dependant = getattr(context, "dependant", None)
        yield Entrance(
            context.path_format,
            context.path or context.path_format,
            context.path_regex,
            frozenset(context.methods),
            dependant is not None and _asks_operator(dependant),
            BODIES.get(context.path_format, SMALL),
            _model(getattr(context, "body_field", None)),
            VALUES.get(context.path_format, MAX_VALUES),
        )


def _asks_operator(dependant: Any) -> bool:
    return any(each.call is operator or _asks_operator(each) for each in dependant.dependencies)


def _model(field: Any) -> type[BaseModel] | None:
    """Return what a body is read as, where it is one type; it may be left out."""
    kind = None if field is None else field.field_info.annotation
    kind = next((each for each in get_args(kind) if each is not NoneType), kind)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


class ClientDisconnected(Exception):
    """The caller disconnected before the whole body had arrived."""


class Refused(Exception):
    """A body is not taken; *answer* says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class RequestGuard:
    """Refuse bodies that no route could read, or that the caller may not send; `Callers` is in front of it.

    In this order: the route, the right to it, and then the body, which is scanned as it arrives and left in the
    scope's place for the route. A request that no route takes goes on unread: the router answers it.
    *routes* are those of the application, *holds* returns whether a principal is still good once the body is there.
    """

    def __init__(
        self, app: ASGIApp, *, routes: Sequence[BaseRoute], holds: Callable[[Principal], bool] = lambda _: True
    ) -> None:
        self._app, self._routes, self._holds = app, routes, holds
        self._bodies, self._forms = Held(), Held()

    @cached_property
    def _entrances(self) -> Entrances:
        """The routes, once all are registered."""
        return Entrances(self._routes)

    async def __call__(self, scope: types_Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in WITH_BODY:
            entrance = self._entrances.find(scope["method"], scope["path"])
            if entrance is not None:
                principal: Principal | None = scope.get("parley.principal")
                headers = Headers(scope=scope)
                try:
                    check_entrance(entrance, principal, scope["method"], headers)
                    if entrance.path in FORMS and principal is not None:
                        await self._form(principal, scope, receive, send)
                        return
                    with self._bodies.holding(principal, scope, MAX_BODIES) as hold:
                        body, scope[READ] = await _body(entrance, headers, _counted(receive, hold))
                        receive = replay(body, receive)
                except ClientDisconnected:
                    return
                except Refused as refused:
                    await refused.answer(scope, receive, send)
                    return
                if principal is not None and not self._holds(principal):  # a body may take minutes
                    await unauthorized()(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _form(self, principal: Principal, scope: types_Scope, receive: Receive, send: Send) -> None:
        """Let the route read a form as it arrives; its bytes count until the answer, for so long it is kept."""
        with self._forms.holding(principal, scope, MAX_FORMS) as hold:
            await self._app(scope, _counted(receive, hold), send)


def _counted(receive: Receive, hold: Callable[[int], bool]) -> Receive:
    """Return *receive* with its bytes counted by *hold*; raises `Refused` beyond a cap."""

    async def counted() -> Message:
        message = await receive()
        if not hold(len(message.get("body", b""))):
            detail = "Too many large requests arrive at once; send this one again in a moment."
            raise Refused(problem(503, detail, headers={"Retry-After": "2"}))
        return message

    return counted


def check_entrance(entrance: Entrance, principal: Principal | None, method: str, headers: Headers) -> None:
    """Raise `Refused` for a body that the headers alone refuse."""
    if entrance.operators and principal is not None and principal.visitor:
        raise Refused(problem(403, "A visitor's token does not open this; an operator's key does."))
    if principal is not None:
        try:
            check_scope(principal, method, entrance.template)
        except Forbidden as error:
            raise Refused(problem(403, str(error))) from None
    length = headers.get("content-length", "")
    size = int(length[:20]) if length.isdigit() else None
    if entrance.path.startswith(SIGNED_PATHS) and signature(headers) is None:
        # Only a form whose size is given may be Slack's `ssl_check`.
        if size is None or size > unsigned_bytes(headers):
            raise Refused(problem(401, UNSIGNED))
    elif size is not None and size > entrance.most:
        raise Refused(too_large(entrance.most))


async def _body(entrance: Entrance, headers: Headers, receive: Receive) -> tuple[bytes, BaseModel | None]:
    """Return the whole body, checked, and a large one as its route takes it.

    Raises `Refused`, and `ClientDisconnected` when it is cut off.
    """
    scan = None if entrance.path.startswith(SIGNED_PATHS) else Scan(max_values=entrance.values)
    body = await _read(entrance, headers, receive, scan)
    if scan is None or not body:
        return body, None
    if len(body) <= QUICK_BYTES and scan.values <= QUICK_VALUES:
        outcome = fault_in(body)
    elif entrance.model is None:
        outcome = await asyncio.to_thread(fault_in, body)
    else:
        outcome = await asyncio.to_thread(read, body, entrance.model)
    if isinstance(outcome, Response):
        raise Refused(outcome)
    return body, outcome


async def _read(entrance: Entrance, headers: Headers, receive: Receive, scan: Scan | None) -> bytes:
    """Return the body as it arrives, as long as it may go on."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        if not chunk:
            continue
        if scan is not None and not chunks and not is_json(headers):
            raise Refused(no_json("Send JSON, with the header `Content-Type: application/json`."))
        size += len(chunk)
        if size > entrance.most:
            raise Refused(too_large(entrance.most))
        chunks.append(chunk)
        if scan is not None and (excess := scan.feed(chunk)) is not None:
            raise Refused(await asyncio.to_thread(too_complex, excess, b"".join(chunks), entrance.values))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_json(headers: Headers) -> bool:
    """Return whether a body says that it is JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def too_large(most: int) -> Response:
    """Return the answer to a body of more than *most* bytes."""
    return problem(413, f"The body of this request holds at most {most:,} bytes.")


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives *body* first, and then what comes after it."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

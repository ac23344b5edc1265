"""The gate before all routes: it identifies the caller, and checks that the body is bounded, storable JSON."""

from collections.abc import Callable

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.plain import NUL, fault_of
from app.api.problems import problem, unauthorized
from channels.web.identity import Principal

MAX_BODY = 2_000_000
GUARDED = ("/v1/", "/metrics")
SIGNED = "/slack/"
"""Paths whose bodies are signed, some of them forms: only the route that checks the signature parses them."""
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class ClientDisconnected(Exception):
    """The caller disconnected before the whole body had arrived."""


class RequestGuard:
    """Refuse unidentified callers under `/v1/` and at `/metrics`, and bodies that no route could read.

    *identify* returns the principal of a bearer token. It is left in the scope; the body is read here once. *refuse*
    returns the answer to an unidentified caller.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Callable[[str], Principal | None],
        refuse: Callable[[Scope], Response] = lambda _: unauthorized(),
        max_body: int = MAX_BODY,
    ) -> None:
        self._app, self._identify, self._refuse, self._max = app, identify, refuse, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["path"].startswith(GUARDED):
            principal = self._caller(headers)
            if principal is None:
                await self._refuse(scope)(scope, receive, send)
                return
            scope["parley.principal"] = principal
            if NUL in scope["path"]:
                await problem(404, "Ids and names do not contain U+0000.")(scope, receive, send)
                return
        if scope["method"] in WITH_BODY:
            try:
                body = await self._read(headers, receive)
            except ClientDisconnected:
                return
            signed = scope["path"].startswith(SIGNED)
            fault = too_large(self._max) if body is None else None if signed else unreadable(body, headers)
            if fault is not None:
                await fault(scope, receive, send)
                return
            receive = replay(body or b"", receive)
        await self._app(scope, receive, send)

    def _caller(self, headers: Headers) -> Principal | None:
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return self._identify(text.strip()) if scheme.lower() == "bearer" else None

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the whole body, or None if it is larger than allowed; raise `ClientDisconnected` if it is cut off."""
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._max:
            return None
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max:
                return None
            chunks.append(chunk)
            more = message.get("more_body", False)
        return b"".join(chunks)


def too_large(most: int) -> Response:
    """Return the answer to a body of more than *most* bytes."""
    return problem(413, f"A request body holds at most {most:,} bytes.")


def unreadable(body: bytes, headers: Headers) -> Response | None:
    """Return the answer to a *body* that is not JSON, or not to be kept; None when it is, or when there is none."""
    if not body:
        return None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        return problem(400, "Send JSON, with the header `Content-Type: application/json`.")
    try:
        fault = fault_of(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return problem(400, f"The body is not valid JSON: {error}.")
    return None if fault is None else problem(422, "`{}`: {}".format(*fault), errors=[fault])


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives *body* first, and then what comes after it."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

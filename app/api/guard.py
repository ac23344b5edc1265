"""The gate before all routes: who asks is known before what they ask is read, and what is read is bounded JSON."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.body import fault_in, no_json, too_complex
from app.api.entrances import Entrance, Entrances
from app.api.plain import NUL
from app.api.problems import problem, unauthorized
from app.api.scan import Scan
from channels.web.identity import Principal

GUARDED = ("/v1/", "/metrics")
SIGNED = "/slack/"
"""Paths whose bodies are signed, some of them forms: only the route that checks the signature parses them."""
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
QUICK_BYTES, QUICK_VALUES = 64_000, 1_000
"""A body of no more bytes and values is checked in under 1 ms; a larger one is checked outside of the event loop."""
MOST_HELD, MOST_UNKNOWN = 128_000_000, 16_000_000
"""Bytes of bodies that have not arrived whole, in this process: of all callers, and of those not yet identified."""


class ClientDisconnected(Exception):
    """The caller disconnected before the whole body had arrived."""


class Refused(Exception):
    """A body is not taken; *answer* says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class UnreadBodies:
    """The bytes of bodies that have not arrived whole."""

    def __init__(self) -> None:
        self._all = 0

    @contextmanager
    def counted(self, most: int) -> Iterator[Callable[[int], None]]:
        """Give a function that counts more bytes until the end of the block; it raises `Refused` beyond *most*."""
        own = 0

        def add(size: int) -> None:
            nonlocal own
            own += size
            self._all += size
            if self._all > most:
                detail = "Too many large requests arrive at once; send this one again in a moment."
                raise Refused(problem(503, detail, headers={"Retry-After": "2"}))

        try:
            yield add
        finally:
            self._all -= own


class RequestGuard:
    """Refuse unidentified callers under `/v1/` and at `/metrics`, and bodies that no route could read.

    In this order: the credential, the route, the right to it, and then the body, which is scanned as it arrives and
    left in the scope's place for the route. A request that no route takes goes on unread: the router answers it.
    *identify* returns the principal of a bearer token, *routes* are those of the application, *refuse* returns the
    answer to an unidentified caller, *holds* whether a principal is still good once the body is there.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Callable[[str], Principal | None],
        routes: Sequence[BaseRoute],
        refuse: Callable[[Scope], Response] = lambda _: unauthorized(),
        holds: Callable[[Principal], bool] = lambda _: True,
    ) -> None:
        self._app, self._identify, self._refuse, self._routes = app, identify, refuse, routes
        self._holds, self._held = holds, UnreadBodies()

    @cached_property
    def _entrances(self) -> Entrances:
        """The routes, once all are registered."""
        return Entrances(self._routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        principal = None
        if scope["path"].startswith(GUARDED):
            if (principal := self._caller(headers)) is None:
                await self._refuse(scope)(scope, receive, send)
                return
            scope["parley.principal"] = principal
            if NUL in scope["path"]:
                await problem(404, "Ids and names do not contain U+0000.")(scope, receive, send)
                return
        if scope["method"] in WITH_BODY:
            entrance = self._entrances.find(scope["method"], scope["path"])
            if entrance is not None:
                try:
                    receive = replay(await self._body(entrance, principal, headers, receive), receive)
                except ClientDisconnected:
                    return
                except Refused as refused:
                    await refused.answer(scope, receive, send)
                    return
                if principal is not None and not self._holds(principal):  # a body may take minutes
                    await unauthorized()(scope, receive, send)
                    return
        await self._app(scope, receive, send)

    def _caller(self, headers: Headers) -> Principal | None:
        scheme, _, text = headers.get("authorization", "").partition(" ")
        return self._identify(text.strip()) if scheme.lower() == "bearer" else None

    async def _body(self, entrance: Entrance, principal: Principal | None, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body, checked; raises `Refused`, and `ClientDisconnected` when it is cut off."""
        if entrance.operators and principal is not None and principal.visitor:
            raise Refused(problem(403, "A visitor's token does not open this; an operator's key does."))
        length = headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > entrance.most:
            raise Refused(too_large(entrance.most))
        scan = None if entrance.path.startswith(SIGNED) else Scan()
        with self._held.counted(MOST_UNKNOWN if principal is None else MOST_HELD) as hold:
            body = await _read(entrance, headers, receive, scan, hold)
            if scan is None or not body:
                return body
            if len(body) <= QUICK_BYTES and scan.values <= QUICK_VALUES:
                fault = fault_in(body, None)
            else:
                fault = await asyncio.to_thread(fault_in, body, entrance.model)
        if fault is not None:
            raise Refused(fault)
        return body


async def _read(
    entrance: Entrance, headers: Headers, receive: Receive, scan: Scan | None, hold: Callable[[int], None]
) -> bytes:
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
        hold(len(chunk))
        chunks.append(chunk)
        if scan is not None and (excess := scan.feed(chunk)) is not None:
            raise Refused(await asyncio.to_thread(too_complex, excess, b"".join(chunks)))
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
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

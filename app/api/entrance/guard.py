"""The gate before all routes: what the caller may not do is left unread, and what is read is bounded JSON."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core import Forbidden
from app.api.entrance.body import fault_in, no_json, read, too_complex
from app.api.entrance.entrances import FORMS, Entrance, Entrances
from app.api.entrance.large import READ
from app.api.entrance.scan import Scan
from app.api.entrance.scopes import check_scope
from app.api.problems import problem, unauthorized
from app.serving.shares import address_in, share_of
from channels.slack.inbound.headers import UNSIGNED, signature, unsigned_bytes
from channels.web.identity import Principal

SIGNED = "/slack/"
"""Paths whose bodies are signed, some of them forms: only the route that checks the signature parses them."""
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
QUICK_BYTES, QUICK_VALUES = 64_000, 1_000
"""A body of no more bytes and values is checked in under 1 ms; a larger one is read outside of the event loop."""
MAX_HELD, MAX_VISITORS, MAX_UNKNOWN = 128_000_000, 64_000_000, 64_000_000
"""Bytes of bodies that have not arrived whole, in this process: of operators, of visitors, of unidentified callers."""
EACH_VISITOR, EACH_UNKNOWN, EACH_ADDRESS = 2_000_000, 2_000_000, 16_000_000
"""Bytes of them of one visitor, of one address whose callers are not identified, and of all visitors at one address:
none of them can use up those of all."""
MAX_FORMS, EACH_FORM, EACH_PLACE = 500_000_000, 50_000_000, 125_000_000
"""Bytes of forms with files that are on their way or read, on disk: of all callers of a kind, of one visitor, and of
all visitors at one address."""


Named = tuple[Literal["visitor", "address"], str]
"""Whose bytes are counted."""


class ClientDisconnected(Exception):
    """The caller disconnected before the whole body had arrived."""


class Refused(Exception):
    """A body is not taken; *answer* says why."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Share:
    """Whose bytes a body's are: *most* of all callers of a kind, and of each that is *named* as many as it says."""

    most: int
    named: tuple[tuple[Named, int], ...] = ()


class UnreadBodies:
    """The bytes of bodies of one kind of callers that have not arrived whole."""

    def __init__(self) -> None:
        self._all = 0
        self._of: Counter[Named] = Counter()

    @contextmanager
    def counted(self, share: Share) -> Iterator[Callable[[int], None]]:
        """Give a function that counts more bytes until the end of the block; it raises `Refused` beyond *share*."""
        own = 0

        def add(size: int) -> None:
            nonlocal own
            own += size
            self._all += size
            for name, _ in share.named:
                self._of[name] += size
            if self._all > share.most or any(self._of[name] > most for name, most in share.named):
                detail = "Too many large requests arrive at once; send this one again in a moment."
                raise Refused(problem(503, detail, headers={"Retry-After": "2"}))

        try:
            yield add
        finally:
            self._all -= own
            for name, _ in share.named:
                self._of[name] -= own
                if not self._of[name]:
                    del self._of[name]


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
        self._operators, self._visitors, self._unknown = UnreadBodies(), UnreadBodies(), UnreadBodies()
        self._forms = {True: UnreadBodies(), False: UnreadBodies()}

    @cached_property
    def _entrances(self) -> Entrances:
        """The routes, once all are registered."""
        return Entrances(self._routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                    with self._counted(principal, scope) as hold:
                        body, scope[READ] = await _body(entrance, headers, receive, hold)
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

    async def _form(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route read a form as it arrives; its bytes count until the answer, for so long it is kept."""
        share = Share(MAX_FORMS, _names(principal, scope, EACH_FORM, EACH_PLACE))
        with self._forms[principal.visitor].counted(share) as hold:

            async def counted() -> Message:
                message = await receive()
                hold(len(message.get("body", b"")))
                return message

            await self._app(scope, counted, send)

    def _counted(self, principal: Principal | None, scope: Scope) -> AbstractContextManager[Callable[[int], None]]:
        """Return what counts a body's bytes: each kind of callers has its own, so that none can use up another's."""
        if principal is None:
            address = address_in(scope)
            named: Named | None = None if address is None else ("address", address)
            return self._unknown.counted(Share(MAX_UNKNOWN, () if named is None else ((named, EACH_UNKNOWN),)))
        if principal.visitor:
            return self._visitors.counted(Share(MAX_VISITORS, _names(principal, scope, EACH_VISITOR, EACH_ADDRESS)))
        return self._operators.counted(Share(MAX_HELD))


def _names(principal: Principal, scope: Scope, each: int, here: int) -> tuple[tuple[Named, int], ...]:
    """Return as whose a caller's bytes count: a visitor's own, *each* at most, and *here* of all at the address."""
    if not principal.visitor:
        return ()
    own: tuple[Named, int] = (("visitor", principal.actor.id), each)
    address = share_of(principal, scope)
    return (own,) if address is None else (own, (("address", address), here))


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
    if entrance.path.startswith(SIGNED) and signature(headers) is None:
        # Only a form whose size is given may be Slack's `ssl_check`.
        if size is None or size > unsigned_bytes(headers):
            raise Refused(problem(401, UNSIGNED))
    elif size is not None and size > entrance.most:
        raise Refused(too_large(entrance.most))


async def _body(
    entrance: Entrance, headers: Headers, receive: Receive, hold: Callable[[int], None]
) -> tuple[bytes, BaseModel | None]:
    """Return the whole body, checked, and a large one as its route takes it.

    Raises `Refused`, and `ClientDisconnected` when it is cut off.
    """
    scan = None if entrance.path.startswith(SIGNED) else Scan(max_values=entrance.values)
    body = await _read(entrance, headers, receive, scan, hold)
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

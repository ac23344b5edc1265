"""Bodies as JSON: how deep and large one is as it arrives, whether it can be kept, and what its route takes.

The scan parses nothing: what is in texts is cut away and brackets and commas are counted, each by one call of a
built-in per piece. For JSON the figures are exact; for what is none the parser finds that later, in the same bounds.
"""

from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Coroutine
from itertools import accumulate, islice
from time import monotonic
from typing import Any, Literal

import msgspec
import structlog
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from agent_core.errors import ParleyError
from agent_core.schemas import MAX_DEPTH
from app.api.problems import MAX_ERRORS, NUL, fault_of, invalid, place_of_depth, problem, refusal, unauthorized
from app.settings import LOOPBACK_NAMES, Network, fits, is_loopback, is_shared, place_of, within
from channels.web.demo import host_name, is_forwarded
from channels.web.identity import Principal

MAX_VALUES = 20_000
"""Values of a body, fields of objects and items of lists: what comes after the scan takes under 10 ms for so many."""
Excess = Literal["deep", "many", "unbalanced"]
# Bytes that are looked at together: a bracket too deep ends the scan before the rest of its piece is added up.
_PIECE = 16_384
_OPENS, _CLOSES, _COMMA = b"{[", b"]}", b","
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPENS + _CLOSES))
_STEPS = bytes.maketrans(_OPENS + _CLOSES, b"\x01\x01\xff\xff")
MAX_FAULTS = 1_000
"""Faults that are put into words: 2 ms of work."""
_DEEP = f"nested more than {MAX_DEPTH} levels deep."
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


class Scan:
    """Counts what it is fed; what it keeps between two pieces is whether a text is open, and two numbers."""

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> None:
        self._max_depth, self._max_values = max_depth, max_values
        self._in_text = 0
        self._escape = b""
        self._depth = 0
        self.values = 0

    def feed(self, chunk: bytes) -> Excess | None:
        """Take the next bytes, of any number; return which bound is passed."""
        for begin in range(0, len(chunk), _PIECE):
            if (excess := self._take(chunk[begin : begin + _PIECE])) is not None:
                return excess
        return None

    def _take(self, piece: bytes) -> Excess | None:
        outside = self._outside(piece)
        self.values += outside.count(_COMMA) + sum(map(outside.count, (b"{", b"[")))
        if self.values > self._max_values:
            return "many"
        steps = array("b", outside.translate(_STEPS, _NOT_BRACKETS))
        if not steps:
            return None
        depths = list(accumulate(steps, initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > self._max_depth:
            return "deep"
        return "unbalanced" if self._depth < 0 else None

    def _outside(self, piece: bytes) -> bytes:
        """Return what of *piece* is in no text."""
        piece = self._escape + piece
        # An even number of backslashes at the end is complete; of an odd one the last escapes what comes next.
        odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        self._escape = b"\\" if odd else b""
        if odd:
            piece = piece[:-1]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._in_text = (self._in_text + len(parts) - 1) % 2
        return outside


def no_json(detail: str) -> Response:
    """Return the answer to a body that is not JSON."""
    return problem(400, detail)


def too_complex(excess: Excess, begin: bytes, most: int = MAX_VALUES) -> Response:
    """Return the answer to a body that passed a bound of the scan, *most* values for one; *begin* had arrived."""
    match excess:
        case "deep":
            place = place_of_depth(begin)
            return problem(422, f"`{place}`: {_DEEP}", errors=[(place, _DEEP)])
        case "many":
            return problem(422, f"This body holds at most {most:,} values: fields of objects and items of lists.")
        case "unbalanced":
            return no_json("The body is not valid JSON: a bracket closes nothing.")


def fault_in(body: bytes) -> Response | None:
    """Return the answer to a *body* that is no JSON or cannot be kept; None when the route can read it."""
    value = _decoded(body)
    return value if isinstance(value, Response) else None


def read(body: bytes, model: type[BaseModel]) -> BaseModel | Response:
    """Return *body* as the *model* that its route takes, or the answer to one that is none."""
    value = _decoded(body)
    if isinstance(value, Response):
        return value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return _faults(error, value, model)


def _decoded(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return no_json(f"The body is not valid JSON: {error}.")
    fault = fault_of(body, value)
    return value if fault is None else problem(422, "`{}`: {}".format(*fault), errors=[fault])


def _faults(error: ValidationError, value: Any, model: type[BaseModel]) -> Response:
    count = error.error_count()
    if count <= MAX_FAULTS:
        return invalid([{**each, "loc": ("body", *each["loc"])} for each in error.errors()], value)
    unknown = (name for name in value if name not in model.model_fields) if isinstance(value, dict) else iter(())
    named = [(name, "Extra inputs are not permitted") for name in islice(unknown, MAX_ERRORS)]
    return problem(422, f"{count:,} values are wrong.", errors=named, more=count - len(named))


GUARDED = ("/v1/", "/metrics")
OPEN = frozenset({"/v1/web/anonymous"})
"""Paths of them that ask for no credential: they give one to those who have none."""
HEALTH = frozenset({"/healthz", "/readyz"})
"""Asked by load balancers under whatever address they have."""
NAMING = frozenset({b"x-forwarded-for", b"forwarded", b"x-real-ip"})
"""Headers by which a proxy says whom it speaks for."""
EVERY = 3600.0
"""Seconds between two warnings of one peer."""
MAX_PEERS = 8
"""Peers that are warned of within them, of each kind: strangers may write such headers too, from many addresses."""
_log = structlog.get_logger("parley.proxies")


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


def trust_proxies(app: ASGIApp, *, proxies: Collection[Network]) -> ASGIApp:
    """Return *app* for requests from *proxies*, whose `X-Forwarded-For` and `-Proto` are believed."""
    return ProxyHeadersMiddleware(app, [str(each) for each in proxies])  # pyright: ignore[reportArgumentType, reportReturnType]


class UnnamedProxies:
    """Warn of forwarded headers whose sender is none of *proxies*: all that come through it count as one caller.

    It has to be outside of `trust_proxies`, which takes the peer's address out of the scope. Once an hour and peer;
    a private network's and this machine's are counted apart, so that strangers cannot use up their warnings. *now*
    gives seconds.
    """

    def __init__(self, app: ASGIApp, *, proxies: Collection[Network], now: Callable[[], float] = monotonic) -> None:
        self._app, self._proxies, self._now = app, tuple(proxies), now
        self._warned: dict[bool, OrderedDict[str, float]] = {True: OrderedDict(), False: OrderedDict()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name in NAMING for name, _ in scope["headers"]):
            self._look((scope.get("client") or ("a local socket",))[0])
        await self._app(scope, receive, send)

    def _look(self, peer: str) -> None:
        """Warn of *peer*, unless it is trusted or has just been warned of."""
        now, place, warned = self._now(), place_of(peer), self._warned[is_shared(peer)]
        while warned and now - next(iter(warned.values())) >= EVERY:
            warned.popitem(last=False)
        if place in warned or len(warned) >= MAX_PEERS or within(peer, self._proxies):
            return
        warned[place] = now
        remedy = f"if {peer} is your proxy, name it in PARLEY_TRUSTED_PROXIES: until then all its callers share one"
        _log.warning("proxy.not_trusted", peer=peer, remedy=f"{remedy} address; if not, its sender made it up")


class Hosts:
    """Answer only to the names of *hosts*; this machine may use its own, and health is answered under any."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH or self._knows(scope):
            await self._app(scope, receive, send)
            return
        detail = "This server does not answer to that name; PARLEY_HOSTS has those that it answers to."
        await problem(421, detail, code="wrong_host")(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        name = host_name(headers.get("host", ""))
        if name is None:
            return False
        near = name in LOOPBACK_NAMES and is_loopback((scope.get("client") or ("",))[0])
        return fits(name.removesuffix("."), self._hosts) or (near and not is_forwarded(headers))

"""Who asks: the credential of whatever is under `/v1/` and at `/metrics`; proxies that are believed; names of ours."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from time import monotonic

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from agent_core import ParleyError
from app.api.entrance.plain import NUL
from app.api.problems import problem, refusal, unauthorized
from app.settings import LOOPBACK_NAMES, Network, fits, is_loopback, is_shared, place_of, within
from channels.web.demo import host_name, is_forwarded
from channels.web.identity import Principal

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

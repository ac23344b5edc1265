"""Who is at the other end: proxies that are believed, and the names that this server answers to."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.addresses import LOOPBACK_NAMES, Network, fits, is_loopback
from app.api.problems import problem
from channels.web.demo import host_name, is_forwarded

HEALTH = frozenset({"/healthz", "/readyz"})
"""Asked by load balancers under whatever address they have."""


def trust_proxies(app: ASGIApp, *, proxies: Collection[Network]) -> ASGIApp:
    """Return *app* for requests from *proxies*, whose `X-Forwarded-For` and `-Proto` are believed."""
    return ProxyHeadersMiddleware(app, [str(each) for each in proxies])  # pyright: ignore[reportArgumentType, reportReturnType]


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

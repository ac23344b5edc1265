"""The headers that every answer has: what browsers may keep, and how they reach us."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATA = ("/v1/", "/metrics", "/widget-demo", "/operator", "/slack/")
"""Paths whose answers are kept nowhere: they hold what people said, or who they are."""
FILES = ("/v1/renders/", "/v1/files/")
"""Of them those whose answers say themselves whether the caller may keep them: pictures, and what is downloaded."""
YEAR = 365 * 24 * 3600
HSTS = f"max-age={YEAR}"


class SafeHeaders:
    """Add `nosniff` to all answers, `no-store` to those with data, and HSTS where the caller came by https.

    *https*: others reach this server by https, as PARLEY_PUBLIC_URL says. Other answers keep their own caching.
    """

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app, self._https = app, https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if scope["path"].startswith(FILES):
                    headers.setdefault("Cache-Control", "no-store")
                elif scope["path"].startswith(DATA):
                    headers["Cache-Control"] = "no-store"
                if self._https or scope["scheme"] == "https":
                    headers["Strict-Transport-Security"] = HSTS
            await send(message)

        await self._app(scope, receive, marked)

"""Pages of customers' sites that embed the widget, in a real browser, over a real server of another origin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.async_api import Browser, BrowserContext, Page, Route

from tests.e2e.browser import PATIENCE, photograph
from tests.e2e.server import KEY, Server

SHOP = "http://localhost:3999"
"""The origin of the site, on this machine; its answers are made in the test."""
DOCUMENT = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>Shop</title>
<h1>Shop</h1><p>Tables, chairs and lamps.</p><input aria-label="Search">{snippet}</html>"""


class EmbeddingSite:
    """A site whose page has *snippet*, and whose token route asks *server* as a site's own server does."""

    def __init__(self, page: Page, server: Server, origin: str) -> None:
        self.page, self.server, self.origin = page, server, origin
        self.snippet, self.agent = "", "assistant"
        self.has_token_route = True
        self.scripts: dict[str, str] = {}
        self.tokens_given: list[str] = []
        self.complaints: list[str] = []
        self.asked: list[str] = []

    @property
    def policy(self) -> str:
        """What docs/widget.md says that a site's policy needs, and nothing besides."""
        server = self.server.url
        if self.scripts:  # an iframe, and the site's own script
            return f"default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; frame-src {server}"
        return (
            f"default-src 'none'; script-src {server}; connect-src 'self' {server}; img-src data: blob:; "
            f"frame-src {server}; style-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )

    async def open(self, snippet: str) -> None:
        """Open the page with *snippet* in it."""
        self.snippet = snippet
        await self.page.goto(f"{self.origin}/")

    async def answer(self, route: Route) -> None:
        """Answer what the browser asks of the site; what it asks of the server goes there."""
        url = urlsplit(route.request.url)
        if f"{url.scheme}://{url.netloc}" != self.origin:
            self.asked.append(url.path)
            await route.continue_()
        elif url.path == "/":
            headers = {"Content-Security-Policy": self.policy, "Content-Type": "text/html; charset=utf-8"}
            await route.fulfill(body=DOCUMENT.format(snippet=self.snippet), headers=headers)
        elif url.path == "/parley-token" and self.has_token_route:
            body = {"actor": {"id": "customer-7", "name": "Ada"}, "agent": self.agent}
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}) as client:
                made = await client.post(f"{self.server.url}/v1/web/visitor-tokens", json=body)
            self.tokens_given.append(made.json()["token"])
            await route.fulfill(body=made.text, content_type="application/json")
        elif url.path in self.scripts:
            await route.fulfill(body=self.scripts[url.path], content_type="text/javascript")
        else:
            await route.fulfill(status=404, body="<!doctype html>", content_type="text/html")

    async def picture(self, name: str) -> None:
        """Keep what the page shows as an artifact."""
        await photograph(self.page, name, animations="disabled")


@asynccontextmanager
async def visited(browser: Browser, server: Server, origin: str = SHOP, **options: Any) -> AsyncIterator[EmbeddingSite]:
    """Give a site in a browser of one's own."""
    context: BrowserContext = await browser.new_context(**{"locale": "en-US", **options})
    context.set_default_timeout(PATIENCE)
    # The site's answers have no address, which Chromium takes for a public one.
    await context.grant_permissions(["local-network-access"], origin=origin)
    site = EmbeddingSite(await context.new_page(), server, origin)
    await context.route("**/*", site.answer)
    context.on("weberror", lambda error: site.complaints.append(str(error.error)))
    context.on("console", lambda line: site.complaints.append(line.text) if line.type in {"error", "warning"} else None)
    try:
        yield site
    finally:
        await context.close()

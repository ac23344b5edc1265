"""The page of states in a real browser: each state of the widget, as recorded conversations bring it about."""

from collections.abc import Mapping
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

from tests.e2e.browser import PATIENCE, STILL
from tests.e2e.server import ROOT, Server

AXE = ROOT / "channels/web/widget/node_modules/axe-core/axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SHOWN = {
    "start": ".greeting",
    "bare": ".greeting",
    "approval": ".asked button",
    "waiting": ".asked .note",
    "form": ".asked button",
    "table": "figure.drawn tbody tr",
    "chart": "figure.drawn svg .bar",
    "reconnecting": ".banner[data-tone]",
    "limited": ".banner:not(:empty), [data-tag=unsent], .refusal:not([hidden])",
    "closed": ".banner:not(:empty), [data-tag=unsent], .refusal:not([hidden])",
    "broken": ".banner:not(:empty)",
}
"""What is there once a state is shown, where an entry alone is not yet all of it."""


class Gallery:
    """The page, and a note of all that it asks for and complains of."""

    def __init__(self, context: BrowserContext, page: Page, server: Server) -> None:
        self.context, self.page, self._url = context, page, server.url
        self.chat = page.locator("parley-chat")
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        page.on(
            "console",
            lambda line: self.complaints.append(line.text) if line.type in {"error", "warning"} else None,
        )

    async def open(self) -> None:
        """Open the page at its first state."""
        await self.page.goto(f"{self._url}/widget-demo?show=states")
        await self.chat.locator(SHOWN["start"]).wait_for()

    async def states(self) -> list[str]:
        """Return the names of all states."""
        return await self.page.evaluate("[...document.querySelectorAll('#state option')].map(each => each.value)")

    async def show(self, state: str) -> None:
        """Show *state*, and wait until it is all there."""
        before = await self.chat.element_handle()
        await self.page.evaluate("name => { location.hash = name; }", state)
        await self.page.wait_for_function("before => !before.isConnected", arg=before)
        await self.chat.locator(SHOWN.get(state, ".entry")).first.wait_for(state="attached")
        await self.chat.evaluate(STILL)

    async def violations(self, of: str = "parley-chat") -> list[str]:
        """Return what axe finds wrong with the elements *of* this selector."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE.read_text("utf-8"))  # by the debugger, which no policy of the page hinders
        script = """async ([selector, rules]) => {
            const options = {runOnly: {type: "tag", values: rules}, resultTypes: ["violations"]};
            const {violations} = await axe.run({include: [[selector]]}, options);
            const described = (each, {html, failureSummary}) => `${each.id}: ${html} ${failureSummary}`;
            return violations.flatMap(each => each.nodes.map(node => described(each, node)));
        }"""
        return await self.page.evaluate(script, [of, RULES])

    def check(self) -> None:
        """Check that nothing was asked of another host, opened or complained of."""
        assert [each for each in self.requests if not each.startswith((self._url, "data:", "blob:"))] == []
        assert self.dialogs == []
        assert self.complaints == []


async def opened(browser: Browser, server: Server, **options: Any) -> Gallery:
    """Return the page, open in a context of its own with *options*."""
    defaults: Mapping[str, Any] = {"locale": "en-US", "viewport": {"width": 1280, "height": 900}}
    context = await browser.new_context(**{**defaults, **options})
    context.set_default_timeout(PATIENCE)
    gallery = Gallery(context, await context.new_page(), server)
    await gallery.open()
    return gallery

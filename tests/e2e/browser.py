"""A real Chromium: pages that note every request and complaint, and pictures of what they show."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, Route, async_playwright, expect

from tests import polling
from tests.e2e.server import ROOT, Server

WITHOUT = (
    # Playwright's own list: the last one given counts.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    # The pages of the address bar and a process for the next page: unused here, two thirds of what a tab costs.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "PreloadTopChromeWebUI",
    "SpareRendererForSitePerProcess",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",
    f"--disable-features={','.join(WITHOUT)}",
)
ARTIFACTS = ROOT / "artifacts/browser"
PICTURES = os.environ.get("PARLEY_PICTURES", "") not in {"", "0"}
PATIENCE = 1000 * polling.PATIENCE
"""The same in milliseconds, as Playwright takes them."""
# Wait for whatever fades in, not for what pulses as long as it is there.
STILL = """chat => Promise.all(
    chat.shadowRoot.getAnimations()
        .filter(each => each.effect.getComputedTiming().iterations !== Infinity)
        .map(each => each.finished.catch(() => null)))"""


async def photograph(page: Page, name: str, **options: Any) -> None:
    """Keep what *page* shows as the artifact *name*, if PARLEY_PICTURES asks for pictures: only people look at them."""
    if PICTURES:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        assert await page.screenshot(path=ARTIFACTS / f"{name}.png", **options)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Give a headless Chromium: the system's where there is one, else Playwright's own."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    expect.set_options(timeout=PATIENCE)  # five seconds by default, whatever the timeout of a context is
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, headless=True, args=list(FLAGS), timeout=PATIENCE
        )
        try:
            yield browser
        finally:
            await browser.close()


class Visit:
    """One person's browser: tabs that share their storage, and a note of all that the pages ask for and say."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self._context, self._server = context, server
        context.set_default_timeout(PATIENCE)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", lambda message: self._note(message.type, message.text))

    async def tab(self) -> "Tab":
        """Open the demo page in a new tab."""
        page = await self._context.new_page()
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        await page.goto(f"{self._server.url}/widget-demo")
        return Tab(page)

    async def route(self, address: str, answer: Callable[[Route], Awaitable[None]]) -> None:
        """Let *answer* answer what the pages ask for at *address*."""
        await self._context.route(address, answer)

    async def close(self) -> None:
        await self._context.close()

    def check(self, *, quiet: bool = True) -> None:
        """Check the visit: no request to another host, no dialog; *quiet*: no error at all."""
        foreign = [url for url in self.requests if not url.startswith((f"{self._server.url}/", "data:", "blob:"))]
        assert foreign == []
        assert self.dialogs == []
        assert not quiet or self.errors == []

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.errors.append(text)


class Tab:
    """The demo page as a person sees it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.chat = page.locator("parley-chat")
        self.area = page.get_by_label("Your message")
        self.stop = page.get_by_role("button", name="Stop", exact=True)
        self.banner = self.chat.locator(".banner")
        self.questions = self.chat.locator(".entry.question .bubble")
        self.answers = self.chat.locator(".entry.answer")

    @property
    def answer(self) -> Locator:
        """The newest answer."""
        return self.answers.last

    async def say(self, text: str) -> None:
        """Type *text* and send it."""
        await self.area.fill(text)
        await self.area.press("Enter")

    async def writes(self, words: int) -> str:
        """Return the newest answer once it has that many words and goes on."""
        script = """words => {
            const shown = document.querySelector("parley-chat").shadowRoot.querySelectorAll(".answer");
            const last = shown[shown.length - 1]?.querySelector(".blocks");
            return last && last.innerText.split(/\\s+/).length >= words ? last.innerText : null;
        }"""
        found = await self.page.wait_for_function(script, arg=words)
        return str(await found.json_value())

    async def done(self) -> str:
        """Return the newest answer once it is whole."""
        await self.answer.and_(self.chat.locator('[aria-busy="false"]')).wait_for()
        return await self.text()

    async def text(self) -> str:
        """Return the text of the newest answer, without the button that comes with the colours of code, a chunk."""
        return (await self.answer.locator(".blocks").inner_text()).replace("Wrap lines\n", "")

    async def picture(self, name: str) -> None:
        """Keep what the tab shows as an artifact."""
        if PICTURES:
            await self.chat.evaluate(STILL)
        await photograph(self.page, name)

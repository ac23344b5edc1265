"""`python -m tests.e2e.widget_pictures http://127.0.0.1:8000`: pictures of the widget's states, of a running server.

All go to artifacts/widget, to be looked at; those of the documentation to docs/pictures.
"""

import asyncio
import sys
from typing import NamedTuple

from playwright.async_api import Browser, ViewportSize

from tests.e2e.browser import STILL, chromium
from tests.e2e.gallery import SHOWN
from tests.e2e.server import ROOT

ARTIFACTS, PICTURES = ROOT / "artifacts/widget", ROOT / "docs/pictures"
MAX_BYTES = 80_000
"""Bytes of a picture in the documentation."""
ALONE = """name => {
    document.body.replaceChildren(document.querySelector("#place"));
    document.querySelector("#place").style.cssText = "block-size: 100dvh; padding: 14px; min-block-size: 0";
}"""


class Shot(NamedTuple):
    """One picture: of a *state*, on a phone or not, dark or not, in a language; *kept* for the documentation."""

    state: str
    phone: bool = False
    dark: bool = False
    lang: str = ""
    kept: bool = False

    @property
    def name(self) -> str:
        looks = ("phone" if self.phone else "", "dark" if self.dark else "", self.lang)
        return "-".join(("widget", self.state, *filter(None, looks)))


SHOTS = (
    Shot("start", kept=True),
    Shot("start", phone=True, dark=True),
    Shot("streaming"),
    Shot("answer", kept=True),
    Shot("answer", phone=True),
    Shot("code", dark=True, kept=True),
    Shot("citations"),
    Shot("suggestions"),
    Shot("days"),
    Shot("files", kept=True),
    Shot("running"),
    Shot("folded", dark=True, kept=True),
    Shot("failed"),
    Shot("table", phone=True),
    Shot("chart", dark=True, kept=True),
    Shot("approval", kept=True),
    Shot("form", phone=True, kept=True),
    Shot("waiting"),
    Shot("error"),
    Shot("limited", dark=True),
    Shot("list", kept=True),
    Shot("answer", phone=True, lang="ar", kept=True),
)


async def main(server: str) -> None:
    """Take all pictures."""
    async with chromium() as browser:
        for shot in SHOTS:
            taken = await take(browser, server, shot)
            ARTIFACTS.mkdir(parents=True, exist_ok=True)
            (ARTIFACTS / f"{shot.name}.png").write_bytes(taken)
            if shot.kept and len(taken) <= MAX_BYTES:
                (PICTURES / f"{shot.name}.png").write_bytes(taken)
            print(f"{shot.name}.png: {len(taken):,} bytes")


async def take(browser: Browser, server: str, shot: Shot) -> bytes:
    """Return the picture of *shot*, as PNG."""
    size = ViewportSize(width=390, height=720) if shot.phone else ViewportSize(width=760, height=560)
    scheme = "dark" if shot.dark else "light"
    context = await browser.new_context(viewport=size, color_scheme=scheme, locale="en-US")
    page = await context.new_page()
    await page.goto(f"{server}/widget-demo?show=states#{shot.state}")
    chat = page.locator("parley-chat")
    if shot.lang:
        await page.locator("select[name=lang]").select_option(shot.lang)
    await chat.locator(SHOWN.get(shot.state, ".entry")).first.wait_for(state="attached")
    await page.evaluate("document.fonts.ready")
    await page.evaluate(ALONE, shot.state)
    await page.wait_for_timeout(1500)  # what is loaded later comes meanwhile; this is no test
    await chat.evaluate(STILL)
    taken = await page.screenshot()
    await context.close()
    return taken


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))

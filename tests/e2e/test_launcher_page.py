"""The launcher on a customer's page, under the strict policy that the manual asks of a site, over a real server."""

import pytest
from playwright.async_api import Browser, expect

from channels.web.frame_page import Snippet
from tests.e2e.browser import PATIENCE
from tests.e2e.conftest import StartServer
from tests.e2e.server import Server
from tests.e2e.sites import SHOP, visited
from tests.polling import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
AT_END = """() => {
    const list = document.querySelector("parley-chat").shadowRoot.querySelector(".log");
    return list.scrollHeight > list.clientHeight && list.scrollHeight - list.scrollTop - list.clientHeight < 4;
}"""
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True}


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that lets the shop's pages in."""
    return start_shared(rate=0, PARLEY_ORIGINS=SHOP)


def line(server: Server, *, pinned: bool = True) -> str:
    return Snippet(server=server.url, agent="assistant", token_url="/parley-token", launcher=True, pinned=pinned).text()


async def test_one_line_is_a_conversation_in_a_corner(browser: Browser, server: Server):
    """The pinned line opens by a click, is answered, closes by Escape, and gives the focus back; the page can go on."""
    async with visited(browser, server, viewport={"width": 1000, "height": 760}, color_scheme="light") as site:
        await site.open(line(server))
        page, chat = site.page, site.page.locator("parley-chat")
        bubble = chat.get_by_role("button", name="Open the conversation")
        await bubble.click()
        area = page.get_by_label("Your message")
        await expect(area).to_be_focused()
        await expect(chat.get_by_role("button", name="Close the conversation")).to_have_count(1)  # the bubble itself
        await area.fill("What is 2+2?")
        await area.press("Enter")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks')).not_to_be_empty()
        await site.picture("launcher-desktop")
        await page.get_by_label("Search").fill("lamp")  # not modal here
        await area.focus()
        await page.keyboard.press("Escape")
        await expect(chat.locator("dialog")).to_be_hidden()
        await expect(chat.get_by_role("button", name="Open the conversation")).to_be_focused()
        await site.picture("launcher-closed")
        await page.evaluate("chat => chat.open()", await chat.element_handle())
        await expect(chat.locator(".bubble").first).to_have_text("What is 2+2?")
        assert site.complaints == []


async def test_on_a_phone_it_is_the_whole_page(browser: Browser, server: Server):
    """It covers all, what is beneath it cannot be reached, and its own button closes it."""
    async with visited(browser, server, color_scheme="dark", **PHONE) as site:
        await site.open(line(server, pinned=False))
        page, chat = site.page, site.page.locator("parley-chat")
        await chat.get_by_role("button", name="Open the conversation").click()
        panel = chat.locator("dialog")
        await panel.evaluate("panel => Promise.all(panel.getAnimations().map((each) => each.finished))")
        box = await panel.bounding_box()
        assert box == {"x": 0, "y": 0, "width": 390, "height": 780}
        for _ in range(12):
            await page.keyboard.press("Tab")
            assert await page.evaluate(
                "document.activeElement === document.body || document.activeElement.localName === 'parley-chat'"
            )
        await site.picture("launcher-phone")
        await page.get_by_label("Your message").fill("Explain at length")
        await page.keyboard.press("Enter")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks')).not_to_be_empty()
        await page.set_viewport_size({"width": 390, "height": 440})  # as a keyboard that opens
        await page.wait_for_function(AT_END)
        await chat.get_by_role("button", name="Close the conversation").click()
        await expect(panel).to_be_hidden()
        assert site.complaints == []


@pytest.mark.whole
async def test_a_site_that_is_not_allowed_reads_why(browser: Browser, server: Server):
    """On the developer's machine the page itself says which setting lacks which origin; the script is no dead one.

    A person who writes gets the message back, with a sentence, after a few tries.
    """
    async with visited(browser, server, "http://localhost:3998", viewport={"width": 900, "height": 600}) as site:
        await site.open(line(server))
        notice = site.page.locator("parley-chat .notice")
        await expect(notice).to_have_attribute("data-code", "origin")
        await expect(notice).to_contain_text("PARLEY_ORIGINS=http://localhost:3998")
        await site.picture("launcher-notice")
        chat, area = site.page.locator("parley-chat"), site.page.get_by_label("Your message")
        await chat.get_by_role("button", name="Open the conversation").click()
        await area.fill("Is anyone there?")
        await area.press("Enter")
        refusal = chat.locator(".refusal")
        await expect(refusal).to_contain_text("This chat is not available right now.", timeout=PATIENCE)  # five tries
        await expect(area).to_have_value("Is anyone there?")
        await expect(chat.locator(".bubble")).to_have_count(0)
        await site.picture("launcher-refused")
        assert any("parley-chat: The server does not let pages of" in each for each in site.complaints)


@pytest.mark.whole
async def test_what_was_changed_on_its_way_does_not_run(browser: Browser, server: Server):
    """With the pinned line's integrity a changed widget is refused by the browser."""
    async with visited(browser, server) as site:
        await site.page.context.route(
            "**/parley-chat.js*",
            lambda route: route.fulfill(
                body="window.stolen = true",
                content_type="text/javascript",
                headers={"Access-Control-Allow-Origin": "*"},
            ),
        )
        await site.open(line(server))
        await until(lambda: any("is not what this script was built with" in each for each in site.complaints))
        assert await site.page.evaluate("window.stolen === undefined && !customElements.get('parley-chat')")

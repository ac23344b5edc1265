"""The widget's frame in a real browser: start screen, scheme, languages, room, forced colours, tokens that end."""

import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from agent_core.providers.demo import SECTIONS
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import KEY, Server
from tests.e2e.shown import DOCUMENT, FACE, HOST, RendersPage, opened

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
SHOP: dict[str, Any] = {
    **FACE,
    "title": "Shop",
    "greeting": "How can we help?",
    "avatar": "S",
    "prompts": [
        {"label": "Where is my order?", "prompt": "Where is it?", "icon": "1"},
        {"label": "Return", "prompt": "R"},
    ],
}
TITLES = [section.partition("\n")[0].removeprefix("## ") for section in SECTIONS]
GROUND = "node => getComputedStyle(node).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(23, 24, 29)"
FOCUSED = "() => document.querySelector('parley-chat').shadowRoot.activeElement?.className"
SMALL = """() => [...document.querySelector('parley-chat').shadowRoot.querySelectorAll('button, textarea, a')]
    .map(each => [each, each.getBoundingClientRect()])
    .filter(([, {width, height}]) => width && (width < 24 || height < 24)).map(([each]) => each.outerHTML)"""


@pytest_asyncio.fixture(loop_scope="session")
async def shown(browser: Browser) -> AsyncIterator[RendersPage]:
    """A page that remembers a conversation, and complains of nothing in the whole test."""
    context, shown = await opened(browser, viewport={"width": 900, "height": 700}, color_scheme="dark")
    yield shown
    shown.check()
    await context.close()


def page(html: str = 'lang="en"', head: str = "", element: str = "") -> str:
    """Return the document with attributes of its own."""
    scheme = '<meta name="color-scheme" content="light dark">'
    made = DOCUMENT.replace("{attributes}", "").replace('lang="en"', html).replace(scheme, head)
    return made.replace(' heading="Assistant"', element)


async def test_the_start_screen_is_used_by_keyboard(shown: RendersPage):
    """The agent's face is there before anything is said; Tab comes to the prompts, then to the field; all are large."""
    shown.document, shown.face = page(), SHOP
    await shown.page.add_init_script("localStorage.clear()")
    await shown.page.goto(f"{HOST}/page")
    await shown.page.get_by_role("button", name="Where is my order?").wait_for()
    await expect(shown.page.get_by_role("heading", name="Shop")).to_be_visible()
    order = []
    for _ in range(5):
        await shown.page.keyboard.press("Tab")
        order.append(await shown.page.evaluate(FOCUSED))
    assert order == ["renew", "log", "prompt", "prompt", ""], "the field has no class"
    assert await shown.page.evaluate(SMALL) == []
    await expect(shown.page.get_by_label("Your message")).to_be_focused()
    assert await shown.page.locator("parley-chat .lamp").is_hidden(), "nothing is wrong"
    await shown.picture("frame-start")


async def test_the_scheme_is_the_pages_unless_the_element_has_one(shown: RendersPage):
    """The system is dark: a page without a scheme is light, one with both is dark, and `theme` decides for itself."""
    for head, element, ground in (
        ("", "", LIGHT),
        ('<meta name="color-scheme" content="light dark">', "", DARK),
        ('<meta name="color-scheme" content="light dark">', ' theme="light"', LIGHT),
        ("", ' theme="dark"', DARK),
    ):
        shown.document = page(head=head, element=element)
        await shown.show()
        assert await shown.page.locator("parley-chat .frame").evaluate(GROUND) == ground, (head, element)
    await shown.page.emulate_media(forced_colors="active")
    border = "node => getComputedStyle(node).borderTopColor"
    assert await shown.page.locator(".bubble").evaluate(border) != "rgba(0, 0, 0, 0)"
    await shown.picture("frame-forced-colours")


async def test_the_page_speaks_its_language_from_right_to_left(shown: RendersPage):
    """Words of another language come with their own script, checked by its hash; Arabic runs from right to left."""
    shown.document, shown.face = page('lang="ar"'), {**SHOP, "title": None}
    await shown.show(said="وصل طلبك يوم الجمعة.")
    heading = shown.page.locator("parley-chat h2")
    await expect(heading).to_have_text("المساعد")
    titled, renew = [await shown.page.locator(f"parley-chat {each}").first.bounding_box() for each in ("h2", ".renew")]
    assert titled is not None
    assert renew is not None
    assert titled["x"] > renew["x"]
    assert [each.partition("?")[0] for each in shown.requests if "words" in each] == ["/widget/parley-words-ar.js"]
    assert [each for each in shown.requests if "renders" in each or "charts" in each] == [], "there is only text"
    await shown.picture("frame-arabic")


async def test_the_room_decides_and_not_the_screen(shown: RendersPage):
    """In a narrow place of a wide page the widget is drawn as on a phone."""
    shown.document = page()
    await shown.show()
    avatar = shown.page.locator(".answer .avatar")
    await expect(avatar).to_be_visible()
    await shown.page.evaluate("document.querySelector('parley-chat').style.inlineSize = '400px'")
    await expect(avatar).to_be_hidden()


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    return start_shared(rate=100)


async def test_tokens_that_end_in_mid_stream_are_replaced(visit: MakeVisit, server: Server):
    """The answer goes on over tokens of two seconds; the person reads of none of it, and nothing is there twice."""
    person = await visit()
    minted: list[float] = []

    async def mint(route: Route) -> None:
        minted.append(time.monotonic())
        body = {"actor": "web:short", "agent": "assistant", "ttl": 2}
        async with httpx.AsyncClient() as client:
            headers = {"Authorization": f"Bearer {KEY}"}
            answer = await client.post(f"{server.url}/v1/web/visitor-tokens", json=body, headers=headers)
        await route.fulfill(status=200, body=answer.text, content_type="application/json")

    await person.route("**/widget-demo/token*", mint)
    tab = await person.tab()
    await tab.page.evaluate(
        """() => {
            const root = document.querySelector("parley-chat").shadowRoot;
            window.banners = [];
            new MutationObserver(() => banners.push(root.querySelector(".banner").textContent)).observe(
                root.querySelector(".banner"), {childList: true, subtree: true});
        }"""
    )
    await tab.say("Explain at length")
    whole = await tab.done()
    assert len(minted) >= 3
    assert [each for each in await tab.page.evaluate("banners") if each] == []
    assert [whole.count(title) for title in TITLES] == [1] * len(TITLES)
    person.check(quiet=False)

"""Every state of the widget in a real browser: without a complaint, accessible, inert; and a long conversation."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from tests.bench.paged import PagedLog, served
from tests.bench.widget import leaked
from tests.e2e.conftest import StartServer
from tests.e2e.gallery import Gallery, opened
from tests.e2e.hostile_strings import HOSTILE
from tests.e2e.server import ROOT, Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
INERT = frozenset(
    re.findall(
        r"\w+",
        """a article b bdi blockquote br button canvas caption circle code col colgroup dd del details dialog div dl dt
        em fieldset figcaption figure footer form g h2 h3 h4 header hr i img input kbd label legend li line mark nav ol
        optgroup option p path polygon polyline pre rect s search section select slot small span strong summary sup svg
        table tbody td text textarea th thead time title tr ul""",
    )
)
"""Elements that the widget makes; an image is one of the server's, as a blob."""
PHONE = {"viewport": {"width": 390, "height": 844}}
LOOKS = {
    "desktop-light": {"color_scheme": "light"},
    "phone-dark": {"color_scheme": "dark", **PHONE},
    "desktop-dark": {"color_scheme": "dark"},
    "phone-light": {"color_scheme": "light", **PHONE},
}
FEW = (
    "start",
    "answer",
    "code",
    "folded",
    "approval",
    "form",
    "table",
    "chart",
    "error",
    "limited",
    "citations",
    "running",
    "failed",
)
Open = Callable[..., Awaitable[Gallery]]
Hold = Callable[[Route], Awaitable[None]]
WATCH = """each => {
    Object.assign(window, {list: each, read: each.querySelector('.entry'), painted: []});
    each.scrollTop = 300;
    const probe = document.body.appendChild(document.createElement('i'));
    new ResizeObserver(() => window.painted.push(window.read.getBoundingClientRect().top)).observe(probe);
    const next = n => {
        probe.style.cssText = `position: fixed; width: ${n % 2}px; height: 1px`;
        requestAnimationFrame(() => next(n + 1));
    };
    next(0);
}"""
"""Scroll up, and note where what is at the top is then, in each frame as it is painted: after the widget's observer."""
MORE = "() => window.list.querySelector('.entry') !== window.read && window.list.scrollTop > window.list.clientHeight"
PAINTED = """() => new Promise(resolve => requestAnimationFrame(() => setTimeout(() => resolve(window.painted))))"""


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server of the pages; no model is asked."""
    return start_shared(rate=0)


@pytest_asyncio.fixture(loop_scope="session")
async def gallery(browser: Browser, server: Server):
    """Open the page in contexts that end with the test."""
    pages: list[Gallery] = []

    async def make(**options) -> Gallery:
        pages.append(await opened(browser, server, **options))
        return pages[-1]

    yield make
    for each in pages:
        await each.context.close()


@pytest.mark.parametrize(
    ("look", "states"),
    [
        ("desktop-light", FEW),
        ("phone-dark", FEW[:4]),
        *(pytest.param(look, (), marks=pytest.mark.whole, id=f"{look}-all") for look in LOOKS),
    ],
)
async def test_states_are_accessible(gallery: Open, look: str, states: tuple[str, ...]):
    """Axe finds no violation of WCAG 2.2 AA in any state, nor in the page around it; nothing is complained of."""
    page = await gallery(**LOOKS[look])
    found = {}
    for state in states or await page.states():
        await page.show(state)
        found[state] = await page.violations()
    found["page"] = await page.violations("body")
    assert {state: each for state, each in found.items() if each} == {}
    page.check()


async def test_hostile_text_in_every_place_is_text(gallery: Open):
    """A hundred and seventy strings in every place that shows text: nothing runs, nothing is fetched, all is read."""
    page = await gallery()
    page.requests.clear()
    script = (ROOT / "tests/e2e/hostile_page.js").read_text("utf-8").partition("\n")[2]
    found = await page.page.evaluate(script, list(HOSTILE))
    assert found["ran"] is None
    assert found["handlers"] == []
    assert found["missing"] == []
    assert set(found["tags"]) <= INERT, set(found["tags"]) - INERT
    assert {each.partition(" ")[2] for each in found["links"]} <= {"https", "http", "mailto", "tel", "blob", "data"}
    page.check()


async def test_the_snippet_embeds_what_is_shown(gallery: Open, server: Server):
    """The lines that are copied name the pinned script with its hash, and the theme as it was chosen."""
    page = await gallery()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.page.get_by_label("Colours").select_option("Dark")
    await page.page.get_by_label("Accent").fill("#00ff88")
    await expect(page.chat).to_have_attribute("theme", "dark")
    await page.page.get_by_role("button", name="Copy", exact=True).first.click()
    await expect(page.page.get_by_role("status").filter(has_text="Copied.")).to_be_visible()
    copied = await page.page.evaluate("navigator.clipboard.readText()")
    assert f'src="{server.url}/widget/' in copied
    assert 'integrity="sha384-' in copied
    assert 'theme="dark"' in copied
    rules = await page.page.locator("#rules").inner_text()
    assert "--parley-accent: #00ff88;" in rules
    assert "--parley-accent-text: #000000;" in rules
    page.check()


@asynccontextmanager
async def long_conversation(browser: Browser, routes: Mapping[str, Hold] | None = None):
    """Open a page at the end of a conversation of 600 messages; *routes* hold up what it asks for."""
    async with served(PagedLog(600)) as stream:
        context = await browser.new_context(viewport={"width": 800, "height": 700})
        await context.add_init_script("localStorage.setItem('kept', 'ses_1')")
        page = await context.new_page()
        for pattern, hold in (routes or {}).items():
            await page.route(pattern, hold)
        await page.goto(f"{stream.url}/page")
        await page.locator("parley-chat .entry").filter(has_text="Order 299").last.wait_for()
        yield page, stream
        await context.close()


async def test_earlier_messages_come_as_one_scrolls_up(browser: Browser):
    """Of a long conversation the newest are drawn, and earlier ones above what is read, which stays in its place."""
    async with long_conversation(browser) as (page, stream):
        entries, list_ = page.locator("parley-chat .entry"), page.locator("parley-chat .log")
        assert await entries.count() <= 200
        assert await list_.evaluate("each => each.scrollHeight - each.scrollTop - each.clientHeight") < 50
        await list_.evaluate(WATCH)
        await page.wait_for_function(MORE)
        painted = await page.evaluate(PAINTED)
        assert max(painted) - min(painted) <= 1, painted
        for _ in range(10):
            await list_.evaluate("each => { each.scrollTop = 0; }")
        await entries.filter(has_text="my order 0?").first.wait_for()
        assert await entries.count() == 600
        await list_.evaluate("each => { each.scrollTop = each.scrollHeight; }")
        stream.go.set()
        await page.wait_for_function(
            "() => document.querySelector('parley-chat').shadowRoot.querySelectorAll('.entry').length <= 200"
        )


async def test_what_is_read_stays_while_more_is_drawn_above(browser: Browser):
    """What one reads stays to the pixel as earlier messages come, and as what formats all of them comes late."""
    held = asyncio.Event()

    async def late(route: Route) -> None:
        await held.wait()
        await route.continue_()

    async with long_conversation(browser, {"**/parley-markdown.js*": late}) as (page, _):
        list_ = page.locator("parley-chat .log")
        await list_.evaluate(WATCH)
        await page.wait_for_function(MORE)
        held.set()
        await page.wait_for_function("() => !window.list.querySelector('.raw')")
        painted = await page.evaluate(PAINTED)
        assert max(painted) - min(painted) <= 1, painted


async def test_what_one_opens_stays_where_it_is(gallery: Open):
    """Calls of tools that a person opens at the end of a conversation open below the line that was clicked."""
    page = await gallery()
    await page.show("folded")
    await page.chat.evaluate("chat => { chat.style.blockSize = '300px'; }")
    line, log = page.chat.locator(".log summary").first, page.chat.locator(".log")
    await line.wait_for()
    await log.evaluate("each => { each.scrollTop = each.scrollHeight; }")
    top = "each => each.getBoundingClientRect().top"
    before = await line.evaluate(top)
    await line.click()
    await page.chat.locator(".inside > *").first.wait_for()
    assert await log.evaluate("each => each.scrollHeight - each.scrollTop - each.clientHeight") > 48
    assert await line.evaluate(top) == pytest.approx(before, abs=1)
    await line.click()
    await expect(page.chat.get_by_role("button", name="Latest message")).to_be_hidden()
    page.check()


@pytest.mark.parametrize("mounts", [8, pytest.param(20, marks=pytest.mark.whole)])
async def test_mounts_leave_nothing(browser: Browser, mounts: int):
    """What a mount made is collected after it: no node, no listener, and no more heap than noise."""
    left = await leaked(browser, mounts)
    assert (left.nodes, left.listeners) == (0, 0)
    assert left.heap < 50_000

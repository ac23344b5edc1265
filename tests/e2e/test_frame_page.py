"""The chat in an iframe on a site that takes no script of another origin: tokens by messages, in a real browser."""

import io
import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from PIL import Image
from playwright.async_api import Browser, FrameLocator, expect

from agent_core.testing import FakeModels
from agent_core.testing.models.builtin import builtin
from channels.web.frame_page import Snippet
from tests.e2e.conftest import StartServer
from tests.e2e.server import ROOT, Server
from tests.e2e.sites import SHOP, EmbeddingSite, visited
from tests.polling import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
AGENT = {
    "name": "assistant",
    "instructions": "Be brief.",
    "tools": [
        "calculate",
        *(
            {"name": name, "kind": "client", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
            for name in ("cart_total", "wallet")
        ),
    ],
}
ASKS = {"responders": ["asker"], "title": "May this be calculated?"}
CAREFUL = {
    **AGENT,
    "name": "careful",
    "model": "blind:reader",
    "hooks": [{"event": "PreToolUse", "type": "approval", "matcher": "calculate", "config": ASKS}],
}
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True}
NEAR = "http://127.0.0.1:3999"
"""A site for whose iframes Chromium keeps something also in a window without a history: the server is the same host."""
ELSEWHERE = "http://localhost:3997"
MANUAL = (ROOT / "docs/widget.md").read_text("utf-8")
NO_CART = '{ throw new Error("no cart today"); }'
DENIED = """for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });"""
# What the page around gets, as it came.
NOTED = """
window.posted = [];
addEventListener("message", ({ origin, data }) => posted.push({ origin, ...data }));"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def models() -> AsyncIterator[FakeModels]:
    """A model that uses the tools that the message names."""
    async with FakeModels(builtin) as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared: StartServer, models: FakeModels, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server whose chat the shop may embed; the shop's pages may not call it themselves."""
    providers = tmp_path_factory.mktemp("providers") / "providers.yaml"
    entry = {"kind": "openai-compatible", "base_url": f"{models.url}/v1", "key": "k", "vision": False}
    providers.write_text(json.dumps({"blind": entry}), "utf-8")
    places = {"PARLEY_FRAME_ANCESTORS": f"{SHOP}, {NEAR}", "PARLEY_PROVIDERS": str(providers), "PARLEY_MODEL": "demo"}
    return start_shared(rate=0, assistant=json.dumps(AGENT), also=json.dumps(CAREFUL), **places)


def printed(example: str = "frame") -> str:
    """Return the site's own script as the manual prints it."""
    found = re.search(rf"<!-- example: {example} -->\n```js\n(.*?)```", MANUAL, re.DOTALL)
    assert found
    return found[1]


async def embed(site: EmbeddingSite, more: str = "", script: str = "") -> FrameLocator:
    """Open the page with the lines of the snippet, and return the chat in the iframe."""
    site.scripts = {"/parley-frame.js": NOTED + (script or printed())}
    text = Snippet(server=site.server.url, agent=site.agent, token_url="/parley-token", frame=True).text()
    await site.open(text.replace(f"?agent={site.agent}", f"?agent={site.agent}{more}"))
    return site.page.frame_locator("#parley")


async def say(chat: FrameLocator, text: str) -> None:
    area = chat.get_by_role("textbox")
    await area.fill(text)
    await area.press("Enter")


async def test_a_conversation_in_an_iframe(browser: Browser, server: Server):
    """The site's script gives a token; the person is answered, also after a reload; the site learns no word of it."""
    async with visited(browser, server, NEAR, viewport={"width": 900, "height": 820}, color_scheme="light") as site:
        chat = await embed(site, "&heading=Shop+help&locale=de")
        await say(chat, "What is 2+2?")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks')).to_contain_text("4")
        await expect(chat.get_by_role("heading", name="Shop help")).to_be_visible()
        await expect(chat.get_by_role("button", name="Neue Unterhaltung")).to_be_visible()
        await site.picture("frame-desktop")
        posted = await site.page.evaluate("posted")
        assert {each["origin"] for each in posted} == {server.url}
        assert {"parley:token", "parley:ready", "parley:message"} <= {each["type"] for each in posted}
        roles = [each["role"] for each in posted if each["type"] == "parley:message"]
        assert (roles[0], set(roles[1:])) == ("user", {"assistant"})
        assert "2+2" not in str(posted)
        assert len(site.tokens_given) == 1
        await site.page.reload()
        await expect(chat.locator(".bubble").first).to_have_text("What is 2+2?")
        assert site.complaints == []


@pytest.mark.whole
async def test_the_site_executes_the_calls_that_it_named(browser: Browser, server: Server):
    """By the manual's script it gets the call of its tool, not one of another, and its output and context are read."""
    async with visited(browser, server, NEAR) as site:
        sent: list[str] = []
        site.page.on("request", lambda request: sent.append(request.post_data or ""))
        chat = await embed(site, script=printed() + printed("frame-calls"))
        await say(chat, "use cart_total {}")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks')).to_contain_text("12")
        await say(chat, "use wallet {}")
        await expect(chat.get_by_text("Waiting for this page to answer.")).to_be_visible()
        (said,) = (json.loads(each) for each in sent if "use cart_total" in each)
        assert said["context"] == '{"page":"/"}'
        posted = await site.page.evaluate("posted")
        assert [each["name"] for each in posted if each["type"] == "parley:tool-call"] == ["cart_total"]
        assert [each["counted"] for each in posted if each["type"] == "parley:tool-output"] == [True]
        assert "done" in [each["status"] for each in posted if each["type"] == "parley:tool"]
        assert site.complaints == []


@pytest.mark.whole
async def test_what_a_person_decides_rates_and_sends_in_an_iframe(browser: Browser, server: Server):
    """The site learns that a question was decided and an answer rated; its tool that throws is a failed call."""
    async with visited(browser, server, NEAR) as site:
        site.agent = "careful"
        chat = await embed(
            site, "&heading=Help", printed() + printed("frame-calls").replace("({ total: 12 })", NO_CART)
        )
        newest = chat.locator('.answer[aria-busy="false"] .blocks').last
        await say(chat, "What is 12 * 7?")
        await chat.get_by_role("button", name="Approve", exact=True).click()
        await expect(newest).to_contain_text("84")
        await say(chat, "use cart_total {}")
        await expect(newest).to_contain_text("no cart today")
        async with site.page.expect_file_chooser() as chooser:
            await chat.get_by_role("button", name="Attach files").click()
        picture = io.BytesIO()
        Image.new("RGB", (40, 30), "teal").save(picture, "PNG")
        await (await chooser.value).set_files(
            [{"name": "lamp.png", "mimeType": "image/png", "buffer": picture.getvalue()}]
        )
        await say(chat, "What is this?")
        await expect(chat.get_by_text("The model of this assistant cannot see pictures.")).to_be_visible()
        await chat.get_by_role("button", name="Good answer").last.click()
        await site.page.wait_for_function("() => posted.some(({ type }) => type === 'parley:feedback')")
        posted = await site.page.evaluate("posted")
        assert [each["status"] for each in posted if each["type"] == "parley:approval"] == ["open", "approved"]
        assert [each["rating"] for each in posted if each["type"] == "parley:feedback"] == ["up"]
        assert [each["counted"] for each in posted if each["type"] == "parley:tool-output"] == [True]
        assert site.complaints == []


@pytest.mark.whole
async def test_tokens_are_renewed_and_others_are_ignored(browser: Browser, server: Server):
    """Before a token ends the next one is asked for; a window of the listed origin that is not the parent says nothing.

    The browser keeps nothing here, as it does for pages that are embedded elsewhere.
    """
    ending = "(await asked), expires_at: new Date(Date.now() + 20_000).toISOString()"
    async with visited(browser, server, color_scheme="dark", **PHONE) as site:
        await site.page.context.add_init_script(f"if (window !== top) {{ {DENIED} }}")
        chat = await embed(site, "&theme=dark", printed().replace("(await asked)", ending))
        await say(chat, "What is 2+2?")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks')).to_contain_text("4")
        async with site.page.expect_popup() as opened:
            await site.page.evaluate("void window.open('about:blank')")
        wish = "frames[0].postMessage({ type: 'parley:newConversation' }, '*')"
        assert await (await opened.value).evaluate(f"opener.{wish}, window.origin") == SHOP
        await say(chat, "What is 3+3?")
        await expect(chat.locator('.answer[aria-busy="false"] .blocks').last).to_contain_text("6")
        await expect(chat.locator(".question .bubble")).to_have_count(2)
        assert len(site.tokens_given) > 1
        await site.picture("frame-phone")
        await site.page.evaluate(wish)
        await expect(chat.locator(".question .bubble")).to_have_count(0)
        assert site.complaints == []


async def test_a_site_that_is_not_listed_is_refused_by_the_browser(browser: Browser, server: Server):
    """Nothing of the page is shown, and no message comes from it."""
    async with visited(browser, server, ELSEWHERE) as site:
        await embed(site)
        await until(lambda: any("frame-ancestors" in each for each in site.complaints))
        assert await site.page.evaluate("posted") == []
        assert not any(path.endswith("parley-chat.js") for path in site.asked)


@pytest.mark.whole
async def test_a_person_without_a_token_reads_a_sentence(browser: Browser, server: Server):
    """A site that has no token for a person is not waited for."""
    async with visited(browser, server) as site:
        site.has_token_route = False
        chat = await embed(site)
        await say(chat, "Hello")
        await expect(chat.get_by_text("This chat is not available right now.").first).to_be_visible()

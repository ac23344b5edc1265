"""What visitors bring to the widget, and who they are, in a real browser: files, a token of the page, no name."""

from io import BytesIO

import pytest
from PIL import Image
from playwright.async_api import Browser, expect

from channels.web.frame_page import Snippet
from tests.e2e.conftest import StartServer
from tests.e2e.server import Server
from tests.e2e.sites import SHOP, EmbeddingSite, visited

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
OPEN = f"""name: open
instructions: Help.
web: {{anonymous: {{origins: ["{SHOP}"]}}}}
"""


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server with an agent that people without a name may talk to on the shop's pages."""
    return start_shared(also=OPEN, rate=0, PARLEY_ORIGINS=SHOP)


def script(server: Server, attributes: str) -> str:
    element = f'<parley-chat server="{server.url}" {attributes}></parley-chat>'
    return f'<script type="module" src="{server.url}/widget/parley-chat.js"></script>{element}'


async def say(site: EmbeddingSite, text: str, answers: int = 1) -> None:
    """Send *text*, and return once there are so many whole answers."""
    area = site.page.get_by_label("Your message")
    await area.fill(text)
    await area.press("Enter")
    await expect(site.page.locator('parley-chat .answer[aria-busy="false"]')).to_have_count(answers)


async def test_files_go_with_a_message(browser: Browser, server: Server):
    """A picture and a text are chosen, shown while they are written to, sent, and there again after a reload."""
    picture = BytesIO()
    Image.new("RGB", (64, 48), "teal").save(picture, "PNG")
    async with visited(browser, server, viewport={"width": 900, "height": 700}) as site:
        await site.open(script(server, 'agent="assistant" token-url="/parley-token"'))
        chat = site.page.locator("parley-chat")
        async with site.page.expect_file_chooser() as chooser:
            await chat.get_by_role("button", name="Attach files").click()
        await (await chooser.value).set_files(
            [
                {"name": "shelf.png", "mimeType": "image/png", "buffer": picture.getvalue()},
                {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Two shelves, please."},
            ]
        )
        tray = chat.get_by_role("list", name="Files to send").get_by_role("listitem")
        await expect(tray).to_have_count(2)
        await chat.get_by_role("button", name="Remove notes.txt").click()
        await expect(tray).to_have_count(1)
        await say(site, "How wide is it?")
        await expect(tray).to_have_count(0)
        question = chat.locator(".entry.question")
        await expect(question.locator("img")).to_be_visible()
        await site.picture("files-sent")
        await site.page.reload()
        await expect(question.locator("img")).to_be_visible()
        assert await question.locator("img").evaluate("image => image.naturalWidth") == 64
        assert site.complaints == []


@pytest.mark.whole
async def test_an_anonymous_visitor_is_the_same_after_a_reload(browser: Browser, server: Server):
    """The page needs no token route; the conversation is there again, and another browser has none of it."""
    async with visited(browser, server) as site:
        await site.open(script(server, 'agent="open" anonymous'))
        await say(site, "What is 2 + 2?")
        await site.page.reload()
        await expect(site.page.locator("parley-chat .entry.question .bubble")).to_have_text(["What is 2 + 2?"])
        assert site.complaints == []
    async with visited(browser, server) as other:
        await other.open(script(server, 'agent="open" anonymous'))
        await other.page.locator("parley-chat .greeting").wait_for()
        await expect(other.page.locator("parley-chat .entry")).to_have_count(0)


@pytest.mark.whole
async def test_a_page_gives_the_token_itself(browser: Browser, server: Server):
    """With an empty `token` nothing is asked until `setToken`; a later token goes on with the conversation."""
    async with visited(browser, server) as site:
        site.has_token_route = False
        await site.open(script(server, 'agent="assistant" token=""'))
        for answers in (1, 2):
            body = {"actor": {"id": "customer-9", "name": "Ada"}, "agent": "assistant"}
            async with server.client() as operator:
                made = (await operator.post("/v1/web/visitor-tokens", json=body)).json()
            await site.page.locator("parley-chat").evaluate("(chat, token) => chat.setToken(token)", made["token"])
            await say(site, "What is 2 + 2?", answers)
        assert site.complaints == []


@pytest.mark.whole
async def test_a_closed_launcher_counts_what_came(browser: Browser, server: Server):
    """An answer to a panel that was closed meanwhile is a number on the bubble; opening clears it."""
    async with visited(browser, server, viewport={"width": 900, "height": 700}) as site:
        await site.open(Snippet(server=server.url, agent="assistant", token_url="/parley-token", launcher=True).text())
        chat = site.page.locator("parley-chat")
        await chat.get_by_role("button", name="Open the conversation").click()
        await say(site, "What is 2 + 2?")
        await chat.evaluate("chat => { chat.close(); chat.send('What is 3 + 3?'); }")
        await expect(chat.locator(".badge")).to_have_text("1")
        await site.picture("launcher-unread")
        await chat.locator("[part~=launcher]").click()
        await expect(chat.locator(".badge")).to_be_hidden()
        assert site.complaints == []

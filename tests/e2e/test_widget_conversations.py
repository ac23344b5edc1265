"""A person's conversations in a real browser: the list, tabs that keep their own, drafts, links, and other devices."""

import httpx
import pytest
from playwright.async_api import Locator, expect

from tests.e2e.browser import Tab
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
FIRST, SECOND = "What is 2 + 3?", "What is 4 + 5?"


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    return start_shared(rate=1000)


async def ask(tab: Tab, text: str) -> None:
    """Say *text*, and see it answered."""
    before = await tab.answers.count()
    await tab.say(text)
    await expect(tab.answers).to_have_count(before + 1)
    await tab.done()


async def two(tab: Tab) -> None:
    """Have two conversations; the second is open."""
    await ask(tab, FIRST)
    await tab.page.get_by_role("button", name="New conversation").click()
    await expect(tab.questions).to_have_count(0)
    await ask(tab, SECOND)


async def opened(tab: Tab) -> Locator:
    """Open the list of conversations."""
    await tab.page.get_by_role("button", name="Your conversations").click()
    panel = tab.page.get_by_role("dialog", name="Your conversations")
    await expect(panel.get_by_role("listitem").first).to_be_visible()
    return panel


async def choose(tab: Tab, title: str) -> None:
    panel = await opened(tab)
    await panel.get_by_role("listitem").filter(has_text=title).get_by_role("button").first.click()
    await expect(panel).to_have_count(0)


@pytest.mark.whole
async def test_the_list_by_keyboard(visit: MakeVisit):
    """A conversation is found, opened, renamed and deleted with keys alone, and a reload shows the one that is open."""
    person = await visit()
    tab = await person.tab()
    await two(tab)
    panel = await opened(tab)
    keys = tab.page.keyboard
    await expect(panel.get_by_role("listitem")).to_have_count(2)
    await tab.picture("conversations")
    await keys.press("Escape")
    await expect(tab.page.get_by_role("button", name="Your conversations")).to_be_focused()
    await keys.press("Enter")
    await expect(panel.get_by_role("searchbox")).to_be_focused()
    await keys.type("2 + 3")
    await expect(panel.get_by_role("listitem")).to_have_count(1)
    await keys.press("Tab")
    await keys.press("Enter")
    await expect(panel).to_have_count(0)
    await expect(tab.questions).to_have_text([FIRST])
    await expect(tab.area).to_be_focused()
    await tab.page.reload()
    await expect(tab.questions).to_have_text([FIRST])

    panel = await opened(tab)
    await panel.get_by_role("button", name=f"Options for {FIRST}").press("Enter")
    await keys.press("Enter")
    await keys.type("Sums")
    await keys.press("Enter")
    await expect(panel.get_by_text("Sums")).to_be_visible()
    await tab.picture("conversations-renamed")
    await panel.get_by_role("button", name="Options for Sums").press("Enter")
    await panel.get_by_role("button", name="Delete").press("Enter")
    await expect(panel.get_by_role("button", name="Keep")).to_be_focused()
    await keys.press("Shift+Tab")
    await keys.press("Enter")
    await expect(panel.get_by_role("listitem")).to_have_count(1)
    await keys.press("Escape")
    await expect(tab.questions).to_have_count(0)
    person.check()


@pytest.mark.whole
async def test_each_tab_has_its_own(visit: MakeVisit):
    """What is opened and written in one tab moves no other; drafts stay where they are; a new tab has the last."""
    person = await visit()
    one = await person.tab()
    await two(one)
    other = await person.tab()
    await expect(other.questions).to_have_text([SECOND])
    await other.area.fill("half of a second")
    await choose(other, FIRST)
    await expect(other.questions).to_have_text([FIRST])
    await expect(other.area).to_have_value("")
    await expect(one.questions).to_have_text([SECOND])
    await other.area.fill("half of a first")
    await other.page.reload()
    await expect(other.questions).to_have_text([FIRST])
    await expect(other.area).to_have_value("half of a first")
    await choose(other, SECOND)
    await expect(other.area).to_have_value("half of a second")
    await choose(other, FIRST)
    third = await person.tab()
    await expect(third.questions).to_have_text([FIRST])
    await one.page.reload()
    await expect(one.questions).to_have_text([SECOND])
    person.check()


@pytest.mark.whole
async def test_a_message_is_said_again(visit: MakeVisit, server: Server):
    """On another device: what is written here goes on there. Here: the copy takes its place, in all tabs."""
    person = await visit()
    tab = await person.tab()
    await ask(tab, FIRST)
    token = await tab.page.evaluate("fetch('/widget-demo/token').then(got => got.json()).then(({ token }) => token)")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers) as device:
        (known,) = (await device.get("/v1/web/conversations")).json()["items"]
        messages = (await device.get(f"/v1/sessions/{known['id']}/messages")).json()["items"]
        branch = {"message": messages[0]["id"]}
        copy = (await device.post(f"/v1/web/conversations/{known['id']}/branch", json=branch)).json()["id"]
        await device.post(f"/v1/sessions/{copy}/messages", json={"text": SECOND})
        await device.get(f"/v1/sessions/{copy}/events?until=idle")
    await tab.say("What is 1 + 1?")
    await expect(tab.questions).to_have_text([SECOND, "What is 1 + 1?"])
    await expect(tab.answers).to_have_count(2)
    await tab.done()

    other = await person.tab()
    await expect(other.answers).to_have_count(2)
    await tab.page.bring_to_front()
    await tab.questions.last.hover()
    await tab.page.get_by_role("button", name="Edit", exact=True).last.click()
    await tab.chat.locator(".question textarea").fill("What is 8 + 8?")
    await tab.chat.locator(".question").get_by_role("button", name="Send").click()
    await expect(tab.answers).to_have_count(2)
    await expect(tab.answer).to_contain_text("8 + 8 is 16.")
    await tab.answer.hover()
    await tab.page.get_by_role("button", name="Answer again").last.click()
    await expect(tab.answer).to_contain_text("8 + 8 is 16.")
    for each in (tab, other):
        await expect(each.questions).to_have_text([SECOND, "What is 8 + 8?"])
        await expect(each.answers).to_have_count(2)
    panel = await opened(tab)
    await expect(panel.get_by_role("listitem")).to_have_count(1)
    person.check(quiet=False)  # the browser notes the answer 409


@pytest.mark.whole
async def test_a_link_leads_to_a_conversation(visit: MakeVisit):
    """Where a page has links one is copied and opened in another tab; one to what is not there leaves one's own."""
    person = await visit()
    tab = await person.tab()
    await two(tab)
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.chat.evaluate("chat => chat.setAttribute('links', '')")
    await expect(tab.questions).to_have_text([SECOND])
    panel = await opened(tab)
    await panel.get_by_role("button", name=f"Options for {FIRST}").click()
    await panel.get_by_role("button", name="Copy link").click()
    await expect(panel.get_by_role("button", name="Link copied")).to_be_visible()
    link = await tab.page.evaluate("navigator.clipboard.readText()")
    assert "#parley=ses_" in link
    await tab.page.keyboard.press("Escape")
    await tab.page.keyboard.press("Escape")
    await tab.page.evaluate("link => location.assign(link)", link)
    await expect(tab.questions).to_have_text([FIRST])
    await tab.page.evaluate("location.hash = '#parley=ses_of_someone_else'")
    await expect(tab.banner).to_contain_text("That is no longer available.")
    await expect(tab.questions).to_have_text([FIRST])
    person.check(quiet=False)  # the browser notes the answer 404


async def test_the_list_on_a_phone_in_the_dark(visit: MakeVisit):
    """The list fits on a narrow screen, and what it offers can be reached there."""
    person = await visit()
    tab = await person.tab()
    await tab.page.set_viewport_size({"width": 390, "height": 780})
    await tab.page.emulate_media(color_scheme="dark")
    await two(tab)
    panel = await opened(tab)
    await panel.get_by_role("button", name=f"Options for {FIRST}").click()
    await panel.get_by_role("button", name="Delete").click()
    await expect(panel.get_by_text("Delete this conversation for good?")).to_be_visible()
    await tab.picture("conversations-phone-dark")
    assert await panel.evaluate("each => each.scrollWidth <= each.clientWidth")
    person.check()


@pytest.mark.whole
async def test_another_conversation_opens_at_its_end(visit: MakeVisit):
    """A person who has scrolled up in one conversation sees the newest of the one that is opened next."""
    person = await visit(viewport={"width": 400, "height": 460})
    tab = await person.tab()
    await two(tab)
    for _ in range(3):
        await ask(tab, SECOND)
    await choose(tab, FIRST)
    for _ in range(3):
        await ask(tab, FIRST)
    log = tab.chat.locator(".log")
    await log.evaluate("each => { each.scrollTop = 0; }")
    await expect(tab.page.get_by_role("button", name="Latest message")).to_be_visible()
    await choose(tab, SECOND)
    await expect(tab.questions).to_have_text([SECOND] * 4)
    await expect(tab.page.get_by_role("button", name="Latest message")).to_be_hidden()
    await tab.page.wait_for_function(
        "each => each.scrollHeight - each.scrollTop - each.clientHeight < 2 && each.scrollTop > 0",
        arg=await log.element_handle(),
    )
    person.check()

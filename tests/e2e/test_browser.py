"""The demo page in a real browser: send, stream, reload, stop, two tabs, a server that dies, hostile markdown."""

import asyncio

import pytest
from playwright.async_api import expect

from agent_core.providers.demo import SECTIONS
from tests.e2e.browser import Tab
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ASK = "Explain at length"
TITLES = [section.partition("\n")[0].removeprefix("## ") for section in SECTIONS]


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server whose model writes at a pace that eyes can follow, though they would have to be quick."""
    return start_shared(rate=100)


async def test_a_message_is_answered_as_it_is_written(visit: MakeVisit):
    """The answer grows on the page word by word, and ends whole."""
    person = await visit()
    tab = await person.tab()
    await tab.picture("1-greeting")
    await tab.say(ASK)
    first = await tab.writes(40)
    await tab.picture("2-streaming")
    second = await tab.writes(120)
    whole = await tab.done()
    assert len(first) < len(second) < len(whole)
    assert second.startswith(first[:100])
    assert [whole.count(title) for title in TITLES] == [1] * len(TITLES)
    await expect(tab.questions).to_have_text([ASK])
    await tab.picture("3-answered")
    person.check()


@pytest.mark.whole
async def test_a_tool_is_seen_at_work(visit: MakeVisit):
    """What the agent uses tools for is said in words, before the text that uses their results."""
    person = await visit()
    tab = await person.tab()
    await tab.say("What is 12 * 7, and what time is it?")
    assert "12 * 7 is 84." in await tab.done()
    tools = tab.answer.locator(".tool")
    await expect(tools.locator("b")).to_have_text("Used 2 tools")
    await tools.locator("summary").click()
    await expect(tools.locator(".step > :first-child > span:first-of-type")).to_have_text(
        ["Calculated", "Checked the time"]
    )
    await expect(tools.first).to_have_attribute("data-status", "done")
    assert "12 * 7" not in await tools.first.inner_text(), "the default agent shows names only"
    await tab.picture("4-tools")
    person.check()


async def test_a_reload_in_mid_stream_loses_nothing(visit: MakeVisit):
    """A reloaded page shows question and answer as they stand, goes on, and ends as if nothing had happened."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    before = await tab.writes(120)
    await tab.page.reload()
    after = await tab.writes(120)
    assert after.startswith(before[:200])
    await tab.picture("5-reloaded-in-mid-stream")
    whole = await tab.done()
    assert [whole.count(title) for title in TITLES] == [1] * len(TITLES)
    await expect(tab.questions).to_have_text([ASK])
    await tab.page.reload()
    assert await tab.done() == whole
    await expect(tab.answers).to_have_count(1)
    person.check()


async def test_after_a_stop_the_conversation_continues(visit: MakeVisit):
    """Stop keeps what was said and marks it as stopped; the next message is answered."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    await tab.writes(60)
    await tab.stop.click()
    kept = await tab.done()
    assert TITLES[0] not in kept or TITLES[-1] not in kept, "it was not stopped"
    await expect(tab.answer.locator(".note")).to_have_text("Stopped")
    await expect(tab.stop).to_be_hidden()
    await tab.say("What is 2 + 3?")
    await expect(tab.answers).to_have_count(2)
    assert "2 + 3 is 5." in await tab.done()
    await tab.picture("6-stopped-and-went-on")
    await tab.page.reload()
    await expect(tab.answers).to_have_count(2)
    await expect(tab.answers.first.locator(".note")).to_have_text("Stopped")
    assert await tab.answers.first.locator(".blocks").inner_text() == kept
    person.check()


@pytest.mark.whole
async def test_two_tabs_see_one_run(visit: MakeVisit):
    """A second tab joins the run in mid-stream; both end with the same page, and either may go on."""
    person = await visit()
    one = await person.tab()
    await one.say(ASK)
    seen = await one.writes(60)
    two = await person.tab()
    await two.page.bring_to_front()
    joined = await two.writes(60)
    assert joined.startswith(seen[:100])
    await two.picture("7-second-tab")
    assert await two.done() == await front(one)
    await two.page.bring_to_front()
    await two.say("What is 2 + 3?")
    await expect(two.answers).to_have_count(2)
    await two.done()
    await one.page.bring_to_front()
    await expect(one.questions).to_have_text([ASK, "What is 2 + 3?"])
    await expect(one.answers).to_have_count(2)
    assert await one.done() == await two.text()
    person.check()


async def test_a_server_that_dies_and_comes_back(visit: MakeVisit, server: Server):
    """The page says that it lost the connection, finds the server again by itself, and the answer is whole."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    await tab.writes(60)
    await asyncio.to_thread(server.kill)
    await expect(tab.banner).to_have_text("Connection lost. Reconnecting…")
    await tab.picture("8-reconnecting")
    await asyncio.to_thread(server.start)
    await expect(tab.banner).to_be_empty()
    whole = await tab.done()
    assert [whole.count(title) for title in TITLES] == [1] * len(TITLES)
    await tab.say("What is 2 + 3?")
    await expect(tab.answers).to_have_count(2)
    assert "2 + 3 is 5." in await tab.done()
    await tab.picture("9-back-again")


@pytest.mark.whole
async def test_a_message_sent_while_the_server_is_away(visit: MakeVisit, server: Server):
    """What is sent while the server is away waits on the page and goes out once, when it is back."""
    person = await visit()
    tab = await person.tab()
    await tab.say("What is 1 + 1?")
    await tab.done()
    await asyncio.to_thread(server.kill)
    await tab.say("What is 2 + 3?")
    await expect(tab.questions).to_have_count(2)
    await expect(tab.chat.locator(".entry.question").last).to_have_attribute("data-tag", "sending")
    await asyncio.to_thread(server.start)
    await expect(tab.answers).to_have_count(2)
    assert "2 + 3 is 5." in await tab.done()
    await tab.page.reload()
    await tab.done()
    await expect(tab.questions).to_have_text(["What is 1 + 1?", "What is 2 + 3?"])


async def front(tab: Tab) -> str:
    """Bring *tab* to the front, for hidden tabs do not paint, and return its newest answer once it is whole."""
    await tab.page.bring_to_front()
    return await tab.done()

"""The demo page around the conversation in a real browser: its switcher of agents, and what could not be loaded."""

import json
from collections.abc import Callable

import pytest
from playwright.async_api import Page, Route, expect

from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
SECOND = """name: orders
instructions: You help.
model: demo
tools: [calculate]
web: {title: Our orders, greeting: Ask about an order.}
"""
BROKEN = "agents/orders.yaml: `model`: `<b>gpt</b>` is no model; write `provider:model`."


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server with two agents."""
    return start_shared(rate=0, also=SECOND)


@pytest.mark.whole
async def test_agents_are_switched_in_place_with_the_keyboard(visit: MakeVisit):
    """The arrow keys choose another agent, whose conversation is its own; a reload shows the same one."""
    person = await visit()
    tab = await person.tab()
    switcher = tab.page.get_by_label("Agent")
    await tab.say("What is 12 * 7?")
    assert "12 * 7 is 84." in await tab.done()
    await switcher.focus()
    await switcher.press("ArrowDown")
    await expect(tab.chat.get_by_role("heading", name="Our orders")).to_be_visible()
    await expect(tab.chat.get_by_text("Ask about an order.")).to_be_visible()
    await expect(tab.questions).to_have_count(0)
    states = tab.page.get_by_role("link", name="States, theme and snippet")
    await expect(states).to_have_attribute("href", "/widget-demo?show=states&agent=orders")
    await expect(switcher).to_be_focused()
    assert tab.page.url.endswith("/widget-demo?agent=orders")
    await tab.say("What is 2 + 2?")
    assert "2 + 2 is 4." in await tab.done()
    await tab.page.reload()
    await expect(tab.questions).to_have_text(["What is 2 + 2?"])
    await switcher.select_option("assistant")
    await expect(tab.questions).to_have_text(["What is 12 * 7?"])
    person.check()


@pytest.mark.whole
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole)])
async def test_what_could_not_be_loaded_is_shown_until_it_is_corrected(visit: MakeVisit, scheme: str):
    """A page that is open shows each file that is broken, beside the conversation, and follows new agents."""
    person = await visit(color_scheme=scheme)
    tab = await person.tab()
    status = {"agents": [{"name": "assistant", "notice": "By hand."}], "problems": [BROKEN]}
    await _follow(tab.page, lambda: status)
    notice = tab.page.get_by_role("alert")
    await expect(notice.get_by_role("listitem")).to_have_text([BROKEN])
    await expect(tab.page.get_by_label("Agent")).to_be_hidden()
    await expect(tab.page.locator("[data-parley-model]")).to_have_text("By hand.")
    await tab.picture(f"demo-broken-{scheme}")
    status |= {"agents": [*status["agents"], {"name": "orders", "notice": "Of the shop."}], "problems": []}
    await expect(notice).to_be_hidden()
    await expect(tab.page.get_by_label("Agent").get_by_role("option")).to_have_text(["assistant", "orders"])
    await tab.picture(f"demo-switcher-{scheme}")
    person.check()


@pytest.mark.whole
async def test_an_unknown_agent_is_a_page_with_the_others(visit: MakeVisit):
    """The address of an agent that is not there leads on to those that are."""
    person = await visit()
    tab = await person.tab()
    await tab.page.goto(tab.page.url + "?agent=nothing")
    await expect(tab.page.get_by_text("There is no agent nothing; choose assistant or orders.")).to_be_visible()
    await tab.page.get_by_role("link", name="orders").click()
    await expect(tab.chat.get_by_role("heading", name="Our orders")).to_be_visible()
    person.check(quiet=False)  # Chromium notes the 404


async def _follow(page: Page, status: Callable[[], object]) -> None:
    """Let *page* be one that follows *status*, as `parley dev` serves it."""

    async def document(route: Route) -> None:
        answer = await route.fetch()
        body = (await answer.text()).replace('data-watch="off"', 'data-watch="on"')
        await route.fulfill(response=answer, body=body)

    async def asked(route: Route) -> None:
        await route.fulfill(body=json.dumps(status()), content_type="application/json")

    await page.route("**/widget-demo", document)
    await page.route("**/widget-demo/status", asked)
    await page.reload()


async def test_a_sample_table_and_sample_charts_are_drawn(visit: MakeVisit):
    """A newcomer who asks for samples sees a table, a chart and a picture of the server, after a reload too."""
    person = await visit()
    tab = await person.tab()
    figures = tab.chat.get_by_role("figure")
    for asked, drawn in (
        ("Show me a sample table.", "tbody tr"),
        ("Draw me a sample bar chart.", "svg .bar"),
        ("Draw me a sample heatmap.", "img"),
    ):
        await tab.say(asked)
        await figures.last.locator(drawn).first.wait_for()
        await tab.done()
    await tab.picture("9-sample-renders")
    await tab.page.reload()
    await figures.last.locator("img").wait_for()
    assert await figures.nth(1).locator("svg .bar").count() > 1
    assert await figures.first.locator("tbody tr").count() > 1
    person.check()

"""Calls that the page executes, in a real browser: in one of its tabs, with the arguments that people approved."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from playwright.async_api import expect

from agent_core.testing import FakeModels
from agent_core.testing.models.builtin import builtin
from tests.e2e.browser import Tab
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import Server
from tests.e2e.test_browser_approvals import card, choice
from tests.polling import until_async

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
AGENT: dict[str, Any] = {
    "name": "assistant",
    "instructions": "Order what people want.",
    "tools": [
        {
            "name": "order",
            "kind": "client",
            "description": "Order something in the shop that the page belongs to.",
            "parameters": {
                "type": "object",
                "properties": {
                    "what": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1},
                    "gift": {"type": "boolean"},
                },
                "required": ["what", "count"],
            },
        }
    ],
}
HOOK = {
    "event": "PreToolUse",
    "type": "approval",
    "matcher": "order",
    "config": {"responders": ["asker"], "edit": True},
}
WANTED = {"what": "bread", "count": 2, "gift": False}
ACCOUNT = "12345678901234567890"
INVOICE = ACCOUNT * 2
ASK = f"use order {json.dumps(WANTED)}"
# What the page around the widget does: it records each call, and answers on command.
SHOP = """
    window.calls = [];
    document.addEventListener("parley:tool-call", event => {
        TAKE;
        window.calls.push(event.detail);
        localStorage.asked = event.detail.call;
    });
"""
LOCKS = """async () => {
    const { held, pending } = await navigator.locks.query();
    return [held.length, pending.length];
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def models() -> AsyncIterator[FakeModels]:
    """A model that uses the tools that the message names."""
    async with FakeModels(builtin) as models:
        yield models


@pytest.fixture
def hooks() -> list[dict[str, Any]]:
    """The hooks of the agent."""
    return []


@pytest.fixture(scope="module")
def servers(start_shared: StartServer) -> dict[str, Server]:
    """The module's servers by the agent that they have."""
    return {}


@pytest.fixture
def server(
    start_shared: StartServer, servers: dict[str, Server], models: FakeModels, hooks: list[dict[str, Any]]
) -> Server:
    """A server whose assistant has a tool of the page's."""
    assistant = yaml.safe_dump({**AGENT, "hooks": hooks})
    if assistant not in servers:
        model = {"ANTHROPIC_BASE_URL": models.url, "PARLEY_MODEL": "anthropic:claude-opus-5-5"}
        servers[assistant] = start_shared(assistant=assistant, ANTHROPIC_API_KEY="sk-fake", **model)
    return servers[assistant]


async def shop(tab: Tab, *, takes: bool = True) -> None:
    """Load the page again, as one that executes calls, or looks on."""
    await tab.page.add_init_script(SHOP.replace("TAKE", "event.preventDefault()" if takes else ""))
    await tab.page.reload()


async def called(tab: Tab, n: int = 1) -> list[Any]:
    """Return name and arguments of the calls that the page received, once there are *n*."""
    await tab.page.wait_for_function("n => window.calls.length >= n", arg=n)
    return await tab.page.evaluate("() => window.calls.map(({ name, arguments: given }) => [name, given])")


async def locked(tab: Tab, held: int, pending: int) -> None:
    """Return once the tabs hold and wait for so many locks: one each if another tab waits for the one with the call."""

    async def holds() -> bool:  # `wait_for_function` takes the promise itself for a yes
        return await tab.page.evaluate(LOCKS) == [held, pending]

    await until_async(holds)


async def count(tab: Tab) -> int:
    """Return how many calls the page received by now."""
    return await tab.page.evaluate("() => window.calls.length")


async def respond(tab: Tab, output: Any) -> bool:
    return await tab.page.evaluate("output => window.calls.at(-1).respond(output)", output)


async def test_the_page_executes_its_call(visit: MakeVisit):
    """The page receives the call with its arguments, answers, and the run continues with what it said."""
    person = await visit()
    tab = await person.tab()
    await shop(tab)
    await tab.say(ASK)
    assert await called(tab) == [["order", WANTED]]
    await expect(tab.answer.locator(".tool")).to_contain_text("waiting for this page")
    await tab.picture("28-call-of-the-page")
    assert await respond(tab, {"number": 17}) is True
    await tab.done()
    await expect(tab.answer.locator(".tool")).to_contain_text("done")
    assert await respond(tab, {"number": 18}) is False, "a call has one output"
    person.check(quiet=False)


@pytest.mark.whole
async def test_a_reload_delivers_the_call_again(visit: MakeVisit):
    """After a reload the page receives the open calls again; when the widget restarts within the page it does not."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    await tab.answer.locator(".tool", has_text="waiting for this page").wait_for()
    await shop(tab)
    assert await called(tab) == [["order", WANTED]]
    await tab.chat.evaluate("chat => { chat.strings = { onPage: 'up to you' } }")
    await tab.answer.locator(".tool", has_text="up to you").wait_for()
    assert await respond(tab, {"number": 17}) is True
    await tab.done()
    assert await count(tab) == 1
    person.check(quiet=False)


@pytest.mark.whole
async def test_of_two_tabs_one_executes_the_call(visit: MakeVisit):
    """Two tabs receive a call at the same moment, and both could execute it: exactly one does."""
    person = await visit()
    tabs = [await person.tab(), await person.tab()]
    for each in tabs:
        await shop(each)
    await tabs[0].say(ASK)
    await tabs[1].answer.locator(".tool", has_text="waiting for this page").wait_for()
    await locked(tabs[0], 1, 1)
    await tabs[0].page.wait_for_function("() => localStorage.asked")
    counts = [await count(each) for each in tabs]
    assert sorted(counts) == [0, 1]
    assert await respond(tabs[counts.index(1)], {"number": 17}) is True
    for each in tabs:
        await each.done()
        await expect(each.banner).to_be_empty()
    assert [await count(each) for each in tabs] == counts
    person.check(quiet=False)


@pytest.mark.whole
async def test_a_tab_that_goes_leaves_its_call_to_the_next(visit: MakeVisit):
    """The tab that took the call is closed before it answers: the other one is asked then, and answers."""
    person = await visit()
    first, second = await person.tab(), await person.tab()
    await shop(first)
    await first.say(ASK)
    assert await called(first) == [["order", WANTED]]
    await shop(second)
    await locked(second, 1, 1)
    assert await count(second) == 0
    await first.page.close()
    assert await called(second) == [["order", WANTED]]
    assert await respond(second, {"number": 18}) is True
    await second.done()
    person.check(quiet=False)


@pytest.mark.whole
async def test_a_page_that_does_not_take_a_call_leaves_it_to_the_other_tab(visit: MakeVisit):
    """A tab whose page looks on does not keep other tabs from executing the call."""
    person = await visit()
    first, second = await person.tab(), await person.tab()
    await shop(first, takes=False)
    await first.say(ASK)
    assert await called(first) == [["order", WANTED]]
    await locked(first, 0, 0)
    await shop(second)
    assert await called(second) == [["order", WANTED]]
    assert await respond(second, {"number": 19}) is True
    await first.done()
    person.check(quiet=False)


@pytest.mark.whole
@pytest.mark.parametrize("hooks", [[HOOK]])
async def test_corrected_arguments_are_checked_before_they_reach_the_page(visit: MakeVisit):
    """Invalid input is reported at its field and nothing runs; the page receives valid input."""
    person = await visit()
    tab = await person.tab()
    await shop(tab)
    await tab.say(ASK)
    await choice(tab, "Edit").click()
    count = card(tab).get_by_label("count")
    await count.fill("2.5")
    await choice(tab, "Approve with these changes").click()
    await expect(card(tab)).to_contain_text("Write a whole number.")
    await count.fill("0")
    await choice(tab, "Approve with these changes").click()
    await expect(card(tab)).to_contain_text("At least 1.")
    await expect(count).to_have_value("0")
    await tab.picture("29-correction-refused")
    assert await tab.page.evaluate("() => window.calls.length") == 0
    await card(tab).get_by_label("count").fill("3")
    await card(tab).get_by_label("gift").check()
    await choice(tab, "Approve with these changes").click()
    assert await called(tab) == [["order", {"what": "bread", "count": 3, "gift": True}]]
    await expect(card(tab)).to_contain_text("The input was changed.")
    await respond(tab, "Ordered.")
    await tab.done()
    await tab.picture("30-corrected-and-done")
    person.check(quiet=False)


@pytest.mark.whole
@pytest.mark.parametrize("hooks", [[HOOK]])
async def test_long_numbers_are_approved_corrected_and_executed_to_the_digit(visit: MakeVisit):
    """What JavaScript would round is shown whole, goes back untouched beside a correction, and reaches the page so."""
    exact = f'"count":2,"account":{ACCOUNT},"rate":1.0,"number_of_the_invoice_at_the_bank":{INVOICE}'
    person = await visit(viewport={"width": 320, "height": 720})
    tab = await person.tab()
    await shop(tab)
    await tab.say(f'use order {{"what":"bread",{exact}}}')
    await expect(card(tab)).to_contain_text(ACCOUNT)
    await expect(card(tab)).to_contain_text("1.0")
    await expect(card(tab)).to_contain_text(INVOICE)
    await tab.picture("31-long-numbers")
    await choice(tab, "Edit").click()
    await expect(card(tab).get_by_label("account")).to_have_value(ACCOUNT)
    await card(tab).get_by_label("what").fill("rolls")
    await card(tab).get_by_label("Number of the invoice at the bank").scroll_into_view_if_needed()
    await tab.picture("32-long-numbers-corrected")
    await choice(tab, "Approve with these changes").click()
    await called(tab)
    assert await tab.page.evaluate("() => window.calls[0].argumentsText") == f'{{"what":"rolls",{exact}}}'
    assert await tab.page.evaluate("() => typeof window.calls[0].arguments.account") == "number"
    await expect(card(tab)).to_contain_text(ACCOUNT)
    await expect(card(tab)).to_contain_text("rolls")
    await respond(tab, "Ordered.")
    await tab.done()
    await tab.picture("33-long-numbers-approved")
    person.check(quiet=False)

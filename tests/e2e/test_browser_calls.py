"""Calls that the page executes, in a real browser, and arguments that people correct on their way there."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
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

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
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
ASK = f"use order {json.dumps(WANTED)}"
# What the page around the widget does: it remembers each call, and answers when it is told to.
SHOP = """
    window.calls = [];
    document.addEventListener("parley:tool-call", event => {
        event.preventDefault();
        window.calls.push(event.detail);
    });
"""


@pytest_asyncio.fixture(loop_scope="module")
async def models() -> AsyncIterator[FakeModels]:
    """A model that uses the tools that it is told to use."""
    async with FakeModels(builtin) as models:
        yield models


@pytest.fixture
def hooks() -> list[dict[str, Any]]:
    """The hooks of the agent."""
    return []


@pytest.fixture
def server(start_server: StartServer, home: Path, models: FakeModels, hooks: list[dict[str, Any]]) -> Server:
    """A server whose assistant has a tool of the page's."""
    (home / "agents/assistant.yaml").write_text(yaml.safe_dump({**AGENT, "hooks": hooks}), "utf-8")
    return start_server(
        ANTHROPIC_API_KEY="sk-fake", ANTHROPIC_BASE_URL=models.url, PARLEY_MODEL="anthropic:claude-opus-5-5"
    )


async def shop(tab: Tab) -> None:
    """Load the page anew, as one that executes calls."""
    await tab.page.add_init_script(SHOP)
    await tab.page.reload()


async def called(tab: Tab, n: int = 1) -> list[Any]:
    """Return name and arguments of the calls that the page was told of, once there are *n*."""
    await tab.page.wait_for_function("n => window.calls.length >= n", arg=n)
    return await tab.page.evaluate("() => window.calls.map(({ name, arguments: given }) => [name, given])")


async def respond(tab: Tab, output: Any) -> bool:
    return await tab.page.evaluate("output => window.calls.at(-1).respond(output)", output)


async def test_the_page_executes_its_call(visit: MakeVisit):
    """The page hears of the call with its arguments, answers, and the run goes on with what it said."""
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


async def test_a_reload_tells_of_the_call_again_and_two_tabs_answer_once(visit: MakeVisit):
    """After a reload the page hears of what is still open; of two tabs that answer the first one counts."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    await tab.answer.locator(".tool", has_text="waiting for this page").wait_for()
    tabs = [tab, await person.tab()]
    for each in tabs:
        await shop(each)
        assert await called(each) == [["order", WANTED]]
    counted = await asyncio.gather(*(respond(each, {"number": n}) for n, each in enumerate(tabs)))
    assert sorted(counted) == [False, True]
    for each in tabs:
        await each.done()
        await expect(each.banner).to_be_empty()
    person.check(quiet=False)


@pytest.mark.parametrize("hooks", [[HOOK]])
async def test_corrected_arguments_are_checked_before_they_reach_the_page(visit: MakeVisit):
    """What does not fit is said at its field and nothing runs; what fits is what the page is told of."""
    person = await visit()
    tab = await person.tab()
    await shop(tab)
    await tab.say(ASK)
    await choice(tab, "Edit").click()
    count = card(tab).get_by_label("count")
    await count.fill("many")
    await choice(tab, "Approve with these changes").click()
    await expect(card(tab)).to_contain_text("This is not valid here")
    await count.fill("0")
    await choice(tab, "Approve with these changes").click()
    await expect(card(tab)).to_contain_text("minimum")
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

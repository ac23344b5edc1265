"""Tools as sentences, and questions as forms, in a real browser: filled in, refused at a field, held, withdrawn."""

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

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
PAYLOAD = "<img src=x onerror=alert(1)>"
BOOK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guest": {"type": "string", "title": "Name of the guest", "maxLength": 40, "pattern": "^[^0-9]*$"},
        "nights": {"type": "integer", "title": "Nights", "minimum": 1, "maximum": 30},
        "arrival": {"type": "string", "format": "date", "title": "Arrival"},
        "room": {"enum": ["single", "double"], "title": "Room", "description": f"As on the page {PAYLOAD}"},
        "breakfast": {"type": "boolean", "title": "With breakfast"},
        "wishes": {"type": "array", "items": {"type": "string"}, "title": "Wishes"},
        "billing": {
            "type": "object",
            "title": "Billing",
            "properties": {
                "account": {"type": "integer", "title": "Account"},
                "mail": {"type": "string", "format": "email"},
            },
            "required": ["account"],
        },
        "note": {"type": "string", "title": PAYLOAD},
    },
    "required": ["guest", "nights", "room"],
}
ACCOUNT = 12345678901234567890
GIVEN = {
    "guest": "Ann",
    "nights": 2,
    "room": "single",
    "breakfast": False,
    "billing": {"account": ACCOUNT},
    "note": "-",
}
AGENT: dict[str, Any] = {
    "name": "assistant",
    "instructions": "Book rooms.",
    "tools": [
        {"name": "book_room", "kind": "client", "description": "Book a room.", "parameters": BOOK},
        "calculate",
        "current_time",
    ],
    "hooks": [
        {
            "event": "PreToolUse",
            "type": "approval",
            "matcher": "book_room",
            "config": {"responders": ["asker"], "edit": True, "remember": True, "timeout_s": 7200},
        }
    ],
    "web": {"show_tools": "full"},
}
ASK = f"use book_room {json.dumps(GIVEN)}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def models() -> AsyncIterator[FakeModels]:
    """A model that uses the tools that the message names."""
    async with FakeModels(builtin) as models:
        yield models


@pytest.fixture(scope="module")
def server(start_shared: StartServer, models: FakeModels) -> Server:
    """A server whose assistant books rooms, once people have approved it."""
    model = {"ANTHROPIC_BASE_URL": models.url, "PARLEY_MODEL": "anthropic:claude-opus-5-5"}
    return start_shared(assistant=yaml.safe_dump(AGENT), ANTHROPIC_API_KEY="sk-fake", **model)


async def asked(tab: Tab) -> None:
    await tab.say(ASK)
    await tab.chat.get_by_role("button", name="Approve", exact=True).wait_for()


async def test_a_question_is_a_form_with_the_words_of_the_schema(visit: MakeVisit, server: Server):
    """Each argument has its field; what is wrong is said there, by the page and by the server; digits stay."""
    person = await visit(viewport={"width": 390, "height": 844}, color_scheme="dark")
    tab = await person.tab()
    await asked(tab)
    await expect(tab.chat.locator("section.card")).to_contain_text("minutes left to decide")
    await expect(tab.chat.locator("dt").first).to_have_text("Name of the guest")
    await tab.picture("60-card-phone-dark")
    await tab.chat.get_by_role("button", name="Edit").click()
    card = tab.chat.locator("section.card")
    await expect(card.get_by_label("Name of the guest")).to_be_focused()
    await expect(card.get_by_label("Name of the guest")).to_be_in_viewport()
    await card.get_by_label("Nights").fill("31")
    await card.get_by_label("Name of the guest").fill("Ann 2")
    await card.get_by_label("Arrival").fill("2026-12-24")
    await card.get_by_label("Room").select_option("double")
    await card.get_by_label("With breakfast").check()
    await card.get_by_label("Wishes").fill("quiet\nhigh up")
    await tab.picture("61-form-phone-dark")
    await card.get_by_role("button", name="Approve with these changes").click()
    await expect(card.get_by_text("At most 30.")).to_be_visible()
    await expect(card.get_by_label("Nights")).to_be_focused()
    await card.get_by_label("Nights").fill("3")
    await card.get_by_role("button", name="Approve with these changes").click()
    await expect(card.locator(".field", has_text="Name of the guest").locator(".wrong")).to_have_text(
        "This is not of the form that is asked for."
    )
    await expect(card.get_by_label("Name of the guest")).to_be_focused()
    await expect(card.get_by_label("Name of the guest")).to_be_in_viewport()
    await tab.picture("62-form-refused")
    await card.get_by_label("Name of the guest").fill("Ann Lee")
    await card.get_by_label("Name of the guest").press("Enter")
    await expect(card.locator("summary")).to_contain_text("Approved by you")
    await expect(tab.area).to_be_focused()
    await card.locator("summary").click()
    await tab.picture("63-card-decided")
    async with server.client() as operator:
        (found,) = (await operator.get("/v1/approvals", params={"status": "approved"})).json()["items"]
    changed = {"guest": "Ann Lee", "nights": 3, "room": "double", "breakfast": True, "arrival": "2026-12-24"}
    assert found["arguments"] == {**GIVEN, **changed, "wishes": ["quiet", "high up"]}
    person.check(quiet=False)


async def test_a_message_is_held_until_the_decision_and_a_stop_asks(visit: MakeVisit):
    """What is written meanwhile says what it waits for; Escape asks, and with a yes withdraws the question."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await tab.say("And tomorrow?")
    await expect(tab.chat.locator(".question .foot").last).to_contain_text(
        "Your message will be answered after the decision"
    )
    await tab.area.press("Escape")
    await tab.page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    await expect(tab.chat.locator("section.card summary")).to_contain_text("Withdrawn")
    await expect(tab.questions.last).to_have_text("And tomorrow?")
    person.check()


async def test_calls_are_one_line_that_opens_to_what_came_out(visit: MakeVisit):
    """Several calls fold into one line; it opens to their sentences, and each of these to its input and result."""
    person = await visit()
    tab = await person.tab()
    await tab.say('use calculate {"expression": "12 * 7"}')
    await tab.done()
    await expect(tab.answer.locator(".tool b")).to_have_text("Calculated")
    await tab.answer.locator(".tool summary").click()
    await expect(tab.answer.locator(".tool dd")).to_have_text("12 * 7")
    await expect(tab.answer.locator(".tool .value").last).to_have_text("84")
    await tab.picture("64-tool-opened")
    assert await tab.page.locator("img[src='x']").count() == 0
    person.check()

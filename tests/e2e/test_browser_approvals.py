"""Approvals in a real browser: asked, refused, expired, counted, withdrawn, reloaded, in two tabs."""

import asyncio
from typing import Any

import httpx
import pytest
import yaml
from playwright.async_api import Locator, expect

from tests.e2e.browser import PATIENCE, Tab
from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import KEY, ROOT, Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
ASK = "What is 12 * 7?"
CONFIG: dict[str, Any] = {
    "responders": ["asker"],
    "edit": True,
    "remember": True,
    "title": "May this be calculated?",
    "detail": "Every sum is counted.",
}


@pytest.fixture
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the hook says; a test may bring its own."""
    return {**CONFIG, **getattr(request, "param", {})}


@pytest.fixture(scope="module")
def servers(start_shared: StartServer) -> dict[str, Server]:
    """The module's servers by what the hook says."""
    return {}


@pytest.fixture
def server(start_shared: StartServer, servers: dict[str, Server], config: dict[str, Any]) -> Server:
    """A server whose assistant asks people before it calculates."""
    made = yaml.safe_load((ROOT / "agents/assistant.yaml").read_text("utf-8"))
    made["hooks"] = [{"event": "PreToolUse", "type": "approval", "matcher": "calculate", "config": config}]
    assistant = yaml.safe_dump(made)
    if assistant not in servers:
        servers[assistant] = start_shared(rate=0, assistant=assistant)
    return servers[assistant]


def card(tab: Tab) -> Locator:
    return tab.chat.get_by_role("region").or_(tab.chat.locator("section.card")).last


def choice(tab: Tab, name: str) -> Locator:
    return card(tab).get_by_role("button", name=name, exact=True)


async def asked(tab: Tab) -> None:
    """Ask for a sum and see the card."""
    await tab.say(ASK)
    await choice(tab, "Approve").wait_for()


async def test_a_yes_lets_the_call_run(visit: MakeVisit):
    """The card shows the exact call; after a yes it is a line that says who decided and opens; the answer comes."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await expect(card(tab)).to_contain_text("May this be calculated?")
    await expect(card(tab)).to_contain_text("12 * 7")
    await expect(card(tab)).to_contain_text("left to decide")
    await tab.picture("20-approval-asked")
    await choice(tab, "Approve").click()
    assert "12 * 7 is 84." in await tab.done()
    await expect(card(tab).get_by_role("button")).to_have_count(0)
    await expect(card(tab).locator("summary")).to_contain_text("Approved by")
    await expect(card(tab).get_by_text("12 * 7")).to_be_hidden()
    await expect(tab.area).to_be_focused()
    await card(tab).locator("summary").click()
    await expect(card(tab).get_by_text("12 * 7")).to_be_visible()
    await tab.picture("21-approval-approved")
    person.check()


@pytest.mark.whole
async def test_a_no_takes_a_reason(visit: MakeVisit):
    """A no asks for a reason, which may be left out; the call does not run, and the answer says so."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await choice(tab, "Deny").click()
    await expect(card(tab).get_by_label("Reason (optional)")).to_be_focused()
    await card(tab).get_by_label("Reason (optional)").fill("Use your head.")
    await tab.picture("22-approval-denying")
    await choice(tab, "Deny").click()
    assert "84" not in await tab.done()
    await expect(card(tab)).to_contain_text("Denied by")
    await expect(card(tab)).to_contain_text("Use your head.")
    await tab.picture("23-approval-denied")
    person.check()


@pytest.mark.whole
async def test_a_tool_is_allowed_for_the_conversation(visit: MakeVisit):
    """After a yes for the rest of the conversation there is no further question."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await card(tab).get_by_label("Don’t ask again in this conversation").check()
    await choice(tab, "Approve").click()
    await tab.done()
    await tab.say("What is 2 + 3?")
    await expect(tab.answers).to_have_count(2)
    assert "2 + 3 is 5." in await tab.done()
    person.check()


@pytest.mark.whole
@pytest.mark.parametrize("config", [{"responders": ["operators"]}], indirect=True)
async def test_other_users_see_whom_it_waits_for(visit: MakeVisit, server: Server):
    """A visitor who may not decide has no buttons, and sees what an operator decides as it happens."""
    person = await visit()
    tab = await person.tab()
    await tab.say(ASK)
    await expect(card(tab)).to_contain_text("Waiting for the team to approve this.")
    await expect(card(tab).get_by_role("button")).to_have_count(0)
    await tab.picture("26-approval-of-others")
    await decide(server, approved=False, reason="Not today.")
    await expect(card(tab)).to_contain_text("Denied by")
    await expect(card(tab)).to_contain_text("Not today.")
    person.check()


@pytest.mark.whole
async def test_a_reload_and_a_second_tab_show_the_same(visit: MakeVisit):
    """A reloaded page has the card, a second tab too; what one of them decides both show."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await tab.page.reload()
    await choice(tab, "Approve").wait_for()
    other = await person.tab()
    await choice(other, "Approve").wait_for()
    buttons = [await choice(each, "Approve").element_handle() for each in (tab, other)]
    await asyncio.gather(*(button.evaluate("button => button.click()") for button in buttons if button))
    for each in (tab, other):
        await expect(card(each)).to_contain_text("Approved by")
        assert "12 * 7 is 84." in await each.done()
        await expect(each.answers).to_have_count(1)
    person.check(quiet=False)


@pytest.mark.whole
async def test_it_works_with_the_keyboard_alone(visit: MakeVisit):
    """Tab reaches the buttons in their order, Enter presses them, Escape leaves a form; a Stop asks, Escape says no."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await choice(tab, "Deny").focus()
    await tab.page.keyboard.press("Enter")
    await expect(card(tab).get_by_label("Reason (optional)")).to_be_focused()
    await tab.page.keyboard.press("Escape")
    await expect(choice(tab, "Approve")).to_be_focused()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.get_by_role("alertdialog")).to_contain_text("Stop and withdraw the question?")
    await tab.page.keyboard.press("Escape")
    await expect(tab.area).to_be_focused()
    await choice(tab, "Approve").focus()
    await tab.page.keyboard.press("Tab")
    await expect(choice(tab, "Deny")).to_be_focused()
    await tab.page.keyboard.press("Shift+Tab")
    await tab.page.keyboard.press("Enter")
    assert "12 * 7 is 84." in await tab.done()
    person.check()


@pytest.mark.whole
async def test_a_stop_withdraws_the_question(visit: MakeVisit):
    """A Stop while people are asked ends the run once that is confirmed; the card says that it was withdrawn."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    await tab.stop.click()
    await tab.picture("28-approval-stopping")
    await tab.page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    await expect(card(tab)).to_contain_text("Withdrawn")
    await expect(card(tab).get_by_role("button")).to_have_count(0)
    await tab.picture("27-approval-withdrawn")
    person.check()


@pytest.mark.whole
@pytest.mark.parametrize("config", [{"timeout_s": 8}], indirect=True)
async def test_an_unanswered_question_expires(visit: MakeVisit):
    """When its time is over the card says so in every tab and loses its buttons; the call does not run."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    other = await person.tab()
    for each in (tab, other):
        await expect(card(each)).to_contain_text("No decision came in time", timeout=PATIENCE)
        await expect(card(each).get_by_role("button")).to_have_count(0)
        assert "84" not in await each.done()
    await tab.picture("24-approval-expired")
    person.check()


@pytest.mark.whole
@pytest.mark.parametrize("config", [{"responders": ["asker", "operators"], "quorum": 2, "edit": False}], indirect=True)
async def test_a_quorum_of_two_is_counted(visit: MakeVisit, server: Server):
    """After the first yes both tabs count it and still wait; the second decides, and both agree on the outcome."""
    person = await visit()
    tab = await person.tab()
    await asked(tab)
    other = await person.tab()
    await expect(card(other)).to_contain_text("0 of 2 approvals")
    await choice(tab, "Approve").click()
    for each in (tab, other):
        await expect(card(each)).to_contain_text("1 of 2 approvals")
        await expect(card(each)).to_contain_text("left to decide")
    await tab.picture("25-approval-one-of-two")
    await decide(server, approved=True)
    for each in (tab, other):
        await expect(card(each)).to_contain_text("Approved by the team")
        await expect(card(each).get_by_role("button")).to_have_count(0)
        assert "12 * 7 is 84." in await each.done()
    await other.picture("34-approval-two-of-two")
    person.check()


async def decide(server: Server, **vote: Any) -> None:
    """Decide the open question as an operator does."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as operator:
        (open_one,) = (await operator.get("/v1/approvals", params={"status": "open"})).json()["items"]
        answer = await operator.post(f"/v1/approvals/{open_one['id']}", json=vote)
        assert answer.status_code == 200, answer.text

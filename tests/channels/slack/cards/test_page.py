"""Cards on the stand-in's page in a real browser: a person approves, denies, corrects, may not, comes too late."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Locator, Page, expect

from agent_core.messages import Actor
from agent_core.objects import Decider, Decision
from channels.slack.testing import InjectedFault
from tests.channels.slack.cards.desk import Desk, asking
from tests.e2e.browser import PATIENCE, chromium, photograph

pytestmark = [pytest.mark.browser, pytest.mark.sqlite, pytest.mark.whole]

OPERATOR = Decider(actor=Actor("ops", "service", "Olga"), is_operator=True)


class PagePerson:
    """A person at the page."""

    def __init__(self, page: Page, desk: Desk) -> None:
        self.page, self.desk = page, desk
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def thread(self) -> Locator:
        return self.page.get_by_label("Thread", exact=True)

    @property
    def dialog(self) -> Locator:
        return self.page.locator("dialog")

    async def ask(self) -> Locator:
        """Ask for something and return the card that comes."""
        await self.page.goto(f"{self.desk.rig.stand_in.base_url}#team=T0001&user=UANN&channel=CDATA")
        await self.page.reload()
        await self.page.get_by_label("Message to the channel").fill("@parley Pay Bob")
        await self.page.get_by_label("Message to the channel").press("Enter")
        card = self.thread.locator(".msg", has_text="run?")
        await expect(card.get_by_role("button", name="Approve", exact=True)).to_be_visible()
        await expect(self.thread.locator(".pill")).to_have_text("Waiting for you")
        return card

    async def picture(self, name: str) -> None:
        await photograph(self.page, f"slack-{name}")


@pytest.fixture
async def person(make_core) -> AsyncIterator[PagePerson]:
    async with chromium() as browser, asking(make_core, edit=True, remember=True, page=True) as desk:
        context = await browser.new_context(viewport={"width": 1360, "height": 820})
        context.set_default_timeout(PATIENCE)
        made = PagePerson(await context.new_page(), desk)
        yield made
        await context.close()
        assert made.complaints == []


async def test_a_person_decides(person: PagePerson):
    """A person at the page approves, denies and corrects; another may not, and a late one reads the outcome."""
    await approve_and_deny(person)
    await correct(person)
    await not_allowed_and_too_late(person)


async def approve_and_deny(person: PagePerson) -> None:
    """Approve asks once more and then runs; Deny asks why, and the card says who decided what."""
    card = await person.ask()
    await person.picture("6-card")
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(person.dialog).to_contain_text("pay runs at once")
    await person.picture("7-confirm")
    await person.dialog.get_by_role("button", name="Back").click()
    assert person.desk.till.paid == []
    await card.get_by_role("button", name="Approve", exact=True).click()
    await person.dialog.get_by_role("button", name="Approve").click()
    await expect(card).to_contain_text("Approved by @ann")
    await expect(card.locator(".actions button")).to_have_count(0)
    await expect(person.thread.locator(".msg").last).to_contain_text("That is done.")
    await expect(person.thread.locator(".pill")).to_have_text("Active")
    await person.picture("8-approved")
    assert person.desk.till.amounts == [5]

    card = await person.ask()
    await card.get_by_role("button", name="Deny…").click()
    await person.dialog.get_by_label("Why not?").fill("Bob was paid yesterday.")
    await person.picture("9-deny")
    await person.dialog.get_by_role("button", name="Deny").click()
    await expect(card).to_contain_text("Denied by @ann")
    await expect(card.locator("blockquote")).to_have_text("Bob was paid yesterday.")
    await expect(person.dialog).not_to_be_visible()
    await person.picture("10-denied")
    assert person.desk.till.amounts == [5]


async def correct(person: PagePerson) -> None:
    """A form has a field for each argument, says at its field what does not fit, and runs what was corrected."""
    card = await person.ask()
    await card.get_by_role("button", name="Edit…").click()
    await person.dialog.get_by_label("amount").fill("much")
    await person.dialog.get_by_label("colour").select_option("green")
    await person.dialog.get_by_role("button", name="Approve").click()
    await expect(person.dialog.get_by_role("alert")).to_have_text("This is to be a whole number.")
    await expect(person.dialog.get_by_label("amount")).to_have_value("much")
    await expect(person.dialog.get_by_label("colour")).to_have_value("1")
    await person.picture("11-edit")
    assert person.desk.till.amounts == [5]
    await person.dialog.get_by_label("amount").fill("3")
    await person.dialog.get_by_role("button", name="Approve").click()
    await expect(card).to_contain_text("with other arguments than were asked for")
    await expect(card).to_contain_text("Asked for was:")
    await person.picture("12-edited")
    assert [(each["amount"], each["colour"]) for each in person.desk.till.paid[1:]] == [(3, "green")]


async def not_allowed_and_too_late(person: PagePerson) -> None:
    """Another person alone reads who may decide; a late one reads the outcome, and the card is updated."""
    desk = person.desk
    card = await person.ask()
    root = str(await person.page.evaluate("new URLSearchParams(location.hash.slice(1)).get('thread')"))
    await person.page.get_by_label("Acting as").select_option("UBEN")
    await person.page.goto(f"{desk.rig.stand_in.base_url}#team=T0001&user=UBEN&channel=CDATA&thread={root}")
    await person.page.reload()
    await card.get_by_role("button", name="Approve", exact=True).click()
    await person.dialog.get_by_role("button", name="Approve").click()
    alone = person.thread.locator(".msg.private")
    await expect(alone).to_contain_text("This is not yours to decide. It is for: Ann Lee, operators.")
    await expect(alone).to_contain_text("Only visible to you")
    await person.picture("13-not-allowed")
    assert desk.till.amounts == [5, 3]

    asked, stand_in = await desk.open(), desk.rig.stand_in
    ts = await card.get_attribute("data-ts")
    fault = stand_in.fault(InjectedFault("server_error", on="chat.update", times=None))
    await desk.rig.core.approvals.decide(Decision(approval=asked.id, by=OPERATOR, approved=True, surface="api"))
    await stand_in.until(lambda: any(call.arguments["ts"] == ts for call in stand_in.called("chat.update")))
    fault.lift()  # the card keeps its buttons until it is tried again, by a clock that is stopped
    await card.get_by_role("button", name="Approve", exact=True).click()
    await person.dialog.get_by_role("button", name="Approve").click()
    await expect(alone.last).to_contain_text("Too late: Approved by Olga")
    await person.picture("14-too-late")
    await expect(card.locator(".actions button")).to_have_count(0)
    assert desk.till.amounts == [5, 3, 5]

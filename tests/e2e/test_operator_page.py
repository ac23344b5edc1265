"""The operator's page in a real browser: login, live conversations, decisions, Stop, logout, a revoked key."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from playwright.async_api import Browser, Locator, Page, expect

from tests.e2e.browser import PATIENCE, photograph
from tests.e2e.conftest import StartServer
from tests.e2e.server import KEY, ROOT, Server
from tests.polling import until_async

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PAYLOAD = "<img src=x onerror=alert(1)>"
CONFIG: dict[str, Any] = {"responders": ["operators"], "edit": True, "title": f"May this be calculated? {PAYLOAD}"}


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server whose assistant asks operators before it calculates, and takes seconds for a long answer."""
    made = yaml.safe_load((ROOT / "agents/assistant.yaml").read_text("utf-8"))
    made["hooks"] = [{"event": "PreToolUse", "type": "approval", "matcher": "calculate", "config": CONFIG}]
    return start_shared(rate=60, assistant=yaml.safe_dump(made))


class OperatorPage:
    """The operator's page as a person sees it; it notes what it asks for, and what the browser complains of."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self._server = page, server
        self.list = page.locator(".sessions a")
        self.pane = page.locator("section.pane")
        self.stop = self.pane.get_by_role("button", name="Stop")
        self.login = page.get_by_label("API key")
        self.dialogs: list[str] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))

    async def enter(self, key: str = KEY, place: str = "") -> None:
        """Log in, on the way to *place*."""
        await self.page.goto(f"{self._server.url}/operator{place}")
        await self.login.fill(key)
        await self.login.press("Enter")
        await self.page.get_by_role("navigation").wait_for()

    async def open(self, title: str) -> None:
        """Choose the conversation with that title."""
        await self.list.filter(has_text=title).first.click()
        await expect(self.pane.get_by_role("heading", level=2)).to_contain_text(title)

    @property
    def card(self) -> Locator:
        """The newest question."""
        return self.pane.locator("section.card").last

    def choice(self, name: str) -> Locator:
        return self.card.get_by_role("button", name=name, exact=True)

    async def keeps_nothing(self) -> None:
        """Check that no script can read the key or a token, that no address has it, and that `/v1` takes no cookie."""
        held = await self.page.evaluate(
            "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        )
        assert held == '[{},{},""]'
        assert not [url for url in self.requests if KEY in url]
        cookies = {str(each.get("name")): str(each.get("value")) for each in await self.page.context.cookies()}
        assert set(cookies) == {"parley_operator"}
        async with self._server.client(None, cookies=cookies) as anyone:
            assert (await anyone.get("/v1/sessions")).status_code == 401

    async def picture(self, name: str) -> None:
        """Keep what the page shows as an artifact."""
        await photograph(self.page, name)

    def check(self) -> None:
        """Check that nothing of what was shown ran, and that no other host was asked."""
        assert self.dialogs == []
        assert [url for url in self.requests if not url.startswith((f"{self._server.url}/", "data:", "blob:"))] == []
        refusals = "the server responded with a status of 401"  # before the login
        assert [line for line in self.complaints if refusals not in line] == []


@pytest_asyncio.fixture(loop_scope="session")
async def desk(browser: Browser, server: Server) -> AsyncIterator[OperatorPage]:
    """A browser that has not logged in."""
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE)
    made = OperatorPage(await context.new_page(), server)
    yield made
    await context.close()
    made.check()


async def ask(server: Server, text: str, **actor) -> dict[str, str]:
    """Write *text* as a new conversation's first message."""
    async with server.client() as client:
        person = {"id": "ada", "kind": "user", "name": "Ada", **actor}
        session = (await client.post("/v1/sessions", json={"agent": "assistant", "actor": person})).json()["id"]
        posted = await client.post(f"/v1/sessions/{session}/messages", json={"text": text})
        assert posted.status_code == 202
        return {"session": session, "run": posted.json()["run_id"]}


async def answered(server: Server, written: dict[str, str]) -> None:
    """Return once the run that `ask` began is over."""
    async with server.client() as client:

        async def is_over() -> bool:
            return (await client.get(f"/v1/runs/{written['run']}")).json()["status"] == "completed"

        await until_async(is_over)


async def make_key(server: Server, *scopes: str) -> dict[str, Any]:
    async with server.client() as client:
        return (await client.post("/v1/keys", json={"name": "Mara", "scopes": list(scopes)})).json()


@pytest.mark.whole
async def test_tables_and_charts_are_drawn_for_operators_too(desk: OperatorPage, server: Server):
    """What an agent shows its visitor is drawn on the operator's page, under its strict policy, and saved there."""
    await ask(server, "Draw me a sample bar chart.", id="bo")
    await desk.enter()
    await desk.open("Draw me a sample bar chart.")
    figure = desk.pane.get_by_role("figure")
    await figure.locator("svg .bar").first.wait_for()
    async with desk.page.expect_download() as waiting:
        await figure.get_by_role("button", name="Download as PNG").click()
    assert (await waiting.value).suggested_filename.endswith(".png")
    await desk.picture("42-operator-chart")


async def test_a_conversation_appears_live_and_is_stopped(desk: OperatorPage, server: Server):
    """Who logged in sees a conversation as soon as someone writes, reads along, stops it, and logs out."""
    await desk.page.goto(f"{server.url}/operator")
    await desk.login.fill("wrong")
    await desk.login.press("Enter")
    await expect(desk.page.get_by_role("alert")).to_have_text("This key is not valid.")
    await desk.enter()
    await desk.keeps_nothing()
    written = await ask(server, f"Explain at length {PAYLOAD}", name=f"Ada {PAYLOAD}\u202e")
    await desk.open("Explain at length")
    await expect(desk.list.first).to_contain_text("running")
    await expect(desk.list.first).to_contain_text(f"Ada {PAYLOAD}\\u{{202e}}")
    await expect(desk.pane.locator(".text.open")).to_contain_text("One log")
    await expect(desk.pane.locator(".bubble")).to_have_text(f"Explain at length {PAYLOAD}")
    await desk.picture("40-operator-running")
    await desk.stop.click()
    await expect(desk.pane).to_contain_text("Stopped")
    await expect(desk.stop).to_be_hidden()
    async with server.client() as client:
        assert (await client.get(f"/v1/runs/{written['run']}")).json()["status"] == "cancelled"
    assert await desk.page.locator("img").count() == 0
    await desk.page.get_by_role("button", name="Log out").click()
    await desk.login.wait_for()
    assert await desk.page.context.cookies() == []
    await desk.page.reload()
    await desk.login.wait_for()


async def test_a_deep_link_leads_through_the_login_to_a_decision(desk: OperatorPage, server: Server):
    """The address of a conversation survives the login; the call is corrected, approved, and its result is text."""
    written = await ask(server, "What is 12 * 7?")
    await desk.enter(place=f"#/s/{written['session']}")
    await expect(desk.card).to_contain_text(f"May this be calculated? {PAYLOAD}")
    await expect(desk.list.first).to_contain_text("waiting for approval")
    await desk.choice("Edit").click()
    await desk.card.get_by_label("expression").fill(PAYLOAD)
    await desk.picture("41-operator-editing")
    await desk.choice("Approve with these changes").click()
    await expect(desk.card).to_contain_text("Approved by operator")
    await desk.pane.locator(".tool summary.line").click()
    await expect(desk.pane.locator(".tool .box .value")).to_be_visible()
    await expect(desk.pane.locator(".used")).to_contain_text("2 steps")
    await ask(server, "What is 3 * 3?")
    await desk.open("What is 3 * 3?")
    await desk.choice("Deny").click()
    await desk.card.get_by_label("Reason (optional)").fill("Use your head.")
    await desk.choice("Deny").click()
    await expect(desk.card).to_contain_text("Denied by operator")
    await expect(desk.card).to_contain_text("Use your head.")
    assert await desk.page.locator("img").count() == 0


@pytest.mark.whole
async def test_a_key_shows_what_its_scopes_allow_until_it_is_revoked(desk: OperatorPage, server: Server):
    """A key that may only read has no Stop, no decision and no reply; once revoked, its page asks to log in again."""
    written = await ask(server, "What is 5 * 5?")
    key = await make_key(server, "read")
    await desk.enter(key["secret"], f"#/s/{written['session']}")
    await expect(desk.card).to_contain_text("Waiting for an operator to approve this.")
    await expect(desk.card.get_by_role("button")).to_have_count(0)
    await expect(desk.stop).to_be_hidden()
    await expect(desk.page.get_by_label("Reply as a person")).to_be_hidden()
    async with server.client() as client:
        assert (await client.patch(f"/v1/keys/{key['id']}", json={"scopes": ["read", "approve"]})).status_code == 200
    await expect(desk.choice("Approve")).to_be_visible()
    async with server.client() as client:
        assert (await client.delete(f"/v1/keys/{key['id']}")).status_code == 204
    await expect(desk.page.get_by_role("alert")).to_have_text("Your login has ended. Log in again.")
    assert desk.page.url.endswith(f"/operator#/s/{written['session']}")
    await desk.login.fill(KEY)
    await desk.login.press("Enter")
    await desk.choice("Approve").click()
    await expect(desk.pane).to_contain_text("5 * 5 is 25.")


@pytest.mark.whole
async def test_a_person_replies_in_their_own_name(desk: OperatorPage, server: Server):
    """A reply is in the conversation under the name that its person gave, which the browser keeps; text is text."""
    written = await ask(server, "Where is my parcel?")
    await desk.enter(place=f"#/s/{written['session']}")
    await desk.page.get_by_label("Your name").fill(f"Mara {PAYLOAD}")
    await desk.page.get_by_label("Reply as a person").fill(f"I will **look** for it. {PAYLOAD}")
    await desk.page.keyboard.press("Enter")
    reply = desk.pane.locator(".answer[data-person]")
    await expect(reply).to_contain_text(f"Mara {PAYLOAD}")
    await expect(reply.locator("strong")).to_have_text("look")
    await expect(desk.page.get_by_label("Reply as a person")).to_have_value("")
    await desk.picture("43-operator-reply")
    await desk.page.reload()
    await expect(reply).to_contain_text(f"Mara {PAYLOAD}")
    await expect(desk.page.get_by_label("Your name")).to_have_value(f"Mara {PAYLOAD}")
    assert await desk.page.locator("img").count() == 0


@pytest.mark.whole
async def test_conversations_are_found_and_reached_by_keyboard(desk: OperatorPage, server: Server):
    """The slash key leads to the search, arrows from one conversation to the next, and Enter opens it."""
    for text in ("a needle in the hay", "only hay"):
        await answered(server, await ask(server, text))  # what is written to goes to the top of the list
    await desk.page.set_viewport_size({"width": 390, "height": 780})
    await desk.enter()
    await desk.list.filter(has_text="only hay").wait_for()
    await desk.page.keyboard.press("/")
    await desk.page.keyboard.type("needle")
    await expect(desk.list).to_have_count(1)
    await desk.page.get_by_label("Search conversations").fill("hay")
    await expect(desk.list).to_have_count(2)
    await desk.list.first.focus()
    await desk.page.keyboard.press("ArrowDown")
    await desk.page.keyboard.press("Enter")
    await expect(desk.pane.locator(".bubble")).to_have_text("a needle in the hay")
    await expect(desk.list.first).to_be_hidden()
    await desk.picture("42-operator-phone")
    await desk.page.get_by_label("All conversations").click()
    await expect(desk.list.first).to_be_visible()

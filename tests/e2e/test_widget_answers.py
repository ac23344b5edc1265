"""What is around answers in a real browser: actions, sources, files, suggestions, code; under the strictest policy."""

import json
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Route, expect

from tests.e2e.conftest import MakeVisit, StartServer
from tests.e2e.server import KEY, Server
from tests.e2e.shown import HOST, REVOKED, RendersPage, opened, written
from tests.polling import until_async

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
CODE = """def area(radius: float) -> float:
    # The number π is written out.
    return 3.14159 * radius**2 if radius > 0 else 0.0  # and a comment that makes this line long enough to be scrolled
"""
TEXT = f"""## Two ways

The area of a circle grows with the *square* of its radius. See [the proof](https://maths.example/proof).

```python
{CODE}```

- [x] Measure the radius
- [ ] Compute the **area**

| Radius | Area |
|-------:|-----:|
| 1 | 3.14 |
| 2 | 12.57 |
"""
SENTENCE = "The area of a circle grows with the *square* of its radius."
CITED = [
    {
        "start": 0,
        "end": TEXT.index(SENTENCE) + len(SENTENCE),
        "title": "Measurement of a Circle",
        "url": "https://maths.example/circle",
    },
    {"title": "From the handbook", "url": "javascript:alert(1)"},
]
PICTURE = {"type": "file", "file": "file_1", "name": "circle.png", "mime": "image/png", "size": 1234}
REPORT = {
    "type": "file",
    "file": "file_2",
    "name": "Report of the quarter.pdf",
    "mime": "application/pdf",
    "size": 2_345_678,
}
ITEMS = [
    {"label": "And a sphere?", "prompt": "What is the volume of a sphere?"},
    {"label": "Show the proof", "prompt": "Prove it."},
]
DARK = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def png(width: int = 300, height: int = 200) -> bytes:
    """Return a picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((70, 130, 200)) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@dataclass
class Answered(RendersPage):
    """A page with one answer that has everything; the server of it keeps files and takes messages."""

    files: dict[str, bytes] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    async def show_all(self) -> None:
        await self.page.goto(f"{HOST}/page")
        await self.page.evaluate("document.querySelector('parley-chat').style.setProperty('--parley-height', '96dvh')")
        await self.page.locator(".entry.answer .acts").wait_for()

    async def answer(self, route: Route) -> None:
        path = route.request.url.removeprefix(HOST).partition("?")[0]
        if path.startswith("/v1/files/"):
            assert route.request.headers["authorization"] == "Bearer a-token"
            self.requests.append(path)
            kept = self.files.get(path.removeprefix("/v1/files/"))
            await route.fulfill(status=200 if kept else 503, body=kept or b"{}", content_type="image/png")
        elif path.endswith("/messages"):
            self.sent.append(json.loads(route.request.post_data or "{}")["text"])
            await route.fulfill(status=202, json={"message_id": "msg_9", "run_id": "run_9", "seq": 99})
        else:
            await super().answer(route)

    async def _stream(self, route: Route) -> None:
        if "last-event-id" in route.request.headers:
            return
        text = {"type": "text", "text": TEXT, "citations": CITED}
        shows = {
            "render": "ren_1",
            "call": "call_1",
            "kind": "suggestions",
            "payload": {"items": ITEMS},
            "text": "Ask on",
        }
        parts = [text, PICTURE, REPORT, {"type": "render", "render": "ren_1"}]
        asked = [{"type": "text", "text": "How large is this circle?"}, PICTURE]
        bodies: list[tuple[str, dict[str, Any]]] = [
            ("message.received", {"message": "msg_1", "parts": asked}),
            ("run.queued", {}),
            ("run.started", {"epoch": 1}),
            ("step.started", {"n": 1, "attempt": 1, "message": "msg_2", "takes": [1]}),
            ("render.shown", shows),
            ("message.completed", {"message": "msg_2", "role": "assistant", "parts": parts, "stop": "done"}),
            ("run.completed", {"stop_reason": "end_turn"}),
        ]
        await route.fulfill(body=written(bodies), content_type="text/event-stream")


@pytest_asyncio.fixture(params=[{}, DARK], ids=["light", "dark"], loop_scope="session")
async def shown(browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Answered]:
    """The page, wide and light, or dark on a phone; it complains of nothing."""
    context, shown = await opened(browser, Answered, **{"viewport": {"width": 820, "height": 1000}, **request.param})
    shown.files |= {"file_1": png(), "file_2": b"%PDF-1.7"}
    await context.add_init_script(f"({REVOKED})()")
    yield shown
    shown.check()
    await context.close()


async def test_an_answer_shows_its_code_sources_files_and_suggestions(shown: Answered, request: pytest.FixtureRequest):
    """Code has colours, sentences their sources, pictures their place, and a suggestion is one click."""
    page = shown.page
    await shown.show_all()
    code = page.locator(".code")
    await expect(code.locator(".hl-keyword").first).to_have_text("def")
    colours = await code.evaluate(
        "code => [...code.querySelectorAll('pre, span')].map(each => getComputedStyle(each).color)"
    )
    assert len(set(colours)) >= 4
    assert await code.locator("pre").inner_text() == CODE.rstrip()
    await expect(page.get_by_role("checkbox", name="Compute the area")).not_to_be_checked()
    await expect(page.get_by_role("heading", name="Two ways")).to_have_attribute("aria-level", "3")
    mark = page.get_by_role("link", name="Source 1: Measurement of a Circle")
    assert await mark.get_attribute("href") == "https://maths.example/circle"
    assert await mark.evaluate("each => each.closest('p').textContent.startsWith('The area')")
    await expect(page.locator(".sources li")).to_have_text(["Measurement of a Circle", "From the handbook"])
    await expect(page.locator(".sources a")).to_have_count(1)
    picture = page.get_by_role("button", name="Show large: circle.png")
    await expect(picture).to_have_count(2)
    await shown.picture(f"answers-{request.node.callspec.id}")
    await page.locator(".log").evaluate("log => log.scrollTop = 0")
    await shown.picture(f"answers-{request.node.callspec.id}-top")
    await picture.last.click()
    await expect(page.locator("dialog.viewer img")).to_be_visible()
    await shown.picture(f"answers-{request.node.callspec.id}-large")
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(picture.last).to_be_focused()
    await page.get_by_role("button", name="And a sphere?").click()
    await expect(page.locator(".suggestions")).to_have_count(0)
    assert shown.sent == ["What is the volume of a sphere?"]
    await page.evaluate("document.querySelector('parley-chat').remove()")
    await until_async(lambda: page.evaluate("created.length === 2 && revoked.length === 2"))


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server whose model answers quickly."""
    return start_shared(rate=2_000)


async def test_a_rating_and_its_reason_reach_the_operator(visit: MakeVisit, server: Server):
    """A thumb, then the reason: what the run has in the end is one rating, with all that was said."""
    person = await visit()
    tab = await person.tab()
    await tab.say("What is 12 * 7?")
    await tab.done()
    bar = tab.answer.get_by_role("group", name="Actions for this answer")
    await bar.get_by_role("button", name="Bad answer").click()
    form = tab.answer.get_by_role("form", name="What was wrong with it?")
    await form.get_by_role("button", name="Not correct").press("Space")
    await form.get_by_role("textbox").fill("It is not.")
    await tab.picture("answers-rating")
    await form.get_by_role("button", name="Send").click()
    await expect(bar.get_by_role("status")).to_have_text("Thank you for your feedback.")
    await expect(bar.get_by_role("button", name="Bad answer")).to_be_focused()
    await expect(bar.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    assert await ratings(server) == [("down", "Not correct\nIt is not.")]
    person.check()


async def ratings(server: Server) -> list[tuple[str, str | None]]:
    """Return what was said of the newest run."""
    async with httpx.AsyncClient(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}) as client:
        run = (await client.get("/v1/runs?limit=1")).json()["items"][0]["id"]
        found = (await client.get(f"/v1/runs/{run}")).json()
        return [(each["rating"], each["comment"]) for each in found.get("feedback", [])]


async def test_actions_wait_for_the_hand_or_the_keyboard_and_move_nothing(visit: MakeVisit):
    """Of older answers they are there for the pointer and the focus alone; their place is kept, and copying works."""
    person = await visit()
    tab = await person.tab()
    await tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for text in ("What is 12 * 7?", "What time is it?"):
        await tab.say(text)
        await tab.done()
        await expect(tab.answer.locator(".acts time")).to_be_visible()
    first = tab.answers.first
    bar = first.locator(".acts")
    await tab.page.mouse.move(1, 1)
    await expect(bar).to_have_css("opacity", "0")
    await expect(tab.answers.last.locator(".acts")).to_have_css("opacity", "1")
    height = await tab.chat.evaluate("chat => chat.shadowRoot.querySelector('.log').scrollHeight")
    await first.hover()
    await expect(bar).to_have_css("opacity", "1")
    await tab.page.mouse.move(1, 1)
    await bar.get_by_role("button", name="Copy").focus()
    await expect(bar).to_have_css("opacity", "1")
    sizes = await bar.evaluate(
        "bar => [...bar.querySelectorAll('button')].map(each => [each.offsetWidth, each.offsetHeight])"
    )
    assert min(size for each in sizes for size in each) >= 24
    await tab.page.keyboard.press("Enter")
    await expect(bar.get_by_role("status")).to_have_text("Copied")
    copied = await tab.page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            return Promise.all(["text/plain", "text/html"].map(async type => (await item.getType(type)).text()));
        }"""
    )
    assert "12 * 7 is 84." in copied[0]
    assert "<p>" in copied[1]
    assert await tab.chat.evaluate("chat => chat.shadowRoot.querySelector('.log').scrollHeight") == height
    person.check()


async def test_a_question_is_put_in_other_words_and_answered_once_more(visit: MakeVisit, server: Server):
    """Edit sends new words in the place of the old ones, Answer again the same; each is answered, nothing twice."""
    person = await visit()
    tab = await person.tab()
    await tab.say("What is 12 * 7?")
    await tab.done()
    await expect(tab.answer.locator(".acts time")).to_be_visible()
    await tab.chat.get_by_role("button", name="Edit").press("Enter")
    words = tab.chat.get_by_label("What you wrote, to be changed")
    await expect(words).to_be_focused()
    await words.press("Escape")
    await expect(tab.chat.get_by_role("button", name="Edit")).to_be_focused()
    await tab.chat.get_by_role("button", name="Edit").press("Enter")
    await words.fill("What is 6 * 6?")
    await tab.picture("answers-edit")
    await words.press("Enter")
    await expect(tab.answers).to_contain_text(["6 * 6 is 36."])
    await expect(tab.questions).to_have_text(["What is 6 * 6?"])
    await expect(tab.area).to_be_focused()
    before = await tab.answer.locator(".acts time").get_attribute("datetime")
    await tab.answer.get_by_role("button", name="Answer again").click()
    await expect(tab.answer.locator(".acts time")).not_to_have_attribute("datetime", before or "")
    await expect(tab.answers).to_contain_text(["6 * 6 is 36."])
    await expect(tab.questions).to_have_text(["What is 6 * 6?"])
    await tab.answer.get_by_role("button", name="Good answer").click()
    await until_async(lambda: rated(server))
    await tab.picture("answers-again")
    person.check()


async def rated(server: Server) -> bool:
    return await ratings(server) == [("up", None)]

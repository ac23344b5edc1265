"""Renders on the widget's page in a real Chromium, under the server's policies and without a server.

The page, its scripts and the stream of a session are given by a handler of the browser's requests.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Browser, BrowserContext, Locator, Page, Route

from channels.web.routes import POLICY, STATIC, widget
from tests.e2e.browser import PATIENCE, PICTURES, STILL, photograph
from tests.polling import until

HOST = "https://parley.test"
TRUSTED = POLICY
"""The policy of the demo page: no inline scripts, no inline styles, and Trusted Types."""
DOCUMENT = """<!doctype html><html lang="en"{attributes}><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><title>Renders</title>
<script type="module" src="/widget/parley-chat.js"></script>
<parley-chat token="a-token" storage-key="kept" heading="Assistant"></parley-chat></html>"""
TALL = "document.querySelector('parley-chat').style.setProperty('--parley-height', '100dvh')"
FACE: dict[str, Any] = {
    "agent": {"id": "agt_1", "name": "assistant"},
    "title": None,
    "greeting": None,
    "avatar": None,
    "prompts": [],
    "files": None,
    "overlap": "queue",
    "anonymous": False,
    "build": widget().build,
}
"""What an agent that sets nothing shows of itself: `GET /v1/web/agent`."""
ASKED = ("/v1/web/agent", "/v1/sessions/ses_1/events", "/v1/web/conversations/ses_1/feedback")
"""What a page with one conversation asks of the API."""
REVOKED = """() => {
    const [create, revoke] = [URL.createObjectURL.bind(URL), URL.revokeObjectURL.bind(URL)];
    [window.created, window.revoked] = [[], []];
    URL.createObjectURL = blob => { const url = create(blob); created.push(url); return url; };
    URL.revokeObjectURL = url => { revoke(url); revoked.push(url); };
}"""
"""Note the addresses that the page makes, and those that it gives back."""
Draw = Callable[[str, Mapping[str, Any], bool], Awaitable[bytes | None]]
"""Return the PNG of the render of that id with that payload, dark or light; None: the server fails."""


@dataclass(frozen=True)
class Rendered:
    """A render as a tool shows it."""

    kind: str
    payload: dict[str, Any]
    title: str | None = None
    text: str = "the text of it"


async def nothing(id: str, payload: Mapping[str, Any], dark: bool) -> bytes | None:
    return None


@dataclass
class RendersPage:
    """One page that shows renders, and a note of all that it asks for and complains of."""

    page: Page
    draw: Draw = nothing
    renders: list[Rendered] = field(default_factory=list)
    asked: str = "Show it to me, please."
    said: str = ""
    face: dict[str, Any] = field(default_factory=lambda: dict(FACE))
    document: str = DOCUMENT.replace("{attributes}", "")
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def show(self, *renders: Rendered, said: str = "Here it is.") -> None:
        """Open the page with an answer that shows *renders*."""
        self.renders, self.said = list(renders), said
        await self.page.goto(f"{HOST}/page")
        await self.page.evaluate(TALL)
        await self.page.locator(".entry.answer .blocks").wait_for()

    async def settled(self) -> None:
        """Wait until nothing fades in any more."""
        await self.page.locator("parley-chat").evaluate(STILL)

    @property
    def figures(self) -> Locator:
        """What is drawn."""
        return self.page.locator("figure.drawn")

    async def picture(self, name: str) -> None:
        """Keep what the page shows as an artifact."""
        if PICTURES:
            await self.settled()
        await photograph(self.page, name)

    async def answer(self, route: Route) -> None:
        """Answer what the page asks for, as the server does."""
        url = urlsplit(route.request.url)
        self.requests.append(f"{url.path}?{url.query}" if url.query else url.path)
        if url.path == "/page":
            headers = {"Content-Security-Policy": TRUSTED, "Content-Type": "text/html; charset=utf-8"}
            await route.fulfill(body=self.document, headers=headers)
        elif url.path.startswith("/widget/"):
            text = (STATIC / url.path.removeprefix("/widget/")).read_bytes()
            await route.fulfill(body=text, content_type="text/javascript")
        elif url.path == "/v1/web/agent":
            await route.fulfill(json=self.face)
        elif url.path.endswith("/feedback"):
            await route.fulfill(json={"items": []})
        elif url.path.endswith("/events"):
            await self._stream(route)
        elif url.path.startswith("/v1/renders/"):
            await self._draw(route, url.path, parse_qs(url.query).get("theme") == ["dark"])
        else:
            await route.abort()

    async def _stream(self, route: Route) -> None:
        if "last-event-id" in route.request.headers:
            return  # the stream stays open, and nothing comes any more
        await route.fulfill(body=stream(self.renders, self.asked, self.said), content_type="text/event-stream")

    async def _draw(self, route: Route, path: str, dark: bool) -> None:
        assert route.request.headers["authorization"] == "Bearer a-token"
        id = path.removeprefix("/v1/renders/").rpartition(".")[0]
        drawn = await self.draw(id, self.renders[int(id.removeprefix("ren_"))].payload, dark)
        if drawn is None:
            problem = {"type": "about:blank", "title": "Failed", "status": 503, "code": "drawing_failed"}
            await route.fulfill(status=503, body=json.dumps(problem), content_type="application/problem+json")
        else:
            await route.fulfill(body=drawn, content_type="image/svg+xml" if drawn.startswith(b"<svg") else "image/png")

    async def complained(self, text: str) -> None:
        """Wait for the one complaint that there should be, with *text* in it, and forget it."""
        await until(lambda: any(text in each for each in self.complaints))
        self.complaints[:] = [each for each in self.complaints if text not in each]

    def check(self) -> None:
        """Check that nothing was complained of: no error, no violation of the policy."""
        assert self.complaints == []


AShown = TypeVar("AShown", bound=RendersPage)


async def opened(
    browser: Browser, made: Callable[[Page], AShown] = RendersPage, **options: Any
) -> tuple[BrowserContext, AShown]:
    """Return a new page of *browser*, *made* of it; every request of it is answered here, none leaves."""
    context = await browser.new_context(**{"locale": "en-US", "timezone_id": "America/New_York", **options})
    context.set_default_timeout(PATIENCE)
    await context.add_init_script("localStorage.setItem('kept', 'ses_1')")
    shown = made(await context.new_page())
    await context.route("**/*", shown.answer)
    context.on("weberror", lambda error: shown.complaints.append(str(error.error)))
    context.on(
        "console",
        lambda line: shown.complaints.append(line.text) if line.type in {"error", "warning"} else None,
    )
    return context, shown


def stream(renders: Sequence[Rendered], asked: str, said: str) -> str:
    """Return the events of a session in which an answer shows *renders*."""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("message.received", {"message": "msg_1", "parts": [{"type": "text", "text": asked}]}),
        ("run.queued", {}),
        ("run.started", {"epoch": 1}),
        ("step.started", {"n": 1, "attempt": 1, "message": "msg_2", "takes": [1]}),
    ]
    shows = [
        {"render": f"ren_{n}", "call": "call_1", "kind": each.kind, "payload": each.payload, "text": each.text}
        | ({"title": each.title} if each.title else {})
        for n, each in enumerate(renders)
    ]
    bodies += [("render.shown", each) for each in shows]
    parts = [{"type": "text", "text": said}, *({"type": "render", "render": each["render"]} for each in shows)]
    done = {"message": "msg_2", "role": "assistant", "parts": parts, "stop": "done"}
    bodies += [("message.completed", done), ("run.completed", {"stop_reason": "end_turn"})]
    return written(bodies)


def written(bodies: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return events of those types and bodies as the server writes them."""
    place = {"session": "ses_1", "run": "run_1", "parent_run": None, "time": "2026-01-05T09:00:00.000Z"}
    return "".join(
        f"id: {seq}\nevent: {type}\ndata: {json.dumps({**data, **place})}\n\n"
        for seq, (type, data) in enumerate(bodies, 1)
    )

"""The widget in Firefox and in WebKit, where they are installed: conversations, a Stop, and a part that was changed."""

import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pytest_asyncio import fixture

from tests.e2e.conftest import StartServer
from tests.e2e.server import Server
from tests.e2e.webdriver import ENTER, Page, missing, opened

pytestmark = pytest.mark.whole
CHUNK = "parley-renders.js"
ROOT = "const root = (document.querySelector('parley-chat') ?? {}).shadowRoot ?? document.createElement('p');"
ANSWERED = f"""{ROOT} const answers = root.querySelectorAll('.entry.answer');
return answers.length === arguments[0] && answers[arguments[0] - 1].getAttribute('aria-busy') === 'false';"""
SHOWN = f"{ROOT} return [...root.querySelectorAll('.entry.answer')].map((each) => each.innerText);"


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that answers flat out."""
    return start_shared(rate=0)


@fixture(params=["firefox", "webkit"])
async def page(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Page]:
    """A window of each browser that is installed."""
    if program := missing(request.param):
        pytest.skip(f"there is no `{program}` on PATH")
    async with opened(request.param, tmp_path) as page:
        yield page


async def test_a_conversation_with_its_drawings(page: Page, server: Server):
    """A person asks by keyboard, reads text, a table and a chart, and finds them again after a reload."""
    await visit(page, server.url)
    await ask(page, "What is 12 * 7?", "Show me a sample table.", "Draw me a sample bar chart.")
    await page.until(f"{ROOT} return root.querySelectorAll('figure.drawn table').length > 0;")
    await page.until(f"{ROOT} return root.querySelectorAll('figure.drawn svg .bar').length === 6;")
    before = await page.evaluate(SHOWN)
    for text, words in zip(before, ("12 * 7 is 84.", "Teapot", "Sample: visits per month"), strict=True):
        assert words in text
    await page.reload()
    await page.until(f"{ROOT} return root.querySelectorAll('figure.drawn svg .bar').length === 6;")
    assert await page.evaluate(SHOWN) == before


async def test_a_stop_keeps_what_was_said(page: Page, start_server: StartServer):
    """Stop ends the answer where it is; the next message is answered."""
    await visit(page, start_server(rate=60).url)
    await strike(page, f"Explain at length{ENTER}")
    await page.until(f"{ROOT} return (root.querySelector('.entry.answer')?.innerText.length ?? 0) > 200;")
    await page.evaluate(f"{ROOT} root.querySelector('button[aria-label=Stop]').click();")
    await page.until(ANSWERED, 1)
    await page.until(f"{ROOT} return root.querySelector('.entry.answer .note')?.textContent === 'Stopped';")
    await strike(page, f"What is 2 + 3?{ENTER}")
    await page.until(ANSWERED, 2)


async def test_a_part_that_was_changed_on_its_way_does_not_run(page: Page, server: Server):
    """The script knows the hash of what it loads: a part with other content is refused, and people read the text."""
    with changing(server.url) as address:
        await visit(page, address)
        await ask(page, "Show me a sample table.")
        await page.until(f"{ROOT} return root.querySelector('pre.render') !== null;")
        assert await page.evaluate("return globalThis.changed ?? null;") is None


async def visit(page: Page, address: str) -> None:
    await page.go(f"{address}/widget-demo")
    await page.until(f"{ROOT} return root.querySelector('.greeting') !== null;")


async def ask(page: Page, *messages: str) -> None:
    """Ask one after the other, each once the one before is answered."""
    for n, message in enumerate(messages, 1):
        await strike(page, message + ENTER)
        await page.until(ANSWERED, n)


async def strike(page: Page, text: str) -> None:
    await page.evaluate("document.querySelector('parley-chat').focus();")
    await page.type(text)


@contextmanager
def changing(target: str) -> Iterator[str]:
    """Pass requests on to *target*, and add a line to the part that draws; give the address."""

    class Way(BaseHTTPRequestHandler):
        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            kept = {k: v for k, v in self.headers.items() if k.lower() not in {"accept-encoding", "connection"}}
            asked = urllib.request.Request(f"{target}{self.path}", body, kept, method=self.command)  # noqa: S310
            with urllib.request.urlopen(asked) as answer:  # noqa: S310
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                        self.send_header(name, value)
                self.end_headers()
                while part := answer.read1(65_536):
                    self.wfile.write(part)
                if CHUNK in self.path:
                    self.wfile.write(b"\nglobalThis.changed = true;\n")

        do_GET = do_POST = relay  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Way) as way:
        thread = Thread(target=way.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{way.server_address[1]}"
        way.shutdown()
        thread.join()

"""A network that cuts connections at random bytes: the page has the whole answer, once, however often that happens."""

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from playwright.async_api import Browser, expect

from agent_core.providers.demo import MARK, essay
from tests.e2e.browser import PATIENCE
from tests.e2e.conftest import StartServer
from tests.e2e.server import Server

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.whole]
ROUNDS = int(os.environ.get("PARLEY_ROUNDS", "5"))
IN_THE_GATE = 2
ASK = "Explain at length"
LAST = MARK.strip("*")


class Cutter:
    """A network on the way to *server*; once it has some *left*, it cuts connections at bytes that *luck* chooses."""

    def __init__(self, server: Server, luck: random.Random) -> None:
        self._server, self._luck = server, luck
        self._open = set[asyncio.StreamWriter]()
        self.left = self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Pass on connections to a port of its own."""
        listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            listening.close()
            for writer in tuple(self._open):
                writer.transport.abort()
            await listening.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._open |= {writer, far_writer}
        asking = asyncio.create_task(self._pass_on(reader, far_writer))
        try:
            await self._answer(far_reader, writer)
        finally:
            asking.cancel()
            writer.transport.abort()
            far_writer.transport.abort()
            self._open -= {writer, far_writer}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the server answers, to its end or to the byte at which it is cut."""
        most: int | None = None
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if most is None and self.left:
                    most = self._luck.randrange(1, 6_000)
                writer.write(data if most is None else data[:most])
                await writer.drain()
                if most is not None and (most := most - len(data)) <= 0:
                    self.left = max(0, self.left - 1)
                    return


@pytest.fixture(scope="module")
def server(start_shared: StartServer) -> Server:
    """A server that writes its essays within two seconds."""
    return start_shared(rate=300)


@pytest.mark.parametrize(
    "seed", [seed if seed < IN_THE_GATE else pytest.param(seed, marks=pytest.mark.whole) for seed in range(ROUNDS)]
)
async def test_text_is_whole_and_once_over_a_network_that_cuts(browser: Browser, server: Server, seed: int):
    """Cut at any byte of any connection the page shows the question once, and the answer with every word, once."""
    luck = random.Random(seed)  # noqa: S311
    cutter = Cutter(server, luck)
    context = await browser.new_context()
    context.set_default_timeout(2 * PATIENCE)  # a page waits longer after each failure, up to 20 seconds
    async with cutter.listening():
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{cutter.port}/widget-demo")
        await page.locator("parley-chat .greeting").wait_for()
        cutter.left = cuts = luck.randrange(2, 6)
        await page.get_by_label("Your message").fill(ASK)
        await page.get_by_label("Your message").press("Enter")
        answers = page.locator("parley-chat .entry.answer")
        await expect(answers.and_(page.locator('[aria-busy="false"]'))).to_contain_text(LAST, timeout=PATIENCE)
        await expect(answers).to_have_count(1)
        await expect(page.locator("parley-chat .entry.question .bubble")).to_have_text([ASK])
        words = answers.locator(".text :is(p, li, td, th, pre code, h3, h4)")
        shown = await words.all_inner_texts()
        assert cutter.left < cuts
        cutter.left = 0
        await page.reload()
        await expect(answers).to_contain_text(LAST)
        assert await words.all_inner_texts() == shown
        paragraphs = [each for each in essay(ASK).splitlines() if len(each) > 60 and each[0].isalpha()]
        assert [letters("".join(shown)).count(letters(each)) for each in paragraphs] == [1] * len(paragraphs)
        assert "".join(shown).count(LAST) == 1
    await context.close()


def letters(text: str) -> str:
    """Return the letters and digits of *text*, without what markdown adds."""
    return re.sub(r"[\W_]", "", text)

"""Fixtures: the real server as a process, ended with the test."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.e2e.browser import Visit, chromium
from tests.e2e.server import Server, prepare, serving

StartServer = Callable[..., Server]
MakeVisit = Callable[..., Awaitable[Visit]]


@pytest.fixture
def home(tmp_path: Path, template: Path) -> Path:
    """A folder to serve from."""
    return prepare(tmp_path / "home", template)


@pytest.fixture
def start_server(home: Path) -> Iterator[StartServer]:
    """Start a server with settings of one's own; it ends with the test, and must have printed no trace, no secret."""
    with ExitStack() as servers:
        yield lambda **settings: servers.enter_context(serving(home, **settings))


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[StartServer]:
    """The same for the tests of a whole module, each server in a folder of its own."""
    with ExitStack() as servers:

        def start(**settings) -> Server:
            home = prepare(tmp_path_factory.mktemp("home"), template)
            return servers.enter_context(serving(home, **settings))

        yield start


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server whose demonstration model takes five seconds for a long answer."""
    return start_server(rate=100)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for the tests of a module, which share its loop."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser, server: Server) -> AsyncIterator[MakeVisit]:
    """Let somebody visit the server's demo page; no page may ask another host for anything, or open a dialog."""
    visits: list[Visit] = []

    async def make(**options) -> Visit:
        visits.append(Visit(await browser.new_context(**options), server))
        return visits[-1]

    yield make
    for each in visits:
        await each.close()
        each.check(quiet=False)

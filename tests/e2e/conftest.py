"""Fixtures: the real server as a process, ended with the test; on SQLite, or on both for the modules that say so."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from channels.slack.testing import SimulatedWorkspace, SlackStandIn, Team
from tests.e2e.browser import Visit, chromium
from tests.e2e.server import Server, on_postgres, prepare, serving
from tests.postgres import PostgresServer

StartServer = Callable[..., Server]
MakeVisit = Callable[..., Awaitable[Visit]]


@pytest.fixture
def home(tmp_path: Path, template: Path) -> Path:
    """A folder to serve from."""
    return prepare(tmp_path / "home", template)


@pytest.fixture
def start_server(home: Path, backend: str, request: pytest.FixtureRequest) -> Iterator[StartServer]:
    """Start a server with settings of one's own; it ends with the test, and must have printed no trace, no secret."""
    place = on_postgres(request.getfixturevalue("postgres_url")) if backend == "postgres" else {}
    with ExitStack() as servers:
        yield lambda **settings: servers.enter_context(serving(home, **{**place, **settings}))


@pytest.fixture(scope="module")
def start_shared(
    tmp_path_factory: pytest.TempPathFactory, template: Path, backend: str, request: pytest.FixtureRequest
) -> Iterator[StartServer]:
    """The same for the tests of a whole module, each server in a folder, and a database, of its own.

    *assistant* is the YAML of the agent `assistant`, unless it is the one that ships; *also* that of a second agent.
    """
    postgres: PostgresServer | None = request.getfixturevalue("postgres") if backend == "postgres" else None
    with ExitStack() as servers:

        def start(*, assistant: str | None = None, also: str | None = None, **settings) -> Server:
            home = prepare(tmp_path_factory.mktemp("home"), template)
            for name, text in (("assistant", assistant), ("also", also)):
                if text is not None:
                    (home / f"agents/{name}.yaml").write_text(text, "utf-8")
            place = on_postgres(servers.enter_context(postgres.database())) if postgres else {}
            return servers.enter_context(serving(home, **{**place, **settings}))

        yield start


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server whose demonstration model takes five seconds for a long answer."""
    return start_server(rate=100)


@pytest.fixture
async def stand_in() -> AsyncIterator[SlackStandIn]:
    """Slack, with a workspace, no limits, and long timeouts for a server on a busy machine."""
    made = SlackStandIn(workspaces=[SimulatedWorkspace.example()], rates=None, ack_within=60.0)
    async with made.serving():
        yield made


@pytest.fixture
def team(stand_in: SlackStandIn) -> Team:
    """The workspace."""
    return stand_in.team()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for all tests of a worker that use one, which share its loop."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, server: Server) -> AsyncIterator[MakeVisit]:
    """Open the server's demo page in a browser; no page may send a request to another host, or open a dialog."""
    visits: list[Visit] = []

    async def make(**options) -> Visit:
        visits.append(Visit(await browser.new_context(**options), server))
        return visits[-1]

    yield make
    for each in visits:
        await each.close()
        each.check(quiet=False)

"""Fixtures: the real server as a process, ended with the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server, prepare

StartServer = Callable[..., Server]


@pytest.fixture
def home(tmp_path: Path, template: Path) -> Path:
    """A folder to serve from."""
    return prepare(tmp_path / "home", template)


@pytest.fixture
def start_server(home: Path) -> Iterator[StartServer]:
    """Start a server with settings of one's own; it ends with the test, and must have printed no trace, no secret."""
    servers: list[Server] = []

    def start(**settings) -> Server:
        server = Server(home, **settings)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()
    for server in servers:
        server.check()


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """A server whose demonstration model writes 500 words a second."""
    return start_server(rate=500)

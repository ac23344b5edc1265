"""Ownership of PARLEY_DATA, and the server that the commands of its machine find there."""

import asyncio
import json
import os
import signal
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator

import pytest

from agent_core.errors import ConfigError
from app.cli.client import connected, server_url
from app.cli.remote import running_server
from app.settings import Settings
from app.storage import is_owned, owned
from tests.app.processes import Serving, Shell

KEY = "the-key-of-the-operator"


class Stranger:
    """A program that listens on a port that was a server's, and answers whatever it is asked."""

    def __init__(self) -> None:
        self.received = b""

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.received += await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()


@pytest.fixture
async def stranger(settings: Settings) -> AsyncIterator[Stranger]:
    """A stranger on the port that `server.json` of the test's folder names."""
    stranger = Stranger()
    async with await asyncio.start_server(stranger.answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        note(settings, port)
        yield stranger


@pytest.fixture
def keyed(settings: Settings) -> Settings:
    return settings.model_copy(update={"api_key": Settings(_env_file=None, PARLEY_API_KEY=KEY).api_key})  # type: ignore[call-arg]


def note(settings: Settings, port: int) -> None:
    (settings.data / "server.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))


async def test_a_stranger_on_a_stale_port_gets_no_key(stranger: Stranger, keyed: Settings):
    """While no process owns the folder, no command or conversation sends anything to the address noted there."""
    (keyed.data / "lock").touch()
    assert await running_server(keyed) is None
    with pytest.raises(ConfigError, match="No server runs"):
        async with connected(keyed) as client:
            await client.call("GET", "/v1/runs")
    assert stranger.received == b""


async def test_the_owner_of_the_folder_is_believed(stranger: Stranger, keyed: Settings):
    """While a process owns the folder the address that it noted is its server's."""
    note_of = (keyed.data / "server.json").read_bytes()
    with owned(keyed):
        (keyed.data / "server.json").write_bytes(note_of)
        found = await running_server(keyed)
        assert found is not None
        await found.aclose()
    assert f"authorization: bearer {KEY}" in stranger.received.decode().lower()


def test_an_owner_removes_what_a_killed_server_noted(settings: Settings):
    """A process that takes the folder without serving, as a chat does, removes an older server's note."""
    note(settings, 9)
    with owned(settings), pytest.raises(ConfigError, match="No server runs"):
        server_url(settings)
    assert not (settings.data / "server.json").exists()


def test_checking_for_an_owner_has_no_side_effect(settings: Settings):
    """Whether a folder has an owner can be asked of any folder, at any time, by many."""
    nowhere = settings.model_copy(update={"data": settings.data / "none"})
    assert not is_owned(nowhere)
    assert not nowhere.data.exists()
    assert not is_owned(settings)
    with owned(settings):
        assert is_owned(settings)
        with pytest.raises(ConfigError, match="belongs to a process"), owned(settings):
            pass
    assert not is_owned(settings)


async def test_a_killed_server_is_no_server(serving: Serving, shell: Shell):
    """After kill -9 its note is still there, and a command says that no server runs without asking who listens."""
    found = json.loads((shell.data / "server.json").read_text())
    os.kill(found["pid"], signal.SIGKILL)
    await serving.process.wait()
    assert (shell.data / "server.json").exists()
    port = int(found["url"].rpartition(":")[2])
    stranger = Stranger()
    async with await asyncio.start_server(stranger.answer, "127.0.0.1", port):
        assert "No server runs" in await shell.refused("runs", "list")
        assert "parley:" not in (await shell.run("chat", "What is 12 * 7?"))[2]
    assert stranger.received == b""

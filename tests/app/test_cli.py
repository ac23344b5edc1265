"""The command `parley`, as a person types it."""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[2]


class Shell:
    """Commands in a folder of their own, with a bare environment."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        names = {str(field.validation_alias) for field in Settings.model_fields.values()}
        self._env = {name: value for name, value in os.environ.items() if name not in names}
        self._env |= {"PORT": "0", "PARLEY_AGENTS": str(ROOT / "agents"), "PYTHONPATH": str(ROOT)}
        self._env["PARLEY_DEMO_RATE"] = "0"
        self._folder = folder

    async def start(self, *words: str, **env: str) -> Process:
        command = (sys.executable, "-m", "app.cli", *words)
        return await asyncio.create_subprocess_exec(
            *command, cwd=self._folder, env={**self._env, **env}, stdout=PIPE, stderr=PIPE
        )

    async def run(self, *words: str, **env: str) -> tuple[int | None, str, str]:
        """Return exit code, output and errors of a command."""
        process = await self.start(*words, **env)
        out, err = await asyncio.wait_for(process.communicate(), 20)
        return process.returncode, out.decode(), err.decode()

    async def refused(self, *words: str, **env: str) -> str:
        """Return the one line with which a command ends that cannot work."""
        code, _, err = await self.run(*words, **env)
        assert code == 1
        assert err.startswith("parley: ")
        assert err.count("\n") == 1
        return err


class Serving:
    """A server of its own process, and what it printed."""

    def __init__(self, shell: Shell, process: Process, printed: str) -> None:
        self.shell, self.process, self.printed = shell, process, printed
        self.url = re.findall(r"http://[\d.:]+", printed)[0]
        self.key = re.findall(r"parley_\S+", printed)[0]

    async def stop(self) -> int | None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        await asyncio.wait_for(self.process.communicate(), 5)
        return self.process.returncode


@pytest.fixture
def shell(tmp_path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
async def serving(shell: Shell) -> AsyncIterator[Serving]:
    assert (await shell.run("migrate"))[0] == 0
    process = await shell.start("serve")
    assert process.stdout
    async with asyncio.timeout(20):
        printed = (await process.stdout.readuntil(b"Model:")).decode()
    serving = Serving(shell, process, printed + (await process.stdout.readline()).decode())
    yield serving
    await serving.stop()


async def test_a_server_says_how_to_reach_it_and_stops_within_seconds(serving: Serving):
    """The page, the key and what `demo` is are printed; Ctrl-C ends it with exit code 0 while a stream is open."""
    assert f"{serving.url}/widget-demo" in serving.printed
    assert "a demonstration" in serving.printed
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers) as client:
        session = (await client.post("/v1/sessions", json={"agent": "assistant"})).json()
        async with client.stream("GET", f"/v1/sessions/{session['id']}/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "id: 1"
            assert await serving.stop() == 0
            assert [line async for line in lines if line.startswith("id")] == ["id: 2"]
    assert not (serving.shell.data / "server.json").exists()


async def test_commands_talk_to_the_running_server(serving: Serving):
    """Agents, runs and sessions are listed, shown, followed and stopped by thin commands."""
    shell = serving.shell
    headers = {"Authorization": f"Bearer {serving.key}"}
    async with httpx.AsyncClient(base_url=serving.url, headers=headers) as client:
        run = (await client.post("/v1/agents/assistant/runs", json={"input": "Hello"})).json()
    assert "assistant" in (await shell.run("agents", "list"))[1]
    assert run["id"] in (await shell.run("runs", "list"))[1]
    assert json.loads((await shell.run("runs", "show", run["id"]))[1])["status"] == "completed"
    tail = (await shell.run("runs", "tail", run["id"]))[1].splitlines()
    assert "message.received" in tail[0]
    assert "run.completed" in tail[-1]
    assert "completed" in (await shell.run("runs", "cancel", run["id"]))[1]
    assert run["session"] in (await shell.run("sessions", "list"))[1]
    assert "user: Hello" in (await shell.run("sessions", "show", run["session"]))[1]
    assert "run_none" in await shell.refused("runs", "show", "run_none")


async def test_agents_are_applied_from_files(serving: Serving, tmp_path):
    """A file makes an agent and, changed, its next version; an agent of the server's own folder is refused."""
    file = tmp_path / "scout.yaml"
    file.write_text("name: scout\ninstructions: Look.\n")
    assert "scout  v1" in (await serving.shell.run("agents", "apply", str(file)))[1]
    file.write_text("name: scout\ninstructions: Look twice.\n")
    assert "scout  v2" in (await serving.shell.run("agents", "apply", str(tmp_path)))[1]
    assert "comes from a file" in await serving.shell.refused("agents", "apply", str(ROOT / "agents"))
    assert "no such file" in await serving.shell.refused("agents", "apply", str(tmp_path / "none.yaml"))


async def test_a_folder_has_one_server(serving: Serving):
    """A second server on the same folder ends with one line; a migration that is done already does no harm."""
    assert "PARLEY_DATA" in await serving.shell.refused("serve")
    assert (await serving.shell.run("migrate"))[0] == 0


async def test_without_a_server_commands_name_the_database(shell: Shell):
    """Nobody there: one line that names DATABASE_URL, also when a server died and left its file."""
    assert "DATABASE_URL" in await shell.refused("runs", "list")
    shell.data.mkdir()
    (shell.data / "secret.key").write_text("s" * 32)
    (shell.data / "server.json").write_text('{"url": "http://127.0.0.1:9", "pid": 1}')
    assert "DATABASE_URL" in await shell.refused("sessions", "list")


async def test_a_start_that_cannot_work_ends_in_one_line(shell: Shell, tmp_path):
    """No database yet, no database at all, a wrong setting: the setting and the remedy, no trace."""
    assert "parley migrate" in await shell.refused("serve")
    (tmp_path / "odd.db").write_text("this is no database" * 100)
    assert "odd.db" in await shell.refused("serve", DATABASE_URL="sqlite:///odd.db")
    assert "odd.db" in await shell.refused("migrate", DATABASE_URL="sqlite:///odd.db")
    assert "PARLEY_MODEL" in await shell.refused("serve", PARLEY_MODEL="acme:m")
    (tmp_path / "empty.db").touch()
    assert "revision none" in await shell.refused("serve", DATABASE_URL="sqlite:///empty.db")

"""The product as processes: commands in a folder of their own, and a server."""

import asyncio
import os
import re
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.settings import Settings
from tests import forked
from tests.polling import PATIENCE

Process = asyncio.subprocess.Process | forked.Awaited
ROOT = Path(__file__).parents[2]


class Shell:
    """Commands in a folder of their own, with a bare environment; *module* is the one that is run as `parley`."""

    def __init__(self, folder: Path, *, module: str = "app") -> None:
        self.folder, self.data, self._module = folder, folder / "data", module
        names = {str(field.validation_alias) for field in Settings.model_fields.values()}
        self._env = {name: value for name, value in os.environ.items() if name not in names}
        self._env |= {"PORT": "0", "PARLEY_AGENTS": str(ROOT / "agents"), "PYTHONPATH": str(ROOT)}
        self._env["PARLEY_DEMO_RATE"] = "0"

    def migrated(self, template: Path) -> "Shell":
        """Have the migrated database file *template* as the data of all commands."""
        self.data.mkdir(mode=0o700, exist_ok=True)
        Path(shutil.copy(template, self.data / "parley.db")).chmod(0o600)
        return self

    async def start(self, *words: str, typed: str = "", **env: str) -> Process:
        """Start a command whose input is *typed*."""
        env = {**self._env, **env}
        return await forked.start(self._module, *words, cwd=self.folder, env=env, typed=typed.encode())

    async def start_on(self, terminal: int, *words: str, **env: str) -> Process:
        """Start a command whose input and output are *terminal*, a descriptor."""
        return await forked.start_on(terminal, self._module, *words, cwd=self.folder, env={**self._env, **env})

    async def run(self, *words: str, typed: str = "", **env: str) -> tuple[int | None, str, str]:
        """Return exit code, output and errors of a command."""
        process = await self.start(*words, typed=typed, **env)
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        return process.returncode, out.decode(), err.decode()

    async def said(self, *words: str) -> str:
        """Return what a command printed that worked."""
        code, out, err = await self.run(*words)
        assert (code, err) == (0, "")
        return out

    async def refused(self, *words: str, **env: str) -> str:
        """Return the one line with which a command ends that cannot work."""
        code, _, err = await self.run(*words, **env)
        assert code == 1
        assert err.startswith("parley: ")
        assert err.count("\n") == 1
        return err


class PlainShell(Shell):
    """The same, each command by `python -m`: a process that begins with nothing and imports for itself."""

    async def start(self, *words: str, typed: str = "", **env: str) -> Process:
        command = (sys.executable, "-m", self._module, *words)
        return await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env={**self._env, **env}, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )


class Serving:
    """A server of its own process, and what it printed."""

    def __init__(self, shell: Shell, process: Process, printed: str) -> None:
        self.shell, self.process, self.printed = shell, process, printed
        self._rest = ""
        self.url = re.findall(r"http://[\d.:]+", printed)[0]
        self.key = re.findall(r"parley_\S+", printed)[0]

    async def stop(self) -> int | None:
        await self.rest()
        return self.process.returncode

    async def rest(self) -> str:
        """Stop, and return what was printed since, errors too."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
            out, err = await asyncio.wait_for(self.process.communicate(), PATIENCE)
            self._rest = (out + err).decode()
        return self._rest


@asynccontextmanager
async def start(shell: Shell, **env: str) -> AsyncIterator[Serving]:
    """Give a server with settings *env* on the database of the shell, or on the migrated one that they name."""
    process = await shell.start("serve", **env)
    try:
        assert process.stdout
        async with asyncio.timeout(PATIENCE):
            printed = (await process.stdout.readuntil(b"Model:")).decode()
            serving = Serving(shell, process, printed + (await process.stdout.readline()).decode())
        yield serving
        await serving.stop()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()

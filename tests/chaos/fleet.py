"""The processes of a storm: each may be killed, paused, terminated, and started again under its name."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.e2e.server import KEY, ROOT, SECRET, environment, free_port
from tests.forked import Awaited, start_logging

Kind = Literal["serve", "web", "worker"]
ENDS_WITHIN = 40.0
MODEL = "anthropic:claude-sonnet-5-5"
AGENT = """
name: assistant
model: null
instructions: Do what the question says.
tools: [look, note, pay]
limits: {max_context_messages: 40}
"""


@dataclass(frozen=True, slots=True)
class Home:
    """Where processes live: their folder, the database and the model server that they use."""

    folder: Path
    database: str
    models: str
    agent: str = AGENT
    key: str = KEY
    more: dict[str, str] = field(default_factory=dict[str, str])
    """Settings besides."""

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def settings(self) -> dict[str, str]:
        """Return the settings that all processes have, after making what they name."""
        agents = self.folder / "agents"
        agents.mkdir(parents=True, exist_ok=True)
        (agents / "assistant.yaml").write_text(self.agent, "utf-8")
        return {
            "DATABASE_URL": self.database,
            "PARLEY_API_KEY": self.key,
            "PARLEY_SECRET_KEY": SECRET,
            "PARLEY_AGENTS": str(agents),
            "PARLEY_MODEL": MODEL,
            "ANTHROPIC_API_KEY": "any",
            "ANTHROPIC_BASE_URL": self.models,
            "PYTHONPATH": str(ROOT),
            **self.more,
        }


class Member:
    """One process under a name: it keeps its port, its settings and its log over restarts."""

    def __init__(
        self, name: str, kind: Kind, home: Home, command: list[str] | None = None, more: Mapping[str, str] | None = None
    ) -> None:
        """*command* starts it; without one it is forked and has the tools of the talks. *more* are its own settings."""
        self.name, self.kind = name, kind
        self.port = free_port() if kind != "worker" else 0
        self.log = home.folder / f"{name}.log"
        self._folder = home.folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._command, self._ledger = command, home.ledger
        self._environment = environment(self._folder, PORT=str(self.port), **{**home.settings(), **(more or {})})
        self._process: Process | Awaited | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def drives(self) -> bool:
        """Whether it drives runs."""
        return self.kind != "web"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process; when it is of use, others see."""
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = await self._begin(log.fileno())

    async def _begin(self, log: int) -> Process | Awaited:
        if self._command is None:
            words = (self.kind, str(self._ledger))
            return await start_logging("tests.chaos.process", *words, cwd=self._folder, env=self._environment, log=log)
        return await asyncio.create_subprocess_exec(
            *self._command, cwd=self._folder, env=self._environment, stdin=DEVNULL, stdout=log, stderr=log
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended already."""
        if self.is_running:
            os.kill(self.pid, number)

    async def gone(self, seconds: float = ENDS_WITHIN) -> int:
        """Return the exit code once the process has ended; raises TimeoutError when it does not."""
        assert self._process is not None
        async with asyncio.timeout(seconds):
            return await self._process.wait()

    async def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        await self.gone()

    async def close(self) -> None:
        """End it in peace if it can, at once if it cannot."""
        if not self.is_running:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            await self.gone(10)
        except TimeoutError:
            await self.kill()


class ChaosFleet:
    """All members by name, some with settings of their own."""

    def __init__(self, home: Home, members: Mapping[str, Kind], more: Mapping[str, Mapping[str, str]]) -> None:
        self.home = home
        self.members = [Member(name, kind, home, more=more.get(name)) for name, kind in members.items()]

    @property
    def webs(self) -> list[Member]:
        return [each for each in self.members if each.kind != "worker"]

    @property
    def drivers(self) -> list[Member]:
        return [each for each in self.members if each.drives]

    def logs(self) -> str:
        """Return what all of them wrote."""
        return "\n".join(f"--- {each.name}\n{each.log.read_text('utf-8', 'replace')}" for each in self.members)


@asynccontextmanager
async def running(
    home: Home, members: Mapping[str, Kind], more: Mapping[str, Mapping[str, str]] | None = None
) -> AsyncIterator[ChaosFleet]:
    """Start *members*, *more* are settings of some by name, and end them all."""
    fleet = ChaosFleet(home, members, more or {})
    async with AsyncExitStack() as stack:
        for each in fleet.members:
            await each.start()
            stack.push_async_callback(each.close)
        yield fleet


@asynccontextmanager
async def models(rate: float) -> AsyncIterator[str]:
    """Start the model server, which says *rate* words a second, and give its address."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.chaos.model", str(rate), stdin=pipe, stdout=pipe, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.stdin.close()
        await process.wait()

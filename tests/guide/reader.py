"""A reader who follows the guide: writes its files, runs its commands, and compares what is printed."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.settings import Settings
from tests.e2e.server import free_port
from tests.guide.pages import ROOT, Block
from tests.guide.shims import parley_on_path
from tests.polling import PATIENCE, until

SERVERS = {
    "parley dev": 8000,
    "parley serve": 8000,
    "parley slack simulate": 4020,
    "python web/server.py": 3000,
    "node": 3000,
    "php": 3000,
}
"""Commands that run until Ctrl-C, by how they begin, and the port of the guide that each listens on."""
PORTS = frozenset(SERVERS.values())
STATE = ".shell"
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Terminal:
    """A server of the guide that runs in a terminal of its own; its output goes to *log*."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def stop(self) -> None:
        """Press Ctrl-C, and wait until it has ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@dataclass
class GuideReader:
    """Follows blocks in *folder*; the ports of the guide, and the texts of *own*, are replaced by the test's.

    The command `parley` is what *commands* has.
    """

    folder: Path
    own: Mapping[str, str]
    commands: Path
    ports: dict[int, int] = field(default_factory=lambda: {port: free_port() for port in PORTS})
    terminals: dict[int, Terminal] = field(default_factory=dict)
    printed: str = ""
    log: Path | None = None
    at: Path | None = None

    async def follow(self, block: Block, text: str) -> None:
        """Do what *text*, what is to be done of *block*, says; raises AssertionError naming its place."""
        text = self._replaced(text)
        place = self.at or self.folder
        if block.file is not None:
            target = place / block.file
            assert target.resolve().is_relative_to(self.folder.resolve()), block.at
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        elif block.language == "text":
            await self._compare(text, block.at)
        elif (port := _served(text)) is not None:
            await self._serve(text, port, block.at)
        else:
            self._run(text, block.at)

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.stop()

    def _run(self, text: str, at: str) -> None:
        """Run a block in the shell; what it sets, and the folder that it changes to, hold for the next."""
        state = self.folder / STATE
        script = f"set -eu -o pipefail -a\n. {state}\n{text}\nset +a\n{{ export -p; echo cd \"'$PWD'\"; }} > {state}\n"
        state.touch()
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.printed, self.log = done.stdout + done.stderr, None
        assert done.returncode == 0, f"{at}: {text}\n{self.printed}"
        self.at = Path(state.read_text("utf-8").rpartition("cd '")[2].rstrip("'\n"))

    async def _serve(self, text: str, port: int, at: str) -> None:
        """Run a block in a terminal of its own, in place of what listened on its port; return once it answers."""
        if port in self.terminals:
            self.terminals[port].stop()
        log = self.folder / f"terminal-{port}.log"
        process = self._start(text, log)
        self.terminals[port] = Terminal(process, log)
        own = self.ports[port]
        await until(lambda: process.poll() is not None or _listens(own), timeout=PATIENCE)
        assert process.poll() is None, f"{at}: {text}\n{log.read_text('utf-8', 'replace')}"
        self.log = log

    def _start(self, text: str, log: Path) -> "subprocess.Popen[bytes]":
        script = f"set -a; . {self.folder / STATE}; set +a\nexec {text}"
        with log.open("wb") as output:
            return subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.at or self.folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    async def _compare(self, wanted: str, at: str) -> None:
        """Check that each line of *wanted* was printed, in this order; `…` is anything. A server may take its time."""
        with suppress(TimeoutError):
            await until(lambda: _lacking(wanted, self._output()) is None, timeout=PATIENCE if self.log else 0)
        lacking = _lacking(wanted, self._output())
        assert lacking is None, f"{at}: `{lacking}` is not in\n{self._output()}"

    def _output(self) -> str:
        return self.printed if self.log is None else self.log.read_text("utf-8", "replace")

    def _replaced(self, text: str) -> str:
        for of_the_guide, own in self.own.items():
            text = text.replace(of_the_guide, own)
        for port, own in self.ports.items():
            text = re.sub(rf"(?:(?<=:)|(?<=--port )|(?<=listen\()){port}\b", str(own), text)
        return text

    def _environment(self) -> dict[str, str]:
        settings = {str(each.validation_alias) for each in Settings.model_fields.values()}
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        path = os.pathsep.join((str(self.commands), str(Path(sys.executable).parent), kept.get("PATH", "")))
        ports = {"PORT": str(self.ports[8000]), "SITE_PORT": str(self.ports[3000])}
        return {**kept, **ports, "PATH": path, "PYTHONPATH": str(ROOT), "PARLEY_DEMO_RATE": "0"}


@contextmanager
def reader_in(folder: Path, own: Mapping[str, str]) -> Iterator[GuideReader]:
    """Give a reader in *folder* whose terminals are closed at the end of the block."""
    with parley_on_path() as commands:
        reader = GuideReader(folder, own, commands)
        try:
            yield reader
        finally:
            reader.close()


def _served(text: str) -> int | None:
    """Return the port of the guide that *text*, a command, listens on until Ctrl-C; None for other commands."""
    return next((port for command, port in SERVERS.items() if text.startswith(command)), None)


def _lacking(wanted: str, printed: str) -> str | None:
    """Return the first line of *wanted* that does not come in *printed* after the lines before it."""
    for line in filter(str.strip, wanted.splitlines()):
        found = re.search(".*".join(re.escape(part) for part in line.strip().split("…")), printed)
        if found is None:
            return line
        printed = printed[found.end() :]
    return None


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex(("127.0.0.1", port)) == 0

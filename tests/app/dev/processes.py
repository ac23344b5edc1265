"""A project made by `parley init`, and its processes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import IO, Any

import httpx

from app.project.create import create
from app.settings import Settings
from tests.forked import Talking
from tests.polling import PATIENCE
from tests.postgres import ROOT


def made(parent: Path, *, sample: bool = True) -> Path:
    """Make a project called `shop` in *parent* and return its folder."""
    create("shop", sample=sample, parent=parent, version="0.1.0")
    return parent / "shop"


def environment(**more: str) -> dict[str, str]:
    """Return the environment without the settings of this machine, for a process in a project."""
    names = {str(field.validation_alias) for field in Settings.model_fields.values()}
    kept = {name: value for name, value in os.environ.items() if name not in names and name != "SHOP_DATABASE"}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


class Printing:
    """The lines that a running process prints."""

    def __init__(self, output: IO[str]) -> None:
        self._output = output
        self._lines: Queue[str] = Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._output:
            for line in self._output:
                self._lines.put(line.rstrip("\n"))

    def join(self) -> bool:
        """Wait for the end of the output, which only its reader closes; return whether it has ended."""
        self._reader.join(PATIENCE)
        return not self._reader.is_alive()

    def until(self, text: str) -> list[str]:
        """Return the lines up to the next one that holds *text*."""
        found: list[str] = []
        while not found or text not in found[-1]:
            try:
                found.append(self._lines.get(timeout=PATIENCE))
            except Empty:
                raise AssertionError(f"`{text}` was not printed, only {found}") from None
        return found


@contextmanager
def process(folder: Path, *words: str, **env: str) -> Iterator[Printing]:
    """Give `python` *words* at work in *folder*; end it at the end."""
    command = [sys.executable, *words]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as started:
        assert started.stdout is not None
        printing = Printing(started.stdout)
        try:
            yield printing
        finally:
            started.terminate()
            if not printing.join():
                started.kill()


class DevServer:
    """`parley dev` in the project *folder*."""

    def __init__(self, folder: Path, printing: Printing) -> None:
        self.folder, self.printing = folder, printing
        lines = printing.until("Model:")
        self.printed = "\n".join(lines)
        self.url = re.findall(r"http://[\d.:]+", self.printed)[0]
        key = re.findall(r"(?m)^PARLEY_API_KEY=(\S+)$", (folder / ".env").read_text("utf-8"))[0]
        self.client = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE)

    def run(self, text: str, **more: Any) -> dict[str, Any]:
        """Return the run in which the assistant answers *text* for the customer C-1."""
        body = {"input": text, "controls": {"tool_context": {"customer": "C-1"}}, **more}
        answer = self.client.post("/v1/agents/assistant/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def problems(self) -> list[str]:
        """Return what the demo page shows as broken."""
        return httpx.get(f"{self.url}/widget-demo/status", timeout=PATIENCE).json()["problems"]


@contextmanager
def dev_server(folder: Path, **env: str) -> Iterator[DevServer]:
    """Give a server of `parley dev` at work in *folder*."""
    env = environment(PORT="0", PARLEY_DEMO_RATE="0", **env)
    started = Talking("app", "dev", cwd=folder, env=env)
    printing = Printing(started.stdout)
    try:
        server = DevServer(folder, printing)
        with server.client:
            yield server
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(PATIENCE)
        printing.join()

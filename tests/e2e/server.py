"""The real server: `parley serve` as a process of its own, which a test may kill, interrupt and start again."""

import os
import re
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.forked import Talking
from tests.polling import PATIENCE

ROOT = Path(__file__).parents[2]
KEY = "an-operators-key-that-no-log-has"
SECRET = "the-secret-from-which-all-other-keys-derive"
# Seconds: less than its grace of 25, which it must not wait for.
ENDS_WITHIN = 20.0
# A worker of many hands over what it drives, and has its database and its engine let go. It has no grace here.
LEAVES_WITHIN = 60.0
# Below the ports that systems give to those who ask for any: none of these is taken before its server starts.
PORTS = range(10_240, 32_000)
OF_A_WORKER = 2_000
READY = "Model:"
_BURY = """
WITH dead AS (DELETE FROM worker WHERE pid = %s RETURNING id)
UPDATE run SET owner = 'wrk_killed' WHERE owner IN (SELECT id FROM dead)
"""


class Server:
    """`parley serve`, or *words*, on a folder and a port of its own; they stay the same over restarts."""

    def __init__(self, home: Path, *, rate: float = 200, words: tuple[str, ...] = ("serve",), **settings: str) -> None:
        self.home, self.port, self._words = home, free_port(), words
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = home / "data"
        self.environment = environment(
            home, PORT=str(self.port), PARLEY_DEMO_RATE=str(rate), PARLEY_SECRET_KEY=SECRET, **settings
        )
        self._process: Talking | None = None
        self._output: list[str] = []
        self._reader: threading.Thread | None = None
        self._news = threading.Condition()
        self._ended = False
        self._greeted = 0

    def start(self) -> None:
        """Start, and return once the server says that it is up."""
        assert self._process is None, "it runs already"
        shown = len(self._output)
        self._ended = False
        self._process = Talking("app", *self._words, cwd=self.home, env=self.environment)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        with self._news:
            self._news.wait_for(lambda: self._ended or self._says(READY, shown), timeout=PATIENCE)
        assert self._says(READY, shown), f"it did not start: {self.output}"
        self._greeted = next(n for n, line in enumerate(self._output) if n >= shown and line.startswith(READY)) + 1

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL, and nothing is tidied up.

        On Postgres the others then need not wait until it counts as dead: that has tests of its own. Its runs get an
        owner that does not exist: Postgres may still execute a heartbeat that the process sent before it died.
        """
        assert self._process is not None
        pid = self._process.pid
        self._end()
        if (url := self.environment.get("DATABASE_URL")) is not None:
            with psycopg.connect(url) as connection:
                connection.execute(_BURY, (pid,))

    def interrupt(self, number: signal.Signals = signal.SIGINT, *, within: float | None = None) -> int:
        """Send Ctrl-C and return the exit code; raises TimeoutError after *within* seconds.

        Those are fewer than its grace by default.
        """
        self.signal(number)
        usual = LEAVES_WITHIN if "DATABASE_URL" in self.environment else ENDS_WITHIN
        return self.wait(usual if within is None else within)

    def restart(self) -> None:
        """Kill it and start it again on the same folder and port."""
        self.kill()
        self.start()

    def hurry(self, rate: float = 0) -> None:
        """From the next start on let the demonstration model write so many words a second, or flat out."""
        self.environment["PARLEY_DEMO_RATE"] = str(rate)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Return the exit code of the process, once it has ended and all that it said was read."""
        assert self._process is not None
        assert self._reader is not None
        code = self._process.wait(seconds)
        self._reader.join(PATIENCE)
        self._process.stdout.close()
        self._process = None
        return code

    def close(self) -> None:
        """End it, whatever state it is in."""
        if self._process is not None:
            self._end()

    @property
    def output(self) -> str:
        """Everything that it ever printed."""
        return "".join(self._output)

    @property
    def afterwards(self) -> str:
        """What it printed since it last said that it is up; but for its leave, which on Postgres is always told."""
        return "".join(line for line in self._output[self._greeted :] if " worker.left " not in line)

    @property
    def memory(self) -> int:
        """The bytes of memory that the process holds."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def client(self, key: str | None = KEY, **options) -> httpx.AsyncClient:
        """Return a client that sends *key*, an operator's by default."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        defaults: dict[str, Any] = {"timeout": PATIENCE, "trust_env": False, "headers": headers}
        return httpx.AsyncClient(base_url=self.url, **{**defaults, **options})

    def check(self) -> None:
        """Hold what it printed against the rules: no traceback, no secret."""
        assert "Traceback" not in self.output, self.output
        for secret in (KEY, SECRET):
            assert secret not in self.output
        assert not re.search(r"eyJ[\w-]{10,}\.[\w-]+\.", self.output), "a token was printed"

    def _end(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait(PATIENCE)

    def _says(self, start: str, shown: int) -> bool:
        return any(line.startswith(start) for line in self._output[shown:])

    def _read(self, process: Talking) -> None:
        for line in process.stdout:
            with self._news:
                self._output.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


@contextmanager
def serving(home: Path, **settings) -> Iterator[Server]:
    """Give a server that runs in *home*; end it, and hold what it printed against the rules."""
    server = Server(home, **settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check()


def on_postgres(url: str) -> dict[str, str]:
    """Return the settings of a server on the Postgres at *url*, which hands on at its end what it drives."""
    return {"DATABASE_URL": url, "PARLEY_GRACE": "0"}


def prepare(home: Path, template: Path) -> Path:
    """Make *home* a place to serve from: a migrated database, and the agents that ship."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "data").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(template, home / "data" / "parley.db")
    (home / "data" / "parley.db").chmod(0o600)
    shutil.copytree(ROOT / "agents", home / "agents", dirs_exist_ok=True)
    return home


def environment(home: Path, **settings: str) -> dict[str, str]:
    """Return an environment with nothing of ours but *settings*, all that is kept below *home*."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    defaults = {"PARLEY_DATA": str(home / "data"), "PARLEY_API_KEY": KEY, "PYTHONUNBUFFERED": "1"}
    return {**kept, **defaults, **settings}


def parley(*arguments: str) -> list[str]:
    """Return the command line of `parley`."""
    return [str(Path(sys.executable).with_name("parley")), *arguments]


def free_port() -> int:
    """Return a free port that no other test of this run gets: each worker has some of its own, and begins anywhere."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % (len(PORTS) // OF_A_WORKER)
    for n in _numbers():
        port = PORTS[worker * OF_A_WORKER + n % OF_A_WORKER]
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError


@cache
def _numbers() -> Iterator[int]:
    return count(os.getpid())

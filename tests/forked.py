"""Processes of the product that are forked from one that has imported it: a start costs a tenth of what it does alone.

Each runs a module as `python -m` does, in a process of its own that a test may signal and kill. What a start imports,
and that the installed command works, is for the tests that start the command itself.
"""

import asyncio
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamReaderProtocol
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from multiprocessing import connection, reduction
from multiprocessing.context import ForkServerContext
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, Literal, TextIO

IMPORTED = (
    "app.main",
    "app.cli.commands",
    "app.cli.chat.command",
    "app.cli.chat.live",
    "app.cli.remote",
    "app.doctor",
    "app.storage",
    "asyncpg",
    "dbos",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "channels.slack.serving",
    "anthropic",
    "openai",
    "jsonschema",
    "re2",
)
"""What the first process imports: all that commands, servers and workers do. It starts no thread."""


class Forked:
    """A running process: `python -m` *module* *words* in *cwd*, with *env* and three standard streams *fds*."""

    def __init__(
        self, module: str, words: tuple[str, ...], cwd: Path, env: Mapping[str, str], fds: tuple[int, int, int]
    ) -> None:
        arguments = (module, words, str(cwd), dict(env), *map(_Inherited, fds))
        self._process = _forking().Process(target=_become, args=arguments, daemon=True)
        with _one_at_a_time():
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, a signal's as a negative number, or None while the process runs."""
        with _one_at_a_time():
            return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """A descriptor that is readable once the process has ended."""
        return self._process.sentinel

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended already."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended already."""
        self.send_signal(signal.SIGKILL)

    def wait(self, seconds: float) -> int:
        """Return the exit code once the process has ended; raises TimeoutError after *seconds*."""
        connection.wait([self.sentinel], seconds)
        code = self.returncode
        if code is None:
            raise TimeoutError(f"The process {self.pid} has not ended within {seconds:g} seconds.")
        return code


class Talking(Forked):
    """A running process whose output, errors too, is text in one stream."""

    def __init__(self, module: str, *words: str, cwd: Path, env: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        self.stdout: TextIO = os.fdopen(reading, encoding="utf-8")
        with Path(os.devnull).open("rb") as nothing, os.fdopen(writing, "wb"):
            super().__init__(module, words, cwd, env, (nothing.fileno(), writing, writing))


class Awaited:
    """A running process as asyncio has them: what it prints is read and its end awaited in the loop."""

    def __init__(self, forked: Forked, stdout: StreamReader | None, stderr: StreamReader | None) -> None:
        self._forked, self.stdout, self.stderr = forked, stdout, stderr
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(forked.sentinel, self._end)

    @property
    def pid(self) -> int:
        return self._forked.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, a signal's as a negative number, or None while the process runs."""
        return self._forked.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended already."""
        self._forked.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended already."""
        self._forked.kill()

    async def wait(self) -> int:
        """Return the exit code once the process has ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return what is still to be read of both streams, once the process has ended."""
        assert self.stdout is not None
        assert self.stderr is not None
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err

    def _end(self) -> None:
        self._loop.remove_reader(self._forked.sentinel)
        self._ended.set()


async def start(module: str, *words: str, cwd: Path, env: Mapping[str, str], typed: bytes = b"") -> Awaited:
    """Start *module* with *words*, and *typed* as all of its input."""
    with TemporaryFile() as keyboard, ExitStack() as ours:
        keyboard.write(typed)
        keyboard.seek(0)
        (stdout, out), (stderr, err) = [await _pipe(ours) for _ in range(2)]
        fds = (keyboard.fileno(), out, err)
        # Not in the loop: the first of all waits until everything is imported.
        return Awaited(await asyncio.to_thread(Forked, module, words, cwd, env, fds), stdout, stderr)


async def start_logging(module: str, *words: str, cwd: Path, env: Mapping[str, str], log: int) -> Awaited:
    """Start *module* with *words*; what it prints goes to the open file *log*."""
    with TemporaryFile() as nothing:
        fds = (nothing.fileno(), log, log)
        return Awaited(await asyncio.to_thread(Forked, module, words, cwd, env, fds), None, None)


async def start_on(terminal: int, module: str, *words: str, cwd: Path, env: Mapping[str, str]) -> Awaited:
    """Start *module* with *words*; *terminal*, an open descriptor, is its three streams."""
    fds = (terminal, terminal, terminal)
    return Awaited(await asyncio.to_thread(Forked, module, words, cwd, env, fds), None, None)


def run(
    module: str, *words: str, cwd: Path, env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run *module* with *words* to its end, without input, and return what it printed.

    Raises TimeoutError after *timeout* seconds.
    """
    with Path(os.devnull).open("rb") as nothing, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        process = Forked(module, words, cwd, env, (nothing.fileno(), out.fileno(), err.fileno()))
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


async def _pipe(ours: ExitStack) -> tuple[StreamReader, int]:
    """Make a pipe; return its reader and the end to write to, which *ours* closes here."""
    reading, writing = os.pipe()
    ours.callback(os.close, writing)
    reader = StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
    return reader, writing


class _Inherited:
    """A descriptor of which a forked process gets a copy."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Callable[..., int], tuple[object]]:
        return _detached, (reduction.DupFd(self._fd),)


def _detached(copied: Any) -> int:
    return copied.detach()


@cache
def _one_at_a_time() -> Lock:
    """Return what guards starts and looks at exit codes: each start reads those of all, which can be read once."""
    return Lock()


@cache
def _forking() -> ForkServerContext:
    """Return what forks: a process of its own, which imports once and ends with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _text(fd: int, mode: Literal["r", "w"]) -> TextIO:
    """Return a standard stream, which is open as long as the process is there."""
    return open(fd, mode, buffering=1, encoding="utf-8", closefd=False)


def _become(module: str, words: tuple[str, ...], cwd: str, env: dict[str, str], *fds: int) -> None:
    """Run *module* in this process as `python -m` does; the rest of what it inherited is replaced."""
    for standard, fd in enumerate(fds):
        os.dup2(fd, standard)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)

"""One confined process as its parent sees it: starts it, has it work, measures and kills it."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent_core.clock import Clock
from agent_core.confined.child import HEAD, LENGTH, MAX_ANSWER

_CHILD = Path(__file__).with_name("child.py")
_START_SECONDS = 60.0
"""A start takes half a second; a machine that is busy with others is given more."""
_KEPT_NAMES = ("LD_LIBRARY_PATH",)
"""What Python itself may need of the parent's environment; all else stays out of it, keys first."""
_LOOK_SECONDS = 0.05
_MEGABYTE = 1 << 20


class ProcessLost(Exception):
    """The process has ended, or what it says is no answer."""


class ProcessUnavailable(Exception):
    """No process can start; the message goes on after what the process is called."""


class TooMuch(Exception):
    """The job takes too much; the message says of what."""


class ConfinedProcess:
    """A child that does one job at a time; `taken` counts them.

    It hangs on a pair of sockets and on no transport of an event loop, so that it outlives none by accident and a fork
    of this process can let go of it.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", pipe: socket.socket) -> None:
        self._process, self._pipe, self.taken = process, pipe, 0

    @classmethod
    async def start(cls, worker: Path, megabytes: int, *arguments: str) -> "ConfinedProcess":
        """Return a process that is ready for the work of *worker*, see `child`, and may allocate *megabytes*.

        Raises ProcessUnavailable.
        """
        try:
            started = cls(*_spawn(worker, megabytes, arguments))
        except OSError as error:
            raise ProcessUnavailable(f"cannot start ({error.strerror}).") from None
        ready, message = False, b""
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready, message = await started._receive()
        except (TimeoutError, ProcessLost):
            raise ProcessUnavailable("does not start; is there enough memory, and is all installed?") from None
        finally:
            if not ready:
                await started.kill()
        if not ready:
            raise ProcessUnavailable(f"does not start: {message.decode(errors='replace')[:200]}")
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def work(self, message: bytes, clock: Clock, *, seconds: float, resident: int) -> tuple[bool, bytes]:
        """Return whether the job in *message* is done, and its result or the error.

        Raises ProcessLost, and TooMuch after *seconds* or beyond *resident* megabytes; then it is to be killed.
        """
        loop = asyncio.get_running_loop()
        answer = loop.create_task(self._answer(message))
        excess = loop.create_task(self._excess(clock, seconds, resident))
        try:
            await asyncio.wait((answer, excess), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise TooMuch(excess.result())
            return answer.result()
        finally:
            answer.cancel()
            excess.cancel()
            await asyncio.wait((answer, excess))

    async def _excess(self, clock: Clock, seconds: float, resident: int) -> str:
        """Return, as soon as the job takes too much, of what."""
        until = clock.now() + seconds * 1000
        while (left := until - clock.now()) > 0:
            await clock.sleep(min(_LOOK_SECONDS, left / 1000))
            if self.resident() > resident * _MEGABYTE:
                return f"more than {resident} MB of memory"
        return f"more than {seconds:g} s"

    async def _answer(self, message: bytes) -> tuple[bool, bytes]:
        self.taken += 1
        try:
            await asyncio.get_running_loop().sock_sendall(self._pipe, LENGTH.pack(len(message)) + message)
        except OSError:
            raise ProcessLost from None
        return await self._receive()

    def resident(self) -> int:
        """Return the bytes of memory that it holds now; 0 where that cannot be read."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    async def kill(self) -> None:
        """End it and wait until it has ended."""
        self._pipe.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await asyncio.to_thread(self._process.wait)

    def abandon(self, *, inherited: bool) -> None:
        """Let go of it outside its event loop; end it, unless it is *inherited* and so another process's child."""
        self._pipe.close()
        if not inherited and self.alive:
            self._process.kill()
            self._process.wait()

    async def _receive(self) -> tuple[bool, bytes]:
        ok, size = HEAD.unpack(await self._exactly(HEAD.size))
        if size > MAX_ANSWER:
            raise ProcessLost
        return ok, await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        data, read, loop = bytearray(size), 0, asyncio.get_running_loop()
        while read < size:
            try:
                more = await loop.sock_recv_into(self._pipe, memoryview(data)[read:])
            except OSError:
                more = 0
            if not more:
                raise ProcessLost
            read += more
        return bytes(data)


def _spawn(worker: Path, megabytes: int, arguments: Sequence[str]) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    environment = {name: os.environ[name] for name in _KEPT_NAMES if name in os.environ} | {"TZ": "UTC"}
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own files
                [sys.executable, "-I", str(_CHILD), str(os.getpid()), str(megabytes), str(worker), *arguments],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal is the parent's, which ends this one in its own time
            )
        except OSError:
            ours.close()
            raise
    return process, ours

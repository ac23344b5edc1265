"""A confined process: does one kind of work, without files, sockets and the parent's environment.

No descriptor can be opened once it is ready, on any system; but a worker may name folders of which it reads files on
Linux, where the kernel refuses it all others, see `reading`. On Linux on x86-64 and ARM64, where the kernel takes a
filter of system calls, it cannot reach the parent's memory either, or send signals, run programs and change files by
name, see `closing`. Elsewhere the rights of the server's user are all that hinders it.

It is run by its path, as `python -I child.py PARENT MEGABYTES WORKER [ARGUMENT …]`, so that it imports nothing of
Parley but the file WORKER. That has a function `prepared(*arguments)`, which returns what does a job: bytes in, and
whether it is done and its result or the error out. A function `imported()` beside it imports what begins no threads and
returns the folders to read; `prepared` is then given those that may be read, as `readable`.

What comes in on standard input is a length of four bytes and a job; what goes out on standard output is one byte
(1: done, 0: the job's fault), a length of four bytes and the result or the error. The first answer, to no job, says
that it is ready. End of input ends it.
"""

import os
import resource
import runpy
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HEAD = struct.Struct("!?I")
LENGTH = struct.Struct("!I")
MAX_ANSWER = 16_000_000
_PR_SET_PDEATHSIG = 1
Work = Callable[[bytes], tuple[bool, bytes]]


def main() -> None:
    """Bound this process, then work until the input ends."""
    parent, megabytes = int(sys.argv[1]), int(sys.argv[2])
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    die_with(parent)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    close, reading = beside("closing.py")["close"], beside("reading.py")
    try:
        work, reads = prepared(sys.argv[3], *sys.argv[4:], only=reading["only"])
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
        send(out, ok=False, body=str(error).encode())
        return
    # From here on no socket can be made, and no file opened but in the folders that may be read: without the filter
    # none at all. All else that the work needs is in memory.
    limit = reading["OPEN_FILES"] if reads else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if not close():
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    send(out, ok=True, body=b"")
    while len(head := sys.stdin.buffer.read(LENGTH.size)) == LENGTH.size:
        send(out, *work(sys.stdin.buffer.read(LENGTH.unpack(head)[0])))


def die_with(parent: int) -> None:
    """Have the kernel end this process when *parent* ends, where the kernel can."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - the parent reads this module too, for the frames

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        sys.exit()


def prepared(path: str, *arguments: str, only: Callable[[Sequence[str]], tuple[str, ...]]) -> tuple[Work, bool]:
    """Return what does a job, the worker in the file at *path*, ready for work, and whether it still reads files."""
    worker = runpy.run_path(path)
    if "imported" not in worker:
        return worker["prepared"](*arguments), False
    readable = only(worker["imported"]())
    return worker["prepared"](*arguments, readable=readable), bool(readable)


def beside(name: str) -> dict[str, Any]:
    """Return what the file *name* beside this one defines."""
    return runpy.run_path(str(Path(__file__).with_name(name)))


def send(out: int, ok: bool, body: bytes) -> None:  # noqa: FBT001 - one frame, field by field
    """Write one answer."""
    data = memoryview(HEAD.pack(ok, len(body)) + body)
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main()

"""What a confined process may not ask of the kernel."""

import json
import platform
import sys
from pathlib import Path

import pytest

from agent_core.clock import SystemClock
from agent_core.confined.closing import NUMBERS
from agent_core.confined.process import ConfinedProcess

pytestmark = pytest.mark.processes

WORKER = """
import ctypes, errno, json, os, resource, signal, threading

libc = ctypes.CDLL(None, use_errno=True)


class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def stolen(address):
    kept = ctypes.create_string_buffer(6)
    mine, theirs = Vec(ctypes.addressof(kept), 6), Vec(address, 6)
    if libc.process_vm_readv(os.getppid(), ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "")
    return kept.raw.decode()


def name_of(work):
    try:
        return repr(work())
    except OSError as error:
        return errno.errorcode[error.errno]
    except ValueError:  # so `resource` says that a limit may not be set
        return "EPERM"


def prepared(path):
    # A thread of the preparation, as renderers have them, is filtered too.
    ask, asked, found = threading.Event(), threading.Event(), []

    def waiting():
        ask.wait()
        found.append(name_of(lambda: os.kill(os.getppid(), 0)))
        asked.set()

    threading.Thread(target=waiting, daemon=True).start()

    def work(job):
        ask.set()
        asked.wait()
        late = threading.Thread(target=lambda: found.append("late"))
        late.start()
        late.join()
        return True, json.dumps({
            "memory": name_of(lambda: stolen(int(job))),
            "signal": name_of(lambda: os.kill(os.getppid(), 0)),
            "program": name_of(lambda: os.execv("/bin/true", ["true"])),
            "process": name_of(os.fork),
            "file": name_of(lambda: os.unlink(path)),
            "limit": name_of(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))),
            "threads": found,
            "limits are read": resource.getrlimit(resource.RLIMIT_NOFILE),
        }).encode()

    return work
"""


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() not in NUMBERS, reason="the filter is for Linux")
async def test_the_parent_is_out_of_reach(tmp_path: Path):
    """No thread of it reads the parent's memory, sends signals, changes a file or a limit; threads still start."""
    import ctypes  # noqa: PLC0415

    secret, kept, worker = ctypes.create_string_buffer(b"secret"), tmp_path / "kept", tmp_path / "worker.py"
    kept.touch()
    worker.write_text(WORKER)
    process = await ConfinedProcess.start(worker, 500, str(kept))
    try:
        job = str(ctypes.addressof(secret)).encode()
        ok, said = await process.work(job, SystemClock(), seconds=20, resident=400)
    finally:
        await process.kill()
    refused = dict.fromkeys(("memory", "signal", "program", "process", "file", "limit"), "EPERM")
    assert ok
    assert json.loads(said) == {**refused, "threads": ["EPERM", "late"], "limits are read": [0, 0]}
    assert kept.exists()

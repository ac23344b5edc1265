"""A jq program in a process of its own: it loops, reads files and ends its process, so it gets no other.

It is written by operators only. The process has an empty environment and folder, can open no file once it has read its
job, and is killed with its group when it takes too long.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_core.tools.mapping.jq_child import FAILED, TOO_MUCH
from agent_core.tools.thread import in_thread

_CHILD = Path(__file__).with_name("jq_child.py")
SECONDS = 3.0
"""How long a program may take."""
_MEGABYTES = 256
_START_SECONDS = 5.0
"""Beyond the program's own time: a start takes a tenth of a second, on a busy machine more."""
_KEPT_NAMES = ("LD_LIBRARY_PATH",)
"""What Python itself may need of this process's environment."""
_REFUSED = re.compile(
    r"(?<![.\w$])(import|include|env|input_filename|get_search_list|modulemeta|halt|halt_error|input|inputs|debug|stderr)"
    r"\b(?!\s*:)|\$(ENV|__prog_args)\b"
)
_PLAIN_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


class JqFailed(Exception):
    """A program that failed, or took more than it may; the message says which."""


def check(program: str) -> None:
    """Raise ValueError for a program that is empty, or asks for files, the environment or the process."""
    if not program.strip():
        raise ValueError("there is no program after `jq:`.")
    # Words in texts mean nothing, but a text may hold code, and a comment half a text: then all is looked at.
    code = program if "\\(" in program or "#" in program else _PLAIN_TEXT.sub('""', program)
    if match := _REFUSED.search(code):
        raise ValueError(f"`{match[0]}` is not available to a jq program here; it gets the tool's result and no more.")


async def run(program: str, text: str | None, seconds: float = SECONDS) -> str:
    """Return the values that *program* makes of the JSON *text*, each a line; a string is as it is. Raise JqFailed.

    Without *text* the program is compiled alone.
    """
    # A thread that stays: the process ends with the one that started it.
    spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, seconds))
    job = json.dumps({"program": program, "text": text}).encode()
    try:
        process = await asyncio.shield(spawning)
    except asyncio.CancelledError:
        spawning.add_done_callback(_end)
        raise
    try:
        ended: Any = await in_thread(lambda: process.communicate(job, timeout=seconds + _START_SECONDS))
    except subprocess.TimeoutExpired:
        raise JqFailed(_slow(seconds)) from None
    finally:
        _kill(process)
    return _read(process.returncode, ended[0], ended[1], seconds)


def _read(code: int, out: bytes, err: bytes, seconds: float) -> str:
    match code:
        case 0:
            return out.decode("utf-8", "replace")
        case _ if code in (-signal.SIGXCPU, -signal.SIGALRM):
            raise JqFailed(_slow(seconds))
        case _ if code == TOO_MUCH:
            raise JqFailed("The jq program makes more than it may; take less of the result.")
        case _ if code == FAILED:
            raise JqFailed(f"The jq program failed: {err.decode('utf-8', 'replace')[:300].strip()}")
        case _:
            raise JqFailed(f"The jq program ended its process; it may take {_MEGABYTES} MB of memory.")


def _end(spawning: "asyncio.Future[subprocess.Popen[bytes]]") -> None:
    """End a process that is there once its caller has stopped waiting."""
    if not spawning.cancelled() and spawning.exception() is None:
        _kill(spawning.result())
        threading.Thread(target=spawning.result().communicate, daemon=True).start()  # closes its pipes


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.poll()


def _slow(seconds: float) -> str:
    return f"The jq program did not end within {seconds:g} s."


def _spawn(seconds: float) -> "subprocess.Popen[bytes]":
    environment = {name: os.environ[name] for name in _KEPT_NAMES if name in os.environ} | {"TZ": "UTC"}
    return subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, "-I", str(_CHILD), str(os.getpid()), str(_MEGABYTES), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
    )

"""The command `parley` on the PATH of a shell, forked from a process that has imported it."""

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tests.forked import Forked

_LASTS = 180.0
_NUMBER = 12
"""Bytes of a number between a command and its shim."""
_SHIM = f"""\
import json, os, signal, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
asked = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(link, [b"%{_NUMBER}d" % len(asked)], [0, 1, 2])
link.sendall(asked)
pid = int(link.recv({_NUMBER}))
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, lambda number, frame: os.kill(pid, number))
sys.exit(int(link.recv({_NUMBER}) or 1))
"""


@contextmanager
def parley_on_path() -> Iterator[Path]:
    """Give a folder with the command; what still runs of it at the end is killed."""
    with TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:  # a short path: it is an address
        place, running = Path(folder), list[Forked]()
        address, shim, command = place / "forks", place / "shim.py", place / "parley"
        shim.write_text(_SHIM, "utf-8")
        words = shlex.join([sys.executable, "-IS", str(shim), str(address)])
        command.write_text(f'#!/bin/sh\nexec {words} "$@"\n', "utf-8")
        command.chmod(0o755)
        listening.bind(str(address))
        listening.listen()
        Thread(target=_accept, args=(listening, running), daemon=True).start()
        try:
            yield place
        finally:
            listening.shutdown(socket.SHUT_RDWR)  # wakes the thread, which `close` does not
            for process in running:
                process.kill()


def _accept(listening: socket.socket, running: list[Forked]) -> None:
    with suppress(OSError):  # it was shut down
        while True:
            link, _ = listening.accept()
            Thread(target=_run, args=(link, running), daemon=True).start()


def _run(link: socket.socket, running: list[Forked]) -> None:
    """Run one command with the streams, the folder and the environment of its shim, which exits as it does."""
    with link:
        size, fds, _, _ = socket.recv_fds(link, _NUMBER, 3)
        with link.makefile("rb") as asked:
            words, folder, env = json.loads(asked.read(int(size)))
        process = Forked("app", tuple(words), Path(folder), env, (fds[0], fds[1], fds[2]))
        running.append(process)
        for each in fds:
            os.close(each)
        link.sendall(b"%*d" % (_NUMBER, process.pid))
        link.sendall(b"%*d" % (_NUMBER, process.wait(_LASTS)))

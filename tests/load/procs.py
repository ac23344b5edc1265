"""What the kernel says of processes: seconds computed, bytes held, files open."""

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu(pid: int) -> float:
    """Return the seconds that all threads of a process have computed, in steps of 10 ms; 0 when it has ended."""
    try:
        fields = (PROC / str(pid) / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid: int) -> int:
    """Return the bytes that a process holds in memory."""
    return int((PROC / str(pid) / "statm").read_text("ascii").split()[1]) * PAGE


def files(pid: int) -> int:
    """Return how many file descriptors a process has open."""
    return sum(1 for _ in (PROC / str(pid) / "fd").iterdir())


def children(pid: int) -> Iterator[int]:
    """Give the processes that a process has started and that live."""
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            yield int(folder.name)

"""The only files that a confined process may read, on Linux: those in some folders (Landlock).

`child` loads it by its path, so it imports nothing of Parley. The rules hold for the thread that sets them and for all
that it starts, so they are set before a worker's libraries begin threads.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Sequence

OPEN_FILES = 64
"""Descriptors of a process that may read: what its libraries hold is about twenty, and one font is read at a time."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same numbers on every machine."""
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""How many rights over files the kernel knows, by the first version of its Landlock that does: all are denied."""
_PR_SET_NO_NEW_PRIVS = 38


def only(folders: Sequence[str]) -> tuple[str, ...]:
    """Deny this thread, and those that it starts, all files but reading what lies in *folders*; return those there are.

    Without any, and where the kernel has no Landlock, nothing is denied and nothing returned.
    """
    places = tuple(folder for folder in folders if os.path.isdir(folder))  # noqa: PTH112 - it imports little
    if sys.platform != "linux" or not places:
        return ()
    libc = ctypes.CDLL(None, use_errno=True)
    version = _call(libc, _CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return ()
    count = max(rights for since, rights in _RIGHTS.items() if since <= version)
    rules = _call(libc, _CREATE_RULESET, struct.pack("Q", (1 << count) - 1), 8, 0)
    if rules < 0:
        return ()
    try:
        are_granted = all(_grant(libc, rules, folder) for folder in places)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        return places if are_granted and _call(libc, _RESTRICT_SELF, rules, 0) == 0 else ()
    finally:
        os.close(rules)


def _grant(libc: ctypes.CDLL, rules: int, folder: str) -> bool:
    """Let files in *folder* be read; return whether the kernel does."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return (
            _call(libc, _ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", _READ_FILE | _READ_FOLDER, descriptor), 0)
            == 0
        )
    finally:
        os.close(descriptor)


def _call(libc: ctypes.CDLL, number: int, *values: bytes | int | None) -> int:
    return libc.syscall(*(ctypes.c_long(each) if isinstance(each, int) else each for each in (number, *values)))

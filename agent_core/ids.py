"""Opaque identifiers, `<prefix>_<16 characters>`, 95 bits of randomness each."""

import os
import string
from collections import deque

_ALPHABET = (string.ascii_lowercase + string.digits + string.ascii_uppercase + "-_")[:64]
_LETTERS = bytes(ord(_ALPHABET[byte & 63]) for byte in range(256))
_LENGTH = 16
_BATCH = 128


class _Pool:
    """Random bytes fetched with one system call for many ids: a call per id was visible in profiles of a step."""

    def __init__(self) -> None:
        self._ready: deque[str] = deque()

    def take(self) -> str:
        if not self._ready:
            text = os.urandom(_BATCH * _LENGTH).translate(_LETTERS).decode("ascii")
            self._ready.extend(text[start : start + _LENGTH] for start in range(0, len(text), _LENGTH))
        return self._ready.popleft()


_POOL = _Pool()


def new_id(prefix: str) -> str:
    """Return a fresh id such as `run_x7…`; unguessable, safe in URLs and file names."""
    return f"{prefix}_{_POOL.take()}"

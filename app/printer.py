"""The printer: the one place where a process prints to standard output."""

import sys

from channels.legible import visible


def say(text: str) -> None:
    """Print *text* and a line end, so that all of it can be seen and no terminal acts on it."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()

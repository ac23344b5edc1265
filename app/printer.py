"""The printer: the one place where a command prints, its result to standard output and remarks beside it."""

import sys

from channels.text import one_line, visible


def say(text: str) -> None:
    """Print *text* and a line end, so that all of it can be seen and no terminal acts on it."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Print *text* on one line of standard error: what a program that reads the result does not want."""
    sys.stderr.write(f"{one_line(text)}\n")
    sys.stderr.flush()

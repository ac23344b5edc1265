"""The width of what `parley chat` draws."""

import fcntl
import io
import os
import struct
import sys
import termios

from app.cli.chat.command import MAX_COLUMNS, columns_here


def test_a_drawing_has_the_width_of_the_terminal_also_in_a_pipe(monkeypatch):
    """COLUMNS decides, then any of the three streams that is a terminal; 80 is taken where none is."""
    for stream in ("stdout", "stderr", "stdin"):
        monkeypatch.setattr(sys, stream, io.StringIO())
    monkeypatch.setenv("COLUMNS", "72")
    assert columns_here() == 72
    for odd, columns in (("0", 80), ("9" * 20, MAX_COLUMNS)):
        monkeypatch.setenv("COLUMNS", odd)
        assert columns_here() == columns
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys, "__stdout__", None)
    assert columns_here() == 80
    screen, keyboard = os.openpty()
    try:
        fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("4H", 24, 97, 0, 0))
        with os.fdopen(keyboard) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert columns_here() == 97
    finally:
        os.close(screen)

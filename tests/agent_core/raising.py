"""What foreign code may raise."""

import asyncio
from typing import NoReturn


class Mute(Exception):
    """An error that has no text."""

    def __str__(self) -> NoReturn:
        raise ValueError("no text")


RAISED = (
    (ValueError("no"), "ValueError: no"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (GeneratorExit(), "GeneratorExit"),
    (asyncio.CancelledError(), "CancelledError"),
    (BaseExceptionGroup("two", [SystemExit(), ValueError()]), "BaseExceptionGroup: two (2 sub-exceptions)"),
    (Mute(), "Mute"),
)
"""Errors, each with what is said of it."""

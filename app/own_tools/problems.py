"""What is wrong with a file or a package of tools, in a line that says where and what to do."""

import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agent_core.tools.base import UnfitFunction

_SHOWN = 300
"""Characters of an error's text: it may quote whole files."""


@dataclass(frozen=True, slots=True)
class ToolProblem:
    """*place* is a file with its line, or a package; *text* says what is wrong there and what to do."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def problem_of(error: BaseException, path: Path, shown: str, beside: Collection[str], package: str) -> ToolProblem:
    """Return what *error*, raised when the file at *path* was loaded, says about it.

    *shown* names the file, *beside* are the files of its folder without their suffix, *package* is their private name.
    """
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return ToolProblem(f"{shown}:{error.lineno or 1}", f"this is not Python: {error.msg}; correct it.")
    line = next(
        (each.lineno for each in reversed(traceback.extract_tb(error.__traceback__)) if each.filename == str(path)),
        None,
    )
    return ToolProblem(f"{shown}:{line}" if line else shown, said(error, beside, package))


def said(error: BaseException, beside: Collection[str] = (), package: str = "") -> str:
    """Return what *error* says, and what to do."""
    match error:
        case UnfitFunction():
            return str(error)
        case ModuleNotFoundError(name=str(name)) if package and name.startswith(f"{package}."):
            return f"there is no file `{name.removeprefix(f'{package}.')}.py` beside this one; correct the import."
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] in beside:
            return f"there is no module `{name}`; for the file beside this one write `from .{name} import …`."
        case ModuleNotFoundError(name=str(name)):
            return f"there is no module `{name}`; install its package where Parley is installed."
        case SystemExit():
            return "it ends the process when it is loaded (`sys.exit`); leave that to what is run as a program."
        case _:
            return f"{type(error).__name__}: {_short(str(error))}; correct what the file does when it is loaded."


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"

"""What is wrong with a file or a package of tools, in a line that says where and what to do."""

import threading
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from agent_core import shorten
from agent_core.tools.base import UnfitFunction
from agent_core.traces import words_of

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
    place = f"{shown}:{line}" if line else shown
    if isinstance(error, ModuleNotFoundError) and error.name and (text := _out_of_place(error.name, path, package)):
        return ToolProblem(place, text)
    return ToolProblem(place, explanation(error, beside, package))


def _out_of_place(name: str, path: Path, package: str) -> str | None:
    """Return what to do where the module *name* is the project's own, and not among the files beside *path*."""
    top = name.removeprefix(f"{package}.").partition(".")[0]
    remedy = f"make it the file `_{top.lstrip('_')}.py` beside this one, and write `from ._{top.lstrip('_')} import …`."
    if _is_code(path.parent / top):
        return f"`{path.parent.name}/{top}` is a folder, and those are not looked into; {remedy}"
    roots = () if name.startswith(f"{package}.") else (path.parent.parent, Path.cwd())
    if any((root / f"{top}.py").is_file() or _is_code(root / top) for root in roots):
        return f"`{top}` is not in the folder of the tools, which have no other modules of the project; {remedy}"
    return None


def _is_code(folder: Path) -> bool:
    return any(folder.glob("*.py"))


def explanation(error: BaseException, beside: Collection[str] = (), package: str = "") -> str:
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
            return f"{_short(words_of(error))}; correct what the file does when it is loaded."


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether *error* may be of a person who ends the process: only its main thread gets those."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _short(text: str) -> str:
    return shorten(" ".join(text.split()), _SHOWN)

"""Libraries without their docstrings: loaded so where this very source was compiled so, else as ever."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app import bytecode

LIBRARY, PLAIN = "library_of_tests", "plain_library_of_tests"
SOURCE = (
    '"""What it is."""\n\n\ndef double(number: "int") -> "int":\n    """Return it twice."""\n    return 2 * number\n'
)
OLD = 1_000_000_000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which modules are imported as in a process that lasts."""
    monkeypatch.setattr(bytecode, "FOLDER", tmp_path / "bytecode")
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.syspath_prepend(tmp_path)
    for name in (LIBRARY, PLAIN):
        (tmp_path / f"{name}.py").write_text(SOURCE)
        os.utime(tmp_path / f"{name}.py", (OLD, OLD))
    bytecode.use()
    yield tmp_path
    for name in (LIBRARY, PLAIN):
        sys.modules.pop(name, None)
    sys.path_importer_cache.clear()


async def nothing() -> None:
    """Import nothing."""


@pytest.fixture
def write(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Compile the library, as if a server imported nothing else; returns the file."""
    monkeypatch.setattr(bytecode, "_import", nothing)
    loader = bytecode._Loader(LIBRARY, str(place / f"{LIBRARY}.py"))

    def compiled() -> Path:
        monkeypatch.setattr(bytecode, "_loaded", lambda: iter([(LIBRARY, loader)]))
        bytecode.write()
        (file,) = (path for path in (place / "bytecode").rglob("*") if path.is_file())
        return file

    return compiled


def found(name: str = LIBRARY) -> ModuleType:
    module = importlib.import_module(name)
    assert module.double(21) == 42
    return module


def test_without(write, place):
    """A library that was compiled so has no docstrings; where it comes from is told as ever."""
    write()
    module = found()
    assert (module.__doc__, module.double.__doc__) == (None, None)
    assert module.__file__ == module.double.__code__.co_filename == str(place / f"{LIBRARY}.py")
    assert module.double.__annotations__ == {"number": "int", "return": "int"}


def test_not_compiled(write):
    """A module that was not is what it always was."""
    write()
    assert found(PLAIN).double.__doc__ == "Return it twice."


def test_unannotated(write, monkeypatch):
    """Of some libraries functions lose their annotations too."""
    monkeypatch.setattr(bytecode, "UNANNOTATED", {LIBRARY})
    write()
    assert found().double.__annotations__ == {}


def test_asserts_that_stay(write, place, monkeypatch):
    """What is to be loaded as ever is not compiled, and what was compiled of it before is gone."""
    file = write()
    monkeypatch.setattr(bytecode, "AS_EVER", {LIBRARY})
    with pytest.raises(ValueError, match="not enough values"):
        write()
    assert not file.exists()
    assert found().double.__doc__ == "Return it twice."


@pytest.mark.parametrize(("words", "later"), [("doubled", 0), ("again", 1)])
def test_older(write, place, words, later):
    """After a library has changed its older bytecode is not taken: it is of another length, or of another time."""
    write()
    source = place / f"{LIBRARY}.py"
    source.write_text(SOURCE.replace("twice", words))
    os.utime(source, (OLD + later, OLD + later))
    assert found().double.__doc__ == f"Return it {words}."
    sys.modules.pop(LIBRARY)
    write()
    assert found().double.__doc__ is None


@pytest.mark.parametrize("damaged", [b"", b"not Python's", 10, 30, -3])
def test_damaged(write, damaged):
    """What is no bytecode of this Python, or was cut, is passed over."""
    file = write()
    file.write_bytes(file.read_bytes()[:damaged] if isinstance(damaged, int) else damaged)
    assert found().double.__doc__ == "Return it twice."


def test_a_folder_that_cannot_be_written(write, place):
    """Whoever may not write the folder is told which it is."""
    (place / "bytecode").write_text("in the way")
    with pytest.raises(OSError, match="bytecode"):
        write()

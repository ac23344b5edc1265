"""Libraries without their docstrings: taken where such bytecode was made of the source that is there, else as ever."""

import importlib
import importlib.util
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app import bytecode

LIBRARY, OTHER = "library_of_tests", "other_of_tests"
SOURCE = '"""What it is."""\ndef double(number):\n    """Return it twice."""\n    return 2 * number\n'
OLD = 1_000_000_000


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from which a library and another module are imported, as in a process that lasts."""
    monkeypatch.setattr(bytecode, "LIBRARIES", {LIBRARY})
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.syspath_prepend(tmp_path)
    for name in (LIBRARY, OTHER):
        (tmp_path / f"{name}.py").write_text(SOURCE)
        os.utime(tmp_path / f"{name}.py", (OLD, OLD))
    bytecode.use()
    yield tmp_path
    for name in (LIBRARY, OTHER):
        sys.modules.pop(name, None)
    sys.path_importer_cache.clear()


def bare(place: Path, name: str = LIBRARY) -> Path:
    """Write the bytecode without docstrings of *name*, and return where."""
    return Path(py_compile.compile(str(place / f"{name}.py"), doraise=True, optimize=2) or "")


def found(name: str = LIBRARY) -> ModuleType:
    module = importlib.import_module(name)
    assert module.double(21) == 42
    return module


def test_without(place):
    """A library that was compiled without docstrings has none; where it comes from is told as ever."""
    bare(place)
    module = found()
    assert (module.__doc__, module.double.__doc__) == (None, None)
    assert module.__file__ == module.double.__code__.co_filename == str(place / f"{LIBRARY}.py")


def test_not_compiled(place):
    """A library that was not is what it always was."""
    assert found().double.__doc__ == "Return it twice."


@pytest.mark.parametrize("text", [SOURCE.replace("twice", "doubled"), SOURCE.replace("twice", "again")])
def test_older(place, text):
    """After a library has changed its older bytecode is not taken, were it of the same length."""
    bare(place)
    source = place / f"{LIBRARY}.py"
    source.write_text(text)
    os.utime(source, (OLD + 1, OLD + 1))
    assert found().double.__doc__ in text


@pytest.mark.parametrize("damaged", [b"", b"not Python's", bytes(16)])
def test_damaged(place, damaged):
    """What is no bytecode of this Python is passed over."""
    bare(place).write_bytes(damaged)
    assert found().double.__doc__ == "Return it twice."


def test_by_hash(place):
    """Bytecode that says by a hash what it was made of is Python's own affair."""
    py_compile.compile(
        str(place / f"{LIBRARY}.py"), optimize=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    assert found().double.__doc__ == "Return it twice."


def test_others(place):
    """Whatever is not named keeps its docstrings: a tool is made of them."""
    bare(place, OTHER)
    assert found(OTHER).double.__doc__ == "Return it twice."


def test_the_standard_library(place, monkeypatch):
    """Python's own modules are taken so where Python was installed with such bytecode."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = importlib.import_module("colorsys")
    assert module.__file__ is not None
    compiled = Path(importlib.util.cache_from_source(module.__file__, optimization=2))
    assert (module.__doc__ is None) == compiled.exists()

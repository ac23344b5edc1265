"""Import an SDK's client without the thousands of modules that the `__init__` of its packages name.

`import anthropic` executes 2,900 modules, nearly all of them types, for a client that needs a third of them; that of
`openai` needs a tenth. Under `on_demand` a package is found as it is, but its `__init__` waits: what that imports from
modules of the package is taken from there when somebody asks for it, and whatever else is asked executes it. Nothing is
missing: it is what Python 3.15 calls a lazy import. A module of functions that are hardly ever called can wait for the
first call.
"""

import ast
import importlib
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_EXECUTION = "__on_demand__"
_CHANGING = threading.Lock()
_PATIENCE = 5.0
"""Seconds for which one thread waits for another one's execution of a module, which may be waiting for it."""


@contextmanager
def on_demand(*packages: str, uncalled: Sequence[str] = ()) -> Generator[None]:
    """Let the `__init__` of *packages*, and of those in them, wait when they are imported here for the first time.

    Of *uncalled*, modules by their whole names, functions are there at once; calling one executes the module, as does
    asking for anything else.
    """
    with _first(_Finder(packages, uncalled)):
        yield


@contextmanager
def _first(finder: "_Finder") -> Generator[None]:
    """Let *finder* be asked before others."""
    # A list of its own each time: another thread may be going through the one that was there.
    with _CHANGING:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        with _CHANGING:
            sys.meta_path = [each for each in sys.meta_path if each is not finder]


class _Finder:
    """Finds packages as the path has them, and gives them a loader that executes nothing."""

    def __init__(self, roots: Sequence[str], uncalled: Sequence[str]) -> None:
        self._roots, self._uncalled = tuple(f"{root}." for root in roots), frozenset(uncalled)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # A *target* is a module that is to be executed after all.
        if target is not None or not f"{name}.".startswith(self._roots):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        if spec.loader.is_package(name):
            spec.loader = _Loader(name, spec.loader.path, self, _Package)
        elif name in self._uncalled:
            spec.loader = _Loader(name, spec.loader.path, self, _Uncalled)
        else:
            return None
        return spec


class _Loader(SourceFileLoader):
    """Makes a module of the class *waiting*, which is not executed."""

    def __init__(self, name: str, path: str, finder: _Finder, waiting: type[ModuleType]) -> None:
        super().__init__(name, path)
        self.finder, self._waiting = finder, waiting

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_EXECUTION] = _Execution(self)
        module.__class__ = self._waiting

    @cached_property
    def places(self) -> Mapping[str, tuple[str, str]]:
        """The modules, with the names there, of what the `__init__` imports; read when first asked: some are large."""
        return _places(self.name, self.get_data(self.path))

    @cached_property
    def functions(self) -> frozenset[str]:
        """The functions of the module; read when first asked."""
        body = ast.parse(self.get_data(self.path)).body
        return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


class _Package(ModuleType):
    """A package whose `__init__` was not executed."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._taken(name)
        except Exception:  # noqa: BLE001 - whatever does not work alone may work as the package itself would do it
            return _executed(self, name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_loader(self).places})

    def _taken(self, name: str) -> Any:
        """Return *name* from the module that has it, or the module of that name."""
        module = f"{self.__name__}.{name}"
        if place := _loader(self).places.get(name):
            return getattr(importlib.import_module(place[0]), place[1])
        if name.startswith("__") or find_spec(module) is None:
            raise AttributeError(name)
        return importlib.import_module(module)


class _Uncalled(ModuleType):
    """A module that was not executed and whose functions hardly anybody calls."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # by it an import tells a package from a module
            raise AttributeError(name)
        loader = _loader(self)
        if name not in loader.functions:
            return _executed(self, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            with _first(loader.finder):  # what it imports may wait, too
                function = _executed(self, name)
            return function(*args, **kwargs)

        return call


class _Execution:
    """The one execution of a module that waits: other threads wait for it, and what it imports sees how far it is."""

    def __init__(self, loader: _Loader) -> None:
        self.loader, self.lock, self.begun = loader, threading.RLock(), False


def _executed(module: ModuleType, name: str) -> Any:
    """Return *name* of *module* once that was executed."""
    execution: _Execution = vars(module)[_EXECUTION]
    # For its own locks Python notices when two threads wait for each other; here they get on after a while.
    held = execution.lock.acquire(timeout=_PATIENCE)
    try:
        if held and not execution.begun:
            execution.begun = True
            importlib.reload(module)
            module.__class__ = ModuleType
    except BaseException:
        execution.begun = False
        raise
    finally:
        if held:
            execution.lock.release()
    if type(module) is ModuleType:
        return getattr(module, name)
    try:
        return vars(module)[name]  # asked while it is executed, by what the module itself imports
    except KeyError:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} yet") from None


def _loader(module: ModuleType) -> _Loader:
    execution: _Execution = vars(module)[_EXECUTION]
    return execution.loader


def _places(package: str, source: bytes) -> Mapping[str, tuple[str, str]]:
    """Return the modules, with the names there, of what the `__init__` in *source* imports from modules of its own."""
    body = ast.parse(source).body
    imports = [(_module(package, node), node.names) for node in body if isinstance(node, ast.ImportFrom)]
    places = {each.asname or each.name: (module, each.name) for module, names in imports if module for each in names}
    for name in _bound(node for node in body if not isinstance(node, ast.ImportFrom)):
        places.pop(name, None)
    return places


def _module(package: str, node: ast.ImportFrom) -> str | None:
    """Return the module of *package* that *node* imports from, if it is one."""
    match node.level, node.module:
        case 1, str(module):
            return f"{package}.{module}"
        case 0, str(module) if module.startswith(f"{package}."):
            return module
        case _:
            return None


def _bound(statements: Iterator[ast.stmt]) -> Iterator[str]:
    """Give the names that *statements* bind: the `__init__` does something with them."""
    for statement in statements:
        for node in ast.walk(statement):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
                case _:
                    pass

"""Import an SDK's client without the thousands of modules that the `__init__` of its packages name.

`import anthropic` executes 2,900 modules, nearly all of them types, for a client that needs a third of them; that of
`openai` needs a tenth. Under `on_demand` a package is found as it is, but its `__init__` waits: what that imports from
modules of the package is taken from there when somebody asks for it, and whatever else is asked executes it. Nothing is
missing: it is what Python 3.15 calls a lazy import. Functions that are imported by name and hardly ever called can wait
for their first call.
"""

import ast
import importlib
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@contextmanager
def on_demand(*packages: str, uncalled: Sequence[str] = ()) -> Generator[None]:
    """Let the `__init__` of *packages*, and of those in them, wait when they are imported here for the first time.

    A function that is asked of a package in *uncalled* brings its module when it is called, and not before.
    """
    finder = _Finder(packages, uncalled)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder:
    """Finds packages as the path has them, and gives them a loader that executes nothing."""

    def __init__(self, roots: Sequence[str], uncalled: Sequence[str]) -> None:
        self._roots, self._uncalled = tuple(f"{root}." for root in roots), frozenset(uncalled)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # A *target* is a package whose `__init__` is to be executed after all.
        if target is not None or not f"{name}.".startswith(self._roots):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or not isinstance(spec.loader, SourceFileLoader) or not spec.loader.is_package(name):
            return None
        spec.loader = _Loader(name, spec.loader.path, uncalled=name in self._uncalled)
        return spec


class _Loader(SourceFileLoader):
    """Makes a package whose `__init__` waits; if *uncalled* its functions do, too."""

    def __init__(self, name: str, path: str, *, uncalled: bool) -> None:
        super().__init__(name, path)
        self.uncalled = uncalled

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Package

    @cached_property
    def places(self) -> Mapping[str, tuple[str, str]]:
        """The modules, with the names there, of what the `__init__` imports; read when first asked: some are large."""
        return _places(self.name, self.get_data(self.path))


class _Package(ModuleType):
    """A package whose `__init__` was not executed."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._taken(name)
        except Exception:  # noqa: BLE001 - whatever does not work alone may work as the package itself would do it
            return self._executed(name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_loader(self).places})

    def _taken(self, name: str) -> Any:
        """Return *name* from the module that has it, or the module of that name."""
        loader, module = _loader(self), f"{self.__name__}.{name}"
        if place := loader.places.get(name):
            if loader.uncalled and _is_function(*place):
                return _calling(*place)
            return getattr(importlib.import_module(place[0]), place[1])
        if name.startswith("__") or find_spec(module) is None:
            raise AttributeError(name)
        return importlib.import_module(module)

    def _executed(self, name: str) -> Any:
        """Return what *name* is once the `__init__` was executed, which is done under the import's own lock."""
        importlib.reload(self)
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue] - as `importlib.util.LazyLoader` does
        return getattr(self, name)


def _loader(package: ModuleType) -> _Loader:
    loader = package.__loader__
    assert isinstance(loader, _Loader)
    return loader


def _is_function(module: str, name: str) -> bool:
    """Tell whether *name* is a function of *module*, which was not imported yet."""
    spec = None if module in sys.modules else find_spec(module)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return False
    body = ast.parse(spec.loader.get_data(spec.loader.path)).body
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name for node in body)


def _calling(module: str, name: str) -> Callable[..., Any]:
    """Return what calls the function *name* of *module*, which is imported then."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


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

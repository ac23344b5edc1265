"""Load libraries without what nobody reads in a process that serves: 6 MB.

`python -OO` would leave docstrings out of our own code and everybody's tools too, which tell models and readers of the
API's description what there is. So `make install` compiles what a server imports of others, Python's own modules among
them, once more as that switch would: `python -B -X no_debug_ranges -m app.bytecode`. The options keep other bytecode as
it is, and leave out where in a line something is. The result has a folder of its own in the environment; a module of
which there is none, or none of this very source, is loaded as ever.
"""

import marshal
import sys
from collections.abc import Iterator
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

# What is imported at the top of this file is loaded as ever.
# ruff: noqa: PLC0415

FOLDER = Path(sys.prefix) / "parley-bytecode"
AS_EVER = frozenset({"__main__", "agent_core", "app", "channels", "migrations", "starlette", "uvicorn"})
"""Ours; and what stands between strangers and all others keeps its asserts, which the switch leaves out."""
UNANNOTATED = frozenset({"sqlalchemy"})
"""Whose functions are annotated for type checkers alone, with half a megabyte."""


def use() -> None:
    """Load modules so from here on."""
    hook = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_Loader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )
    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()


class _Loader(SourceFileLoader):
    """Loads a module as ever, unless `write` has compiled this very source."""

    def get_code(self, fullname: str) -> CodeType | None:
        return self._bare() or super().get_code(fullname)

    def _bare(self) -> CodeType | None:
        try:
            data = memoryview(self.get_data(_place(self.path)))
            of = self.source()
            found = marshal.loads(data[len(of) :]) if data[: len(of)] == of else None  # noqa: S302 - as Python does
        except (OSError, EOFError, ValueError, TypeError):
            return None
        return found if isinstance(found, CodeType) else None

    def source(self) -> bytes:
        """Return which source it is, and for which Python: what stands before the bytecode of it."""
        stats = self.path_stats(self.path)
        return b"%b%d %d\n" % (MAGIC_NUMBER, int(stats["mtime"]), stats["size"])


def _place(path: str) -> str:
    return f"{FOLDER}{path}.{sys.implementation.cache_tag}"


def write() -> None:
    """Compile what servers import and need not load as ever; raises OSError where `FOLDER` cannot be written."""
    import asyncio
    from shutil import rmtree

    asyncio.run(_import())
    rmtree(FOLDER, ignore_errors=True)
    for library, loader in _loaded():
        if library not in AS_EVER:
            place, source = Path(_place(loader.path)), loader.get_data(loader.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            code = _compiled(source, loader.path, annotated=library not in UNANNOTATED)
            place.write_bytes(loader.source() + marshal.dumps(code))


def _compiled(source: bytes, path: str, *, annotated: bool) -> CodeType:
    """Return the code of *source* without docstrings and asserts, and without the annotations of its functions."""
    import ast

    tree = ast.parse(source, path)
    for node in ast.walk(tree) if not annotated else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return compile(tree, path, "exec", dont_inherit=True, optimize=2)


async def _import() -> None:
    """Import what a server does, on either database, with either SDK."""
    from app import lean

    lean.libraries()
    import agent_core.store.postgres  # noqa: F401
    import app.main  # noqa: F401
    from agent_core.providers.anthropic import anthropic
    from agent_core.providers.openai import openai

    for make in (anthropic, openai):
        provider = make(api_key="none", base_url="http://localhost")
        await provider.prepare()
        await provider.close()


def _loaded() -> Iterator[tuple[str, _Loader]]:
    """Give the modules that were loaded from a source, each with the name of its library."""
    for name, module in tuple(sys.modules.items()):
        loader = getattr(module, "__loader__", None)
        if isinstance(loader, SourceFileLoader):
            yield name.partition(".")[0], _Loader(name, loader.path)


if __name__ == "__main__":
    write()

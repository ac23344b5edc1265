"""Load libraries from bytecode without docstrings: 5 MB that nobody reads in a process that serves.

It is the bytecode of `python -OO`, which also leaves out asserts. That switch itself is for the whole process, and what
a tool tells the model, like what the API's description says, is made of docstrings. `make install` writes it beside the
libraries' other bytecode, by `python -X no_debug_ranges -m app.bytecode`; an option that leaves out where in a line
something is. Where there is none, or only one of an older source, the other is taken.
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
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType

# What is imported at the top of this file is loaded as ever.
# ruff: noqa: PLC0415

LIBRARIES = frozenset(
    {
        "aiohttp",
        "annotated_types",
        "anthropic",
        "anyio",
        "attr",
        "docstring_parser",
        "dotenv",
        "fastapi",
        "httpcore2",
        "httpx2",
        "idna",
        "multidict",
        "openai",
        "opentelemetry",
        "pydantic",
        "pydantic_core",
        "pydantic_settings",
        "sqlalchemy",
        "sqlmodel",
        "structlog",
        "typing_extensions",
        "typing_inspection",
        "yaml",
        "yarl",
    }
)
"""Those with many docstrings. What stands between strangers and the rest, starlette and uvicorn, keeps its asserts."""
_LEVEL = 2
_HEADER = 16
"""Bytes before the code: Python's magic number, flags, the source's time in seconds and its size (PEP 552)."""


def use() -> None:
    """Load `LIBRARIES`, and Python's own, so from here on."""
    hook = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (_Loader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )
    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()


class _Loader(SourceFileLoader):
    """Loads a module as ever, but from bytecode without docstrings if it is a library's and there is any."""

    def get_code(self, fullname: str) -> CodeType | None:
        package = fullname.partition(".")[0]
        if package in LIBRARIES or package in sys.stdlib_module_names:
            found = self._found()
            if found is not None:
                return marshal.loads(found)  # noqa: S302 - as Python itself does with the file beside it
        return super().get_code(fullname)

    def _found(self) -> memoryview | None:
        """Return the code of the file without docstrings, if it was made of the source that is there."""
        try:
            data = memoryview(self.get_data(cache_from_source(self.path, optimization=_LEVEL)))
            stats = self.path_stats(self.path)
        except OSError:
            return None
        made_of = b"".join((int(stats[name]) & 0xFFFF_FFFF).to_bytes(4, "little") for name in ("mtime", "size"))
        return data[_HEADER:] if data[:_HEADER] == MAGIC_NUMBER + bytes(4) + made_of else None


def write() -> int:
    """Write that bytecode for what servers import of `LIBRARIES`; return for how many modules.

    Raises OSError where the libraries are not this user's to write beside.
    """
    import asyncio
    from py_compile import PycInvalidationMode, compile  # noqa: A004

    asyncio.run(_imported())
    paths = {loader.path for name, loader in _loaders() if name.partition(".")[0] in LIBRARIES}
    for path in paths:
        # Not by hash, which SOURCE_DATE_EPOCH would ask for: the time is what is compared.
        compile(path, doraise=True, optimize=_LEVEL, invalidation_mode=PycInvalidationMode.TIMESTAMP)
    return len(paths)


async def _imported() -> None:
    """Import what a server does, on either database, with either SDK."""
    from app import lean

    lean.libraries()
    import agent_core.store.postgres  # noqa: F401
    import app.main  # noqa: F401
    from agent_core.providers.anthropic import anthropic
    from agent_core.providers.openai import openai

    for provider in (anthropic(api_key="none"), openai(api_key="none")):
        await provider.prepare()
        await provider.close()


def _loaders() -> Iterator[tuple[str, SourceFileLoader]]:
    for name, module in tuple(sys.modules.items()):
        loader = getattr(module, "__loader__", None)
        if isinstance(loader, SourceFileLoader):
            yield name, loader


if __name__ == "__main__":
    write()

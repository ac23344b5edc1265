"""What makes a process start lighter: libraries load a good deal that this one never uses."""

import ctypes
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from pydantic import BaseModel

NO_V1 = "pydantic.v1"
"""What FastAPI compares each model of a route with: ours are none of these."""
_M_ARENA_MAX = -8
"""The name of that setting in glibc's `malloc.h`."""


def libraries() -> None:
    """Import the libraries that load most for nothing, without that: 130 ms and 18 MB."""
    hide(NO_V1)  # for good: FastAPI builds a route when it is first asked
    with without("bz2", "lzma"):  # archives of those kinds are read by nobody
        import shutil  # noqa: F401, PLC0415
        import zipfile  # noqa: F401, PLC0415
    with without("yaml._yaml"):  # the parser in C, which `safe_load` does not use
        import yaml  # noqa: F401, PLC0415
    with without("rich", "greenlet"):  # structlog would draw tracebacks with rich; ours are plain
        import structlog  # noqa: F401, PLC0415
    from agent_core.providers.ondemand import on_demand  # noqa: PLC0415 - the core brings structlog

    # PyJWT would sign with key pairs by it, and fetch them by urllib; ours are signed with one secret.
    with without("cryptography"), on_demand("jwt"):
        import jwt  # noqa: F401, PLC0415
    with unbuilt():  # OpenAPI's own models, which only `/openapi.json` needs
        import fastapi  # noqa: F401, PLC0415


def arena() -> None:
    """Let glibc give the threads to come memory from one place: each place keeps free what the others lack.

    They hardly wait for each other there, as the interpreter runs one of them at a time.
    """
    with suppress(OSError, AttributeError):  # another library's `malloc`
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def hide(package: str) -> None:
    """Let nobody find *package*, unless somebody has."""
    # How Python says that it cannot be imported.
    sys.modules.setdefault(package, None)  # pyright: ignore[reportArgumentType]


@contextmanager
def without(*packages: str) -> Generator[None]:
    """Let what is imported here not find *packages*, which it can do without; afterwards they are there as ever."""
    absent = [package for package in packages if package not in sys.modules]
    for package in absent:
        hide(package)
    try:
        yield
    finally:
        for package in absent:
            sys.modules.pop(package, None)


@contextmanager
def unbuilt() -> Generator[None]:
    """Let pydantic build the models that are defined here when they are first used."""
    before = BaseModel.model_config
    BaseModel.model_config = {**before, "defer_build": True}
    try:
        yield
    finally:
        BaseModel.model_config = before

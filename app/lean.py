"""What makes a process start lighter: libraries load a good deal that this one never uses."""

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from pydantic import BaseModel

NO_V1 = "pydantic.v1"
"""What FastAPI compares each model of a route with: ours are none of these."""
_M_ARENA_MAX = -8
"""The name of that setting in glibc's `malloc.h`."""


def libraries() -> None:
    """Import the libraries that load most for nothing, without that: 130 ms and 18 MB."""
    hide(NO_V1)  # for good: FastAPI builds a route when it is first asked
    with without("rich", "greenlet"):  # structlog would draw tracebacks with rich; ours are plain
        import structlog  # noqa: F401, PLC0415
    with unbuilt():  # the tables, which are never asked as models
        from agent_core.providers.ondemand import on_demand  # noqa: PLC0415 - the core brings structlog

    # PyJWT would sign with key pairs by it, and fetch them over HTTP; ours are signed with one secret.
    with without("cryptography"), on_demand("jwt"):
        from jwt import InvalidTokenError, decode, encode  # noqa: F401, PLC0415 - what brings the rest
    with unbuilt():  # OpenAPI's own models, which only `/openapi.json` needs
        import fastapi  # noqa: F401, PLC0415


def arena() -> None:
    """Let glibc give the threads to come memory from one place: each place keeps free what the others lack.

    They hardly wait for each other there, as the interpreter runs one of them at a time. Who has set MALLOC_ARENA_MAX
    knows better.
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
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
    """Let pydantic build the models that are defined here when they are first used, were they told to be ready."""
    before, rebuild = BaseModel.model_config, vars(BaseModel)["model_rebuild"]

    def later(model: type[BaseModel], **given: Any) -> bool | None:
        # Asked with nothing given it is for what comes later in a module; pydantic itself gives something.
        return rebuild.__func__(model, **given) if given else None

    BaseModel.model_config = {**before, "defer_build": True}
    BaseModel.model_rebuild = classmethod(later)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        BaseModel.model_config, BaseModel.model_rebuild = before, rebuild

"""What makes a process start lighter: libraries load a good deal that this one never uses."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from pydantic import BaseModel

NO_V1 = "pydantic.v1"
"""What FastAPI compares each model of a route with: ours are none of these."""


def libraries() -> None:
    """Import the libraries that load most for nothing, without that: 130 ms and 18 MB."""
    hide(NO_V1)  # for good: FastAPI builds a route when it is first asked
    with without("rich", "greenlet"):  # structlog would draw tracebacks with rich; ours are plain
        import structlog  # noqa: F401, PLC0415
    with without("cryptography"):  # PyJWT would sign with key pairs by it; ours are signed with one secret
        import jwt  # noqa: F401, PLC0415
    with unbuilt():  # OpenAPI's own models, which only `/openapi.json` needs
        import fastapi  # noqa: F401, PLC0415


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

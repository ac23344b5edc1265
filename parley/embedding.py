"""Parley inside a program of one's own: the core of a project, without a server."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_core.core import Core


@asynccontextmanager
async def open_core(env_file: str | Path | None = ".env") -> AsyncGenerator[Core]:
    """Give the core of the project in the current folder, at work, as `parley serve` would have it.

    Settings come from the environment and *env_file*. On SQLite the data folder belongs to this process meanwhile, and
    is migrated; a Postgres is shared with others. Raises `ConfigError` where `parley serve` would not start.
    """
    # A file of tools imports `parley` and none of what serves.
    from app.cli.chat.conversation import own_core  # noqa: PLC0415
    from app.settings import load_settings  # noqa: PLC0415

    async with own_core(load_settings(None if env_file is None else Path(env_file))) as core:
        yield core

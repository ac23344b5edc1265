"""Files are watched by what they are, with or without notifications."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from app.dev import Watched
from tests.polling import PATIENCE

SUFFIXES = frozenset({".yaml", ".py"})


@asynccontextmanager
async def watching(watched: Watched) -> AsyncIterator[asyncio.Queue[Sequence[str]]]:
    """Give the names of what changes from now on, in batches."""
    found: asyncio.Queue[Sequence[str]] = asyncio.Queue()
    seen = watched.marks()

    async def follow() -> None:
        async with aclosing(watched.changes(seen)) as changes:
            async for changed in changes:
                found.put_nowait([path.name for path in changed])

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait((task,))


def test_links_to_the_folder_itself_are_followed_once(tmp_path: Path):
    """A folder that links lead to again and again is looked at once."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "one.py").touch()
    (folder / "back").symlink_to(folder)
    (folder / "up").symlink_to(tmp_path)
    found = Watched((folder,), SUFFIXES).marks()
    assert [path.resolve() for path in found] == [folder / "one.py"]


async def test_what_is_changed_made_and_removed_is_seen(tmp_path: Path):
    """Each change of a file of the right kind is one path; other files are none."""
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "one.yaml").write_text("a", "utf-8")
    async with asyncio.timeout(PATIENCE), watching(Watched((folder,), SUFFIXES, (tmp_path / ".env",))) as found:
        (folder / "notes.txt").write_text("not watched", "utf-8")
        (folder / "one.yaml").write_text("b", "utf-8")
        assert await found.get() == ["one.yaml"]
        (folder / "one.yaml").unlink()
        assert await found.get() == ["one.yaml"]
        (tmp_path / ".env").write_text("A=1", "utf-8")
        assert await found.get() == [".env"]


async def test_a_folder_that_comes_later_is_watched_too(tmp_path: Path):
    """Files of a folder that was not there are seen, those made with it and those made after it."""
    async with asyncio.timeout(PATIENCE), watching(Watched((tmp_path / "tools",), SUFFIXES)) as found:
        (tmp_path / "tools").mkdir()
        (tmp_path / "tools/one.py").write_text("1", "utf-8")
        assert await found.get() == ["one.py"]
        (tmp_path / "tools/two.py").write_text("2", "utf-8")
        assert await found.get() == ["two.py"]


async def test_a_folder_that_goes_and_comes_back_is_watched(tmp_path: Path):
    """What was in a folder that is removed is gone, and what is in the next one of its name is seen."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "one.py").write_text("1", "utf-8")
    async with asyncio.timeout(PATIENCE), watching(Watched((folder,), SUFFIXES)) as found:
        folder.rename(tmp_path / "elsewhere")
        assert await found.get() == ["one.py"]
        folder.mkdir()
        (folder / "two.py").write_text("2", "utf-8")
        assert await found.get() == ["two.py"]


async def test_a_change_without_a_notification_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the file system notifies no one, a look each second finds what changed."""
    (tmp_path / "one.yaml").write_text("a", "utf-8")

    async def silent(*_places, **_options):
        yield set()

    monkeypatch.setattr("app.dev.awatch", silent)
    watched = Watched((tmp_path,), SUFFIXES)
    seen = watched.marks()
    fresh = tmp_path / "one.new"
    fresh.write_text("b", "utf-8")
    fresh.replace(tmp_path / "one.yaml")
    async with asyncio.timeout(PATIENCE), aclosing(watched.changes(seen)) as changes:
        assert [path.name for path in await anext(changes)] == ["one.yaml"]

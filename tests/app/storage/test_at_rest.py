"""What lies on the disk is its owner's alone."""

import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.settings import Settings
from app.storage import migrate, prepare_data, private_files, secure


def settings_of(data: Path, **more: str) -> Settings:
    return Settings(_env_file=None, data=data, agents=data, **more)  # type: ignore[call-arg]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_whatever_was_open_is_closed(tmp_path: Path):
    """Folders become 0700 and files 0600, the database's companions, logs and backups too, and each is logged once."""
    data = tmp_path / "data"
    (data / "backups").mkdir(parents=True)
    names = ("parley.db", "parley.db-wal", "parley.db-shm", "secret.key", "parley.log", "backups/old.db")
    for name in names:
        (data / name).write_text("x")
        (data / name).chmod(0o664)
    data.chmod(0o755)
    (data / "backups").chmod(0o777)
    with capture_logs() as lines:
        prepare_data(settings_of(data))
    assert [mode(data / name) for name in names] == [0o600] * len(names)
    assert [mode(data), mode(data / "backups")] == [0o700] * 2
    assert len([line for line in lines if line["event"] == "data.closed_to_others"]) == len(names) + 2
    with capture_logs() as again:
        prepare_data(settings_of(data))
    assert again == []


def test_a_database_elsewhere_is_closed_and_its_neighbours_are_left(tmp_path: Path):
    """Of a folder that is not PARLEY_DATA only the database's own files are changed, and links nowhere."""
    elsewhere, data = tmp_path / "srv", tmp_path / "data"
    elsewhere.mkdir(mode=0o755)
    data.mkdir(mode=0o700)
    for name in ("p.db", "p.db-wal", "photo.jpg"):
        (elsewhere / name).write_text("x")
        (elsewhere / name).chmod(0o644)
    (data / "link").symlink_to(elsewhere / "photo.jpg")
    secure(settings_of(data, database_url=f"sqlite:///{elsewhere}/p.db"))
    assert [mode(elsewhere / name) for name in ("p.db", "p.db-wal", "photo.jpg")] == [0o600, 0o600, 0o644]
    assert mode(elsewhere) == 0o755


def test_in_the_working_directory_only_our_files_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A PARLEY_DATA that is the working directory keeps the rights of what Parley has not written."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    for name in ("parley.db", "main.py"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o644)
    secure(settings_of(tmp_path))
    assert (mode(tmp_path / "parley.db"), mode(tmp_path / "main.py"), mode(tmp_path)) == (0o600, 0o644, 0o755)


def test_new_files_are_the_owners(tmp_path: Path):
    """What is made while a process of ours runs is readable by its owner alone, whatever the umask was."""
    before = os.umask(0)
    try:
        with private_files():
            (tmp_path / "a").write_text("x")
        (tmp_path / "b").write_text("x")
        migrate(settings_of(tmp_path / "data"))
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "b")) == (0o600, 0o666)
    found = [path for path in (tmp_path / "data").rglob("*") if mode(path) & 0o077]
    assert found == []

"""What the doctor reports on an SQLite file, and on what waits in a database of either kind."""

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from agent_core import ConfigError
from app.checks import Finding, Level
from app.settings import SERVER_FILE, Settings
from app.storage import is_owned, newest, revision

GIGABYTE = 1_000_000_000
MIN_FREE, LITTLE_FREE = GIGABYTE // 10, GIGABYTE
QUEUED = """
SELECT count(*) AS queued, min(event.time) FILTER (WHERE NOT EXISTS (
    SELECT 1 FROM run AS active WHERE active.session = run.session AND active.parent IS NULL
    AND active.status IN ('running', 'waiting', 'requires_action')
)) AS oldest
FROM run JOIN event ON event.session = run.session AND event.seq = run.first_seq WHERE run.status = 'queued'
"""
"""How many runs are queued, and since when the oldest that a worker could drive is."""


def sqlite(settings: Settings) -> Iterator[Finding]:
    """Check the SQLite file, its owner and the disk; raises ConfigError when it cannot be read."""
    path = settings.database
    if not path.exists():
        yield Finding("fail", "database", f"there is no file `{path}`", "run `parley migrate`")
        return
    began = time.perf_counter()
    yield migrations(revision(settings), exact=True)
    with _opened(path) as connection:
        mode, size = connection.execute("PRAGMA journal_mode").fetchone()[0], path.stat().st_size
        queued, oldest = connection.execute(QUEUED).fetchone() if revision(settings) else (0, None)
    milliseconds = (time.perf_counter() - began) * 1000
    text = f"SQLite {sqlite3.sqlite_version}, `{path}`, {size / 1e6:.1f} MB, {mode}, read in {milliseconds:.0f} ms"
    yield Finding("ok", "database", text)
    yield Finding("ok", "clock", "this machine's, for the database too")
    yield _owner(settings, queued)
    yield backlog(queued, settings.max_backlog, oldest, time.time())
    yield _disk(path)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection that only reads, beside a server that owns the file."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise ConfigError(f"`{path}` cannot be read ({error}); restore it from a backup if it is damaged.") from None


def _owner(settings: Settings, queued: int) -> Finding:
    if not is_owned(settings):
        remedy = "start `parley serve`: messages wait" if queued else ""
        return Finding("warn" if queued else "ok", "engine", f"no server runs on `{settings.data}`", remedy)
    try:
        note = json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))
        owner = f"process {note['pid']} at {note['url']}"
    except (OSError, ValueError, KeyError):
        owner = "a process that does not serve yet"
    return Finding("ok", "engine", f"`{settings.data}` belongs to {owner}")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / GIGABYTE:.1f} GB free beside `{path}`"
    if free < LITTLE_FREE:
        return Finding("fail" if free < MIN_FREE else "warn", "disk", text, "free some, or move PARLEY_DATA")
    return Finding("ok", "disk", text)


def migrations(revision: str | None, *, exact: bool) -> Finding:
    """Check that the database is at the newest revision; without *exact* a later one is accepted."""
    wanted = newest()
    if revision == wanted:
        return Finding("ok", "migrations", f"revision {revision}, the newest")
    if revision is not None and revision > wanted:
        level: Level = "fail" if exact else "warn"
        return Finding(
            level, "migrations", f"revision {revision}, of a later Parley than this ({wanted})", "update this one"
        )
    return Finding("fail", "migrations", f"revision {revision or 'none'}, not {wanted}", "run `parley migrate`")


def backlog(queued: int, most: int, oldest: int | None, now: float) -> Finding:
    """Report how many runs are queued, and for how long the oldest that could be driven has waited."""
    waits = 0.0 if oldest is None else max(0.0, now - oldest / 1000)
    text = f"{queued} of at most {most} runs wait" + (f", the oldest for {waits:.0f} s" if oldest is not None else "")
    if queued >= most:
        return Finding("fail", "backlog", text, "messages are refused with 429: start more workers")
    if waits > 60:  # noqa: PLR2004 - a minute without an answer
        return Finding("warn", "backlog", text, "start more workers, or look for an agent whose cap is too low")
    return Finding("ok", "backlog", text)

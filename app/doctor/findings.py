"""What the doctor reports: findings, and those that SQLite and Postgres have in common."""

from dataclasses import dataclass
from typing import Literal

from app.storage.migrate import newest

Level = Literal["ok", "warn", "fail"]
QUEUED = """
SELECT count(*) AS queued, min(event.time) FILTER (WHERE NOT EXISTS (
    SELECT 1 FROM run AS active WHERE active.session = run.session AND active.parent IS NULL
    AND active.status IN ('running', 'waiting', 'requires_action')
)) AS oldest
FROM run JOIN event ON event.session = run.session AND event.seq = run.first_seq WHERE run.status = 'queued'
"""
"""How many runs are queued, and since when the oldest that a worker could drive is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; *remedy* says what to do when it is not `ok`."""

    level: Level
    about: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<5} {self.about:<12} {self.text}"
        return f"{line}; {self.remedy}" if self.remedy else line


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

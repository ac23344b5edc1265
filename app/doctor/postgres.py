"""What the doctor looks at in a Postgres: the server, its clock, who works on it, connections, and notifications."""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from agent_core.store.work.workers import PROTOCOL, newer_runs
from app.doctor.findings import QUEUED, Finding, backlog, migrations
from app.settings import Settings
from app.storage.migrate import ENGINE_SCHEMA, revision_of
from app.storage.postgres import PATIENCE, connected, place_of

DEAD = 10.0
"""Seconds without a beat after which a worker counts as dead."""
AHEAD, FAR_AHEAD = 1.0, 10.0
"""Seconds by which clocks may differ: beyond the first answers seem to come before their questions."""
SLOW = 0.05
HEARD = 3.0
CHANNEL = "parley_doctor"
_FULL, _ALMOST = 0.95, 0.8

_WORKERS = text("SELECT kind, extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 AS age FROM worker")
_DRIVERS = text("""
SELECT count(*) FILTER (WHERE protocol > :known) AS newer, count(*) FILTER (WHERE protocol < :known) AS older
FROM worker WHERE kind <> 'web' AND extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 < :dead
""")
_CONNECTIONS = text("""
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS used,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most
""")
_ENGINE = text(
    "SELECT 1 FROM information_schema.tables WHERE table_schema = :schema AND table_name = 'workflow_status'"
)


def postgres(settings: Settings, url: str) -> Iterator[Finding]:
    """Look at the Postgres at *url*; raises ConfigError when it cannot be used."""
    with connected(url) as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{PATIENCE}s'"))
        yield _server(connection, url)
        found = revision_of(connection)
        yield migrations(found, exact=False)
        yield _clock(connection)
        if found is not None and found >= "0003":
            yield _engine(connection)
            yield from _workers(connection, settings)
            yield _versions(connection)
        yield _connections(connection)
    yield _notifications(url)


def _server(connection: Connection, url: str) -> Finding:
    version = connection.execute(text("SHOW server_version")).scalar_one()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        connection.execute(text("SELECT 1"))
        took.append(time.perf_counter() - began)
    latency = statistics.median(took)
    told = f"Postgres {version} at {place_of(url)}, {latency * 1000:.1f} ms a round trip"
    if latency > SLOW:
        return Finding("warn", "database", told, "run Parley nearer to it: a message takes several round trips")
    return Finding("ok", "database", told)


def _clock(connection: Connection) -> Finding:
    before = time.time()
    theirs = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return clock((before + time.time()) / 2 - theirs)


def clock(ahead: float) -> Finding:
    """Tell by how many seconds this machine's clock is *ahead* of the database's."""
    told = f"{abs(ahead):.2f} s {'ahead of' if ahead > 0 else 'behind'} the database's"
    if abs(ahead) > AHEAD:
        return Finding("fail" if abs(ahead) > FAR_AHEAD else "warn", "clock", told, "set both by NTP")
    return Finding("ok", "clock", told)


def _engine(connection: Connection) -> Finding:
    if connection.execute(_ENGINE, {"schema": ENGINE_SCHEMA}).first() is None:
        return Finding("fail", "engine", f"the schema `{ENGINE_SCHEMA}` is not there", "run `parley migrate`")
    return Finding("ok", "engine", f"the schema `{ENGINE_SCHEMA}` is there")


def _workers(connection: Connection, settings: Settings) -> Iterator[Finding]:
    ages = [(kind, float(age)) for kind, age in connection.execute(_WORKERS)]
    live = [(kind, age) for kind, age in ages if age < DEAD]
    drive = sum(kind != "web" for kind, _ in live)
    row: Any = connection.execute(text(QUEUED)).one()
    oldest = f", the oldest beat {max(age for _, age in live):.1f} s ago" if live else ""
    told = f"{drive} that drive runs, {len(live) - drive} that only serve{oldest}"
    if not drive:
        level, remedy = ("fail", "messages wait") if row.queued else ("warn", "nobody answers")
        yield Finding(level, "workers", told, f"{remedy}: start `parley serve` or `parley worker`")
    else:
        yield Finding("ok", "workers", told)
    if dead := len(ages) - len(live):
        remedy = "the others clear them away within seconds" if drive else "a worker clears them away when it starts"
        yield Finding("warn", "workers", f"{dead} rows of processes that ended without a word", remedy)
    yield backlog(row.queued, settings.max_backlog, row.oldest, time.time())


def _versions(connection: Connection) -> Finding:
    row: Any = connection.execute(_DRIVERS, {"known": PROTOCOL, "dead": DEAD}).one()
    told = f"of those that drive runs {row.newer} know more than this version, {row.older} less"
    waiting = newer_runs(connection, int(DEAD * 1000))
    if waiting and not row.newer:
        told = f"{waiting} runs wait for a newer version than any that drives runs"
        return Finding("warn", "versions", told, "start that version again, or cancel them")
    return Finding("ok", "versions", f"{told}; {waiting} runs wait for newer ones")


def _connections(connection: Connection) -> Finding:
    row: Any = connection.execute(_CONNECTIONS).one()
    told = f"{row.used} of {row.most} in use"
    remedy = "raise max_connections, or lower PARLEY_POOL"
    if row.used >= row.most * _ALMOST:
        return Finding("fail" if row.used >= row.most * _FULL else "warn", "connections", told, remedy)
    return Finding("ok", "connections", told)


def _notifications(url: str) -> Finding:
    """Send a notification from one connection to another: a pooler between transactions loses it."""
    remedy = "have DATABASE_URL name Postgres itself, or a pooler in session mode"
    try:
        with _connected(url) as hears, _connected(url) as says:
            hears.execute(f"LISTEN {CHANNEL}")
            began = time.perf_counter()
            says.execute("SELECT pg_notify(%s, 'hello')", (CHANNEL,))
            heard = next(hears.notifies(timeout=HEARD, stop_after=1), None)
            took = (time.perf_counter() - began) * 1000
    except psycopg.Error as error:
        return Finding("fail", "listen", f"LISTEN and NOTIFY do not work ({type(error).__name__})", remedy)
    if heard is None:
        return Finding("fail", "listen", f"a notification did not arrive within {HEARD:.0f} s", remedy)
    return Finding("ok", "listen", f"a notification takes {took:.1f} ms")


def _connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, connect_timeout=PATIENCE)

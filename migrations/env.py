"""Run migrations on the database whose URL the caller sets as `sqlalchemy.url`, for Postgres with psycopg's driver."""

import time

from alembic import context
from sqlalchemy import Connection, create_engine, pool, text
from sqlmodel import SQLModel

from agent_core.store import tables
from channels import ledger
from channels.web import routes

target_metadata = SQLModel.metadata
assert tables.DEFAULT_PROJECT == 1
assert ledger.DeliveryRow
assert routes.WidgetFileRow
# An index that holds some rows on SQLite holds the same ones on Postgres.
for index in (each for table in target_metadata.tables.values() for each in table.indexes):
    index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
_ONE_AT_A_TIME = 7_275_542
"""The advisory lock of the process that migrates; it is held over all its transactions."""
_TIMEOUT, _PAUSE = 600.0, 0.1
"""Seconds to wait for another process that migrates, and between two attempts to get the lock."""
_LOCK_TIMEOUT = "5s"


def run() -> None:
    """Migrate over a connection of our own; SQLite alters tables by copying them (`render_as_batch`)."""
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise ValueError("Set `sqlalchemy.url` in the Alembic config, or use `parley migrate`.")
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            _beside_others(connection)
        context.configure(
            connection=connection,
            target_metadata=target_metadata,
            render_as_batch=True,
            compare_type=True,
            transaction_per_migration=True,
        )
        with context.begin_transaction():
            context.run_migrations()


def _beside_others(connection: Connection) -> None:
    """Wait while another process migrates, and set a lock timeout: queries queue up after a migration that waits.

    No transaction is open while it waits: an index that is built concurrently would wait for that in turn.
    """
    until = time.monotonic() + _TIMEOUT
    while not connection.execute(text(f"SELECT pg_try_advisory_lock({_ONE_AT_A_TIME})")).scalar_one():
        connection.rollback()
        if time.monotonic() > until:
            raise TimeoutError("Another process has been migrating this database for ten minutes.")
        time.sleep(_PAUSE)
    connection.execute(text(f"SET lock_timeout = '{context.config.get_main_option('lock_timeout', _LOCK_TIMEOUT)}'"))
    connection.commit()


run()

"""Run migrations on the database whose URL the caller sets as `sqlalchemy.url`."""

from alembic import context
from sqlalchemy import create_engine, pool
from sqlmodel import SQLModel

from agent_core.store import tables

target_metadata = SQLModel.metadata
assert tables.DEFAULT_PROJECT == 1
# An index that holds some rows on SQLite holds the same ones on Postgres.
for index in (each for table in target_metadata.tables.values() for each in table.indexes):
    index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]


def run() -> None:
    """Migrate over a connection of our own; SQLite alters tables by copying them (`render_as_batch`)."""
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise ValueError("Set `sqlalchemy.url` in the Alembic config, or use `parley migrate`.")
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(
            connection=connection, target_metadata=target_metadata, render_as_batch=True, compare_type=True
        )
        with context.begin_transaction():
            context.run_migrations()


run()

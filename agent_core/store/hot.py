"""Statements compiled once: building SQL anew for every append costs more than running it."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, literal_column
from sqlalchemy.engine import CursorResult
from sqlalchemy.sql import ClauseElement


def word(value: str | int) -> ColumnElement[Any]:
    """Return *value*, a constant of ours, as an SQL literal: a partial index serves only conditions without binds."""
    if isinstance(value, int):
        return literal_column(str(value))
    assert value.replace("_", "").isalpha()
    return literal_column(f"'{value}'")


def words(*values: str | int) -> list[ColumnElement[Any]]:
    """Return each of *values* as an SQL literal."""
    return [word(value) for value in values]


class Hot:
    """A Core statement that is compiled at its first use per dialect and run as driver SQL.

    Values are bound by name (`bindparam`); values that the statement holds itself keep their place.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None, dict[str, Any]]] = {}

    def run(self, connection: Connection, **values: Any) -> CursorResult[Any]:
        """Run once with *values* by name."""
        sql, order, fixed = self._sql(connection)
        bound = {**fixed, **values} if fixed else values
        return connection.exec_driver_sql(sql, tuple(bound[name] for name in order) if order is not None else bound)

    def run_many(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        """Run once per row; *rows* may not be empty."""
        sql, order, fixed = self._sql(connection)
        bound = [{**fixed, **row} for row in rows] if fixed else rows
        values: Any = [tuple(row[name] for name in order) for row in bound] if order is not None else bound
        connection.exec_driver_sql(sql, values)

    def _sql(self, connection: Connection) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
        dialect = connection.dialect
        if dialect.name not in self._compiled:
            compiled: Any = self._statement.compile(dialect=dialect)
            order = tuple(compiled.positiontup) if compiled.positional else None
            fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            self._compiled[dialect.name] = (str(compiled), order, fixed)
        return self._compiled[dialect.name]

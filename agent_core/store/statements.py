"""Statements compiled once and run on the driver's own cursor: building SQL again costs more than running it.

They are for what a message, a step, the start and the end of a run, a page of a reader, a look for due runs and the
start of a process run:

| module | statements |
| --- | --- |
| `store.log` | `_CLAIM`, `_TAKE_SEQS`, `_INSERT`, `_BETWEEN`, `_PAGE`, `_OF_RUN` |
| `work.limits` | `_IN_SESSION` |
| `work.due` | `_BEGUN`, `_QUEUED`, `_NEXT` |
| `work.runs` | `_INSERT`, `_BY_ID`, `_BY_KEY`, `_ACTIVE`, `_QUEUED`, `_HOLD`, `_SET_STATUS` |
| `work.sessions` | `_INSERT`, `_SHARE_AGENT`, `_BY_ID`, `_HOLD` |
| `work.intake` | `_SEEN`, `_KEEP`, `_SET_TITLE`, `_STEERED` |
| `work.catalog` | all that names no agent's new values |
| `work.feedback` | `_OF` |
| `work.spending` | `_ADD` |
| `store.reading.follow` | `_OPEN` |
| `store.reading.listing` | `_OBJECT` |
| `store.reading.readings` | `_RUN` |

Everything else goes through `connection.execute`: caps of agents, notes, heartbeats, resumes, figures, approvals and
their audit, loading a session that is not in memory, lists of objects as clients read them.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, Connection, literal_column
from sqlalchemy.engine import Row, result_tuple
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.sql import ClauseElement


def literal(value: str | int) -> ColumnElement[Any]:
    """Return *value*, a constant, as an SQL literal: a partial index serves only conditions without binds."""
    if isinstance(value, int):
        return literal_column(str(value))
    assert value.replace("_", "").isalpha()
    return literal_column(f"'{value}'")


def literals(*values: str | int) -> list[ColumnElement[Any]]:
    """Return each of *values* as an SQL literal."""
    return [literal(value) for value in values]


class Rows(list[Row[Any]]):
    """The rows that a statement returned, as named tuples, with the accessors of SQLAlchemy's results."""

    def all(self) -> "Rows":
        return self

    def first(self) -> Row[Any] | None:
        """Return the first row, or None."""
        return self[0] if self else None

    def one(self) -> Row[Any]:
        """Return the only row."""
        (row,) = self
        return row

    def scalar(self) -> Any:
        """Return the first row's first field, or None."""
        return self[0][0] if self else None

    def scalar_one(self) -> Any:
        """Return the only row's first field."""
        return self.one()[0]


class Statement:
    """A Core statement that is compiled at its first use per driver and run without SQLAlchemy's result machinery.

    Values are bound by name (`bindparam`); values that the statement itself holds are added. Neither values nor
    rows are converted: columns hold what the driver gives. *postgresql* is its form for that database, if it differs.
    """

    def __init__(self, statement: ClauseElement, *, postgresql: ClauseElement | None = None) -> None:
        self._statement, self._postgresql = statement, postgresql
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None, dict[str, Any]]] = {}
        self._row: Callable[[Any], Row[Any]] | None = None

    def run(self, connection: Connection, **values: Any) -> Rows:
        """Run once with *values* by name."""
        sql, order, fixed = self._sql(connection)
        bound = {**fixed, **values} if fixed else values
        parameters: Any = tuple([bound[name] for name in order]) if order is not None else bound
        cursor = _cursor(connection, sql, parameters, many=False)
        cursor.execute(sql, parameters)
        if not cursor.description:
            return Rows()
        if self._row is None:
            self._row = result_tuple([column[0] for column in cursor.description])
        return Rows(map(self._row, cursor.fetchall()))

    def run_many(self, connection: Connection, rows: list[dict[str, Any]]) -> None:
        """Run once per row; *rows* may not be empty."""
        sql, order, fixed = self._sql(connection)
        bound = [{**fixed, **row} for row in rows] if fixed else rows
        parameters: Any = [tuple([row[name] for name in order]) for row in bound] if order is not None else bound
        _cursor(connection, sql, parameters, many=True).executemany(sql, parameters)

    def _sql(self, connection: Connection) -> tuple[str, tuple[str, ...] | None, dict[str, Any]]:
        """Return the SQL, the order of its values (None when they go by name), and the values that it holds itself."""
        dialect = connection.dialect
        if dialect.driver not in self._compiled:
            own = self._postgresql if dialect.name == "postgresql" else None
            compiled: Any = (self._statement if own is None else own).compile(dialect=dialect)
            order = tuple(compiled.positiontup) if compiled.positional else None
            fixed = {name: value for name, value in compiled.params.items() if not compiled.binds[name].required}
            self._compiled[dialect.driver] = (str(compiled), order, fixed)
        return self._compiled[dialect.driver]


def execute_raw(connection: Connection, sql: str) -> None:
    """Run *sql*, which takes and returns nothing, without what SQLAlchemy adds: more than a `BEGIN` takes."""
    _cursor(connection, sql, (), many=False).execute(sql)


def _cursor(connection: Connection, sql: str, parameters: Any, *, many: bool) -> DBAPICursor:
    """Return a cursor for *sql*, after notifying the listeners to this connection's statements."""
    cursor = connection.connection.cursor()
    for notify in connection.dispatch.before_cursor_execute:
        notify(connection, cursor, sql, parameters, None, many)
    return cursor

"""Postgres for a command, before anything runs: one connection, and its failures in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote, urlsplit

from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from agent_core import ConfigError

CONNECT_TIMEOUT = 5
"""Seconds to connect."""


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Give a connection in a transaction to the Postgres at *url*; raise ConfigError when it cannot be used."""
    with plain_failures(url):
        engine = create_engine(
            driver_url(url), poolclass=NullPool, hide_parameters=True, connect_args={"connect_timeout": CONNECT_TIMEOUT}
        )
        with engine.begin() as connection:
            yield connection


@contextmanager
def plain_failures(url: str) -> Iterator[None]:
    """Raise what goes wrong with the Postgres at *url* as one line, without the password."""
    try:
        yield
    except DBAPIError as error:
        raise ConfigError(
            f"DATABASE_URL: the Postgres at {place_of(url)} cannot be used ({_reason(error, url)}); {_remedy(error)}."
        ) from None
    except TimeoutError as error:
        raise ConfigError(f"DATABASE_URL: {error} Check whether it still does, then run it again.") from None


def driver_url(url: str) -> str:
    """Return *url*, as a user writes it, as SQLAlchemy takes it for the driver that migrations use."""
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def place_of(url: str) -> str:
    """Return host, port and database of *url*: what may be shown of it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or parse_qs(parts.query).get("host", ["this machine"])[0]
    return f"{host}, database `{unquote(parts.path.lstrip('/')) or 'of the user'}`"


def _remedy(error: DBAPIError) -> str:
    match getattr(error.orig, "sqlstate", None):
        case "55P03":
            return "a table is in use; run it again"
        case "42501":
            return "use a role with the right to do this, for `parley migrate` the owner of the database"
        case "57014":
            return "something holds a table for long; look at pg_stat_activity"
        case _:
            return "check that it runs, and the address, name and password"


def _reason(error: DBAPIError, url: str) -> str:
    """Return the driver's own words, in one line; where an address puzzles it, it cites what may be the password."""
    words = " ".join(str(error.orig).split())
    parts = urlsplit(url)
    raw = parts.netloc.rpartition("@")[0].partition(":")[2]
    for secret in {raw, unquote(raw), *parse_qs(parts.query).get("password", [])} - {""}:
        words = words.replace(secret, "…")
    return words

"""What the server keeps on its disk or in its database: the key at rest, the lock, tables, and what files define."""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import structlog
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

import migrations
from agent_core.errors import ConfigError
from agent_core.objects import AgentObject
from agent_core.store import catalog, servers
from agent_core.store.access import keep_shared, shared_value
from agent_core.store.servers import StoredServer
from app.settings import MIN_SECRET, SERVER_FILE, SQLITE, Settings, check_file

OTHERS = stat.S_IRWXG | stat.S_IRWXO
MAX_ENTRIES = 10_000
"""Entries of the folder that are looked at in one start."""
BESIDE = ("", "-wal", "-shm", "-journal", ".lock")
"""What follows the name of an SQLite file in the names of those that belong to it."""
OURS = ("*.db*", "*.key", "*.sha256", "*.log*", "*.bak*", "*.sqlite*", "lock", "server.json")
_log = structlog.get_logger("parley.data")


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders for their owner alone while the block runs."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def secure(settings: Settings) -> None:
    """Take the rights of all others from the folder PARLEY_DATA, what is in it, and the SQLite file.

    What was open to others is logged, and what cannot be changed too. Links are left as they are. In a folder that is
    more than ours, such as the working directory, only what Parley writes is changed.
    """
    for path in dict.fromkeys((*_inside(settings.data), *_database(settings))):
        _narrow(path)


def _inside(data: Path) -> Iterator[Path]:
    if not data.is_dir():
        return
    if _is_shared(data):
        for pattern in OURS:
            yield from (path for path in data.glob(pattern) if path.is_file())
        return
    yield data
    seen = 0
    for folder, folders, files in os.walk(data):  # follows no link
        for name in (*folders, *files):
            seen += 1
            if seen > MAX_ENTRIES:
                _log.warning("data.not_all_checked", folder=str(data), remedy=f"keep at most {MAX_ENTRIES} files in it")
                return
            yield Path(folder, name)


def _is_shared(data: Path) -> bool:
    """Return whether *data* holds more than ours: it is where we work or live, or contains that."""
    place = data.resolve()
    return any(each == place or place in each.parents for each in (Path.cwd(), Path.home()))


def _database(settings: Settings) -> Iterator[Path]:
    if settings.postgres is None:
        name = settings.database
        yield from (path for end in BESIDE if (path := name.with_name(name.name + end)).is_file())


def _narrow(path: Path) -> None:
    try:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or not mode & OTHERS:
            return
        path.chmod(mode & ~OTHERS)
    except FileNotFoundError:
        return  # it was removed just now
    except OSError as error:
        remedy = "make it yours and readable by you alone"
        _log.warning("data.open_to_others", path=str(path), reason=error.strerror, remedy=remedy)
        return
    _log.warning("data.closed_to_others", path=str(path), was=f"{mode:04o}", now=f"{mode & ~OTHERS:04o}")


LOCK_FILE = "lock"
# A command that checks for an owner holds the lock for a moment: an owner retries.
TRIES = 3
PAUSE = 0.02


@contextmanager
def owned(settings: Settings) -> Iterator[None]:
    """Hold the lock while the block runs; raise ConfigError at once when another process has it.

    The address noted by a server that was killed is removed: it is not valid any more.
    """
    paths = {settings.data / LOCK_FILE, settings.database.with_name(f"{settings.database.name}.{LOCK_FILE}")}
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(_locked(path, settings))
        (settings.data / SERVER_FILE).unlink(missing_ok=True)
        yield


@contextmanager
def address_place(settings: Settings) -> Iterator[bool]:
    """Give whether PARLEY_DATA may hold this process's address, for the commands of this machine.

    On Postgres any number of processes run, and the folder holds nothing that they need: the first one is known there,
    and none where nothing can be written.
    """
    with ExitStack() as stack:
        first = False
        with suppress(OSError):
            settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = stack.enter_context((settings.data / LOCK_FILE).open("a", encoding="utf-8"))
            first = _taken(file)
        if first:
            (settings.data / SERVER_FILE).unlink(missing_ok=True)
        yield first


def is_owned(settings: Settings) -> bool:
    """Return whether a process holds the lock of PARLEY_DATA: only then is an address noted there valid."""
    try:
        with (settings.data / LOCK_FILE).open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def server_note(settings: Settings) -> dict[str, Any] | None:
    """Return the `url` and `pid` of the server that owns PARLEY_DATA, empty until it serves; None without an owner."""
    if not is_owned(settings):
        return None
    try:
        note = json.loads((settings.data / SERVER_FILE).read_text(encoding="utf-8"))
        return {"url": str(note["url"]), "pid": note["pid"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


@contextmanager
def _locked(path: Path, settings: Settings) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"DATABASE_URL: `{path.parent}` cannot be written ({error.strerror}); name a place that can."
        ) from None
    with file:
        if not _taken(file):
            raise ConfigError(
                f"PARLEY_DATA: `{settings.data}` (DATABASE_URL {SQLITE}{settings.database}) belongs to a process that "
                "runs; stop that one, or name another folder."
            )
        yield


def _taken(file: TextIO) -> bool:
    """Try to take the lock; return whether we hold it."""
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(PAUSE)
        else:
            return True
    return False


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


SECRET_FILE = "secret.key"  # noqa: S105 - a file's name
API_KEY_FILE = "api_key.sha256"
API_KEY_NAME = "api_key.sha256"
"""What its hash is called among the values that the processes of a database share."""


SECRET_NAME = "secret_key.fingerprint"  # noqa: S105 - a name
"""What the fingerprint of the secret key is called there."""


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """Keys for each purpose, by HMAC-SHA256 from one secret."""

    root: bytes

    def derive(self, purpose: str) -> bytes:
        """Return the 32 bytes for *purpose*; different purposes share nothing."""
        return hmac.digest(self.root, b"parley:" + purpose.encode(), "sha256")


@dataclass(frozen=True, slots=True, repr=False)
class ApiKey:
    """The bootstrap operator key, known by its hash.

    *generated* is the text of one made just now, *renewal* says how to get another than one that was made before.
    """

    digest: bytes
    generated: str | None = None
    renewal: str | None = None

    def fits(self, text: str) -> bool:
        """Return whether *text* is the key, in constant time."""
        return hmac.compare_digest(_hash(text), self.digest)


def load_keys(settings: Settings) -> Keys:
    """Return the keys of PARLEY_SECRET_KEY, else of the file in PARLEY_DATA, which is made when missing."""
    if settings.secret_key is not None:
        return Keys(settings.secret_key.get_secret_value().encode())
    text = _stored_secret(settings) or _write(settings.data / SECRET_FILE, secrets.token_urlsafe(48))
    return Keys(text.encode())


def check_keys(settings: Settings) -> None:
    """Raise ConfigError when a key that is kept in PARLEY_DATA, and is needed, cannot be used; make none."""
    if settings.postgres is None:
        if settings.secret_key is None:
            _stored_secret(settings)
        if settings.api_key is None:
            _stored_api_key(settings)


def _stored_secret(settings: Settings) -> str | None:
    path = settings.data / SECRET_FILE
    text = _read(path)
    if text is not None and len(text) < MIN_SECRET:
        raise ConfigError(f"PARLEY_SECRET_KEY: `{path}` holds no key; remove the file, or set the variable.")
    return text


def _stored_api_key(settings: Settings) -> ApiKey | None:
    path = settings.data / API_KEY_FILE
    digest = _read(path)
    try:
        renewal = f"remove {path} and start again, or set PARLEY_API_KEY"
        return None if digest is None else ApiKey(bytes.fromhex(digest), renewal=renewal)
    except ValueError:
        raise ConfigError(
            f"PARLEY_API_KEY: `{path}` is damaged; remove it for a new key, or set the variable."
        ) from None


def check_secret(settings: Settings) -> None:
    """Raise ConfigError when the other processes of the same Postgres have another PARLEY_SECRET_KEY."""
    if settings.postgres is None:
        return
    mark = load_keys(settings).derive("fingerprint")
    with connected(settings.postgres) as connection:
        shared = keep_shared(connection, SECRET_NAME, mark)
    _compare(mark, shared)


def check_shared_secret(settings: Settings) -> None:
    """Do as `check_secret` on a migrated Postgres, and keep nothing: before the first start every secret will do."""
    if settings.postgres is None or settings.secret_key is None:
        return
    with connected(settings.postgres) as connection:
        shared = shared_value(connection, SECRET_NAME)
    if shared is not None:
        _compare(load_keys(settings).derive("fingerprint"), shared)


def _compare(mark: bytes, shared: bytes) -> None:
    if not hmac.compare_digest(mark, shared):
        raise ConfigError(
            "PARLEY_SECRET_KEY: the processes of this Postgres have another one; set the same for all (how it is "
            "changed is in docs/operations.md)."
        )


def load_api_key(settings: Settings) -> ApiKey:
    """Return PARLEY_API_KEY, else the key of an earlier start, else a new one that is to be shown once.

    On Postgres its hash is kept in the database: the process that makes the key shows it, and all take it.
    """
    if settings.api_key is not None:
        return ApiKey(_hash(settings.api_key.get_secret_value()))
    made = f"parley_{secrets.token_urlsafe(24)}"
    if settings.postgres is not None:
        return _shared(settings.postgres, made)
    if existing := _stored_api_key(settings):
        return existing
    _write(settings.data / API_KEY_FILE, _hash(made).hex())
    return ApiKey(_hash(made), generated=made)


def find_api_key(settings: Settings) -> ApiKey | None:
    """Return PARLEY_API_KEY, else the key that a server on the same Postgres has made; make none."""
    if settings.api_key is not None:
        return ApiKey(_hash(settings.api_key.get_secret_value()))
    if settings.postgres is None:
        return None
    with connected(settings.postgres) as connection:
        digest = shared_value(connection, API_KEY_NAME)
    return None if digest is None else ApiKey(digest)


def _shared(url: str, made: str) -> ApiKey:
    with connected(url) as connection:
        digest = keep_shared(connection, API_KEY_NAME, _hash(made))
    if digest == _hash(made):
        return ApiKey(digest, generated=made)
    return ApiKey(digest, renewal="set PARLEY_API_KEY for all processes")


def prepare_data(settings: Settings) -> Path:
    """Make the folder PARLEY_DATA, and all that is in it this user's alone; return it."""
    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"PARLEY_DATA: `{settings.data}` cannot be made ({error.strerror}); name a folder that can."
        ) from None
    secure(settings)
    return settings.data


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"PARLEY_DATA: `{path}` cannot be read ({error}); correct its permissions.") from None


def _write(path: Path, text: str) -> str:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigError(
            f"PARLEY_DATA: `{path}` cannot be written ({error.strerror}); name a folder that can."
        ) from None
    return text


FOLDER = Path(migrations.__file__).parent
FIRST = "0100"
"""The revision of the first release; earlier ones were of no release."""
ENGINE_SCHEMA = "dbos"
"""Where the engine keeps its own tables, beside ours."""


def migrate(settings: Settings) -> str:
    """Upgrade the database that *settings* name, unless it is up to date or a later version's; return what was done.

    It needs nothing else of them: no agents, no keys, no secret. Raises ConfigError.
    """
    check_file(settings)
    with private_files():
        return _migrated(settings)


def _migrated(settings: Settings) -> str:
    before = revision(settings) if settings.postgres is not None or settings.database.exists() else None
    if before is not None and before < FIRST:
        raise ConfigError(
            "DATABASE_URL: this database is of a Parley before its first release, which is not upgraded; name a new "
            "one, or another folder in PARLEY_DATA."
        )
    _migrate(settings)
    after = revision(settings)
    return "up to date" if before == after else f"revision {before or 'none'} -> {after}"


def _migrate(settings: Settings) -> None:
    if settings.postgres is not None:
        _migrate_postgres(settings, settings.postgres)
        return
    prepare_data(settings)
    if settings.database.exists() and not _is_outdated(settings):
        return
    with owned(settings):
        _upgrade(f"{SQLITE}{settings.database}")


def check_migrated(settings: Settings) -> None:
    """Raise ConfigError unless the database is there and of a revision that this version can use.

    In Postgres that is its own or a later one: revisions only add, so that old processes work on while a new version
    is brought out. An SQLite file has one process, and no two versions at a time.
    """
    current, wanted = revision(settings), newest()
    if current == wanted or (settings.postgres is not None and current is not None and current > wanted):
        return
    what = "the Postgres" if settings.postgres is not None else f"`{settings.database}`"
    if current is not None and current > wanted:
        raise ConfigError(f"DATABASE_URL: {what} is at revision {current}, of a later Parley; start that version.")
    raise ConfigError(f"DATABASE_URL: {what} is at revision {current or 'none'}, not {wanted}; run `parley migrate`.")


def revision(settings: Settings) -> str | None:
    """Return the database's revision, None for an empty one; raise ConfigError for what is no database."""
    if settings.postgres is not None:
        with connected(settings.postgres) as connection:
            return revision_of(connection)
    if not settings.database.exists():
        raise ConfigError(f"DATABASE_URL: there is no database at `{settings.database}`; run `parley migrate`.")
    try:
        with closing(sqlite3.connect(settings.database)) as connection:
            exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone() if exists else None
    except sqlite3.Error as error:
        raise ConfigError(
            f"DATABASE_URL: `{settings.database}` cannot be used ({error}); name an SQLite file that can."
        ) from None
    return row[0] if row else None


def revision_of(connection: Connection) -> str | None:
    """Return the revision that the database of *connection* says it has."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def newest() -> str:
    """Return the newest revision: revisions are files that begin with their number."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def _is_outdated(settings: Settings) -> bool:
    return (revision(settings) or "") < newest()


def _migrate_postgres(settings: Settings, url: str) -> None:
    """Upgrade our tables and the engine's own, so that the processes need no right to make any."""
    outdated = _is_outdated(settings)
    with plain_failures(url):
        if outdated:
            _upgrade(driver_url(url))
        from dbos import DBOS  # noqa: PLC0415 - slow to import, and only this needs it

        DBOS.migrate(url, schema=ENGINE_SCHEMA)


def _upgrade(url: str) -> None:
    from alembic import command  # noqa: PLC0415 - Alembic is slow to import, and only this needs it
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    command.upgrade(config, "head")


T = TypeVar("T")


def stored_servers(settings: Settings) -> tuple[Sequence[StoredServer], Collection[str]]:
    """Return the stored servers, and the names of the secrets; none of a database that is missing or older."""
    return query(settings, lambda each: (servers.everything(each), servers.secret_names(each))) or ((), ())


def stored_secrets(settings: Settings) -> Collection[str] | None:
    """Return the names of the stored secrets; None of a database that is missing or older."""
    return query(settings, servers.secret_names)


def query(settings: Settings, work: Callable[[Connection], T]) -> T | None:
    """Return what *work* finds; None in a database that is missing, older, or cannot be read."""
    try:
        if settings.postgres is not None:
            with connected(settings.postgres) as connection:
                return work(connection)
        if not settings.database.exists():
            return None
        engine = create_engine(f"sqlite:///{settings.database}")
        try:
            with engine.connect() as connection:
                return work(connection)
        finally:
            engine.dispose()
    except (ConfigError, SQLAlchemyError):  # what is wrong with it is a finding of its own
        return None


def stored_tools(settings: Settings) -> Collection[str]:
    """Return the names of the defined tools; none of a database that is missing, older, or cannot be read."""
    return query(settings, lambda connection: set(connection.execute(text("SELECT name FROM tool")).scalars())) or ()


MAX_AGENTS = 10_000
"""Agents that a check looks at."""


def all_agents(settings: Settings) -> Sequence[AgentObject]:
    """Return all agents of the database, those of files as the last start read them.

    There are none in a database that is missing, or of another version.
    """
    return query(settings, _agents_read) or ()


def _agents_read(connection: Connection) -> Sequence[AgentObject]:
    try:
        return catalog.listed(connection, limit=MAX_AGENTS, after=0).items
    except (msgspec.ValidationError, connection.dialect.loaded_dbapi.Error):
        # Of another version, or empty: that is a finding of the migrations. Prepared statements raise the driver's own.
        return ()

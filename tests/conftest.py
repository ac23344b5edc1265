"""Fixtures: a migrated database, and cores on it that a test may stop, crash and start again."""

import gc
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
from alembic import command
from hypothesis import HealthCheck, settings

from agent_core.agents import Definition
from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.engine import pool
from agent_core.messages import Actor
from agent_core.providers.base import Provider
from agent_core.providers.demo import DemoProvider
from agent_core.secrets import Secrets
from agent_core.store.database import Database, SqliteDatabase
from agent_core.store.postgres import PostgresDatabase
from agent_core.testing import ScriptedProvider
from agent_core.tools.base import Tool
from app.compose import CHANNELS
from tests import gate
from tests.both import choose_backends
from tests.postgres import PATIENT, ROOT, PostgresServer, alembic_config, guarded_folder, locked, shared_server

__all__ = ["ANN", "ROOT", "SECRETS", "Fresh", "MakeCore", "OpenDatabase", "alembic_config"]
ANN = Actor("ann", "user", "Ann")

# The gate tries the same few examples each time: what is new is looked for by `make fuzz`, which is no one's gate.
# How long one takes says how busy the machine is, and nothing of the product.
_BUSY = (HealthCheck.too_slow,)
settings.register_profile(
    "gate", derandomize=True, database=None, max_examples=15, deadline=None, suppress_health_check=_BUSY
)
settings.load_profile("gate")

SECRETS = Secrets(b"a key of the tests, of 32 bytes.")

MakeCore = Callable[..., Awaitable[Core]]
OpenDatabase = Callable[[], Database]
"""Opens the same database each time, as a process does that starts; called inside a running event loop."""
Fresh = Callable[[], AbstractContextManager[OpenDatabase]]
"""Makes a new migrated database for as long as a `with` lasts."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run every case, on both databases")
    parser.addoption("--quick", action="store_true", help="run what needs no database, process or browser")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_backends(metafunc, whole=bool(metafunc.config.getoption("--whole")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from what lives until the end: it would look at all tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of this tier, and put first what waits."""
    gate.choose(config, items)
    given: dict[str, Any] = getattr(config, "workerinput", {})
    items[:] = gate.spread(items, given.get("workercount", 1))


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Undo, after each test, what it or a server that it started in this process set up of the logs."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def no_run_crashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test in which a run crashed, unless that is what it is about (`crashes`): a script's assertion ends there.

    The worker logs the bug and lives on, and the sweep tries the run again: what a test sees of it may look right.
    """
    crashed: list[str] = []

    def error(event: str, **given: Any) -> None:
        if event == "run.crashed":
            crashed.append(str(given["exception"]))
        pool._log.bind().error(event, **given)

    monkeypatch.setattr(pool._log, "error", error, raising=False)
    yield
    is_wanted = request.node.get_closest_marker("crashes") is not None
    assert bool(crashed) == is_wanted, "\n".join(crashed) or "No run crashed."


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether every case of a matrix is run, and not only some of each kind."""
    return bool(request.config.getoption("--whole"))


_POSTGRES = pytest.StashKey[tuple[Path, str]]()
"""Where the run's Postgres server and the SQLite file to copy are, or will be, and the name of this worker."""
_GUARDED = pytest.StashKey[ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Have one place for a Postgres server for the whole run: the process that starts the workers guards it."""
    config.pluginmanager.register(gate.Costs())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell leaves it to what it starts in the background: our processes, which inherit it, would not be
        # interrupted by tests that do so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[_POSTGRES] = Path(given["postgres"]), given["workerid"]
        return
    config.stash[_GUARDED] = ExitStack()
    config.stash[_POSTGRES] = config.stash[_GUARDED].enter_context(guarded_folder()), "test"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the server is."""
    node.workerinput["postgres"] = str(node.config.stash[_POSTGRES][0])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _GUARDED in config.stash:
        config.stash[_GUARDED].close()


@pytest.fixture(scope="session")
def template(request: pytest.FixtureRequest) -> Path:
    """A migrated, empty SQLite file, made once for all workers and copied for each test."""
    folder = request.config.stash[_POSTGRES][0]
    path, made = folder / "parley.db", folder / "made" / "parley.db"
    with locked(folder / "sqlite.lock"):
        if not made.exists():
            command.upgrade(alembic_config(f"sqlite:///{path}"), "head")
            made.parent.mkdir()
            path.rename(made)
    return made


@pytest.fixture
def database_path(template: Path, tmp_path: Path) -> Path:
    """A fresh database file."""
    return Path(shutil.copy(template, tmp_path / "parley.db"))


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """The run's Postgres server, started when the first test of any worker asks for it."""
    folder, worker = request.config.stash[_POSTGRES]
    return shared_server(folder, worker)


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty, migrated Postgres database, for any process of this machine."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def new_postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The same, in a database that no test had before and none has afterwards: for those that change its schema."""
    with postgres.new_database() as url:
        yield url


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of database: SQLite, but for tests that run on both, see `tests/both.py`."""
    return getattr(request, "param", "sqlite")


@pytest.fixture(scope="session")
def fresh(backend: str, request: pytest.FixtureRequest) -> Fresh:
    """Make databases, for tests that want more than one, or one per example."""
    source: Any = request.getfixturevalue("postgres" if backend == "postgres" else "template")

    @contextmanager
    def on_postgres() -> Iterator[OpenDatabase]:
        with source.database() as url:
            yield partial(PostgresDatabase, url, **PATIENT)

    @contextmanager
    def on_sqlite() -> Iterator[OpenDatabase]:
        with TemporaryDirectory() as folder:
            yield partial(SqliteDatabase, Path(shutil.copy(source, Path(folder) / "parley.db")))

    return on_postgres if backend == "postgres" else on_sqlite


@pytest.fixture
def open_database(backend: str, request: pytest.FixtureRequest) -> OpenDatabase:
    """Open the test's database."""
    if backend == "postgres":
        return partial(PostgresDatabase, request.getfixturevalue("postgres_url"), **PATIENT)
    return partial(SqliteDatabase, request.getfixturevalue("database_path"))


@pytest.fixture
async def make_core(open_database: OpenDatabase) -> AsyncIterator[MakeCore]:
    """Build and start a core on the test's database; the agent `assistant` is there. Cores are stopped at the end."""
    cores: list[Core] = []

    async def make(
        provider: Provider | None = None,
        *,
        tools: tuple[Tool, ...] = (),
        definition: dict[str, Any] | None = None,
        **options: Any,
    ) -> Core:
        provider = provider or ScriptedProvider([])
        core = Core(
            open_database(),
            providers={provider.name: provider},
            tools={tool.spec.name: tool for tool in tools},
            default_model=provider.name,
            **{"secrets": SECRETS, "channels": CHANNELS, **options},
        )
        cores.append(core)
        await core.start()
        core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
        known = (await core.agents.list()).items
        if not known:
            names = tuple(tool.spec.name for tool in tools)
            wanted = {"name": "assistant", "instructions": "Be brief.", "tools": names, **(definition or {})}
            await core.agents.create(Definition(**wanted))
        return core

    yield make
    for core in cores:
        await core.stop(grace=1.0)


@pytest.fixture
def demo() -> DemoProvider:
    """The demo provider, flat out."""
    return DemoProvider(SystemClock(), rate=0)

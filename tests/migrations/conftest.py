"""Empty databases of both kinds, and Alembic at work on them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from tests.conftest import ROOT, alembic_config
from tests.postgres import NO_SCHEMA

MakeUrl = Callable[[], str]
WriteRevision = Callable[[str], Config]


@pytest.fixture(params=["sqlite", "postgres"])
def make_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeUrl]:
    """Make an empty database and return its URL."""
    names = count(1)
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield lambda: f"sqlite:///{tmp_path / f'{next(names)}.db'}"
        else:
            server = request.getfixturevalue("postgres")
            yield lambda: stack.enter_context(server.new_database(template=NO_SCHEMA))


@pytest.fixture
def url(make_url: MakeUrl) -> str:
    """An empty database."""
    return make_url()


@pytest.fixture
def config(url: str) -> Config:
    return alembic_config(url)


@pytest.fixture
def write_revision(tmp_path: Path, config: Config) -> WriteRevision:
    """Write a revision after the newest, as a later release may bring it, and return the configuration that has it."""

    def write(source: str) -> Config:
        shutil.copytree(ROOT / "migrations", tmp_path / "migrations")
        head = ScriptDirectory.from_config(config).get_current_head()
        (tmp_path / "migrations" / "versions" / "9999_later.py").write_text(source.format(head=head), "utf-8")
        later = Config()
        later.set_main_option("script_location", str(tmp_path / "migrations"))
        later.set_main_option("sqlalchemy.url", str(config.get_main_option("sqlalchemy.url")).replace("%", "%%"))
        return later

    return write

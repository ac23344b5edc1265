"""Starts that cannot work: one line that names the setting and the remedy, no traceback, exit code 1, at once."""

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.e2e.server import SECRET, Server, environment, free_port, parley

SOON = 60.0
ONE_LINE = re.compile(r"parley: [^\n]+\n")
Break = Callable[[Path], dict[str, str]]


def refused(home: Path, *command: str, **settings: str) -> str:
    """Run `parley serve`, or *command*, in *home*; return the one line with which it refuses."""
    settings = {"PORT": str(free_port()), **settings}
    done = forked.run("app", *command or ("serve",), cwd=home, env=environment(home, **settings), timeout=SOON)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert ONE_LINE.fullmatch(done.stderr), f"not one line: {done.stderr}"
    return done.stderr


def with_agent(text: str | bytes, name: str = "broken.yaml") -> Break:
    """Return what puts a file of this *text* among the agents."""

    def put(home: Path) -> dict[str, str]:
        (home / "agents" / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return {}

    return put


def without_database(home: Path) -> dict[str, str]:
    (home / "data/parley.db").unlink()
    return {}


def with_text_as_database(home: Path) -> dict[str, str]:
    (home / "data/parley.db").write_text("this is no database, and long enough to be taken for none " * 50)
    return {}


def with_file_as_data(home: Path) -> dict[str, str]:
    (home / "file").write_text("")
    return {"PARLEY_DATA": str(home / "file")}


def with_binary_env(home: Path) -> dict[str, str]:
    (home / ".env").write_bytes(b"PORT=\xff\xfe")
    return {}


CASES: dict[str, tuple[Break | dict[str, str], str, str]] = {
    "database of another kind": ({"DATABASE_URL": "mysql://u:hidden-password@h/d"}, "DATABASE_URL", "sqlite:///"),
    "database that is no URL": ({"DATABASE_URL": "nonsense"}, "DATABASE_URL", "sqlite:///"),
    "database that is not there": ({"DATABASE_URL": "sqlite:///nowhere/x.db"}, "DATABASE_URL", "parley migrate"),
    "postgres that is not there": (
        {"DATABASE_URL": "postgresql://u:hidden-password@127.0.0.1:1/d", "PARLEY_SECRET_KEY": SECRET},
        "127.0.0.1:1",
        "check that it runs",
    ),
    "postgres with a password that breaks": (
        {"DATABASE_URL": "postgresql://u:hidden-password%zz@h/d", "PARLEY_SECRET_KEY": SECRET},
        "DATABASE_URL",
        "check that it runs",
    ),
    "postgres without a secret": ({"DATABASE_URL": "postgres://u:hidden-password@h/d"}, "PARLEY_SECRET_KEY", "openssl"),
    "no database yet": (without_database, "DATABASE_URL", "parley migrate"),
    "no SQLite file": (with_text_as_database, "DATABASE_URL", "name an SQLite file"),
    "data that is a file": (with_file_as_data, "PARLEY_DATA", "name a folder"),
    "YAML that is none": (with_agent("name: [x\n"), "broken.yaml", "correct the YAML"),
    "YAML with an unknown field": (with_agent("name: x\ninstructions: y\nmodle: demo\n"), "broken.yaml", "modle"),
    "YAML that is not text": (with_agent(b"\xff\xfe\x00"), "broken.yaml", "UTF-8"),
    "empty YAML": (with_agent(""), "broken.yaml", "object"),
    "an agent of what is no model": (with_agent("name: x\ninstructions: y\nmodel: great\n"), "`model`", "demo"),
    "an agent with an unknown tool": (with_agent("name: x\ninstructions: y\ntools: [dig]\n"), "`dig`", "the tools are"),
    "an agent twice": (with_agent("name: assistant\ninstructions: y\n"), "`assistant`", "rename"),
    "no folder of agents": ({"PARLEY_AGENTS": "nowhere"}, "PARLEY_AGENTS", "name the folder"),
    "unknown provider": ({"PARLEY_MODEL": "unknown:great"}, "PARLEY_MODEL", "demo"),
    "unknown model": ({"PARLEY_MODEL": "great"}, "PARLEY_MODEL", "demo"),
    "port that is no number": ({"PORT": "http"}, "PORT", "number"),
    "host of another machine": ({"HOST": "192.0.2.1"}, "HOST", "127.0.0.1"),
    "unreadable .env": (with_binary_env, ".env", "correct it"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
def test_a_misconfigured_start_says_what_to_do(home: Path, case: str):
    """Whatever is wrong with the settings is said at once in one line, never with a secret in it."""
    breaks, names, remedy = CASES[case]
    line = refused(home, **(breaks if isinstance(breaks, dict) else breaks(home)))
    assert names in line
    assert remedy in line
    assert "hidden-password" not in line


def test_a_second_server_on_the_same_folder(server: Server):
    """PARLEY_DATA has one owner: a second server, on whatever port, fails at once and does not disturb the first."""
    line = refused(server.home)
    assert "PARLEY_DATA" in line
    assert "another folder" in line
    assert "DATABASE_URL" in line
    assert server.interrupt() == 0
    assert server.afterwards == ""


@pytest.mark.sqlite
def test_a_second_server_on_the_same_database(server: Server):
    """Another PARLEY_DATA with the same SQLite file fails too."""
    line = refused(server.home, PARLEY_DATA="other", DATABASE_URL=f"sqlite:///{server.data / 'parley.db'}")
    assert "DATABASE_URL" in line


@pytest.mark.whole
def test_migrations_beside_a_server(server: Server):
    """`parley migrate` beside a running server has nothing to do and says nothing."""
    subprocess.run(parley("migrate"), cwd=server.home, env=environment(server.home), timeout=SOON, check=True)


def test_the_lock_of_a_killed_server_is_free(server: Server):
    """After kill -9 nothing has to be cleaned up by hand."""
    server.kill()
    server.start()


def test_a_port_that_is_taken(home: Path):
    """A port in use fails the start with its number."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refused(home, PORT=str(port))
    assert f"PORT: {port} is in use" in line


def test_a_client_without_a_server(home: Path):
    """A command that needs the server says so in one line when there is none."""
    assert "DATABASE_URL" in refused(home, "runs", "list")

"""The doctor: what it finds of a deployment that is well, and of each thing that is not."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.engine.local import LocalEngine
from agent_core.messages import Actor, Text
from agent_core.store import queue
from agent_core.store.postgres import PostgresDatabase
from agent_core.testing import ScriptedProvider
from agent_core.testing.models import FakeModels
from app import doctor as doctor_postgres
from app.checks import Finding
from app.doctor import backlog, doctor, examine, migrations
from app.settings import Settings
from app.storage import migrate
from tests.app.processes import PlainShell, Serving, Shell
from tests.cases import for_each
from tests.postgres import NO_SCHEMA, PATIENT

SECRET = "a secret of no less than 32 characters"
Examine = Callable[..., dict[str, Finding]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Examine:
    """Examine a deployment with these settings; give each thing's worst finding."""

    def found(*, offline: bool = True, **env: str) -> dict[str, Finding]:
        for name, value in {"PARLEY_DATA": str(tmp_path), "PARLEY_AGENTS": str(tmp_path), "PORT": "0", **env}.items():
            monkeypatch.setenv(name, value)
        order = ("ok", "warn", "fail")
        findings = sorted(examine(offline=offline, env_file=None), key=lambda each: order.index(each.level))
        return {each.about: each for each in findings}

    return found


@pytest.fixture
def postgres_env(postgres_url: str) -> dict[str, str]:
    """The settings of a Postgres that `parley migrate` has prepared."""
    env = {"DATABASE_URL": postgres_url, "PARLEY_SECRET_KEY": SECRET}
    migrate(Settings(_env_file=None, DATABASE_URL=postgres_url, PARLEY_SECRET_KEY=SECRET))  # type: ignore[call-arg]
    return env


async def heartbeat(
    url: str, worker: str, *, kind: queue.Kind = "both", age: int = 0, protocol: int = queue.PROTOCOL
) -> None:
    """Have a worker on the Postgres at *url* whose last heartbeat is *age* seconds old."""
    database = PostgresDatabase(url, **PATIENT)
    named = queue.Worker(id=worker, host="here", pid=1, kind=kind, protocol=protocol)

    def work(connection: Any) -> None:
        queue.heartbeat(connection, named, room=1, running=0)
        connection.exec_driver_sql(f"UPDATE worker SET beat_at = beat_at - {age * 1000} WHERE id = '{worker}'")  # noqa: S608

    await database.write(work)
    await database.close()


@pytest.mark.whole
async def test_a_new_folder_asks_for_a_migration(shell: Shell, plain_shell: PlainShell):
    """Before the first migration the command names it and ends with 1; after it all is well."""
    code, out, err = await plain_shell.run("doctor", "--offline")
    assert (code, err) == (1, "")
    assert "fail  database" in out
    assert "run `parley migrate`" in out
    assert (await shell.run("migrate"))[0] == 0
    code, out, err = await shell.run("doctor", "--offline")
    assert (code, err) == (0, "")
    assert "fail" not in out


@pytest.mark.whole
async def test_a_running_server_is_looked_at_beside_it(serving: Serving):
    """The doctor works while a server owns PARLEY_DATA, and says which one."""
    code, out, _ = await serving.shell.run("doctor", "--offline")
    assert code == 0
    (engine,) = (line for line in out.splitlines() if " engine " in line)
    assert f"process {serving.process.pid} at {serving.url}" in engine


def test_unlisted_models_are_warned_of(look: Examine, tmp_path: Path):
    """A model that is not known is named, whether PARLEY_MODEL or an agent's file names it; known ones are not."""
    key = {"ANTHROPIC_API_KEY": "k"}
    assert "models" not in look(**key, PARLEY_MODEL="anthropic:claude-sonnet-5-5")
    found = look(**key, PARLEY_MODEL="anthropic:claude-sonet-5")["models"]
    assert (found.level, "`anthropic:claude-sonet-5`" in found.text) == ("warn", True)
    (tmp_path / "a.yaml").write_text("name: a\ninstructions: b\nfallback_models: [openai:gpt-7-moon]", "utf-8")
    found = look(**key, PARLEY_MODEL="demo")["models"]
    assert (found.level, "`openai:gpt-7-moon`" in found.text) == ("warn", True)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "off", "UTC"])
def test_a_zone_of_models_is_reported(look: Examine, zone: str):
    """In which zone models learn the time is said where it is another than UTC."""
    found = look(PARLEY_CLOCK=zone).get("zone")
    said = {"off": "models learn no time", "UTC": None}.get(zone, "models learn the time of Europe/Berlin")
    assert (found and found.text.partition(",")[0]) == said


def test_a_router_that_a_model_has_not_is_warned_of(look: Examine, tmp_path: Path):
    """An agent with `router: native` whose model is not known to load tools is named, with the remedy."""
    file = tmp_path / "a.yaml"
    file.write_text("name: a\ninstructions: b\nrouter: native", "utf-8")
    assert "agents" not in look(ANTHROPIC_API_KEY="k", PARLEY_MODEL="anthropic:claude-sonnet-5-5")
    found = look(PARLEY_MODEL="demo")["agents"]
    assert (found.level, found.text) == (
        "warn",
        "a.yaml: its model is not known to load tools that were searched for, so `router: native` is `meta`",
    )


def test_own_tools_are_listed_and_a_broken_one_fails(look: Examine, tmp_path: Path):
    """The folder's files are named with their tools; a file that cannot be loaded is a failure with its line."""
    (tmp_path / "own").mkdir()
    assert look(PARLEY_TOOLS=str(tmp_path / "nowhere"))["tools"].level == "fail"
    (tmp_path / "own" / "shop.py").write_text(
        'from parley import tool\n\n@tool\ndef find() -> str:\n    """Find."""\n    return ""\n'
    )
    found = look(PARLEY_TOOLS=str(tmp_path / "own"))["tools"]
    assert (found.level, found.text) == ("ok", f"{tmp_path / 'own' / 'shop.py'}: `find`")
    (tmp_path / "own" / "shop.py").write_text("def find(:")
    found = look(PARLEY_TOOLS=str(tmp_path / "own"))["tools"]
    assert (found.level, f"{tmp_path / 'own' / 'shop.py'}:1: this is not Python" in found.text) == ("fail", True)
    (tmp_path / "own" / "shop.py").rename(tmp_path / "own" / "shop")
    (tmp_path / "own" / "deeper").mkdir()
    (tmp_path / "own" / "deeper" / "a.py").touch()
    found = look(PARLEY_TOOLS=str(tmp_path / "own"))["tools"]
    assert (found.level, f"{tmp_path / 'own' / 'deeper'}: a folder, whose Python files" in found.text) == ("warn", True)


def test_a_tool_file_that_a_server_would_refuse_fails(look: Examine, tmp_path: Path):
    """A definition is checked with the tools, the allow list and the secrets of this deployment, without a server."""
    own = tmp_path / "own"
    own.mkdir()
    given = "name: {}\ndescription: Ask.\nconfig: {{url: '{}'}}\n"
    (own / "ask.yaml").write_text(given.format("ask", "http://127.0.0.1:8123/"))
    found = look(PARLEY_TOOLS=str(own))["tools"]
    assert (found.level, found.text.startswith(f"{own}/ask.yaml:3: `config.url`: ")) == ("fail", True)
    found = look(PARLEY_TOOLS=str(own), PARLEY_FETCH_ALLOW="127.0.0.1:8123")["tools"]
    assert (found.level, found.text) == ("ok", f"{own}/ask.yaml: `ask`")
    (own / "ask.yaml").write_text(given.format("calculate", "https://shop.example/"))
    found = look(PARLEY_TOOLS=str(own))["tools"]
    assert (found.level, "`calculate` ships with Parley" in found.text) == ("fail", True)
    (own / "ask.yaml").write_text(given.format("ask", "https://shop.example/?key={{secret:SHOP}}"))
    assert look(PARLEY_TOOLS=str(own))["tools"].level == "ok"
    migrate(Settings(_env_file=None, PARLEY_DATA=str(tmp_path)))  # type: ignore[call-arg]
    found = look(PARLEY_TOOLS=str(own))["tools"]
    assert (found.level, found.text) == ("fail", f"{own}/ask.yaml:1: `ask`: no secret SHOP")


def test_postgres_that_is_well(look: Examine, postgres_env: dict[str, str]):
    """A migrated Postgres with a worker has nothing that fails, and a notification that arrives."""
    asyncio.run(heartbeat(postgres_env["DATABASE_URL"], "wrk_1"))
    found = look(**postgres_env)
    assert {about: each.level for about, each in found.items()} == {
        **dict.fromkeys(("settings", "database", "migrations", "clock", "engine"), "ok"),
        **dict.fromkeys(
            ("demo", "proxies", "clients", "workers", "versions", "backlog", "connections", "listen"), "ok"
        ),
        "tools": "ok",
        "providers": "warn",
    }
    assert "1 that drive runs, 0 that only serve" in found["workers"].text


def test_no_worker_drives(look: Examine, postgres_env: dict[str, str]):
    """With only a web process and an expired worker no run is driven, and the doctor says what to start."""
    asyncio.run(heartbeat(postgres_env["DATABASE_URL"], "wrk_web", kind="web"))
    asyncio.run(heartbeat(postgres_env["DATABASE_URL"], "wrk_expired", age=60))
    lines = [str(each) for each in _examined(look, postgres_env) if each.about == "workers"]
    assert any("0 that drive runs, 1 that only serve" in line and "parley worker" in line for line in lines)
    assert any(
        line.startswith("warn") and "1 rows of processes that ended without deregistering" in line for line in lines
    )


def test_runs_that_wait_for_a_newer_version(look: Examine, postgres_env: dict[str, str]):
    """After a rollback it is said how many runs wait for the newer version, until a worker of that one lives."""
    url = postgres_env["DATABASE_URL"]
    asyncio.run(heartbeat(url, "wrk_1"))
    asyncio.run(_left_by_a_newer_version(url))
    found = look(**postgres_env)["versions"]
    assert found.level == "warn"
    assert found.text.startswith("1 runs wait for a newer version")
    asyncio.run(heartbeat(url, "wrk_2", protocol=queue.PROTOCOL + 1))
    found = look(**postgres_env)["versions"]
    assert found.level == "ok"
    assert found.text == "of those that drive runs 1 know more than this version, 0 less; 1 runs wait for newer ones"


async def _left_by_a_newer_version(url: str) -> None:
    """Have two runs that wait, one of them with a fact that this version does not know."""
    core = Core(
        PostgresDatabase(url, **PATIENT),
        providers={"scripted": ScriptedProvider([])},
        tools={},
        default_model="scripted",
        engine=partial(LocalEngine, max_runs=0),
    )
    await core.start()
    await core.agents.create(Definition(name="assistant", instructions=""))
    for _ in range(2):
        session = (await core.open_session(agent="assistant", actor=Actor("ann", "user"))).id
        await core.receive(session, Inbound(parts=(Text("Hello"),), actor=Actor("ann", "user")))
    strange = text("UPDATE event SET type = 9999 WHERE seq = 3 AND session = (SELECT min(key) FROM session)")
    await core._store.write(lambda connection: connection.execute(strange))
    await core.stop()


def _examined(look: Examine, env: dict[str, str]) -> list[Finding]:
    look(**env)  # sets the environment
    return list(examine(offline=True, env_file=None))


def test_an_empty_postgres_asks_for_a_migration(look: Examine, postgres):
    """A database without tables fails at the migrations, and is not asked for more."""
    with postgres.new_database(template=NO_SCHEMA) as url:
        found = look(DATABASE_URL=url, PARLEY_SECRET_KEY=SECRET)
    assert (found["migrations"].level, found["migrations"].remedy) == ("fail", "run `parley migrate`")
    assert "workers" not in found


def test_a_database_that_is_not_there(look: Examine, tmp_path: Path):
    """A Postgres that cannot be reached is one line, without the password."""
    url = f"postgresql://anna:hush-hush@/parley?host={tmp_path}"
    found = look(DATABASE_URL=url, PARLEY_SECRET_KEY=SECRET)
    assert found["database"].level == "fail"
    assert "hush" not in str(found["database"])


def test_a_pooler_between_transactions_is_found_out(
    look: Examine, postgres_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    """Where each statement may go to another connection, notifications are lost: that fails, with the remedy."""
    monkeypatch.setattr(doctor_postgres, "_connected", _pooled)
    monkeypatch.setattr(doctor_postgres, "NOTIFY_TIMEOUT", 0.2)
    found = look(**postgres_env)
    assert found["listen"].level == "fail"
    assert "DATABASE_URL" in found["listen"].remedy


class _Pooled:
    """A connection as a pooler gives it: each statement on another one of the server's."""

    def __init__(self, url: str) -> None:
        self._url = url

    def execute(self, *statement: Any) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(*statement)

    def notifies(self, **how: Any) -> Iterator[Any]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            yield from connection.notifies(**how)


@contextmanager
def _pooled(url: str) -> Iterator[_Pooled]:
    yield _Pooled(url)


def test_few_connections_are_left(look: Examine, postgres_env: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    """A server whose connections are nearly used up is warned of, and of one that has none left it is said louder."""
    monkeypatch.setattr(doctor_postgres, "_ALMOST", 0.0)
    assert look(**postgres_env)["connections"].level == "warn"
    monkeypatch.setattr(doctor_postgres, "_FULL", 0.0)
    assert look(**postgres_env)["connections"].level == "fail"


async def test_a_provider_that_takes_the_key(look: Examine):
    """A provider that answers with its models is well; with `--offline` it is not asked."""
    async with FakeModels([]) as models:
        env = {"ANTHROPIC_API_KEY": "sk-ant-hush", "ANTHROPIC_BASE_URL": models.url}
        found = await asyncio.to_thread(look, offline=False, **env)
    assert found["anthropic"].level == "ok"
    assert "not asked" in look(**env)["anthropic"].text


async def test_a_provider_that_refuses_the_key(look: Examine, serving: Serving):
    """A key that is refused fails and names the setting, never the key; so does an address where nothing listens."""
    env = {"OPENAI_API_KEY": "sk-hush", "OPENAI_BASE_URL": f"{serving.url}/v1"}
    found = await asyncio.to_thread(look, offline=False, **env)
    assert (found["openai"].level, "OPENAI_API_KEY" in found["openai"].remedy) == ("fail", True)
    await serving.stop()
    gone = await asyncio.to_thread(look, offline=False, **env)
    assert gone["openai"].level == "fail"
    assert "hush" not in f"{found['openai']}{gone['openai']}"


def test_settings_that_cannot_work(look: Examine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What is wrong with the settings is the first line, and the end."""
    found = look(PORT="many")
    assert list(found) == ["settings"]
    assert not doctor(offline=True, env_file=None)
    assert capsys.readouterr().out.startswith("fail  settings     PORT cannot be used")


@for_each("ahead, level", [(0.2, "ok"), (-0.9, "ok"), (1.5, "warn"), (-9.0, "warn"), (11.0, "fail"), (-60.0, "fail")])
def test_clocks_that_differ(ahead: float, level: str):
    """A second between the clocks is warned of, ten fail."""
    assert doctor_postgres.clock(ahead).level == level


def test_what_waits_too_long():
    """A full backlog fails, an old one is warned of."""
    assert backlog(0, 10, None, 0.0).level == "ok"
    assert backlog(3, 10, 1_000, 5.0).level == "ok"
    assert backlog(3, 10, 1_000, 90.0).level == "warn"
    assert backlog(10, 10, None, 5.0).level == "fail"


def test_a_later_version_has_been_here():
    """A database of a later Parley is none for this one on SQLite; on Postgres both work side by side."""
    assert migrations("9999", exact=True).level == "fail"
    assert migrations("9999", exact=False).level == "warn"


def test_a_postgres_under_a_lock_is_given_up(
    look: Examine, postgres_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    """The doctor does not wait for a lock on a table."""
    monkeypatch.setattr(doctor_postgres, "CONNECT_TIMEOUT", 3)
    with psycopg.connect(postgres_env["DATABASE_URL"]) as holds:
        holds.execute("LOCK TABLE worker")
        found = look(**postgres_env)
    assert found["database"].level == "fail"
    assert "statement timeout" in found["database"].text

"""Logs: what they contain, and what they never contain."""

import asyncio
import io
import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

import httpx2 as httpx
import openai
import pytest
import structlog
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from agent_core.agents import Definition
from agent_core.channels import Inbound
from agent_core.clock import SystemClock
from agent_core.messages import Text
from agent_core.providers.base import ModelDelta, Request
from agent_core.store.database import SqliteDatabase
from agent_core.testing import ScriptedProvider, bug, say, usage
from agent_core.traces import trace_of
from app.compose import running_core
from app.logs import configure
from app.models import running_models
from app.settings import Settings
from tests.agent_core.scenes import open_session, say_and_wait
from tests.app.processes import ROOT
from tests.conftest import ANN, MakeCore
from tests.polling import PATIENCE

MARKER = "the-secret-of-the-locals"
CRASH = """
import app.cli.commands as cli
from app.__main__ import main

@cli.app.command()
def crash():
    secret = "-".join(("the-secret", "of-the-locals"))
    raise RuntimeError("It broke.")

main()
"""


class Captured(io.StringIO):
    """Standard error; `says` waits for some of it."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def write(self, text: str) -> int:
        self._changed.set()
        return super().write(text)

    async def says(self, words: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while words not in self.getvalue():
                self._changed.clear()
                await self._changed.wait()
        return self.getvalue()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Captured]:
    """What the process says on standard error with its logs configured."""
    handlers, level, captured = list(logging.root.handlers), logging.root.level, Captured()
    monkeypatch.setattr(sys, "stderr", captured)
    configure()
    yield captured
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


class Careless(ScriptedProvider):
    """A provider with a secret in a variable."""

    async def stream(self, request: Request) -> AsyncGenerator[Sequence[ModelDelta]]:
        secret = MARKER
        async for batch in super().stream(request):
            yield batch
        assert secret


async def crashed(make_core: MakeCore, captured: Captured) -> str:
    """Return what is said when a provider's bug ends a run."""
    core = await make_core(Careless([[bug(ValueError("24 are too many"))]]))
    session = await core.open_session(agent="assistant", actor=ANN)
    await core.receive(session.id, Inbound(parts=(Text(f"Hello, {MARKER}"),), actor=ANN))
    return await captured.says("ValueError: 24 are too many")


@pytest.mark.crashes
async def test_a_bug_shows_where_and_not_with_what(make_core, captured: Captured, capsys: pytest.CaptureFixture[str]):
    """A provider's bug is a line and a plain trace on standard error, without one variable or word that was said."""
    said = await crashed(make_core, captured)
    assert "[error] run.crashed run=run_" in said
    assert MARKER not in said
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "processors",
    [[structlog.dev.ConsoleRenderer()], [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]],
    ids=["people", "programs"],
)
@pytest.mark.crashes
async def test_a_bug_shows_no_variables_whatever_logs_are_set_up(make_core, captured: Captured, processors):
    """Where a process has logs that show the variables of traces, a provider's bug is still code and message alone."""
    structlog.configure(processors=processors, logger_factory=structlog.PrintLoggerFactory(captured))

    said = await crashed(make_core, captured)
    assert "run.crashed" in said
    assert "drive.py" in said
    assert MARKER not in said


async def test_answers_are_no_news(make_core, capsys: pytest.CaptureFixture[str]):
    """A program that uses the core, with no logs of its own set up, has no line on its standard output per answer.

    Where that is a pipe which no one reads, such lines stop the event loop once it is full.
    """
    paid = usage(input=1_000, output=50, cache_read=5_000, cache_write_short=3_000)
    core = await make_core(ScriptedProvider([[say("Fine."), paid]] * 2))
    session = await open_session(core)
    for _ in range(2):
        await say_and_wait(core, session, "How are you?")
    assert capsys.readouterr() == ("", "")


def test_a_trace_shows_what_led_to_an_error_and_no_words_of_others():
    """Of errors that cite a request or an answer the type is shown; those of a group, and causes, each by itself."""
    cited = openai.APIConnectionError(message=MARKER, request=httpx.Request("POST", "http://a"))  # type: ignore[arg-type]
    try:
        try:
            raise cited
        except openai.APIConnectionError as error:
            raise ExceptionGroup("two", [ValueError("one"), KeyError("other")]) from error
    except ExceptionGroup as error:
        trace = trace_of(error)
    assert MARKER not in trace
    order = ["APIConnectionError\n", "It led to this:", "ExceptionGroup: two", "ValueError: one", "KeyError: 'other'"]
    assert [trace.index(words) for words in order] == sorted(trace.index(words) for words in order)


async def test_an_sql_error_hides_its_parameters(database_path: Path, captured: Captured):
    """A statement that fails is shown as it is written, without the values that it was given."""
    database = SqliteDatabase(database_path)
    try:
        await database.write(lambda connection: connection.execute(text("INSERT INTO no VALUES (:a)"), {"a": MARKER}))
    except OperationalError:
        structlog.get_logger().exception("write.failed")
    finally:
        await database.close()
    assert "INSERT INTO no VALUES" in captured.getvalue()
    assert MARKER not in captured.getvalue()


def test_warnings_of_libraries_are_logged(captured: Captured):
    """One line per event, ours from INFO on and those of libraries from WARNING on."""
    structlog.get_logger().debug("too.small")
    structlog.get_logger().info("run.lost", run="run_1", why="two\nlines")
    logging.getLogger("httpx").info("HTTP Request: GET …")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    first, second = captured.getvalue().splitlines()
    assert first.endswith(r"Z [info] run.lost run=run_1 why='two\nlines'")
    assert second.endswith("Z [warning] Invalid HTTP request received.")


async def test_a_tool_that_is_gone_is_one_warning_at_the_start(database_path: Path, captured: Captured, tmp_path: Path):
    """A process starts without the tool of a stored agent, and says so in one line."""
    settings = Settings(_env_file=None, data=tmp_path, agents=tmp_path)  # type: ignore[call-arg]
    async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
        await core.agents.create(Definition(name="anna", instructions="Hi", tools=("calculate",)))
        assert captured.getvalue() == ""
    database = SqliteDatabase(database_path)
    changed = text("UPDATE agent_version SET definition = CAST(replace(definition, 'calculate', 'dig') AS BLOB)")
    await database.write(lambda connection: connection.execute(changed))
    await database.close()
    async with running_models(settings, SystemClock()) as models, running_core(settings, models):
        (line,) = captured.getvalue().splitlines()
    assert "[warning] agent.tool_missing agent=anna" in line
    assert "tool=dig" in line


def test_a_command_that_crashes_shows_no_variables(tmp_path: Path):
    """A bug of a command ends in Python's own trace, which shows no value."""
    (tmp_path / "crash.py").write_text(CRASH)
    command = [sys.executable, "crash.py", "crash"]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert "RuntimeError: It broke." in done.stderr
    assert MARKER not in done.stderr + done.stdout

"""Wakes that fail: each leaves one line in the log, and its run to the sweep."""

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from agent_core.testing import FakeClock, ScriptedProvider, call
from agent_core.tools.base import Outcome, Pending
from agent_core.tools.functions import tool
from tests.agent_core.scenes import SAFETY, idle, log_of, open_session, send, types
from tests.conftest import MakeCore
from tests.polling import until


async def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError


async def test_a_failed_wake_from_elsewhere_is_logged_once(
    make_core: MakeCore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """An error in a wake is logged, not left unhandled."""
    core = await make_core(ScriptedProvider([]), clock=FakeClock())
    monkeypatch.setattr(core._engine, "wake", broken)
    with capture_logs() as logs:
        core._dispatcher.wake(7)
        await until(lambda: not core._dispatcher.pending)
    assert [(line["event"], line["log_level"], line["run"]) for line in logs] == [("wake.failed", "error", 7)]
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_failed_wake_at_the_end_of_a_drive_is_logged_once(
    make_core: MakeCore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A run that is woken while it is driven, and cannot be claimed then, is left as it is."""

    @tool
    async def ask() -> Outcome:
        """Ask someone."""
        await core._engine.wake(1)
        return Pending("client")

    core = await make_core(ScriptedProvider([(call("ask"),)]), tools=(ask,), clock=FakeClock())
    monkeypatch.setattr(core._segments, "take", broken)
    session = await open_session(core)
    with capture_logs() as logs:
        await send(core, session, "Hello")
        async with asyncio.timeout(SAFETY):
            await idle(core, session)
        await until(lambda: any(line["event"] == "sweep.failed" for line in logs))
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["sweep.failed"]
    assert types(await log_of(core, session))[-1] == "run.waiting"
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]

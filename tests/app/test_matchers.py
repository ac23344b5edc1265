"""Hooks that guard nothing: the warnings and errors about them."""

import json
from pathlib import Path

import pytest
import structlog
from sqlalchemy import text

from agent_core.agents import Definition, Hook
from agent_core.channels import Channels
from agent_core.clock import SystemClock
from agent_core.errors import ConfigError
from agent_core.store.database import SqliteDatabase
from app.compose import running_core
from app.models import running_models
from app.settings import Settings
from app.storage import migrate
from tests.app.agent_files import load_agents
from tests.app.doctor.hooks import of_hooks


async def test_a_stored_webhook_that_fails_open_is_named_at_each_start_and_by_the_doctor(tmp_path: Path) -> None:
    """A webhook of an agent made over HTTP that has no `on_error` is warned of as one of a file is, once each."""
    settings = Settings(_env_file=None, data=tmp_path, agents=tmp_path)  # type: ignore[call-arg]
    migrate(settings)
    asked = {"url": "https://hooks.example/", "secret": "0123456789abcdef"}
    unsaid = Hook(event="PreToolUse", type="http", name="guard", config=asked)
    said = Hook(event="PreToolUse", type="http", name="said", config={**asked, "on_error": "deny"})
    wanted = Definition(name="anna", instructions="Hi", tools=("calculate",), hooks=(unsaid, said))
    filed = json.dumps([{"event": "PreToolUse", "type": "http", "name": "filed", "config": asked}])
    (tmp_path / "ben.yaml").write_text(f"name: ben\ninstructions: Hi\ntools: [calculate]\nhooks: {filed}\n")
    for is_first in (True, False):
        with structlog.testing.capture_logs() as logs:
            async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
                if is_first:
                    await core.agents.create(wanted)
        warned = [(line["agent"], line["hook"]) for line in logs if line["event"] == "hook.fails_open"]
        assert sorted(warned) == [("anna", "guard"), ("ben", "filed")]
    found = [(each.level, each.about, each.text) for each in of_hooks(settings)]
    said = "allows what it cannot be asked about"
    assert found == [("warn", "hooks", f"{each} {said}") for each in ("ben.yaml: filed", "`anna`: guard")]


async def test_a_stored_hook_that_names_no_tool_is_a_warning_at_the_start(database_path: Path, tmp_path: Path) -> None:
    """A hook of an older day whose matcher fits no tool of its agent is named whenever a process starts."""
    settings = Settings(_env_file=None, data=tmp_path, agents=tmp_path)  # type: ignore[call-arg]
    hooks = (Hook(event="PreToolUse", type="approval", matcher="calculate"),)
    async with running_models(settings, SystemClock()) as models, running_core(settings, models) as core:
        await core.agents.create(Definition(name="anna", instructions="Hi", tools=("calculate",), hooks=hooks))
    database = SqliteDatabase(database_path)
    before, after = '"matcher":"calculate"', '"matcher":"calculat"'
    changed = text("UPDATE agent_version SET definition = CAST(replace(definition, :before, :after) AS BLOB)")
    await database.write(lambda connection: connection.execute(changed, {"before": before, "after": after}))
    await database.close()
    with structlog.testing.capture_logs() as logs:
        async with running_models(settings, SystemClock()) as models, running_core(settings, models):
            pass
    (line,) = [line for line in logs if line["event"] == "hook.matches_nothing"]
    assert (line["agent"], line["hook"], line["matcher"]) == ("anna", 1, "calculat")
    assert [each.event for each in of_hooks(settings)] == ["hook.matches_nothing"], "the doctor says so too"


def test_a_mistyped_matcher_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    """No process starts with an agent whose hook names a tool that it lacks."""
    (tmp_path / "careful.yaml").write_text(
        "name: careful\ninstructions: Hi\ntools: [calculate]\n"
        "hooks: [{event: PreToolUse, type: approval, matcher: calculat}]\n"
    )
    with pytest.raises(ConfigError, match=r"careful\.yaml: `hooks\[0\]\.matcher`: the agent has no tool `calculat`"):
        load_agents(tmp_path, tools=("calculate",), channels=Channels(), check=lambda _name, _where: None)

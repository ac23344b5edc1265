"""Which tests run on which database: the one list, and the rule that reads it."""

from functools import cache
from pathlib import Path

import pytest

BOTH = (
    "agent_core/store",
    "agent_core/test_approval_race.py",
    "agent_core/test_approval_restart.py",
    "agent_core/test_files.py",
    "agent_core/test_handles.py",
    "agent_core/test_idempotency.py",
    "agent_core/test_laws.py",
    "agent_core/test_laws_epochs.py",
    "agent_core/test_laws_window.py",
    "agent_core/test_limits.py",
    "agent_core/test_own_conversations.py",
    "agent_core/test_queue.py",
    "agent_core/test_quotas.py",
    "agent_core/test_race.py",
    "agent_core/test_refreeze.py",
    "agent_core/test_refreeze_crash.py",
    "agent_core/test_sessions.py",
    "agent_core/test_sweep.py",
    "channels/test_ledger.py",
    "channels/web/test_widget_versions.py",
    "channels/slack/cards/test_cards.py::test_a_yes_lets_the_call_run",
    "channels/slack/cards/test_cards.py::test_wherever_it_is_decided_every_card_says_so",
    "channels/slack/cards/test_cards.py::test_a_late_click_gets_the_outcome_and_its_card_is_updated",
    "channels/slack/cards/test_cards.py::test_a_timeout_and_a_stop_end_a_question",
    "channels/slack/cards/test_cards.py::test_each_call_of_a_step_has_its_card",
    "channels/slack/cards/test_cards.py::test_two_workspaces_do_not_mix",
    "e2e/test_kill.py::test_a_reader_of_a_killed_server_ends_with_the_text_once",
    "e2e/test_kill.py::test_a_tool_call_before_the_kill_is_not_made_again",
)
"""Files, folders and tests that run on SQLite and on Postgres: what is stored, raced for, or left by a crash.

Stops, overlap, corrections, approvals, client tools, answers and the calls of `Core` have their run on Postgres in
`agent_core/engine/many`, crashes in `agent_core/engine`, random sessions in `make whole`. Everything else cannot differ
between the two, and has SQLite alone; with `--whole` it has both.
"""
BACKENDS = ("sqlite", "postgres")
"""Each is also the mark of tests that are about it alone."""
_HERE = Path(__file__).parent
_BOTH = tuple(_HERE / each for each in BOTH if "::" not in each)


def choose_backends(metafunc: pytest.Metafunc, *, whole: bool) -> None:
    """Parametrize a test that builds a database with the kinds of database that it runs on."""
    if "backend" not in metafunc.fixturenames:
        return
    path = metafunc.definition.path
    marked = [backend for backend in BACKENDS if metafunc.definition.get_closest_marker(backend)]
    both = whole or _is_listed(path) or f"{path.relative_to(_HERE).as_posix()}::{metafunc.function.__name__}" in BOTH
    chosen = marked or (BACKENDS if both else ())
    if chosen:
        metafunc.parametrize("backend", chosen, indirect=True, scope="session")


@cache
def _is_listed(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in _BOTH)

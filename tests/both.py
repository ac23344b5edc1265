"""Which tests run on which database: the one list, and the rule that reads it."""

from functools import cache
from pathlib import Path

import pytest

BOTH = (
    "agent_core/store/reading",
    "agent_core/store/test_append.py",
    "agent_core/store/test_locks.py",
    "agent_core/store/test_subscribe.py",
    "agent_core/store/test_plans.py",
    "agent_core/store/test_shared.py",
    "agent_core/store/test_compacted_sessions.py",
    "agent_core/store/test_spending.py::test_days_are_of_utc_and_bounded",
    "agent_core/store/test_spending.py::test_the_most_expensive_come_first",
    "agent_core/test_idempotency.py",
    "agent_core/test_laws.py",
    "agent_core/test_laws_epochs.py",
    "agent_core/test_limits.py",
    "agent_core/test_quotas.py::test_a_day_is_bounded_over_restarts",
    "agent_core/test_quotas.py::test_many_at_once_get_no_more_than_the_quota",
    "agent_core/test_quotas.py::test_processes_share_the_quota",
    "agent_core/test_quotas.py::test_tokens_and_money_of_a_day_are_bounded",
    "agent_core/test_quotas.py::test_what_is_stored_is_bounded_until_it_is_deleted",
    "agent_core/test_race.py",
    "channels/test_ledger.py",
    "e2e/test_kill.py::test_a_reader_of_a_killed_server_ends_with_the_text_once",
)
"""Files, folders and tests that run on SQLite and on Postgres: what is stored, raced for, or left by a crash.

Stops, overlap, corrections, approvals, client tools, answers and the calls of `Core` have their run on Postgres in
`agent_core/engine/many`, crashes in `agent_core/engine`, races of decisions over several processes, new snapshots in
`test_refreeze_crash.py` and `engine/test_refrozen_elsewhere.py`, random sessions in `make whole`. Everything else
cannot differ between the two, and has SQLite alone; with `--whole` it has both.
"""
ONE = (
    "agent_core/store/test_append.py::test_an_append_returns_every_fact_after_the_cursor",
    "agent_core/store/test_append.py::test_only_a_running_run_takes_appends",
    "agent_core/store/test_compacted_sessions.py::test_the_rebuilt_window_is_the_one_that_grew",
    "agent_core/store/test_spending.py::test_counts_that_cannot_be_true_are_unknown",
    "agent_core/store/test_spending.py::test_one_call_counts_up_to_a_thousand_dollars",
)
"""Tests of these that are left to SQLite: cases of what others there have on Postgres once."""
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
    name = f"{path.relative_to(_HERE).as_posix()}::{metafunc.function.__name__}"
    both = whole or (_is_listed(path) and name not in ONE) or name in BOTH
    chosen = marked or (BACKENDS if both else ())
    if chosen:
        metafunc.parametrize("backend", chosen, indirect=True, scope="session")


@cache
def _is_listed(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in _BOTH)

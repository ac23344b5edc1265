"""Which tests run on which database: the one list, and the rule that reads it."""

from functools import cache
from pathlib import Path

import pytest

BOTH = (
    "agent_core/store",
    "agent_core/test_approval_restart.py::test_every_open_question_outlives_the_process",
    "agent_core/test_files.py",
    "agent_core/test_handles.py::test_calls_side_by_side_get_numbers_of_their_own",
    "agent_core/test_handles.py::test_processes_count_together",
    "agent_core/test_handles.py::test_handles_outlive_the_process",
    "agent_core/test_handles.py::test_a_fork_has_the_handles_of_its_past",
    "agent_core/test_handles.py::test_deleted_sessions_leave_no_rows",
    "agent_core/test_handles.py::test_forgetting_a_person_deletes_the_rows_of_their_runs",
    "agent_core/test_handles.py::test_forgetting_a_person_takes_them_out_of_the_rows_of_others",
    "agent_core/test_handles.py::test_a_conversation_keeps_its_newest_rows",
    "agent_core/test_idempotency.py",
    "agent_core/test_laws.py",
    "agent_core/test_laws_epochs.py",
    "agent_core/test_limits.py",
    "agent_core/test_own_conversations.py::test_a_conversation_is_listed_until_something_is_said_in_its_copy",
    "agent_core/test_own_conversations.py::test_a_repeated_request_gives_the_same_copy",
    "agent_core/test_own_conversations.py::test_two_at_once_make_one_copy",
    "agent_core/test_own_conversations.py::test_what_was_allowed_for_the_conversation_is_allowed_in_the_copy",
    "agent_core/test_own_conversations.py::test_a_conversation_is_deleted_with_what_it_goes_on_from",
    "agent_core/test_own_conversations.py::test_the_list_says_how_each_begins_and_where_its_newest_answer_is",
    "agent_core/test_own_conversations.py::test_a_person_looks_among_their_own",
    "agent_core/test_queue.py",
    "agent_core/test_quotas.py::test_a_day_is_bounded_over_restarts",
    "agent_core/test_quotas.py::test_many_at_once_get_no_more_than_the_quota",
    "agent_core/test_quotas.py::test_new_sessions_of_a_day_are_bounded",
    "agent_core/test_quotas.py::test_old_counts_are_removed",
    "agent_core/test_quotas.py::test_processes_share_the_quota",
    "agent_core/test_quotas.py::test_rows_and_whole_results_are_stored_bytes_too",
    "agent_core/test_quotas.py::test_tokens_and_money_of_a_day_are_bounded",
    "agent_core/test_quotas.py::test_what_is_stored_is_bounded_until_it_is_deleted",
    "agent_core/test_race.py",
    "agent_core/test_refreeze_crash.py",
    "agent_core/test_sessions.py",
    "agent_core/test_sweep.py",
    "channels/test_ledger.py",
    "channels/web/test_widget_versions.py",
    "channels/slack/cards/test_cards.py::test_wherever_it_is_decided_every_card_says_so",
    "channels/slack/cards/test_cards.py::test_a_late_click_gets_the_outcome_and_its_card_is_updated",
    "channels/slack/cards/test_cards.py::test_each_call_of_a_step_has_its_card",
    "channels/slack/cards/test_cards.py::test_two_workspaces_do_not_mix",
    "e2e/test_kill.py",
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

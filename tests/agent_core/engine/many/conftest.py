"""What the core does between people, once more by what drives it on Postgres: the engine of many, and the bus.

The other tests of the core have the engine of one process, on both databases: see `docs/decisions/0028`.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_core.core import Core
from agent_core.engine.dbos import DbosEngine
from agent_core.store.database import Database
from agent_core.store.postgres import PostgresDatabase
from agent_core.store.postgres_bus import PostgresBus
from tests.agent_core.engine.fleet import PACE
from tests.conftest import MakeCore, OpenDatabase
from tests.postgres import PATIENT

CASES = frozenset(
    (
        # of `test_answer.py` all, of the others what others than the run itself bring about
        "test_a_yes_lets_the_call_run",
        "test_a_quorum_needs_so_many_people",
        "test_corrected_arguments_run_and_both_versions_are_kept",
        "test_a_timeout_denies",
        "test_a_cancel_takes_the_question_back",
        "test_some_calls_of_a_step_wait_and_others_run",
        "test_a_tool_may_be_allowed_for_the_rest_of_the_conversation",
        "test_the_audit_record_is_complete",
        "test_the_client_executes_its_tools",
        "test_a_client_call_waits_beside_an_approval",
        "test_a_stop_ends_what_a_client_owes",
        "test_the_run_of_a_message_streams_its_events",
        "test_own_instructions_wait_with_their_run",
        "test_without_room_a_message_waits_in_the_queue",
        "test_a_queued_message_is_answered_as_it_was_corrected",
        "test_a_correction_of_what_the_model_has_seen_is_news",
        "test_a_correction_that_no_step_took_goes_to_the_next_run",
        "test_a_queued_message_that_is_deleted_is_never_asked",
        "test_an_older_correction_does_not_undo_a_newer_one",
        "test_law_6_no_message_is_lost",
        "test_law_6_reject_leaves_no_trace",
        "test_law_6_a_waiting_run_is_left_to_wait",
        "test_law_7_stop_keeps_the_partial_answer",
        "test_law_7_stop_in_a_retry_pause",
        "test_law_7_stop_while_a_write_runs",
        "test_law_7_stop_abandons_a_tool_that_ignores_it",
        "test_law_7_stop_a_queued_run",
        "test_law_7_stop_a_waiting_run",
        "test_law_7_stop_twice_is_stop_once",
        "test_messages_sent_at_once_keep_the_order_of_the_log",
        "test_a_steered_message_joins_the_run_at_its_next_step",
        "test_a_steered_message_that_no_step_took_opens_the_next_run",
        "test_an_adopted_message_is_found_after_a_restart",
        "test_an_interrupt_cancels_and_is_answered",
        "test_an_interrupt_ends_a_waiting_run_in_its_own_transaction",
        "test_stop_ends_all_that_runs_and_waits",
        "test_stop_makes_room_for_others",
    )
)
"""The tests that are run again where not all are: one of each kind."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about SQLite alone, and what is no case of its own here to whole runs."""
    here = Path(__file__).parent
    items[:] = [each for each in items if each.path.parent != here or not each.get_closest_marker("sqlite")]
    for each in items:
        if each.path.parent == here and each.path.name != "test_answer.py" and _name(each) not in CASES:
            each.add_marker(pytest.mark.whole)


def _name(item: pytest.Item) -> str:
    return item.name.partition("[")[0]


class Once(DbosEngine):
    """An engine that may be stopped again, when its database is closed."""

    async def stop(self, grace: float) -> None:
        if not self.pool.is_closed:
            await super().stop(grace)


@pytest.fixture
def opened() -> list[Database]:
    """The databases that the next cores are to stand on."""
    return []


@pytest.fixture
def open_database(opened: list[Database], postgres_url: str) -> OpenDatabase:
    """Open the database that the core's engine and bus have too."""
    return lambda: opened.pop() if opened else PostgresDatabase(postgres_url, **PATIENT)


@pytest.fixture
def make_core(make_core: MakeCore, opened: list[Database], postgres_url: str) -> MakeCore:
    """Build cores as `parley serve` does on Postgres, but for DBOS, of which a process can have only one."""

    async def make(*given: Any, **options: Any) -> Core:
        database = PostgresDatabase(postgres_url, **PATIENT)
        opened.append(database)
        engine = partial(Once, database=database, url=postgres_url, pace=PACE, end=pytest.fail)
        return await make_core(*given, **{"engine": engine, "bus": PostgresBus(postgres_url, database), **options})

    return make

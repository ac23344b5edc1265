"""The address of a Postgres, as hosts print it and drivers take it."""

from agent_core.store.postgres import for_asyncpg
from tests.cases import for_each


@for_each(
    "written, given",
    [
        ("postgres://u:p%40ss@db.example:5433/parley", "postgresql://u:p%40ss@db.example:5433/parley"),
        ("postgresql://u@/parley?host=/run/pg", "postgresql://u@/parley?host=%2Frun%2Fpg"),
        ("postgres://db/x?sslmode=require&channel_binding=require", "postgresql://db/x?sslmode=require"),
        ("postgres://db/x?connect_timeout=3&application_name=a+b", "postgresql://db/x?application_name=a+b"),
        ("postgresql:///parley", "postgresql:///parley"),
    ],
)
def test_an_address_is_given_to_asyncpg_without_what_it_cannot_use(written: str, given: str):
    """Whatever scheme and parameters a host prints, asyncpg gets a scheme that it knows and what it understands."""
    assert for_asyncpg(written) == given

"""What all processes of a database share: requests that count once."""

from agent_core.store import access
from agent_core.store.database import Database
from agent_core.testing import FakeClock
from tests.conftest import MakeCore


async def test_a_request_counts_once_for_all_processes(make_core: MakeCore):
    """The first of equal requests counts; after its time it is forgotten, and nothing else that is kept."""
    clock = FakeClock()
    core = await make_core(clock=clock)
    database: Database = core._store.database
    assert await core.is_first("slack:a")
    assert not await core.is_first("slack:a")
    clock.advance(500)
    assert await core.is_first("slack:b")
    assert not await core.is_first("slack:a")
    assert await database.write(lambda connection: access.keep_shared(connection, "key", b"1")) == b"1"
    clock.advance(500)
    assert await core.is_first("slack:a")
    assert not await core.is_first("slack:b")
    clock.advance(2_000)
    assert await core.is_first("slack:c")
    assert await database.read(lambda connection: access.shared_value(connection, "slack:b")) is None
    assert await database.read(lambda connection: access.shared_value(connection, "key")) == b"1"

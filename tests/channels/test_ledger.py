"""The ledger: one process at a time owns a place, and its rows survive a crash."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy import delete

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.store.database import Database
from agent_core.testing import FakeClock, ScriptedProvider
from channels.ledger import LEASE, Ledger, LostPlace, PlaceRow, UploadEntry
from channels.spec import LedgerEntry
from tests.conftest import Fresh

ANN = Actor("ann", "user")
Opened = Callable[[], Awaitable[str]]


@pytest.fixture
async def database(fresh: Fresh) -> AsyncIterator[Database]:
    with fresh() as open_database:
        made = open_database()
        yield made
        await made.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(database: Database, clock: FakeClock) -> Ledger:
    return Ledger(database, clock, "slack")


@pytest.fixture
async def session(fresh: Fresh, database: Database) -> str:
    core = Core(database, providers={"s": ScriptedProvider([])}, tools={}, default_model="s")
    await core._store.write(_project)
    await core.agents.create(Definition(name="a", instructions=""))
    return (await core.open_session(agent="a", actor=ANN)).id


def _project(connection) -> None:
    from agent_core.store import catalog  # noqa: PLC0415 - what `start` does, without the rest of it

    catalog.ensure_project(connection)


async def test_only_one_process_owns_a_place(database: Database, clock: FakeClock, ledger: Ledger, session: str):
    """No other process can claim a place before its lease expires; then the first owner's writes are rejected."""
    await ledger.want(session, "slack:1", {"n": 1})
    (mine,) = await ledger.claim()
    assert (mine.session, mine.address, mine.data) == (session, "slack:1", {"n": 1})
    other = Ledger(database, clock, "slack")
    assert await other.claim() == []
    assert (await ledger.processes(), await other.processes()) == (1, 2)
    clock.advance(LEASE / 1000 - 1)
    await ledger.put(mine, LedgerEntry("dlv_1", 0))  # renews the lease
    clock.advance(LEASE / 1000 - 1)
    assert await other.claim() == []
    clock.advance(2)
    (theirs,) = await other.claim()
    assert theirs.epoch == mine.epoch + 1
    with pytest.raises(LostPlace):
        await ledger.put(mine, LedgerEntry("dlv_1", 0, state="sent"))
    with pytest.raises(LostPlace):
        await ledger.renew(mine)
    assert [entry.state for entry in await other.entries(theirs)] == ["planned"]


async def test_entries_are_read_as_they_were_written(ledger: Ledger, session: str):
    """An entry comes back with all of its fields, those of a place in order."""
    await ledger.want(session, "slack:1", {})
    (place,) = await ledger.claim()
    second = LedgerEntry("dlv_2", 1, "msg_1 12", None, "uncertain", "stream", "17.1", 9, 7, 123)
    await ledger.put(place, second)
    await ledger.put(place, LedgerEntry("dlv_1", 0, ends="msg_1 12", state="closed"))
    assert await ledger.entries(place) == [LedgerEntry("dlv_1", 0, ends="msg_1 12", state="closed"), second]


async def test_a_place_rests_unless_it_was_requested_meanwhile(clock: FakeClock, ledger: Ledger, session: str):
    """A request that comes while a place is shown keeps it claimed, with its finished messages removed."""
    await ledger.want(session, "slack:1", {"n": 1})
    (place,) = await ledger.claim()
    await ledger.put(place, LedgerEntry("dlv_1", 0, state="closed"))
    clock.advance(1)
    await ledger.want(session, "slack:1", {"n": 2})
    again = await ledger.rest(place, 17)
    assert again is not None
    assert (again.shown_seq, again.data, again.epoch) == (17, {"n": 2}, place.epoch)
    assert await ledger.entries(again) == []
    assert await ledger.rest(again, 20) is None
    assert await ledger.claim() == []
    woken = await ledger.claim_session(session)
    assert woken is not None
    assert woken.shown_seq == 20


async def test_a_waiting_place_keeps_its_messages(ledger: Ledger, session: str):
    """A place that rests while a run waits is resumed where it was: its message will change once more."""
    await ledger.want(session, "slack:1", {})
    (place,) = await ledger.claim()
    await ledger.put(place, LedgerEntry("dlv_1", 0, state="acknowledged", ref="17.1"))
    assert await ledger.rest(place, None) is None
    woken = await ledger.claim_session(session)
    assert woken is not None
    assert woken.shown_seq == 0
    assert [entry.ref for entry in await ledger.entries(woken)] == ["17.1"]


async def test_released_places_can_be_claimed_at_once(
    database: Database, clock: FakeClock, ledger: Ledger, session: str
):
    """After an orderly stop no process waits for the lease to expire."""
    await ledger.want(session, "slack:1", {})
    assert await ledger.claim()
    await ledger.release()
    assert await Ledger(database, clock, "slack").claim(session)


async def test_a_process_that_is_alone_expires_all_leases(
    database: Database, clock: FakeClock, ledger: Ledger, session: str
):
    """Where there is one process at a time, the next one claims at once what a killed one owned."""
    await ledger.want(session, "slack:1", {})
    assert await ledger.claim()
    following = Ledger(database, clock, "slack")
    await following.expire_all()
    assert await following.claim(session)


async def test_a_postponed_place_cannot_be_claimed_before_its_time(
    database: Database, clock: FakeClock, ledger: Ledger, session: str
):
    """No process retries a place before its backoff ends, unless it is requested again."""
    other = Ledger(database, clock, "slack")
    await ledger.want(session, "slack:1", {})
    (place,) = await ledger.claim()
    await ledger.postpone(place, 60)
    with pytest.raises(LostPlace):
        await ledger.put(place, LedgerEntry("dlv_1", 0))
    clock.advance(59)
    assert await other.claim() == []
    clock.advance(1)
    (place,) = await other.claim()
    await other.postpone(place, 60)
    assert await ledger.claim_session(session)


async def test_a_request_during_a_failure_is_not_postponed(clock: FakeClock, ledger: Ledger, session: str):
    """A place that was requested while it failed is retried at once."""
    await ledger.want(session, "slack:1", {})
    (place,) = await ledger.claim()
    clock.advance(1)
    await ledger.want(session, "slack:1", {"n": 2})
    await ledger.postpone(place, 60)
    (again,) = await ledger.claim()
    assert again.data == {"n": 2}


async def test_uploads_are_kept_with_their_place(database: Database, ledger: Ledger, session: str):
    """A file's row is read as it was written last, is refused to an earlier owner, and goes with its session."""
    await ledger.want(session, "slack:1", {})
    (place,) = await ledger.claim()
    await ledger.put_upload(place, UploadEntry("ren_1", "csv", "F1", "sent"))
    await ledger.put_upload(place, UploadEntry("ren_1", "csv", "F1", "shown"))
    await ledger.put_upload(place, UploadEntry("ren_1", "png", "F2", "sent"))
    found = sorted(await ledger.uploads(place), key=lambda each: each.form)
    assert found == [UploadEntry("ren_1", "csv", "F1", "shown"), UploadEntry("ren_1", "png", "F2", "sent")]
    with pytest.raises(LostPlace):
        await ledger.put_upload(replace(place, epoch=place.epoch - 1), UploadEntry("ren_2", "csv"))
    places = vars(PlaceRow)["__table__"]
    await database.write(lambda connection: connection.execute(delete(places)) and None)
    assert await ledger.uploads(place) == []

"""Lists of sessions by activity, and the search for words in them, on both databases."""

import tracemalloc

import pytest
from sqlalchemy import Connection, insert, select, update

from agent_core.core import Core
from agent_core.errors import UnknownCursor
from agent_core.messages import Actor, Text
from agent_core.runtime import services
from agent_core.store import listing as listed
from agent_core.store.codes import CODES
from agent_core.store.listing import Wanted
from agent_core.store.log import EVENT, SESSION
from agent_core.testing import ScriptedProvider, say
from tests.agent_core.scenes import ANN, BOB, open_session, say_and_wait
from tests.cases import for_each
from tests.conftest import MakeCore

MEG = Actor("operator:key_1", "service", "Meg")


def echo(request):
    return [say("Noted.")]


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(ScriptedProvider(echo))


async def found(core: Core, words: str | None = None, *, wanted: Wanted | None = None, **options) -> list[str]:
    return [each.id for each in (await core.listing.find(wanted or Wanted(), words, **options)).items]


async def test_sessions_are_listed_by_their_activity(core: Core):
    """The one in which something was written last comes first, in pages too; the filters are the other list's."""
    old, new, bobs = [await open_session(core, actor=who) for who in (ANN, ANN, BOB)]
    await say_and_wait(core, new, "Hi")
    await say_and_wait(core, old, "Hi")
    assert [each.id for each in (await core.sessions()).items] == [bobs, new, old]
    assert (await found(core))[0] == old
    pages, cursor = list[str](), None
    while True:
        page = await core.listing.find(Wanted(), limit=1, cursor=cursor)
        pages += [each.id for each in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert pages == await found(core)
    assert await found(core, wanted=Wanted(actor="bob")) == [bobs]
    assert await found(core, wanted=Wanted(actor="ann", status="idle", agent="assistant")) == [old, new]
    assert await found(core, wanted=Wanted(status="running")) == []


async def test_words_are_found_wherever_they_were_said(core: Core):
    """In titles, in names and ids of people, in what users, the model and operators said; each word somewhere."""
    one, two = await open_session(core), await open_session(core, actor=BOB)
    await say_and_wait(core, one, 'The "Grüne" kettle\nleaks')
    await say_and_wait(core, two, "Hello")
    await core.replies.give(two, "Parcel 77 comes", by=MEG)
    for words, ids in {
        "KETTLE": [one],
        "grüne": [one],
        "GRÜNE leak": [one],
        '"grü': [one],
        "noted": [two, one],
        "parcel meg": [two],
        "bob": [two],
        "kettle parcel": [],
        one: [one],
        "assistant": [],
        "text": [],
        "%": [],
    }.items():
        assert await found(core, words) == ids, words


async def test_what_was_deleted_or_corrected_is_not_found(core: Core):
    """A corrected message is found by what it says now, a deleted one and one of a deleted person not at all."""
    session = await open_session(core, actor=BOB)
    await say_and_wait(core, session, "First")
    await say_and_wait(core, session, "the marmalade", key="k")
    await say_and_wait(core, session, "the pumpernickel bread", actor=ANN)
    await core.correct(session, "k", (Text("the jelly"),))
    assert await found(core, "marmalade") == []
    assert await found(core, "jelly") == [session]
    await core.retract(session, "k", by=BOB)
    assert await found(core, "jelly") == []
    assert await found(core, "pumpernickel") == [session]
    await core.forget_actor("ann", pseudonym="forgotten:1", by=MEG)
    assert await found(core, "pumpernickel") == []
    await core.delete_session(session)
    assert await found(core) == []


async def test_a_search_is_bounded_and_goes_on(core: Core, monkeypatch: pytest.MonkeyPatch):
    """A search that has looked at enough returns what it has, even nothing, and a cursor; later pages find the rest."""
    monkeypatch.setattr(services, "MAX_SESSIONS", 2)
    monkeypatch.setattr(services, "AT_ONCE_SESSIONS", 1)
    ids = [await open_session(core, actor=Actor(f"kettle-{n}", "user")) for n in range(5)]
    first = await core.listing.find(Wanted(), "kettle-0")
    assert (first.items, first.next_cursor is None) == ((), False)
    second = await core.listing.find(Wanted(), "kettle-0", cursor=first.next_cursor)
    third = await core.listing.find(Wanted(), "kettle-0", cursor=second.next_cursor)
    assert [each.id for each in third.items] == [ids[0]]
    assert third.next_cursor is None
    monkeypatch.setattr(services, "MAX_FACTS", 1)
    short = await core.listing.find(Wanted(), "kettle-4")
    assert [each.id for each in short.items] == [ids[4]]
    assert short.next_cursor is not None


@for_each("cursor", ["x", "12", "1.2.3", "1.-2", "9" * 30 + ".1", "１.1"])
async def test_a_cursor_of_another_list_is_refused(core: Core, cursor: str):
    """What is no cursor of this list is an error that names it."""
    with pytest.raises(UnknownCursor):
        await core.listing.find(Wanted(), cursor=cursor)


async def test_a_search_keeps_no_texts(core: Core):
    """Of messages that hold a word a search keeps none: it takes a few of them at a time."""
    one, size = await open_session(core), 50_000
    await say_and_wait(core, one, "kettle" + " x" * size)

    def fill(connection: Connection) -> None:
        (row,) = connection.execute(select(EVENT).where(EVENT.c.type == CODES["message.received"])).mappings()
        first = connection.execute(select(SESSION.c.next_seq)).scalar_one()
        for n in range(200):
            data = bytes(row["data"]).replace(b'"msg_', b'"msg_%d_' % n)
            connection.execute(insert(EVENT), [{**row, "seq": first + n, "data": data}])
        connection.execute(update(SESSION).values(next_seq=first + 200))

    def peak(connection: Connection) -> int:
        (candidate,) = listed.recent(connection, Wanted(), limit=1, before=None)
        tracemalloc.start()
        assert listed.words_in(connection, [candidate], ["kettle"]) == {candidate.moment.key: {"kettle"}}
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    await core._store.write(fill)
    assert await core._store.read(peak) < 200 * size
